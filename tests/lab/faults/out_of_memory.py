"""A process that the kernel kills because it has no memory left."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from meshsec.adapters.scheduler.mounts import listed
from tests.lab.basics.waiting import wait_until

PATIENCE = 60.0
ENOUGH_TO_DIE = "4096"
"""Bytes that a control group may hold: the next page that the process touches is one too many."""


def knock(path: Path) -> None:
    """Connect to a daemon's socket, which makes the daemon allocate memory, and read what it sends first."""
    with socket.socket(socket.AF_UNIX) as asking, suppress(OSError):
        asking.settimeout(1)
        asking.connect(str(path))
        asking.recv(1 << 16)


@contextmanager
def without_memory(pid: int) -> Iterator[Callable[[], int]]:
    """Leave a process no memory, by a control group (v1). Yield a function that counts the kernel's kills."""
    root = next((mount.point for mount in listed() if "memory" in mount.controllers), None)
    if root is None:
        pytest.skip("no hierarchy v1 of control groups has the controller memory")
    group = root / f"meshsec-test-{os.getpid()}"
    group.mkdir()
    try:
        (group / "cgroup.procs").write_text(str(pid), encoding="ascii")
        (group / "memory.limit_in_bytes").write_text(ENOUGH_TO_DIE, encoding="ascii")
        yield lambda: int((group / "memory.oom_control").read_text(encoding="ascii").split()[-1])
    finally:
        wait_until("the control group is removed", lambda: _removed(group, root), [], PATIENCE)


def _removed(group: Path, root: Path) -> bool:
    """Try to remove a control group. Processes that are still in it are moved to its parent first."""
    for pid in (group / "cgroup.procs").read_text(encoding="ascii").split():
        with suppress(OSError):
            (root / "cgroup.procs").write_text(pid, encoding="ascii")
    with suppress(OSError):
        group.rmdir()
    return not group.exists()
