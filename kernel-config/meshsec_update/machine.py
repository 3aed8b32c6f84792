"""This machine: its image, how it was started, and the first partition."""

import os
import platform
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ESP = Path("/efi")
KERNELS = ESP / "EFI/Linux"
OS_RELEASE = Path("/usr/lib/os-release")
_ARCHITECTURES = {"x86_64": "x86-64", "aarch64": "arm64"}
_COUNTED = re.compile(r"\+(\d+)(?:-(\d+))?\.efi$")
"""How the boot loader counts (systemd-boot(7)); it does so before it starts a kernel."""


class RefusedError(Exception):
    """Why an update is not taken; the node stays as it was."""


@dataclass(frozen=True)
class Image:
    """The image that runs."""

    version: str
    architecture: str
    """As systemd writes it."""


def image() -> Image:
    """Return what runs; raises RefusedError on a machine that was not made from an image."""
    lines = OS_RELEASE.read_text(encoding="utf-8").splitlines()
    found = dict(line.split("=", 1) for line in lines if "=" in line)
    if "IMAGE_VERSION" not in found:
        raise RefusedError(f"{OS_RELEASE} names no IMAGE_VERSION: this machine is no image; update it by apt")
    machine = platform.machine()
    return Image(found["IMAGE_VERSION"], _ARCHITECTURES.get(machine, machine))


def is_newer(version: str, than: str) -> bool:
    """Compare as the boot loader and systemd-sysupdate do (UAPI.10)."""
    return subprocess.run(["systemd-analyze", "compare-versions", version, "gt", than], check=False).returncode == 0


def present(architecture: str) -> dict[str, Path]:
    """Return the versions on the disk, be it that one works, waits for its trial or failed, and the kernel of each."""
    if not KERNELS.is_dir():
        return {}
    found = (path for path in KERNELS.glob(f"meshsec_*_{architecture}*.efi") if path.stat().st_size)
    return {path.name.split("_")[1]: path for path in found}


def kernels(version: str, architecture: str) -> list[Path]:
    """Return what systemd-boot has of a version: one file, whose name may count its tries.

    It passes over empty files: on FAT a power cut may leave one when a kernel has just been renamed.
    """
    name = f"meshsec_{version}_{architecture}"
    return [path for path in KERNELS.iterdir() if path.stem.partition("+")[0] == name and path.stat().st_size]


def tries(kernel: Path) -> tuple[int, int] | None:
    """Return how many tries a kernel has left, and had; None for one that is not being tried."""
    match = _COUNTED.search(kernel.name)
    return (int(match[1]), int(match[2] or 0)) if match else None


@contextmanager
def esp_writable() -> Iterator[None]:
    """Make the first partition writable meanwhile."""
    said(["mount", "-o", "remount,rw", str(ESP)])
    try:
        yield
    finally:
        os.sync()
        said(["mount", "-o", "remount,ro", str(ESP)])


def slot_size() -> int:
    """Return the bytes of a slot: both are as large as that of the root that runs."""
    device = said(["findmnt", "--noheadings", "--output", "SOURCE", "/"]).strip()
    return int((Path("/sys/class/block") / Path(device).name / "size").read_text(encoding="ascii")) * 512


def said(argv: Sequence[str]) -> str:
    """Return what a program says; raises RefusedError with the end of it when it fails."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-5:])
        raise RefusedError(f"{' '.join(argv)}: status {done.returncode}: {tail}")
    return done.stdout
