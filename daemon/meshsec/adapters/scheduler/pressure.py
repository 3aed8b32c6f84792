"""Measure how the load affects a process: its CPU time, the run-queue delay of its threads, and pressure (PSI).

Everything comes from ``/proc`` and the control groups, without privilege and without asking the process. A value that
the host does not report is None: schedstat needs CONFIG_SCHED_INFO and a kernel that counts, PSI needs CONFIG_PSI and
psi=1.
"""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
SYSTEM_PRESSURE = PROC / "pressure/cpu"

_CPUCLOCK_SCHED = 2
"""The clock of clock_getcpuclockid(3), in nanoseconds; /proc counts only ticks."""

_NANOSECONDS, _MICROSECONDS = 1e-9, 1e-6
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Runs:
    """A thread's CPU time and waiting time so far (Documentation/scheduler/sched-stats.rst)."""

    ran: float
    """Seconds on a CPU."""
    waited: float
    """Seconds that it was runnable and waited for a CPU; counted when it gets one."""
    times: int
    """How often it got a CPU."""


def cpu_seconds(pid: int) -> float | None:
    """Return the user and system time of a process, including ended threads; None if it has ended."""
    try:
        return time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED)
    except OSError:
        return None


def processors(pid: int) -> frozenset[int]:
    """Return the processors that a process may use, or our own if it has ended."""
    try:
        return frozenset(os.sched_getaffinity(pid))
    except OSError:
        return frozenset(os.sched_getaffinity(0))


def idle_seconds(proc: Path = PROC) -> Mapping[int, float]:
    """Return how long each processor was idle since boot (proc(5), stat), in steps of a tick."""
    found = {}
    for line in _text(proc / "stat").splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name[3:].isdecimal() and len(fields) >= 5:
            found[int(name[3:])] = (int(fields[3]) + int(fields[4])) / _TICKS
    return found


def runs(pid: int, proc: Path = PROC) -> Mapping[int, Runs] | None:
    """Return the runs by thread. None if this kernel does not count or the process has ended."""
    found: dict[int, Runs] = {}
    for directory in _tasks(pid, proc):
        text = _text(directory / "schedstat")
        fields = text.split()
        if len(fields) == 3 and all(field.isdecimal() for field in fields):
            ran, waited, times = map(int, fields)
            found[int(directory.name)] = Runs(ran * _NANOSECONDS, waited * _NANOSECONDS, times)
    return found if any(one.times for one in found.values()) else None


def runnable(pid: int, proc: Path = PROC) -> frozenset[int]:
    """Return the threads that have a CPU or wait for one now (proc(5), state R)."""
    return frozenset(int(one.name) for one in _tasks(pid, proc) if _state(_text(one / "stat")) == "R")


def stalled_seconds(path: Path) -> float | None:
    """Return how long some task of a group has waited for a CPU so far (PSI, some); None if it is not counted."""
    for line in _text(path).splitlines():
        kind, _, rest = line.partition(" ")
        total = rest.rpartition("total=")[2]
        if kind == "some" and total.isdecimal():
            return int(total) * _MICROSECONDS
    return None


def pressure_file(pid: int, proc: Path = PROC) -> Path:
    """Return the pressure file of a process's own control group (v2), or else of the system."""
    for line in _text(proc / str(pid) / "cgroup").splitlines():
        number, _, path = line.partition("::")
        if number == "0" and path.strip("/"):
            for mount in group_mounts(proc):
                file = mount / path.lstrip("/") / "cpu.pressure"
                if file.exists():
                    return file
    return SYSTEM_PRESSURE


def find_group(name: str, proc: Path = PROC) -> Path | None:
    """Return the directory of a systemd unit's control group, or of a group by its absolute path (v2 or v1)."""
    for mount in [*group_mounts(proc), *group_mounts(proc, "cgroup")]:
        if name.startswith("/"):
            found = [mount / name.lstrip("/")]
        else:
            found = [Path(path) for path, _, _ in os.walk(mount) if Path(path).name == name]
        for group in found:
            if (group / "cgroup.procs").exists():
                return group
    return None


def members(group: Path) -> list[int]:
    """Return the processes directly in a control group; none if it is gone."""
    return [int(line) for line in _text(group / "cgroup.procs").split() if line.isdecimal()]


def group_mounts(proc: Path = PROC, kind: str = "cgroup2") -> list[Path]:
    """Return where hierarchies of v2 (``cgroup2``) or v1 (``cgroup``) are mounted (proc(5), mountinfo)."""
    found = []
    for line in _text(proc / "self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        if right.startswith(f"{kind} "):
            found.append(Path(left.split()[4]))
    return found


def _tasks(pid: int, proc: Path) -> list[Path]:
    try:
        return [Path(entry.path) for entry in os.scandir(proc / str(pid) / "task")]
    except OSError:
        return []


def _state(stat: str) -> str:
    """Return the field after the program's name, which may contain any character."""
    return stat[stat.rfind(")") + 2 :][:1]


def _text(path: Path) -> str:
    """Return a file's text; empty if it cannot be read, because threads end and kernels differ."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
