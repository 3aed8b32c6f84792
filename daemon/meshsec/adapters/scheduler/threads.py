"""Read and set threads' scheduling attributes through ``/proc/PID/task`` and sched_setattr(2), which Python lacks."""

import ctypes
import errno
import os
import platform
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from meshsec.core.scheduling.profiles import SchedulingClass, SchedulingPolicy

_RESET_ON_FORK = 0x01
_KEPT_FLAGS = 0x07
"""Reset-on-fork and the two flags of SCHED_DEADLINE, which sched_getattr(2) reports as the thread's flags."""
_OTHER, _FIFO, _RR, _BATCH, _IDLE = 0, 1, 2, 3, 5
_FAIR = (_OTHER, _BATCH)
"""Policies whose nice value and slice sched_setattr(2) sets; with all others the nice value stays as it was."""
_POLICIES = {SchedulingPolicy.OTHER: _OTHER, SchedulingPolicy.FIFO: _FIFO, SchedulingPolicy.RR: _RR}
_POLICY_NAMES = {number: policy for policy, number in _POLICIES.items()}

_NUMBERS: Mapping[str, tuple[int, int]] = {
    "x86_64": (314, 315),
    "i686": (351, 352),
    "aarch64": (274, 275),
    "riscv64": (274, 275),
    "armv7l": (380, 381),
}
"""The system call numbers of sched_setattr and sched_getattr by machine (asm/unistd.h)."""
_NARROW = {"x86_64": "i686", "aarch64": "armv7l"}


class ThreadGoneError(Exception):
    """The thread has ended, or its number belongs to another one."""


class ThreadRefusedError(Exception):
    """The kernel refuses the class. The message names the class and the reason."""


@dataclass(frozen=True, slots=True)
class Attributes:
    """A thread's scheduling attributes (struct sched_attr), times in nanoseconds."""

    policy: int
    flags: int
    nice: int
    priority: int
    runtime: int = 0
    """With SCHED_DEADLINE its runtime; with the fair policies the requested slice, or 0."""
    deadline: int = 0
    period: int = 0

    @classmethod
    def of(cls, wanted: SchedulingClass, original: "Attributes") -> "Attributes":
        """Return the attributes of a class. Processes forked from the thread inherit no privileges (sched(7))."""
        privileged = wanted.is_realtime or wanted.nice < 0
        is_slice = not wanted.is_realtime and original.policy in _FAIR
        return cls(
            policy=_POLICIES[wanted.policy],
            flags=_RESET_ON_FORK if privileged else original.flags & _RESET_ON_FORK,
            nice=original.nice if wanted.is_realtime else wanted.nice,
            priority=wanted.priority,
            runtime=original.runtime if is_slice else 0,
        )

    @property
    def effective(self) -> tuple[int, ...]:
        """Return the values that matter in a comparison: a real-time thread's nice value has no effect."""
        nice = 0 if self.policy in (_FIFO, _RR) else self.nice
        return (self.policy, self.flags, nice, self.priority, self.runtime, self.deadline, self.period)

    @property
    def scheduling(self) -> SchedulingClass | None:
        """Return the class; None for a policy that profiles do not have (batch, idle, deadline)."""
        policy = _POLICY_NAMES.get(self.policy)
        if policy is None:
            return None
        return SchedulingClass(policy, self.nice if self.policy == _OTHER else 0, self.priority)

    @property
    def is_untouched(self) -> bool:
        """Return whether these are the attributes after reset-on-fork, which nobody has chosen."""
        return (self.policy, self.nice, self.priority) == (_OTHER, 0, 0)


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread, identified by number and start time (clock ticks since boot), because numbers are reused."""

    tid: int
    start: int


class _SchedAttr(ctypes.Structure):
    """Struct sched_attr as first published (SCHED_ATTR_SIZE_VER0), which leaves later fields unchanged."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    )


_libc = ctypes.CDLL(None, use_errno=True)


def read(thread: Thread) -> Attributes:
    """Return the attributes of a thread that was just found. Raises ThreadGoneError, ThreadRefusedError."""
    found = _get(thread)
    try:
        nice = os.getpriority(os.PRIO_PROCESS, thread.tid)
    except OSError:
        raise ThreadGoneError(f"thread {thread.tid}") from None
    is_default_slice = found.policy in (*_FAIR, _IDLE) and found.runtime == _default_slice()
    return Attributes(
        policy=found.policy,
        flags=found.flags & _KEPT_FLAGS,
        nice=nice,
        priority=found.priority,
        runtime=0 if is_default_slice else found.runtime,
        deadline=found.deadline,
        period=found.period,
    )


def write(thread: Thread, attributes: Attributes) -> None:
    """Set the attributes of a thread that was just found. Raises ThreadGoneError, ThreadRefusedError."""
    raw = _SchedAttr(
        size=ctypes.sizeof(_SchedAttr),
        policy=attributes.policy,
        flags=attributes.flags,
        nice=attributes.nice,
        priority=attributes.priority,
        runtime=attributes.runtime,
        deadline=attributes.deadline,
        period=attributes.period,
    )
    _call(0, thread, raw, 0)
    if attributes.policy not in _FAIR:
        try:
            os.setpriority(os.PRIO_PROCESS, thread.tid, attributes.nice)
        except ProcessLookupError:
            raise ThreadGoneError(f"thread {thread.tid}") from None
        except OSError as error:
            raise ThreadRefusedError(os.strerror(error.errno or 0)) from None


def threads_of(pid: int, known: Iterable[Thread] = ()) -> set[Thread]:
    """Return the threads of a process; none if it has ended. Threads in ``known`` were just found and are not read
    again.
    """
    try:
        listed = set(map(int, os.listdir(f"/proc/{pid}/task")))  # noqa: PTH208  (called in every raise)
    except OSError:
        return set()
    kept = {one for one in known if one.tid in listed}
    fresh = map(thread, listed - {one.tid for one in kept})
    return kept | {found for found in fresh if found}


def thread(tid: int) -> Thread | None:
    """Return the thread of that number; None if there is none."""
    start = start_of(tid)
    return None if start is None else Thread(tid, start)


def start_of(tid: int) -> int | None:
    """Return when the thread started (proc(5), stat, field 22); None if there is none or it is dead."""
    try:
        descriptor = os.open(f"/proc/{tid}/stat", os.O_RDONLY | os.O_CLOEXEC)  # called a hundred times in a raise
    except OSError:
        return None
    try:
        text = os.read(descriptor, 4096)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    fields = text[text.rindex(b")") + 2 :].split()
    return None if fields[0] in b"ZX" else int(fields[19])


def _get(thread: Thread) -> _SchedAttr:
    raw = _SchedAttr()
    _call(1, thread, raw, ctypes.sizeof(_SchedAttr), 0)
    return raw


@cache
def _default_slice() -> int | None:
    """Return the slice that the kernel reports for a thread without a request, such as process 1; None without
    report.
    """
    raw = _SchedAttr()
    try:
        _call(1, Thread(1, 0), raw, ctypes.sizeof(_SchedAttr), 0)
    except (ThreadGoneError, ThreadRefusedError):
        return None
    return raw.runtime if raw.policy in _FAIR else None


def _call(which: int, thread: Thread, raw: _SchedAttr, *arguments: int) -> None:
    """Call sched_setattr (``which`` 0) or sched_getattr (1)."""
    machine = platform.machine()
    if sys.maxsize < 2**32:  # a 32-bit program uses its own numbers on a 64-bit kernel
        machine = _NARROW.get(machine, machine)
    if machine not in _NUMBERS:
        raise ThreadRefusedError(f"the system call sched_setattr is not known on {machine}")
    longs = map(ctypes.c_long, arguments)
    if _libc.syscall(_NUMBERS[machine][which], ctypes.c_long(thread.tid), ctypes.byref(raw), *longs) == 0:
        return
    number = ctypes.get_errno()
    if number == errno.ESRCH:
        raise ThreadGoneError(f"thread {thread.tid}")
    raise ThreadRefusedError(os.strerror(number))
