"""What this node can give to others: the newest version on its disk that has not failed, with its signed checksums."""

import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path

from meshsec_update import machine
from meshsec_update.release import SIGNATURE, SUMS

SIGNED = machine.ESP / "updates"
"""A directory for each version, with its checksums and their signature: from the build, or from an installation."""
_PARTITIONS = Path("/dev/disk/by-partuuid")
_EROFS_MAGIC = 0xE0F5E1E2


@dataclass(frozen=True)
class Part:
    """A file that is offered: the first ``size`` bytes of ``path``."""

    path: Path
    size: int


@dataclass(frozen=True)
class Offer:
    """The files of an update, as others ask for them."""

    parts: dict[str, Part]
    since: float
    """Seconds since 1970 at which this node got it."""

    @property
    def age(self) -> int:
        """Seconds for which this node has had it."""
        return max(0, int(time.time() - self.since))


def of_directory(directory: Path) -> Offer:
    """Offer the files of an update in a directory."""
    parts = {path.name: Part(path, path.stat().st_size) for path in directory.iterdir()}
    return Offer(parts, (directory / SUMS).stat().st_mtime)


def newest() -> Offer | None:
    """Return what this node offers; None when it has nothing that was signed."""
    best: tuple[str, Offer] | None = None
    for directory in SIGNED.iterdir() if SIGNED.is_dir() else ():
        offer = _of_machine(directory)
        if offer and (best is None or machine.is_newer(directory.name, best[0])):
            best = directory.name, offer
    return best[1] if best else None


def _of_machine(directory: Path) -> Offer | None:
    """Return None where something is missing or empty, which a power cut may have left."""
    parts = {path.name: Part(path, path.stat().st_size) for path in directory.iterdir() if path.stat().st_size}
    if parts.keys() != {SUMS, SIGNATURE}:
        return None
    for line in (directory / SUMS).read_text(encoding="ascii").splitlines():
        name = line.rpartition("  ")[2]
        part = _root(name) if name.endswith(".root") else _kernel(name)
        if part is None:
            return None
        parts[name] = part
    return Offer(parts, (directory / SUMS).stat().st_mtime)


def _root(name: str) -> Part | None:
    device = _PARTITIONS / name.split("_")[2]
    if not device.exists():
        return None
    size = erofs_size(device)
    return Part(device, size) if size else None


def _kernel(name: str) -> Part | None:
    _, version, architecture = name.removesuffix(".efi").split("_")
    for path in machine.kernels(version, architecture):
        if (machine.tries(path) or (1, 0))[0]:
            return Part(path, path.stat().st_size)
    return None


def erofs_size(device: Path) -> int | None:
    """Return the bytes of the erofs on a device, None where there is none (Linux, fs/erofs/erofs_fs.h)."""
    with device.open("rb") as file:
        block = os.pread(file.fileno(), 128, 1024)
    if len(block) < 128 or struct.unpack_from("<I", block)[0] != _EROFS_MAGIC:
        return None
    blocks: int = struct.unpack_from("<I", block, 36)[0]
    return blocks << block[12]
