"""Measure how the load affects the IKE daemon and the protected streams between two polls."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from meshsec.adapters.scheduler import pressure
from meshsec.adapters.scheduler.pressure import Runs
from meshsec.core.scheduling.governor_events import Contention

if TYPE_CHECKING:
    from pathlib import Path

STARVED = 0.01
"""Seconds between two polls from which a thread counts as starving, if it was runnable at both and never ran."""


ASKED = 8
"""How often charon is queried to distinguish its threads."""

_RUNS_EACH = 4
"""How often the thread that waits for sockets runs at least for each query."""


class ContentionWatch:
    """Measure one process. A poll costs about a millisecond, so it is done when there is something to decide."""

    def __init__(self, pid: int, now: float) -> None:
        self.pid = pid
        self.waited: float | None = None
        """Seconds that all its threads together have waited for a CPU; None if the kernel does not count."""
        self.source = ""
        """What is measured, and what this host does not report."""
        self._pressure_file = pressure.pressure_file(pid)
        self._at = now
        self._runs: Mapping[int, Runs] | None = None
        self._runnable: frozenset[int] = frozenset()
        self._stalled: float | None = None
        self._lost = 0.0
        self.poll(now)

    def poll(self, now: float, queued: int | None = None) -> Contention:
        """Return what happened since the last poll. ``queued`` is the number of jobs that the IKE daemon reported."""
        span, before = now - self._at, self._runs
        runs, stalled = pressure.runs(self.pid), pressure.stalled_seconds(self._pressure_file)
        runnable = pressure.runnable(self.pid) if runs is not None else frozenset()
        found = Contention(
            delay=_delay(before, runs),
            starving=None if runs is None else self._starving(span, before, runs, runnable),
            pressure=_share(self._stalled, stalled, span),
            queued=queued,
        )
        self._at, self._runs, self._runnable, self._stalled = now, runs, runnable, stalled
        self._note(runs, before)
        return found

    def _starving(
        self, span: float, before: Mapping[int, Runs] | None, runs: Mapping[int, Runs], runnable: frozenset[int]
    ) -> int:
        if span < STARVED or before is None:
            return 0
        return sum(1 for tid in runnable & self._runnable if tid in runs and before.get(tid) == runs[tid])

    def _note(self, runs: Mapping[int, Runs] | None, before: Mapping[int, Runs] | None) -> None:
        """Add the new waiting times. The sum never decreases: the time of ended threads is kept."""
        ended = (before or {}).keys() - (runs or {}).keys()
        self._lost += sum(before[tid].waited for tid in ended) if before else 0.0
        self.waited = None if runs is None else self._lost + sum(one.waited for one in runs.values())
        delays = "the run-queue delay of charon's threads" if runs is not None else "no run-queue delay (no schedstat)"
        stalls = f"pressure by {self._pressure_file}" if self._stalled is not None else "no pressure (no PSI)"
        self.source = f"{delays}; {stalls}"


def poller(before: Mapping[int, Runs], after: Mapping[int, Runs]) -> int | None:
    """Return charon's thread that waits for its sockets; None if it cannot be found.

    It is found by how often each thread ran during ``ASKED`` queries: this one ten times or more for each message, all
    others a few times.
    """
    runs = sorted(((after[tid].times - before[tid].times, tid) for tid in before.keys() & after.keys()), reverse=True)
    if len(runs) < 2 or runs[0][0] < max(ASKED * _RUNS_EACH, 2 * runs[1][0]):
        return None
    return runs[0][1]


class CrowdWatch:
    """Measure how busy others keep a process's processors. A poll costs some ten microseconds."""

    def __init__(self, pid: int, now: float) -> None:
        self.pid = pid
        self._at = now
        self._idle: Mapping[int, float] = {}
        self._used: float | None = None
        self.poll(now)

    def poll(self, now: float) -> float | None:
        """Return the least busy processor's share of time spent for others since the last poll, 0 to 1; None if
        unknown.
        """
        span, idle_before, used_before = now - self._at, self._idle, self._used
        self._at, self._used = now, pressure.cpu_seconds(self.pid)
        self._idle = pressure.idle_seconds()
        usable = pressure.processors(self.pid) & self._idle.keys() & idle_before.keys()
        if span <= 0 or not usable:
            return None
        least = min(1 - (self._idle[number] - idle_before[number]) / span for number in usable)
        if self._used is not None and used_before is not None:
            least -= (self._used - used_before) / span
        return min(1.0, max(0.0, least))


class StreamWatch:
    """Measure a protected stream that cannot report itself: how long its service's threads wait for each run."""

    def __init__(self, name: str) -> None:
        """Prepare it; ``name`` is a systemd unit, or a control group as an absolute path in its hierarchy."""
        self.name = name
        self._group: Path | None = None
        self._runs: Mapping[int, Runs] | None = None

    def poll(self) -> float | None:
        """Return the mean delay in seconds since the last poll; None if it did not run or cannot be found."""
        if self._group is None or not self._group.exists():
            self._group = pressure.find_group(self.name)
        before, self._runs = self._runs, None
        if self._group is not None:
            found = [pressure.runs(pid) for pid in pressure.members(self._group)]
            self._runs = {tid: one for runs in found if runs for tid, one in runs.items()}
        return _delay(before, self._runs)


def _delay(before: Mapping[int, Runs] | None, runs: Mapping[int, Runs] | None) -> float | None:
    """Return the mean delay of all runs since then."""
    if before is None or runs is None:
        return None
    both = before.keys() & runs.keys()
    times = sum(runs[tid].times - before[tid].times for tid in both)
    return sum(runs[tid].waited - before[tid].waited for tid in both) / times if times > 0 else None


def _share(before: float | None, after: float | None, span: float) -> float | None:
    if before is None or after is None or span <= 0:
        return None
    return min(1.0, max(0.0, (after - before) / span))
