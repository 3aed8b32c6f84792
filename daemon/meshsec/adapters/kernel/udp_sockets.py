"""Find the UDP sockets of this network namespace and their processes in /proc."""

from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_LIMIT = 4 << 20
"""Limit of the table in bytes: some 25,000 sockets."""


def table() -> str:
    """Return the kernel's table of IPv6 UDP sockets; empty if it cannot be read."""
    with suppress(OSError), (_PROC / "net/udp6").open(encoding="ascii", errors="replace") as file:
        return file.read(_LIMIT)
    return ""


def holder(inode: int) -> tuple[int, str] | None:
    """Return the PID and the program that has a socket; None if it is not found or may not be read."""
    target = f"socket:[{inode}]"
    for process in _PROC.glob("[0-9]*"):
        with suppress(OSError):
            if any(str(one.readlink()) == target for one in (process / "fd").iterdir()):
                return int(process.name), (process / "comm").read_text(encoding="utf-8", errors="replace").strip()
    return None


def is_in_unit(pid: int, unit: str) -> bool:
    """Return whether a process belongs to a systemd unit, which systemd restarts when it ends."""
    try:
        groups = (_PROC / str(pid) / "cgroup").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return any(unit in line.rpartition(":")[2].split("/") for line in groups.splitlines())
