"""What an image for x86-64 and one for arm64 differ in."""

import platform
from dataclasses import dataclass
from pathlib import Path

from image.shell import StepError, run


@dataclass(frozen=True)
class Architecture:
    """A processor, by the names that Debian, UEFI and the kernel have for what belongs to it."""

    debian: str
    machine: str
    """What `uname -m` says."""
    systemd: str
    """As systemd writes it (`ConditionArchitecture=`), and with it the names of an update's files."""
    loader: str
    """systemd-boot."""
    efi: str
    """What UEFI starts from a disk that it does not know (UEFI 2.10, section 3.5.1.1)."""
    stub: str
    root_type: str
    """Its root's type in the partition table (Discoverable Partitions Specification)."""
    words: tuple[str, ...]
    """What its kernel's command line has beside that of the others."""

    @property
    def kernel_package(self) -> str:
        """Debian's PREEMPT_RT kernel."""
        return f"linux-image-rt-{self.debian}"

    def binutils(self, name: str) -> str:
        """Return the name of a tool of the binutils that reads its programs."""
        return f"{self.machine}-linux-gnu-{name}"


AMD64 = Architecture(
    debian="amd64",
    machine="x86_64",
    systemd="x86-64",
    loader="systemd-bootx64.efi",
    efi="BOOTX64.EFI",
    stub="linuxx64.efi.stub",
    root_type="4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709",
    words=("console=tty0", "console=ttyS0,115200", "vsyscall=none"),
)
ARM64 = Architecture(
    debian="arm64",
    machine="aarch64",
    systemd="arm64",
    loader="systemd-bootaa64.efi",
    efi="BOOTAA64.EFI",
    stub="linuxaa64.efi.stub",
    root_type="B921B045-1DF0-41C3-AF44-4C6F280D3FAE",
    # ttyS1 is on a Raspberry Pi's pins. The last one that is there is /dev/console.
    words=("console=tty0", "console=ttyS1,115200", "console=ttyAMA0,115200"),
)
BINFMT = Path("/proc/sys/fs/binfmt_misc")
"""Where the kernel lists the programs that run those of other architectures."""
ALL = {one.debian: one for one in (AMD64, ARM64)}


def check_runs(wanted: Architecture) -> None:
    """Raise StepError unless this machine runs programs of that architecture, by QEMU's user emulation if need be."""
    if platform.machine() == wanted.machine:
        return
    entry = BINFMT / f"qemu-{wanted.machine}"
    # F: the kernel holds the emulator open, so that it is there in a root that has none.
    lines = entry.read_text(encoding="ascii").splitlines() if entry.exists() else []
    if "enabled" not in lines or not any(line.startswith("flags:") and "F" in line for line in lines):
        raise StepError(
            f"this machine runs no programs for {wanted.debian}: {entry} is not there, enabled and with the flag F; "
            "`tools/setup image` registers QEMU's emulation with the kernel, which a container may not do"
        )


def check_kernel(kernel: Path, wanted: Architecture) -> None:
    """Raise StepError unless ``kernel`` is a Debian package for that architecture."""
    found = run(["dpkg-deb", "--field", kernel, "Architecture"]).strip()
    if found != wanted.debian:
        raise StepError(f"KERNEL={kernel} is a package for {found}; the image is for {wanted.debian}: ARCH={found}")
