"""Judges what this host lets scheduling do: each finding says how to fix it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from meshsec.core.explain.findings import Check, Level
from meshsec.core.scheduling.profiles import NO_SUCH_THREAD, SERVICES, Applied, Limits, Placement, Profile, within

NAME = "scheduling"
"""The name of these checks."""

RR_SLICE_MS_MAX = 10
"""Longest time slice of round robin: with the kernel's 100 ms one thread delays its class for a whole set-up."""

WITHOUT_REALTIME_GROUPS = (
    "boot with rt_group_sched=0 (Linux 6.16 and newer) or a kernel without CONFIG_RT_GROUP_SCHED, or choose the "
    "profile nice and export its drop-ins"
)
"""The fix where RT_GROUP_SCHED keeps services from real-time classes."""

_UNLIMITED = -1


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """The control group of one service's processes."""

    path: str
    own: bool
    """Whether nobody else is in it."""
    problem: str = ""
    """Why no weight can be the service's own: it shares its group, or its session; empty when one can."""
    weight: int | None = None
    """The group's weight as v2 counts (100 by default); None where it has none."""
    unwritable: str = ""
    """Why meshsecd cannot set the weight; empty when it can."""
    forbids_realtime: bool = False
    """RT_GROUP_SCHED, and the group has no real-time budget."""
    has_budget: bool = False
    """Such a budget could be given (v1)."""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What the adapter found. Empty texts mean: nothing wrong."""

    limits: Limits
    capable: bool
    """CAP_SYS_NICE is effective."""
    rtprio_limit: int
    """RLIMIT_RTPRIO; -1 is without limit."""
    nice_limit: int
    """RLIMIT_NICE: 20 less the lowest nice value; -1 is without limit."""
    realtime_refused: str
    """Why the kernel refused a real-time class to a thread of ours that tried."""
    nice_refused: str
    container: str
    """The signs that this is a container."""
    rr_slice_ms: int | None
    kernel_threads_visible: bool
    realtime_groups: bool = False
    """RT_GROUP_SCHED is in force, and there are groups for it to matter."""
    systemd: bool = False
    """Services are units, each with a control group of its own."""
    groups: Mapping[str, GroupFacts] = field(default_factory=dict)
    """Facts of the control groups, by running service."""


def examine(facts: HostFacts, profile: Profile, applied: Iterable[Applied] = ()) -> list[Check]:
    """Return all findings, or the single one that all is well."""
    found = [check for judge in _JUDGES for check in judge(facts, profile)]
    found += [_unapplied(one) for one in applied if one.problem not in ("", NO_SUCH_THREAD)]
    if found:
        return found
    return [Check(NAME, Level.OK, f"profile {profile.name}: this host gives what it asks for")]


def _unapplied(applied: Applied) -> Check:
    has = "left as it is" if applied.in_force is None else f"runs with {applied.in_force}"
    fix = "see the other findings about scheduling, and the log of meshsecd"
    return Check(NAME, Level.WARN, f"{applied.service} {has} instead of {applied.wanted}: {applied.problem}", fix)


def _permission(facts: HostFacts, profile: Profile) -> list[Check]:
    """Return whether we may set what the profile asks for."""
    if profile.realtime and facts.realtime_refused:
        return [_warn(f"real-time classes are refused: {facts.realtime_refused}", _permission_fix(facts, 1))]
    if _lowers_nice(profile) and facts.nice_refused:
        return [_warn(f"negative nice values are refused: {facts.nice_refused}", _permission_fix(facts, 0))]
    return []


def _permission_fix(facts: HostFacts, priority: int) -> str:
    if facts.container:
        needs = "start it with CAP_SYS_NICE and a real-time budget, or set the classes outside"
        return f"this is a container ({facts.container}): {needs}"
    if not facts.capable and not _is_within_limit(facts, priority):
        return (
            "give meshsecd CAP_SYS_NICE: CapabilityBoundingSet= of its unit; or raise its LimitRTPRIO= and LimitNICE="
        )
    if priority and facts.realtime_groups:
        return f"this kernel has RT_GROUP_SCHED, and meshsecd's control group no budget: {WITHOUT_REALTIME_GROUPS}"
    return "the unit has RestrictRealtime=yes or a filter of system calls, or the control group has no real-time budget"


def _is_within_limit(facts: HostFacts, priority: int) -> bool:
    if priority:
        return facts.rtprio_limit == _UNLIMITED or facts.rtprio_limit >= priority
    return facts.nice_limit == _UNLIMITED or facts.nice_limit > 20


def _throttling(facts: HostFacts, profile: Profile) -> list[Check]:
    if facts.limits.throttled or not profile.realtime:
        return []
    fix = "sysctl -w kernel.sched_rt_runtime_us=950000; a tuned profile such as realtime switches it off"
    found = "real-time throttling is off: a thread that spins would take the node, so services get nice values only"
    return [_warn(found, _outside(facts) + fix)]


def _interrupts(facts: HostFacts, profile: Profile) -> list[Check]:
    given = {service: profile.class_of(service) for service in SERVICES}
    wanted = [(service, one) for service, one in given.items() if one] + [("charon", one) for one in profile.ladder]
    known = Limits(throttled=True, interrupt_priority=facts.limits.interrupt_priority)
    reasons = dict.fromkeys(f"{service}: {within(one, known)[1]}" for service, one in wanted if within(one, known)[1])
    fix = f"raise the interrupts (they have {facts.limits.interrupt_priority}) or lower the profile's priorities"
    return [_warn("; ".join(reasons), fix)] if reasons else []


def _round_robin(facts: HostFacts, profile: Profile) -> list[Check]:
    if not profile.realtime or facts.rr_slice_ms is None or facts.rr_slice_ms <= RR_SLICE_MS_MAX:
        return []
    found = f"round robin has slices of {facts.rr_slice_ms} ms: one busy thread of charon delays the others"
    fix = "install the sysctl.d file of meshsec, or: sysctl -w kernel.sched_rr_timeslice_ms=5"
    return [_warn(found, _outside(facts) + fix)]


def _outside(facts: HostFacts) -> str:
    """Return where a setting of the kernel must be changed: a container cannot do it."""
    return f"outside of this container ({facts.container}): " if facts.container else ""


def _realtime_groups(facts: HostFacts, profile: Profile) -> list[Check]:
    """Warn of classes that this kernel will refuse: units that it refuses do not start, and cannot be seen."""
    if not (facts.realtime_groups and facts.systemd and profile.realtime) or facts.realtime_refused:
        return []
    if any(_is_refused(service, group, profile) for service, group in facts.groups.items()):
        return []
    found = (
        "this kernel has RT_GROUP_SCHED: a service whose control group has the controller cpu, which the drop-ins "
        "switch on, is refused real-time classes; a unit that begins with one does not start (214/SETSCHEDULER)"
    )
    return [_warn(found, _outside(facts) + WITHOUT_REALTIME_GROUPS)]


def _groups(facts: HostFacts, profile: Profile) -> list[Check]:
    checks = []
    for service, group in facts.groups.items():
        if _is_refused(service, group, profile):
            checks.append(_without_budget(service, group))
        elif problem := _weightless(group, profile.placement(service)):
            fix = "`meshsec export systemd --into /etc/systemd/system`, then systemctl daemon-reload and restart it"
            checks.append(_warn(f"{service}: {problem}", fix))
    return checks


def _is_refused(service: str, group: GroupFacts, profile: Profile) -> bool:
    """Return whether the group keeps a service from a real-time class that the profile gives it, or may raise it to."""
    return group.forbids_realtime and profile.can_be_realtime(service)


def _without_budget(service: str, group: GroupFacts) -> Check:
    found = f"{service} cannot have a real-time class: RT_GROUP_SCHED, and {group.path} has no budget"
    if group.has_budget:
        fix = f"echo 400000 > {group.path}/cpu.rt_runtime_us (and in those above), or {WITHOUT_REALTIME_GROUPS}"
        return _warn(found, fix)
    return _warn(found, WITHOUT_REALTIME_GROUPS)


def _weightless(group: GroupFacts, placement: Placement | None) -> str:
    """Return why a group has not the weight that the profile wants; empty when it has."""
    wanted = placement.group_weight if placement else None
    if wanted is None:
        return ""
    if group.problem or not group.unwritable or group.weight == wanted:
        return group.problem
    return f"its control group has the weight {group.weight} instead of {wanted} ({group.unwritable})"


def _kernel_threads(facts: HostFacts, profile: Profile) -> list[Check]:
    asked = [kind for kind in ("ksoftirqd", "irq") if profile.class_of(kind)]
    if not asked or facts.kernel_threads_visible:
        return []
    found = f"the kernel's threads cannot be seen from here: {', '.join(asked)} stay as they are"
    return [_warn(found, "set them outside of the container, for instance with chrt; see docs/guide/real-time.md")]


def _lowers_nice(profile: Profile) -> bool:
    given = (profile.class_of(service) for service in SERVICES)
    return any(one is not None and one.nice < 0 for one in (*given, *profile.ladder))


def _warn(found: str, fix: str) -> Check:
    return Check(NAME, Level.WARN, found, fix)


_JUDGES: Sequence[Callable[[HostFacts, Profile], list[Check]]] = (
    _permission,
    _throttling,
    _interrupts,
    _round_robin,
    _realtime_groups,
    _groups,
    _kernel_threads,
)
