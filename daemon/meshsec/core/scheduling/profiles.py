"""Scheduling classes, and the profiles that give each service its class (``rt/profiles/NAME.toml``).

The bounds here hold whatever a profile says: a service never has a priority above the threads of interrupts, and has no
real-time class where the kernel does not keep a part of each period for all others (``within``).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from meshsec.core.values import tables
from meshsec.core.values.tables import Problem, RefusedError, Table

SERVICES = ("charon", "olsrv2d", "meshsecd", "overlayd")
ROUTER, SIGNER = "olsrv2d", "olsrv2-signer"
"""The router sends nothing before its signer has signed it, so the signer is placed as the router is."""
KERNEL_THREADS = ("ksoftirqd", "irq")
"""The kernel's threads that serve the mesh interfaces: soft interrupts with threaded NAPI, and threaded interrupts."""

NICE_LOWEST, NICE_HIGHEST = -20, 19
PRIORITY_MAX = 49
"""The kernel's threaded interrupts have FIFO 50: a service above them would stop the packets it waits for."""
KERNEL_PRIORITY_MAX = 60
WEIGHT_MAX = 10_000
"""Largest ``cpu.weight`` (cgroup v2); 100 is the default."""
_NICE_STEP = 1.25
"""Factor by which one nice level changes a thread's share (sched(7))."""
LADDER_MAX = 8
CPU_MAX = 8191
"""CONFIG_NR_CPUS of the largest kernels, less one."""


class SchedulingPolicy(StrEnum):
    """The kernel's policy (sched(7))."""

    OTHER = "other"
    RR = "rr"
    FIFO = "fifo"


@dataclass(frozen=True, slots=True)
class SchedulingClass:
    """How the kernel ranks a thread: a nice value (-20 to 19) or a real-time priority (1 to 99). Raises ValueError."""

    policy: SchedulingPolicy = SchedulingPolicy.OTHER
    nice: int = 0
    priority: int = 0
    """0 for the policy ``other``."""

    def __post_init__(self) -> None:
        if not NICE_LOWEST <= self.nice <= NICE_HIGHEST:
            raise ValueError(f"nice {self.nice} is not allowed; allowed: {NICE_LOWEST} to {NICE_HIGHEST}")
        if self.is_realtime and not 1 <= self.priority <= 99:
            raise ValueError(f"{self.policy} {self.priority} is not allowed; allowed: 1 to 99")
        if not self.is_realtime and self.priority:
            raise ValueError(f"priority {self.priority} is not allowed; allowed with the policy other: 0")

    @property
    def is_realtime(self) -> bool:
        """Whether it precedes every nice value."""
        return self.policy is not SchedulingPolicy.OTHER

    @property
    def rank(self) -> tuple[bool, int]:
        """The more, the earlier the thread runs."""
        return (True, self.priority) if self.is_realtime else (False, -self.nice)

    @property
    def one_behind(self) -> "SchedulingClass":
        """The next lower real-time priority; the same where there is none."""
        return replace(self, priority=self.priority - 1) if self.priority > 1 else self

    def __str__(self) -> str:
        return f"{self.policy} {self.priority}" if self.is_realtime else f"nice {self.nice}"


BEST_WITHOUT_REALTIME = SchedulingClass(nice=NICE_LOWEST)
"""Class that a service gets in place of a refused real-time class."""


@dataclass(frozen=True, slots=True)
class Placement:
    """What a profile gives a service."""

    scheduling: SchedulingClass = SchedulingClass()
    weight: int | None = None
    """The part of its control group, 1 to 10000; None: that of the nice value, where the group is its own."""
    cpus: tuple[int, ...] = ()
    """The processors that it may use; empty: those that it has."""
    behind: frozenset[int] = frozenset()
    """The threads, by number, that get the next lower real-time priority: they wait for the others without sleeping."""

    @property
    def group_weight(self) -> int | None:
        """What its control group shall have; None: any, because a real-time class ranks above weights."""
        if self.weight is not None:
            return self.weight
        return None if self.scheduling.is_realtime else weight_of(self.scheduling.nice)


@dataclass(frozen=True, slots=True)
class Profile:
    """A complete profile. What it does not name is left as it is."""

    name: str
    description: str = ""
    placements: Mapping[str, Placement] = field(default_factory=dict)
    """What each service (``SERVICES``) or kind of kernel thread (``KERNEL_THREADS``) gets."""
    ladder: tuple[SchedulingClass, ...] = ()
    """The classes to which a governor may raise charon, each above the one before; empty: nothing is governed."""

    @property
    def governed(self) -> bool:
        """Whether charon's class follows what happens."""
        return bool(self.ladder)

    @property
    def first_realtime_level(self) -> int:
        """The lowest level of the ladder, counted from 1, that is a real-time class; 0 when none is."""
        return next((level for level, one in enumerate(self.ladder, start=1) if one.is_realtime), 0)

    def placement(self, service: str) -> Placement | None:
        """Return what a service or kind of kernel thread gets; None when it is left alone."""
        return self.placements.get(ROUTER if service == SIGNER else service)

    def class_of(self, service: str) -> SchedulingClass | None:
        """Return the class of a service or kind of kernel thread; None when it is left alone."""
        placement = self.placement(service)
        return placement.scheduling if placement else None

    def classes_of(self, service: str) -> tuple[SchedulingClass, ...]:
        """Return every class that the profile may give a service: its own, and for charon the ladder's."""
        given = self.class_of(service)
        return (*((given,) if given else ()), *(self.ladder if service == "charon" else ()))

    def can_be_realtime(self, service: str) -> bool:
        """Return whether it can give a service a real-time class."""
        return any(one.is_realtime for one in self.classes_of(service))

    @property
    def realtime(self) -> bool:
        """Whether it can give any service a real-time class."""
        return any(map(self.can_be_realtime, SERVICES))


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds real-time classes on this host."""

    throttled: bool = True
    """Whether the kernel keeps a part of each period for threads that are not real-time."""
    interrupt_priority: int | None = None
    """The lowest priority of a threaded interrupt; None when there is none to be seen."""


NO_SUCH_THREAD = "there is no such thread"
"""Problem of a kind of kernel thread that this host does not have, such as threaded interrupts: no fault."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of a wish."""

    service: str
    pid: int
    wanted: SchedulingClass
    in_force: SchedulingClass | None
    """The class that was set; None when none could be, or the process is gone."""
    threads: int = 0
    """Number of threads that have it."""
    problem: str = ""
    """Why it is not what was wanted; empty when it is."""
    group: str = ""
    """Why its control group, or autogroup, does not count as much as its class; empty when it does, or need not."""
    behind: tuple[int, ...] = ()
    """The threads, by number, that have the next lower real-time priority."""


def weight_of(nice: int) -> int:
    """Return the weight (1 to 10000) of a control group that equals a nice value among threads; 100 for nice 0."""
    return max(1, min(WEIGHT_MAX, round(100 * _NICE_STEP**-nice)))


def within(wanted: SchedulingClass, limits: Limits) -> tuple[SchedulingClass, str]:
    """Return the class that may be set, and why it is not the one that was wanted; empty when it is."""
    if not wanted.is_realtime:
        return wanted, ""
    if not limits.throttled:
        return BEST_WITHOUT_REALTIME, f"{wanted} is not given: real-time throttling is off"
    highest = PRIORITY_MAX if limits.interrupt_priority is None else min(PRIORITY_MAX, limits.interrupt_priority - 1)
    if wanted.priority <= highest:
        return wanted, ""
    reason = f"{wanted} would be above the threads of interrupts"
    if highest < 1:
        return BEST_WITHOUT_REALTIME, reason
    return SchedulingClass(wanted.policy, priority=highest), reason


class ProfileError(ValueError):
    """A profile that is refused: all of its problems."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = tuple(problems)


def decode_profile(name: str, document: Mapping[str, object]) -> Profile:
    """Return the profile in a decoded TOML document. Raises ProfileError."""
    problems: list[Problem] = []
    root = Table((), document, problems)
    description = root.take("description", tables.text, "", required=True)
    placements = {kind: _placement(root, kind) for kind in (*SERVICES, *KERNEL_THREADS) if kind in document}
    root.known += [kind for kind in (*SERVICES, *KERNEL_THREADS) if kind not in root.known]
    ladder = _ladder(root, placements)
    root.refuse_the_rest()
    _refuse_above_interrupts(root, placements, ladder)
    if problems:
        raise ProfileError(problems)
    return Profile(name, description, placements, ladder)


def _placement(root: Table, kind: str) -> Placement:
    table = root.table(kind)
    highest = PRIORITY_MAX if kind in SERVICES else KERNEL_PRIORITY_MAX
    scheduling = _class(table, highest)
    if kind in SERVICES:
        weight = table.take("weight", _read_weight, None)
        cpus: tuple[int, ...] = table.take("cpus", _read_cpus, ())
    else:
        weight, cpus = None, ()
    table.refuse_the_rest()
    return Placement(scheduling, weight, cpus)


def _class(table: Table, highest: int) -> SchedulingClass:
    """``policy`` with ``nice`` or ``priority``, whichever it has."""
    policy = table.take("policy", tables.choice(SchedulingPolicy), SchedulingPolicy.OTHER)
    if policy is SchedulingPolicy.OTHER:
        return SchedulingClass(nice=table.take("nice", tables.integer(NICE_LOWEST, NICE_HIGHEST), 0))
    return SchedulingClass(policy, priority=table.take("priority", tables.integer(1, highest), 1, required=True))


def _ladder(root: Table, placements: Mapping[str, Placement]) -> tuple[SchedulingClass, ...]:
    entries: Sequence[Mapping[str, object]] = root.take("ladder", _read_tables, [])
    steps: list[SchedulingClass] = []
    below = placements.get("charon", Placement()).scheduling
    for index, entry in enumerate(entries):
        table = Table(("ladder", index), entry, root.problems)
        step = _class(table, PRIORITY_MAX)
        table.refuse_the_rest()
        if step.rank <= below.rank:
            root.refuse(str(step), RefusedError(f"a class above {below}"), "ladder", index)
        steps.append(step)
        below = step
    return tuple(steps)


def _refuse_above_interrupts(
    root: Table, placements: Mapping[str, Placement], ladder: Iterable[SchedulingClass]
) -> None:
    irq = placements.get("irq")
    if irq is None:
        return
    bound = RefusedError(f"a class below that of irq, {irq.scheduling}")
    for service in SERVICES:
        if service in placements and placements[service].scheduling.rank >= irq.scheduling.rank:
            root.refuse(str(placements[service].scheduling), bound, service)
    for index, step in enumerate(ladder):
        if step.rank >= irq.scheduling.rank:
            root.refuse(str(step), bound, "ladder", index)


def _read_weight(value: object) -> int | None:
    return tables.integer(1, WEIGHT_MAX)(value)


def _read_cpus(value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= CPU_MAX:
        raise RefusedError("a list of processor numbers, such as [2, 3]")
    number: Callable[[object], int] = tables.integer(0, CPU_MAX)
    for index, cpu in enumerate(value):
        try:
            number(cpu)
        except RefusedError as refused:
            raise RefusedError(str(refused), index) from None
        if cpu in value[:index]:
            raise RefusedError("each processor once", index)
    return tuple(sorted(value))


def _read_tables(value: object) -> Sequence[Mapping[str, object]]:
    if not isinstance(value, list) or not all(isinstance(entry, Mapping) for entry in value):
        raise RefusedError("a list of tables, such as [[ladder]] with nice = -10")
    if len(value) > LADDER_MAX:
        raise RefusedError(f"at most {LADDER_MAX} classes", LADDER_MAX)
    return value


STOCK = Profile("stock", "Everything as the system starts it.")
