"""Find what this host allows: throttling, capabilities, limits, control groups, containers."""

import resource
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from meshsec.adapters.scheduler import realtime_groups, threads
from meshsec.core.explain.scheduling_doctor import HostFacts
from meshsec.core.scheduling.profiles import Limits, SchedulingClass, SchedulingPolicy

_KERNEL = Path("/proc/sys/kernel")
_CAP_SYS_NICE = 23
_KTHREADD = 2
_CONTAINER_SIGNS = (Path("/run/systemd/container"), Path("/run/.containerenv"), Path("/.dockerenv"))
_SYSTEMD = Path("/run/systemd/system")
"""Exists if systemd is process 1 (sd_booted(3))."""
_ALL_USERS = 2**32 - 1
"""Number of users in the first user namespace."""


def limits() -> Limits:
    """Return the limits of real-time classes on this host."""
    return Limits(throttled(), lowest_interrupt_priority())


def throttled() -> bool:
    """Return whether the kernel reserves a part of each period for threads that are not real-time (sched(7))."""
    runtime, period = _number(_KERNEL / "sched_rt_runtime_us"), _number(_KERNEL / "sched_rt_period_us")
    return runtime is not None and period is not None and 0 <= runtime < period


def lowest_interrupt_priority() -> int | None:
    """Return the lowest priority of all threaded interrupts; None if there are none."""
    found = (threads.thread(tid) for tid in kernel_threads("irq/"))
    priorities = []
    for thread in filter(None, found):
        with suppress(threads.ThreadGoneError, threads.ThreadRefusedError):
            priorities.append(threads.read(thread).priority)
    return min((priority for priority in priorities if priority), default=None)


def kernel_threads(*beginnings: str) -> Iterator[int]:
    """Return the PIDs of kernel threads whose names begin with one of the texts."""
    for number in _children_of_kthreadd():
        with suppress(OSError):
            if Path(f"/proc/{number}/comm").read_text(encoding="utf-8", errors="replace").startswith(beginnings):
                yield number


def _children_of_kthreadd() -> list[int]:
    """Return the children of kthreadd. In a container there are none, because PID 2 is another process."""
    try:
        if Path(f"/proc/{_KTHREADD}/comm").read_text(encoding="utf-8", errors="replace") != "kthreadd\n":
            return []
        children = Path(f"/proc/{_KTHREADD}/task/{_KTHREADD}/children")
        return [int(number) for number in children.read_text(encoding="ascii").split()]
    except OSError:
        return []


def look() -> HostFacts:
    """Examine the host once. Nothing is changed except, for a moment, the class of one of our own threads."""
    return HostFacts(
        limits=limits(),
        capable=_is_capable(),
        rtprio_limit=resource.getrlimit(resource.RLIMIT_RTPRIO)[0],
        nice_limit=resource.getrlimit(resource.RLIMIT_NICE)[0],
        realtime_refused=_try(SchedulingClass(SchedulingPolicy.RR, priority=1)),
        nice_refused=_try(SchedulingClass(nice=-1)),
        container=container(),
        rr_slice_ms=_number(_KERNEL / "sched_rr_timeslice_ms"),
        kernel_threads_visible=any(True for _ in kernel_threads("ksoftirqd/")),
        realtime_groups=realtime_groups.in_force(),
        systemd=_SYSTEMD.is_dir(),
    )


def container() -> str:
    """Return the signs that this is a container; empty if there are none."""
    signs = [str(path) for path in _CONTAINER_SIGNS if path.exists()]
    with suppress(OSError, ValueError, IndexError):
        if int(Path("/proc/self/uid_map").read_text(encoding="ascii").split()[2]) < _ALL_USERS:
            signs.append("a user namespace")
    return ", ".join(signs)


def _is_capable() -> bool:
    """Return whether CAP_SYS_NICE is effective (capabilities(7))."""
    status = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace")
    effective = next(line for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(effective.split()[1], 16) >> _CAP_SYS_NICE & 1)


def _try(wanted: SchedulingClass) -> str:
    """Return why the kernel refuses a class to one of our threads; empty if it does not."""
    refused: list[str] = []

    def attempt() -> None:
        own = threads.thread(threading.get_native_id())
        try:
            if own:
                before = threads.read(own)
                threads.write(own, threads.Attributes.of(wanted, before))
        except (threads.ThreadRefusedError, threads.ThreadGoneError) as error:
            refused.append(str(error))

    worker = threading.Thread(target=attempt)
    worker.start()
    worker.join()
    return refused[0] if refused else ""


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
