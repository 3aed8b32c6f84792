"""A process that the kernel kills for want of memory."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from meshsec.adapters.scheduler.mounts import listed
from tests.lab.basics.waiting import wait_until

PATIENCE = 60.0
"""Seconds."""
ENOUGH_TO_DIE = "4096"
"""Octets that a control group may hold: the next page that is touched is one too many."""


def knock(path: Path) -> None:
    """Connect to a daemon's socket and read what it says first, which takes memory: whether or not it answers."""
    with socket.socket(socket.AF_UNIX) as asking, suppress(OSError):
        asking.settimeout(1)
        asking.connect(str(path))
        asking.recv(1 << 16)


@contextmanager
def starved(pid: int) -> Iterator[Callable[[], int]]:
    """A control group (v1) of this process that may hold no more memory; how often the kernel killed for that."""
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
        wait_until("the control group is given up", lambda: given_up(group, root), [], PATIENCE)


def given_up(group: Path, root: Path) -> bool:
    """Try to remove a control group: who is left in it, or about to end, is moved away first."""
    for pid in (group / "cgroup.procs").read_text(encoding="ascii").split():
        with suppress(OSError):
            (root / "cgroup.procs").write_text(pid, encoding="ascii")
    with suppress(OSError):
        group.rmdir()
    return not group.exists()
