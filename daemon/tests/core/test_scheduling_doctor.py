"""Limits of the host: each is found alone, in its own words, with its fix."""

from dataclasses import replace
from typing import Any

import pytest

from meshsec.core.explain.findings import Level
from meshsec.core.explain.scheduling_doctor import GroupFacts, HostFacts, examine
from meshsec.core.scheduling.profiles import (
    NO_SUCH_THREAD,
    Applied,
    Limits,
    Placement,
    Profile,
    SchedulingClass,
    SchedulingPolicy,
)

RR20 = SchedulingClass(SchedulingPolicy.RR, priority=20)
REALTIME = Profile("fast", "", {"charon": Placement(RR20), "ksoftirqd": Placement(SchedulingClass(nice=-10))})
GOVERNED = Profile("governed", "", {"charon": Placement(SchedulingClass(nice=-5))}, ladder=(RR20,))
ORDINARY = Profile("plain", "", {"charon": Placement(SchedulingClass(nice=-5))})

SOUND = HostFacts(
    limits=Limits(throttled=True, interrupt_priority=50),
    capable=True,
    rtprio_limit=0,
    nice_limit=0,
    realtime_refused="",
    nice_refused="",
    container="",
    rr_slice_ms=5,
    kernel_threads_visible=True,
    groups={"charon": GroupFacts("/sys/fs/cgroup/ike", own=True)},
)
NO_BUDGET = {"charon": GroupFacts("/sys/fs/cgroup/ike", own=True, forbids_realtime=True)}
BUDGETLESS = {"charon": GroupFacts("/sys/fs/cgroup/ike", own=True, forbids_realtime=True, has_budget=True)}
NICE5 = SchedulingClass(nice=-5)


def read_only(weight: int, problem: str = "") -> dict[str, GroupFacts]:
    """Return a group that systemd may write and meshsecd may not."""
    unwritable = "cpu.weight: Read-only file system"
    return {"charon": GroupFacts("/sys/fs/cgroup/ike", own=True, problem=problem, weight=weight, unwritable=unwritable)}


def test_a_sound_host_is_one_line() -> None:
    (check,) = examine(SOUND, REALTIME)
    assert (check.level, check.fix) == (Level.OK, "")
    assert "fast" in check.found


@pytest.mark.parametrize("profile", [REALTIME, GOVERNED], ids=lambda profile: profile.name)
@pytest.mark.parametrize(
    ("fault", "found", "fix"),
    [
        ({"realtime_refused": "EPERM", "capable": False}, "refused: EPERM", "CAP_SYS_NICE"),
        ({"realtime_refused": "EPERM", "rtprio_limit": 5, "capable": False}, "refused", "RestrictRealtime"),
        ({"realtime_refused": "EPERM"}, "refused: EPERM", "RestrictRealtime"),
        ({"realtime_refused": "EPERM", "container": "/.dockerenv"}, "refused: EPERM", "a container (/.dockerenv)"),
        ({"limits": Limits(throttled=False)}, "throttling is off", "sched_rt_runtime_us=950000"),
        ({"limits": Limits(interrupt_priority=15)}, "charon: rr 20 would be above", "they have 15"),
        ({"rr_slice_ms": 100}, "slices of 100 ms", "sched_rr_timeslice_ms=5"),
        ({"rr_slice_ms": 100, "container": "lxc"}, "slices of 100 ms", "outside of this container (lxc): "),
        ({"groups": BUDGETLESS}, "RT_GROUP_SCHED", "/sys/fs/cgroup/ike/cpu.rt_runtime_us"),
        ({"groups": NO_BUDGET}, "charon cannot have a real-time class: RT_GROUP_SCHED", "boot with rt_group_sched=0"),
        ({"realtime_groups": True, "systemd": True}, "214/SETSCHEDULER", "boot with rt_group_sched=0"),
        ({"realtime_groups": True, "systemd": True, "groups": NO_BUDGET}, "charon cannot", "rt_group_sched=0"),
        ({"realtime_groups": True, "systemd": True, "realtime_refused": "EPERM"}, "EPERM", "rt_group_sched=0"),
    ],
)
def test_each_fault_is_found_alone(fault: dict[str, Any], found: str, fix: str, profile: Profile) -> None:
    (check,) = examine(replace(SOUND, **fault), profile)
    assert check.level is Level.WARN
    assert found in check.found
    assert fix in check.fix


@pytest.mark.parametrize(
    "fault",
    [
        {"realtime_refused": "EPERM"},
        {"limits": Limits(throttled=False)},
        {"rr_slice_ms": 100},
        {"groups": NO_BUDGET},
        {"realtime_groups": True, "systemd": True},
        {"kernel_threads_visible": False},
    ],
)
def test_a_limit_that_the_profile_does_not_need_is_no_fault(fault: dict[str, Any]) -> None:
    (check,) = examine(replace(SOUND, **fault), ORDINARY)
    assert check.level is Level.OK


def test_the_kernels_real_time_groups_matter_where_services_are_units() -> None:
    (check,) = examine(replace(SOUND, realtime_groups=True), REALTIME)
    assert check.level is Level.OK


@pytest.mark.parametrize(
    ("groups", "found"),
    [
        (
            read_only(100),
            "its control group has the weight 100 instead of 305 (cpu.weight: Read-only file system)",
        ),
        (read_only(305, problem="it shares the control group"), "it shares the control group"),
    ],
)
def test_a_weight_that_was_not_set_is_reported(groups: dict[str, GroupFacts], found: str) -> None:
    (check,) = examine(replace(SOUND, groups=groups), ORDINARY)
    assert (check.level, check.found) == (Level.WARN, f"charon: {found}")
    assert "export systemd" in check.fix


@pytest.mark.parametrize(
    ("weight", "placement"),
    [
        (305, Placement(NICE5)),
        (700, Placement(NICE5, weight=700)),
        (100, Placement(RR20)),
        (100, None),
    ],
)
def test_a_weight_that_another_program_set_as_wanted_is_no_fault(weight: int, placement: Placement | None) -> None:
    """systemd may have set it from a drop-in where meshsecd's unit may not write."""
    profile = Profile("mine", "", {"charon": placement} if placement else {}, ladder=(SchedulingClass(nice=-15),))
    (check,) = examine(replace(SOUND, groups=read_only(weight)), profile)
    assert check.level is Level.OK


def test_a_raised_class_whose_group_cannot_follow_is_no_fault_of_the_profiles_class() -> None:
    raised = SchedulingClass(nice=-15)
    applied = Applied("charon", 7, raised, raised, 3, group="cpu.weight: Read-only file system")
    (check,) = examine(replace(SOUND, groups=read_only(305)), ORDINARY, [applied])
    assert check.level is Level.OK


def test_negative_nice_values_may_be_refused_too() -> None:
    (check,) = examine(replace(SOUND, nice_refused="EACCES", capable=False), ORDINARY)
    assert "nice values are refused: EACCES" in check.found
    within_limit = replace(SOUND, nice_refused="EACCES", capable=False, nice_limit=40)
    assert "RestrictRealtime" in examine(within_limit, ORDINARY)[0].fix
    paper = Profile("paper", "", {"charon": Placement(SchedulingClass(nice=10))})
    assert examine(replace(SOUND, nice_refused="EACCES"), paper)[0].level is Level.OK


def test_kernel_threads_that_cannot_be_seen_are_reported() -> None:
    (check,) = examine(replace(SOUND, kernel_threads_visible=False), REALTIME)
    assert "ksoftirqd stay as they are" in check.found


def test_kernel_threads_that_do_not_exist_are_no_fault() -> None:
    none = Applied("irq", 0, SchedulingClass(SchedulingPolicy.FIFO, priority=50), None, 0, NO_SUCH_THREAD)
    (check,) = examine(SOUND, REALTIME, [none])
    assert check.level is Level.OK


def test_a_class_that_could_not_be_applied_is_reported() -> None:
    worse = Applied("charon", 7, RR20, SchedulingClass(nice=-20), 3, "rr 20 is refused: EPERM")
    nothing = Applied("olsrv2d", 8, RR20, None, 0, "process 8 is gone")
    well = Applied("meshsecd", 9, RR20, RR20, 1)
    first, second = examine(SOUND, REALTIME, [worse, nothing, well])
    assert first.found == "charon runs with nice -20 instead of rr 20: rr 20 is refused: EPERM"
    assert second.found.startswith("olsrv2d left as it is instead of rr 20")
