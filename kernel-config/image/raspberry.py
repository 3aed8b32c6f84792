"""What the firmware of a Raspberry Pi finds on the FAT partition: itself, its settings, U-Boot, device trees.

U-Boot gives the board the UEFI that other machines have, so that one disk boots on both (ADR 0105). Its packages are
unpacked beside the kernel and not installed, because nothing of them belongs into the root.
"""

from collections.abc import Iterable
from pathlib import Path

from image.architecture import ARM64, Architecture
from image.disk import Identity, put
from image.shell import StepError

PACKAGES = ("raspi-firmware", "u-boot-rpi")
FOLDER = "boot/raspberry"
"""In the base. What is in ``/boot`` goes to the FAT partition, and is not part of the root."""

CONFIG = """\
# For the firmware of a Raspberry Pi 4 or 5. It starts U-Boot, which starts EFI/BOOT/BOOTAA64.EFI.
arm_64bit=1
kernel=u-boot.bin
upstream_kernel=1
enable_uart=1
"""
_FIRMWARE = ("start4.elf", "fixup4.dat")
"""That of a Pi 4. A Pi 5 has its own in its flash memory."""
_DEVICE_TREES = ("bcm2711-rpi-*.dtb", "bcm2712-rpi-*.dtb")
_LICENCES = "licences"


def hooks(wanted: Architecture) -> tuple[str, ...]:
    """Return mmdebstrap's options that unpack the packages; none for machines that have no such firmware."""
    if wanted != ARM64:
        return ()
    download = f"apt-get -o APT::Sandbox::User= download {' '.join(PACKAGES)}"
    unpack = 'for package in *.deb; do dpkg-deb -x "$package" .; dpkg-deb -W "$package"; rm "$package"; done >packages'
    steps = f'mkdir "$1/{FOLDER}"; cd "$1/{FOLDER}"; APT_CONFIG="$MMDEBSTRAP_APT_CONFIG" {download}; {unpack}'
    return (f"--customize-hook=set -e; {steps}",)


def packages(root: Path) -> str:
    """Return the packages with their versions, for the list beside the image."""
    listed = root / FOLDER / "packages"
    return listed.read_text(encoding="utf-8") if listed.exists() else ""


def add(esp: Path, root: Path, boot: Path, release: str, identity: Identity) -> None:
    """Put it on the FAT partition, if the base has it. Raises StepError where the kernel knows none of the boards."""
    unpacked = boot / Path(FOLDER).name
    if not unpacked.exists():
        return
    config = esp.with_suffix(".config")
    config.write_text(CONFIG, encoding="ascii")
    sources = {"config.txt": config, "u-boot.bin": unpacked / "usr/lib/u-boot/rpi_arm64/u-boot.bin"}
    sources |= {name: unpacked / "usr/lib/raspi-firmware" / name for name in _FIRMWARE}
    sources |= {path.name: path for path in device_trees(root, release)}
    licences = {f"{_LICENCES}/{name}.txt": unpacked / f"usr/share/doc/{name}/copyright" for name in PACKAGES}
    put(esp, (_LICENCES,), sources | licences, identity)


def device_trees(root: Path, release: str) -> Iterable[Path]:
    """Return the kernel's own device trees of these boards. Raises StepError when there is none."""
    folder = root / f"usr/lib/linux-image-{release}/broadcom"
    found = sorted(path for pattern in _DEVICE_TREES for path in folder.glob(pattern))
    if not found:
        raise StepError(f"{folder}: no {' or '.join(_DEVICE_TREES)}; the kernel's package shall have them")
    return found
