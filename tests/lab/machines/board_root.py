"""What a board boots: a bare Debian with a kernel and GRUB of its own, and the disk that holds them.

No loop device and no mount of this machine is needed: GRUB's parts are copied to where the BIOS looks for them.
"""

import uuid
from pathlib import Path

from tests.lab.basics import shell
from tests.lab.machines.fleet_root import OFFERED, PREINSTALLED, Recipe
from tests.lab.machines.guest_root import CONTAINED

INTERFACE = "enp0s16"
"""The name of the interface to the controller, which follows from its place in the machine."""
SLOT = 0x10
_DISK_MIB = 4096
_PARTITION_SECTOR = 2048
_SECTOR = 512
_BOOT_CODE = 440
"""Bytes before the partition table."""
_GRUB = "/usr/lib/grub/i386-pc"
_CORE = "biosdisk part_msdos ext2"
"""The GRUB modules that find the rest of GRUB."""
_SETTINGS = 'GRUB_DISTRIBUTOR=Debian\\nGRUB_TIMEOUT=0\\nGRUB_DISABLE_SUBMENU=y\\nGRUB_CMDLINE_LINUX="console=ttyS0"\\n'
_FIRST_MENU = "linux /vmlinuz root=/dev/vda1 ro console=ttyS0\\ninitrd /initrd.img\\nboot\\n"

BOARD = Recipe(
    "board-",
    (
        *(*PREINSTALLED, "udev", "kmod", "e2fsprogs", "ifupdown"),
        *("initramfs-tools", "zstd", "linux-image-amd64", "grub-pc-bin", "grub2-common"),
    ),
    ((*OFFERED, "linux-image-rt-amd64"),),
    (
        f"printf '{_SETTINGS}' >\"$1/etc/default/grub\"",
        'mkdir -p "$1/boot/grub"',
        f'cp -r "$1{_GRUB}" "$1/boot/grub/"',
        f"printf '{_FIRST_MENU}' >\"$1/boot/grub/grub.cfg\"",  # Until the next update-grub.
        f"chroot \"$1\" grub-mkimage -O i386-pc -p '(hd0,msdos1)/boot/grub' -o /boot/grub/core.img {_CORE}",
        # Only what this disk needs: otherwise an emulated machine packs an initramfs for minutes.
        'echo MODULES=dep >"$1/etc/initramfs-tools/conf.d/board"',
        'echo "/dev/vda1 / ext4 defaults 0 1" >"$1/etc/fstab"',
    ),
)
"""What Debian's installer leaves on a server where a BIOS starts GRUB."""


def write_identity(layer: Path, name: str, address: str) -> None:
    """Write what distinguishes this board from others, except for its keys."""
    (layer / "etc/network").mkdir(parents=True)
    (layer / "etc/hostname").write_text(f"{name}\n", encoding="ascii")
    # Not empty: systemd would take the boot for the first one and enable all presets.
    (layer / "etc/machine-id").write_text(f"{uuid.uuid4().hex}\n", encoding="ascii")
    (layer / "etc/network/interfaces").write_text(
        f"auto lo {INTERFACE}\niface lo inet loopback\niface {INTERFACE} inet static\n  address {address}\n",
        encoding="ascii",
    )


def make_disk(root: Path, layer: Path, disk: Path) -> None:
    """Write the disk: GRUB, then the ``root`` with the files of ``layer`` over it."""
    with disk.open("wb") as file:
        file.truncate(_DISK_MIB << 20)
    shell.run(["sfdisk", "--quiet", str(disk)], stdin=f"label: dos\nstart={_PARTITION_SECTOR}, type=83, bootable\n")
    _write_grub(root, disk)
    kibibytes = (_DISK_MIB << 10) - _PARTITION_SECTOR * _SECTOR // 1024
    # Older GRUBs cannot read newer file systems.
    options = f"-q -F -t ext4 -O ^metadata_csum_seed,^orphan_file -E offset={_PARTITION_SECTOR * _SECTOR}"
    script = f'mount -t overlay overlay -o "lowerdir=$2:$1" "$3"; exec mke2fs {options} -d "$3" "$4" {kibibytes}k'
    mounted = layer.with_suffix(".mounted")
    mounted.mkdir()
    shell.run(
        [*CONTAINED, "--", "sh", "-ec", script, "sh", str(root), str(layer), str(mounted), str(disk)], timeout=600
    )


def _write_grub(root: Path, disk: Path) -> None:
    """Write GRUB. By default the first sector's code loads the rest from the second sector on."""
    code = (root / _GRUB.lstrip("/") / "boot.img").read_bytes()[:_BOOT_CODE]
    core = (root / "boot/grub/core.img").read_bytes()
    assert len(core) < (_PARTITION_SECTOR - 1) * _SECTOR
    with disk.open("r+b") as file:
        file.write(code)
        file.seek(_SECTOR)
        file.write(core)
