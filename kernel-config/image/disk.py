"""Puts a root and a kernel on a disk: GPT, a FAT partition that UEFI starts the kernel from, the root as erofs.

The root has two slots, so that an update is written beside what runs. systemd-boot starts the newest version that has
not failed (docs/development/adr/0103-two-roots.md).

No loop device and no mount: each partition is made as a file and copied to its place.
"""

import lzma
import os
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from image import release
from image.architecture import Architecture
from image.shell import StepError, run

MIB = 1 << 20
ESP_MIB = 256
"""Room for a second kernel beside the first."""
_CLUSTER_SECTORS = 4
"""All names in `EFI/Linux` are in one cluster: a power cut while the folder grew could make all of it unreadable."""
SLOT_MIB = 640
"""Size of each of the two slots for the root: that of today's with room to grow, for it can never be changed."""
STATE_MIB = 1024
"""What the image leaves free for the state partition; on a larger disk that takes all the rest."""
_ESP_TYPE = "C12A7328-F81F-11D2-BA4B-00A0C93EC93B"

COMMAND_LINE = (
    "gpt",  # A power cut may leave the first partition table half written. The kernel then takes the one at the end.
    *("ro", "rootfstype=erofs", "loglevel=4", "systemd.show_status=yes"),
    # No CPU identity, no password prompt and no shell of systemd's or the initramfs's own making.
    *("panic=10", "systemd.machine_id=firmware", "systemd.ssh_auto=no", "systemd.firstboot=no"),
    # Memory that was never written, or that was freed, does not leak; no addresses to guess, no old doors.
    *("init_on_alloc=1", "init_on_free=1", "slab_nomerge", "randomize_kstack_offset=on"),
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
    version: str
    """Orders images: what an update is compared by."""

    @property
    def root_name(self) -> str:
        """Name of the partition that has the root."""
        return f"meshsec_{self.version}"

    def uuid(self, of: str) -> str:
        """Return a UUID for each use."""
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"meshsec-image/{self.key}/{of}"))


def make_erofs(root: Path, target: Path, identity: Identity) -> None:
    """The root's file system."""
    target.unlink(missing_ok=True)
    options = ["-zlz4hc", f"-T{identity.epoch}", f"-U{identity.uuid('root-fs')}", "--quiet"]
    run(["mkfs.erofs", *options, target, root])


def make_uki(  # noqa: PLR0913, PLR0917  # one for each thing that is in it
    root: Path, boot: Path, kernel: str, target: Path, identity: Identity, wanted: Architecture
) -> None:
    """The kernel, its initramfs and its command line as the one program that UEFI starts."""
    stub = root / "usr/lib/systemd/boot/efi" / wanted.stub
    command_line = target.with_suffix(".cmdline")
    words = (f"root=PARTUUID={identity.uuid('root')}", *COMMAND_LINE, *wanted.words, *lockdown(root, kernel))
    command_line.write_text(" ".join(words), encoding="ascii")
    name = target.with_suffix(".uname")
    name.write_text(kernel, encoding="ascii")
    sections = {
        ".osrel": root / "usr/lib/os-release",
        ".uname": name,
        ".cmdline": command_line,
        ".initrd": boot / f"initrd.img-{kernel}",
        ".linux": boot / f"vmlinuz-{kernel}",
    }
    target.unlink(missing_ok=True)
    run([wanted.binutils("objcopy"), *placed(stub, sections, wanted.binutils("objdump")), stub, target])


def loader(root: Path, wanted: Architecture) -> Path:
    """Return systemd-boot, which the firmware starts."""
    return root / "usr/lib/systemd/boot/efi" / wanted.loader


def lockdown(root: Path, kernel: str) -> tuple[str, ...]:
    """Return the words that lock the kernel, so that it loads signed modules only; none where they are not signed.

    Raises StepError when the kernel has no module for the root's file system.
    """
    module = root / "usr/lib/modules" / kernel / "kernel/fs/erofs/erofs.ko"
    packed = module.with_suffix(".ko.xz")
    if packed.exists():
        content = lzma.decompress(packed.read_bytes())
    elif module.exists():
        content = module.read_bytes()
    else:
        raise StepError(f"{module}, or .ko.xz: missing; the root's file system needs it (CONFIG_EROFS_FS=m)")
    return (_LOCKED,) if content.endswith(_SIGNATURE) else ()


def placed(stub: Path, sections: dict[str, Path], objdump: str) -> list[str]:
    """objcopy's arguments that put each section behind the stub's own, one after the other."""
    page = 0x1000
    own = re.findall(r"^ +\d+ \.\S+ +([0-9a-f]+) +([0-9a-f]+)", run([objdump, "-h", stub]), re.MULTILINE)
    ends = [int(size, 16) + int(start, 16) for size, start in own]
    if not ends:
        raise StepError(f"{stub}: objdump finds no sections in it")
    address = -(-max(ends) // page) * page
    arguments = []
    for name, path in sections.items():
        arguments += ["--add-section", f"{name}={path}", "--change-section-vma", f"{name}={address:#x}"]
        address += -(-path.stat().st_size // page) * page
    return arguments


def make_esp(  # noqa: PLR0913, PLR0917  # one for each thing that is in it
    loader: Path, uki: Path, target: Path, identity: Identity, wanted: Architecture, signed: Path | None = None
) -> None:
    """The FAT partition: systemd-boot, the kernel, and the place where people leave what the node shall know.

    It has the checksums of the update in the directory ``signed``, so that the node can give that to others.
    """
    readme, settings = target.with_suffix(".readme"), target.with_suffix(".loader")
    readme.write_text(_README, encoding="ascii", newline="\r\n")
    settings.write_text(_LOADER, encoding="ascii")
    target.unlink(missing_ok=True)
    volume = identity.uuid("esp-fs").replace("-", "")[:8]
    options = ["--invariant", "-F", "32", "-s", str(_CLUSTER_SECTORS), "-n", "MESHSEC", "-i", volume]
    run(["mkfs.vfat", *options, "-C", target, str(ESP_MIB * 1024)])
    updates = f"updates/{identity.version}"
    places = {
        f"EFI/BOOT/{wanted.efi}": loader,
        "loader/loader.conf": settings,
        f"EFI/Linux/{release.kernel_name(identity.version, wanted)}": uki,
        "meshsec/README.TXT": readme,
        **({f"{updates}/{path.name}": path for path in sorted(signed.glob(f"{release.SUMS}*"))} if signed else {}),
    }
    put(target, ("EFI", "EFI/BOOT", "EFI/Linux", "loader", "meshsec", "updates", updates), places, identity)


def put(esp: Path, folders: Sequence[str], sources: Mapping[str, Path], identity: Identity) -> None:
    """Make folders on the FAT partition, and copy each source to its place there."""
    environment = {"SOURCE_DATE_EPOCH": str(identity.epoch), "MTOOLS_SKIP_CHECK": "1", "TZ": "UTC"}
    run(["mmd", "-i", esp, *(f"::{folder}" for folder in folders)], env=environment)
    for place, source in sources.items():
        os.utime(source, (identity.epoch, identity.epoch))
        run(["mcopy", "-m", "-i", esp, source, f"::{place}"], env=environment)


def assemble(esp: Path, root: Path, target: Path, identity: Identity, wanted: Architecture) -> None:
    """The whole disk, sparse; ``target`` appears when it is complete."""
    fresh = target.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    if root.stat().st_size > SLOT_MIB * MIB:
        raise StepError(f"{root}: {root.stat().st_size} bytes; a slot has {SLOT_MIB} MiB, which no update can change")
    with fresh.open("wb") as disk:
        disk.truncate((1 + ESP_MIB + 2 * SLOT_MIB + STATE_MIB + 1) * MIB)
    table = fresh.with_suffix(".gpt")
    table.write_text(
        f"label: gpt\nlabel-id: {identity.uuid('disk')}\nunit: sectors\n"
        f"start={MIB // 512}, size={ESP_MIB}MiB, type={_ESP_TYPE}, uuid={identity.uuid('esp')}, name=meshsec-esp\n"
        f"size={SLOT_MIB}MiB, type={wanted.root_type}, uuid={identity.uuid('root')}, name={identity.root_name}, "
        'attrs="GUID:60"\n'  # read-only (Discoverable Partitions Specification)
        # How systemd-sysupdate knows a slot that is free.
        f'size={SLOT_MIB}MiB, type={wanted.root_type}, uuid={identity.uuid("empty")}, name=_empty, attrs="GUID:60"\n',
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


_LOADER = """\
# The newest version that has not failed starts; nobody chooses, and nobody edits its command line.
timeout menu-disabled
editor no
"""
_README = """\
What this node shall know, one file each (docs/guide/vehicle-image.md):
meshsec.config         its configuration (meshsec.toml), at the first boot
meshsec.name           its name, at the first boot
meshsec.interface      its mesh interfaces, at the first boot
meshsec.ipv4           its IPv4 mesh address, at the first boot
meshsec.join           the fleet that it asks to join: its card or six words
meshsec.join.png       the same as a QR code, where there is no meshsec.join
meshsec.peers          whom it trusts, a line each: NAME CARD
meshsec.sae-password   the password of its mesh, where [radio] says security = "sae"
meshsec.access-password  the password of its access point, where [access] has a radio
meshsec.root-password  the hash of a password that root may log in with
"""
