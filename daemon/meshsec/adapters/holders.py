"""The processes that hold a node's keys: found in /proc, without asking any of them, and ended.

They are known by a listening socket of the node, by a file of the node on their command line, or by their unit. With
each its descendants are found, such as the wpa_supplicant that meshsec-radio starts.
"""

import os
import select
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

_PROC = Path("/proc")
_ENDED = ("Z", "X")
"""States of proc_pid_stat(5)."""
_LISTENS = 1 << 16
"""The flag __SO_ACCEPTCON of /proc/net/unix."""


@dataclass(frozen=True, slots=True)
class Marks:
    """What the node's processes are known by."""

    sockets: Collection[str]
    """Paths of sockets, or directories with sockets in them and below."""
    arguments: Collection[str]
    units: Collection[str]
    """Patterns of fnmatch(3)."""


@dataclass(frozen=True, slots=True)
class Holder:
    """One process."""

    pid: int
    name: str

    def __str__(self) -> str:
        return f"{self.name} ({self.pid})"


def find(marks: Marks) -> list[Holder]:
    """Return the processes of the node, but for this one and those that it descends from.

    One that has ended, and that its parent has not asked for yet, has no memory any more.
    """
    parents = {pid: parent for pid in _pids() if (parent := _parent(pid)) is not None}
    spared = {0, 1, *_line(os.getpid(), parents)}
    sockets = _sockets(marks.sockets)
    holders = {pid for pid in parents if pid not in spared and _is_holder(pid, marks, sockets)}
    found = [pid for pid in parents if pid not in spared and holders & {*_line(pid, parents)}]
    return [Holder(pid, _name(pid)) for pid in found]


def end(marks: Marks, grace: float, limit: float) -> tuple[list[Holder], list[Holder]]:
    """End the node's processes; return those that were found, and those that are alive after ``limit`` seconds.

    For ``grace`` seconds they may end in order: charon tells its peers that their SAs are gone.
    """
    found = find(marks)
    with ExitStack() as stack:
        alive = dict(_opened(found, stack))
        began = time.monotonic()
        for number, until in ((signal.SIGTERM, began + grace), (signal.SIGKILL, began + limit)):
            for descriptor in alive.values():
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(descriptor, number)
            alive = _wait(alive, until)
        return found, list(alive)


def _opened(found: Iterable[Holder], stack: ExitStack) -> Iterator[tuple[Holder, int]]:
    for holder in found:
        with suppress(ProcessLookupError):
            descriptor = os.pidfd_open(holder.pid)
            stack.callback(os.close, descriptor)
            yield holder, descriptor


def _wait(alive: dict[Holder, int], until: float) -> dict[Holder, int]:
    """Return those that have not ended by then. A pidfd is readable when its process has ended."""
    while alive and (left := until - time.monotonic()) > 0:
        poll = select.poll()
        for descriptor in alive.values():
            poll.register(descriptor, select.POLLIN)
        ended = {descriptor for descriptor, _ in poll.poll(left * 1000)}
        alive = {holder: descriptor for holder, descriptor in alive.items() if descriptor not in ended}
    return alive


def _is_holder(pid: int, marks: Marks, sockets: Collection[str]) -> bool:
    tests: tuple[Callable[[], bool], ...] = (
        lambda: bool({*_read(pid, "cmdline").split("\0")} & {*marks.arguments}),
        lambda: any(fnmatch(part, unit) for part in _units(pid) for unit in marks.units),
        lambda: bool(sockets) and any(link in sockets for link in _descriptors(pid)),
    )
    return any(test() for test in tests)


def _sockets(paths: Collection[str]) -> frozenset[str]:
    """Return the listening sockets at these paths, as /proc/PID/fd names them."""
    found = set()
    # Num RefCount Protocol Flags Type St Inode Path
    for line in _read("net", "unix").splitlines()[1:]:
        fields = line.split(maxsplit=7)
        if len(fields) == 8 and int(fields[3], 16) & _LISTENS:
            path = fields[7]
            if any(path == one or path.startswith(f"{one}/") for one in paths):
                found.add(f"socket:[{fields[6]}]")
    return frozenset(found)


def _pids() -> list[int]:
    return [int(path.name) for path in _PROC.iterdir() if path.name.isdecimal()]


def _line(pid: int, parents: dict[int, int]) -> Iterator[int]:
    """Yield a process and those that it descends from."""
    while pid > 0:
        yield pid
        pid = parents.get(pid, 0)


def _parent(pid: int) -> int | None:
    """Return a process's parent; None if it has ended. The program's name, in brackets, may have any characters."""
    fields = _read(pid, "stat").rpartition(")")[2].split()
    return int(fields[1]) if len(fields) > 1 and fields[0] not in _ENDED else None


def _units(pid: int) -> list[str]:
    return [part for line in _read(pid, "cgroup").splitlines() for part in line.split("/")]


def _descriptors(pid: int) -> Iterator[str]:
    with suppress(OSError):
        for entry in (_PROC / str(pid) / "fd").iterdir():
            with suppress(OSError):
                yield str(entry.readlink())


def _name(pid: int) -> str:
    return _read(pid, "comm").strip()


def _read(where: int | str, name: str) -> str:
    """Return the content of a file of /proc; nothing if the process is gone."""
    with suppress(OSError):
        return (_PROC / str(where) / name).read_text(encoding="utf-8", errors="surrogateescape")
    return ""
