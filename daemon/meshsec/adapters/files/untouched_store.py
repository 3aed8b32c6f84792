"""Keep for how long nobody has touched this node, in ``untouched`` in the state directory (ADR 0101)."""

import time
from pathlib import Path

import msgspec

from meshsec import files
from meshsec.core.zeroize.dead_man import Untouched

NAME = "untouched"
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_LIMIT = 4096


def boot() -> str:
    """Return the kernel's name for this boot. Raises FileError."""
    return files.read(_BOOT, _LIMIT).strip()


def now() -> float:
    """Return the seconds since the boot, asleep or awake."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def load(path: Path) -> Untouched | None:
    """Return what is kept; None without a file. Raises FileError, also for a damaged one."""
    if not files.exists(path):
        return None
    try:
        return msgspec.json.decode(files.read(path, _LIMIT), type=Untouched)
    except msgspec.MsgspecError as error:
        raise files.FileError(f"{path}: is no record of this program ({error})") from error


def save(path: Path, untouched: Untouched) -> None:
    """Keep it. Raises FileError."""
    files.write(path, msgspec.json.encode(untouched) + b"\n", 0o600)
