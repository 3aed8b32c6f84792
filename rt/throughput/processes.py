"""Who used the processors while something passed: each process by its name, on each core, from /proc."""

import os
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_LOOK = 0.1
"""Seconds between two looks at which core a thread is on."""
_CORE = re.compile(r"^cpu(\d+) (.*)$", re.MULTILINE)
REST = "kernel and others"
"""Name of what no known process accounts for: interrupts, the kernel's threads, other programs."""
BUSY = 85.0
"""Per cent of a processor from which the limit is said to be there: the flow's begin and end are in the time, too."""
Shares = Mapping[tuple[str, int], float]
"""Per cent of a processor, by the name of the process and the core."""


class Thread(NamedTuple):
    """One thread at one moment (proc_pid_stat(5))."""

    ticks: int
    """User and system time."""
    core: int


def thread(stat: str) -> Thread:
    """Return what the text of /proc/PID/task/TID/stat says. The name in brackets may contain anything."""
    fields = stat.rpartition(")")[2].split()
    return Thread(int(fields[11]) + int(fields[12]), int(fields[36]))


def cores(stat: str) -> dict[int, int]:
    """Return the busy ticks of each core from the text of /proc/stat, without waiting and what a hypervisor took."""
    found = {}
    for number, counts in _CORE.findall(stat):
        user, nice, system, _idle, _iowait, irq, softirq, *_ = map(int, counts.split())
        found[int(number)] = user + nice + system + irq + softirq
    return found


def with_rest(ticks: Mapping[tuple[str, int], int], busy: Mapping[int, int], seconds: float) -> Shares:
    """Return per cents of a processor; what a core did beyond its known processes is under ``REST``."""
    known = dict.fromkeys(busy, 0)
    for (_, core), count in ticks.items():
        known[core] = known.get(core, 0) + count
    all_ticks = dict(ticks) | {(REST, core): max(0, count - known[core]) for core, count in busy.items()}
    return {key: 100 * count / _TICKS / seconds for key, count in all_ticks.items()}


def limit(shares: Shares) -> str:
    """Return a sentence that says what limited a flow that sent as fast as it could."""
    by_name: dict[str, float] = {}
    by_core: dict[int, float] = {}
    for (name, core), share in shares.items():
        by_name[name] = by_name.get(name, 0.0) + share
        by_core[core] = by_core.get(core, 0.0) + share
    if not by_core:
        return "nothing was measured"
    most = max(by_name, key=lambda name: by_name[name])
    used = f"{most} used {by_name[most]:.0f} % of one processor"
    if min(by_core.values()) >= BUSY:
        return f"all {len(by_core)} processors were the limit: {used}"
    core, busiest = max(by_core.items(), key=lambda one: one[1])
    if busiest >= BUSY:
        return f"one processor was the limit (core {core}, {busiest:.0f} %): {used}"
    return f"no processor was the limit (the busiest: {busiest:.0f} %): {used}"


class Watch:
    """Watches processes, given by PID and name, while the context is open; several may share a name.

    A process that ends in the meantime keeps what was last seen of it. ``shares`` and ``seconds`` are there afterwards.
    """

    def __init__(self, processes: Mapping[int, str]) -> None:
        self.shares: Shares = {}
        self.seconds = 0.0
        self._names = dict(processes)
        self._seen: dict[tuple[int, str], Thread] = {}
        self._ticks: dict[tuple[str, int], int] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._looks = threading.Thread(target=self._look_often, daemon=True)

    def __enter__(self) -> Self:
        self._look(self._names, counts=False)
        self._begin, self._busy = time.monotonic(), _busy()
        self._looks.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._looks.join()
        self._look(list(self._names))
        self.seconds = time.monotonic() - self._begin
        busy = {core: ticks - self._busy.get(core, 0) for core, ticks in _busy().items()}
        self.shares = with_rest(self._ticks, busy, self.seconds)

    def add(self, pid: int, name: str) -> None:
        """Watch one more process, from now on."""
        self._look([pid], counts=False)
        self._names[pid] = name

    def _look_often(self) -> None:
        while not self._over.wait(_LOOK):
            self._look(list(self._names))

    def _look(self, pids: Iterable[int], *, counts: bool = True) -> None:
        """Credit each thread's time since the last look to the core on which it is now."""
        with self._lock:
            for pid in pids:
                for tid, now in _threads(pid):
                    before = self._seen.get((pid, tid))
                    self._seen[pid, tid] = now
                    if counts:
                        key = self._names[pid], now.core
                        self._ticks[key] = self._ticks.get(key, 0) + now.ticks - (before.ticks if before else 0)


def _threads(pid: int) -> Iterator[tuple[str, Thread]]:
    try:
        tasks = list((_PROC / str(pid) / "task").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return
    for task in tasks:
        with suppress(FileNotFoundError, ProcessLookupError):
            yield task.name, thread((task / "stat").read_text(encoding="utf-8", errors="replace"))


def _busy() -> dict[int, int]:
    return cores((_PROC / "stat").read_text(encoding="ascii"))
