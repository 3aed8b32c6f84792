"""Puts a root and a kernel on a disk: GPT, a FAT partition that UEFI starts the kernel from, the root as erofs.

No loop device and no mount: each partition is made as a file and copied to its place.
"""

import lzma
import os
import re
import uuid
from dataclasses import dataclass
from pathlib import Path

from image.shell import StepError, run

MIB = 1 << 20
ESP_MIB = 256
"""Room for a second kernel beside the first."""
STATE_MIB = 1024
"""What the image leaves free for the state partition; on a larger disk that takes all the rest."""
_ESP_TYPE = "C12A7328-F81F-11D2-BA4B-00A0C93EC93B"
_ROOT_TYPE = "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709"  # x86-64

COMMAND_LINE = (
    *("ro", "rootfstype=erofs", "console=tty0", "console=ttyS0,115200", "loglevel=4", "systemd.show_status=yes"),
    # No CPU identity, no password prompt and no shell of systemd's or the initramfs's own making.
    *("panic=10", "systemd.machine_id=firmware", "systemd.ssh_auto=no", "systemd.firstboot=no"),
    # Memory that was never written does not leak; no addresses to guess, no old doors.
    *("init_on_alloc=1", "slab_nomerge", "randomize_kstack_offset=on", "vsyscall=none"),
)
_LOCKED = "lockdown=integrity"
"""Modules must be signed, and nothing writes the kernel's memory."""
_SIGNATURE = b"~Module signature appended~\n"
"""How a signed module ends (Documentation/admin-guide/module-signing.rst)."""


@dataclass(frozen=True)
class Identity:
    """Everything on the disk that is usually random, drawn from the content's key: the same input, the same octets."""

    key: str
    epoch: int
    """Seconds since 1970 that every file is dated with."""

    def uuid(self, of: str) -> str:
        """Return a UUID for each use."""
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"meshsec-image/{self.key}/{of}"))


def make_erofs(root: Path, target: Path, identity: Identity) -> None:
    """The root's file system."""
    target.unlink(missing_ok=True)
    options = ["-zlz4hc", f"-T{identity.epoch}", f"-U{identity.uuid('root-fs')}", "--quiet"]
    run(["mkfs.erofs", *options, target, root])


def make_uki(root: Path, boot: Path, release: str, target: Path, identity: Identity) -> None:
    """The kernel, its initramfs and its command line as the one program that UEFI starts."""
    stub = root / "usr/lib/systemd/boot/efi/linuxx64.efi.stub"
    command_line = target.with_suffix(".cmdline")
    words = (f"root=PARTUUID={identity.uuid('root')}", *COMMAND_LINE, *lockdown(root, release))
    command_line.write_text(" ".join(words), encoding="ascii")
    name = target.with_suffix(".uname")
    name.write_text(release, encoding="ascii")
    sections = {
        ".osrel": root / "usr/lib/os-release",
        ".uname": name,
        ".cmdline": command_line,
        ".initrd": boot / f"initrd.img-{release}",
        ".linux": boot / f"vmlinuz-{release}",
    }
    run(["objcopy", *placed(stub, sections), stub, target])


def lockdown(root: Path, release: str) -> tuple[str, ...]:
    """Return the words that lock the kernel, so that it loads signed modules only; none where they are not signed.

    Raises StepError when the kernel has no module for the root's file system.
    """
    module = root / "usr/lib/modules" / release / "kernel/fs/erofs/erofs.ko"
    packed = module.with_suffix(".ko.xz")
    if packed.exists():
        content = lzma.decompress(packed.read_bytes())
    elif module.exists():
        content = module.read_bytes()
    else:
        raise StepError(f"{module}, or .ko.xz: missing; the root's file system needs it (CONFIG_EROFS_FS=m)")
    return (_LOCKED,) if content.endswith(_SIGNATURE) else ()


def placed(stub: Path, sections: dict[str, Path]) -> list[str]:
    """objcopy's arguments that put each section behind the stub's own, one after the other."""
    page = 0x1000
    own = re.findall(r"^ +\d+ \.\S+ +([0-9a-f]+) +([0-9a-f]+)", run(["objdump", "-h", stub]), re.MULTILINE)
    ends = [int(size, 16) + int(start, 16) for size, start in own]
    if not ends:
        raise StepError(f"{stub}: objdump finds no sections in it")
    address = -(-max(ends) // page) * page
    arguments = []
    for name, path in sections.items():
        arguments += ["--add-section", f"{name}={path}", "--change-section-vma", f"{name}={address:#x}"]
        address += -(-path.stat().st_size // page) * page
    return arguments


def make_esp(uki: Path, target: Path, identity: Identity) -> None:
    """The FAT partition, with the place where people leave what the node shall know."""
    readme = target.with_suffix(".readme")
    readme.write_text(_README, encoding="ascii", newline="\r\n")
    target.unlink(missing_ok=True)
    volume = identity.uuid("esp-fs").replace("-", "")[:8]
    run(["mkfs.vfat", "--invariant", "-F", "32", "-n", "MESHSEC", "-i", volume, "-C", target, str(ESP_MIB * 1024)])
    environment = {"SOURCE_DATE_EPOCH": str(identity.epoch), "MTOOLS_SKIP_CHECK": "1", "TZ": "UTC"}
    run(["mmd", "-i", target, "::EFI", "::EFI/BOOT", "::meshsec"], env=environment)
    for source, place in ((uki, "::EFI/BOOT/BOOTX64.EFI"), (readme, "::meshsec/README.TXT")):
        os.utime(source, (identity.epoch, identity.epoch))
        run(["mcopy", "-m", "-i", target, source, place], env=environment)


def assemble(esp: Path, root: Path, target: Path, identity: Identity) -> None:
    """The whole disk, sparse; ``target`` appears when it is complete."""
    fresh = target.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    root_mib = -(-root.stat().st_size // MIB)
    with fresh.open("wb") as disk:
        disk.truncate((1 + ESP_MIB + root_mib + STATE_MIB + 1) * MIB)
    table = fresh.with_suffix(".gpt")
    table.write_text(
        f"label: gpt\nlabel-id: {identity.uuid('disk')}\nunit: sectors\n"
        f"start={MIB // 512}, size={ESP_MIB}MiB, type={_ESP_TYPE}, uuid={identity.uuid('esp')}, name=meshsec-esp\n"
        f"size={root_mib}MiB, type={_ROOT_TYPE}, uuid={identity.uuid('root')}, name=meshsec-root, "
        'attrs="GUID:60"\n',  # read-only (Discoverable Partitions Specification)
        encoding="ascii",
    )
    run(["sh", "-ec", 'exec sfdisk --quiet "$1" <"$2"', "sh", fresh, table])
    for part, at in ((esp, MIB), (root, (1 + ESP_MIB) * MIB)):
        _copy_sparse(part, fresh, at)
    table.unlink()
    fresh.rename(target)


def _copy_sparse(source: Path, disk: Path, offset: int) -> None:
    with source.open("rb") as reader, disk.open("r+b") as writer:
        position = offset
        while block := reader.read(MIB):
            if block.count(0) != len(block):
                writer.seek(position)
                writer.write(block)
            position += len(block)


_README = """\
What this node shall know, one file each (docs/guide/vehicle-image.md):
meshsec.config         its configuration (meshsec.toml), at the first boot
meshsec.name           its name, at the first boot
meshsec.interface      its mesh interfaces, at the first boot
meshsec.ipv4           its IPv4 mesh address, at the first boot
meshsec.peers          whom it trusts, a line each: NAME CARD
meshsec.sae-password   the password of its mesh, where [radio] says security = "sae"
meshsec.access-password  the password of its access point, where [access] has a radio
meshsec.root-password  the hash of a password that root may log in with
"""
