"""What this host forbids: each fault is found alone, by its own words, and tells how to mend it."""

from dataclasses import replace
from typing import Any

import pytest

from meshsec.core.doctor import Level
from meshsec.core.scheduling import (
    NO_SUCH_THREAD,
    Applied,
    Limits,
    Placement,
    Profile,
    SchedulingClass,
    SchedulingPolicy,
)
from meshsec.core.scheduling_doctor import GroupFacts, HostFacts, examine

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
READ_ONLY = {"charon": GroupFacts("/sys/fs/cgroup/ike", own=True, problem="cpu.weight: Read-only file system")}


def test_a_sound_host_is_one_line() -> None:
    (check,) = examine(SOUND, REALTIME)
    assert (check.level, check.mend) == (Level.OK, "")
    assert "fast" in check.found


@pytest.mark.parametrize("profile", [REALTIME, GOVERNED], ids=lambda profile: profile.name)
@pytest.mark.parametrize(
    ("fault", "found", "mend"),
    [
        ({"realtime_refused": "EPERM", "capable": False}, "refused: EPERM", "CAP_SYS_NICE"),
        ({"realtime_refused": "EPERM", "rtprio_limit": 5, "capable": False}, "refused", "RestrictRealtime"),
        ({"realtime_refused": "EPERM"}, "refused: EPERM", "RestrictRealtime"),
        ({"realtime_refused": "EPERM", "container": "/.dockerenv"}, "refused: EPERM", "a container (/.dockerenv)"),
        ({"limits": Limits(throttled=False)}, "throttling is off", "sched_rt_runtime_us=950000"),
        ({"limits": Limits(interrupt_priority=15)}, "charon: rr 20 would stand above", "they have 15"),
        ({"rr_slice_ms": 100}, "slices of 100 ms", "sched_rr_timeslice_ms=5"),
        ({"rr_slice_ms": 100, "container": "lxc"}, "slices of 100 ms", "outside of this container (lxc): "),
        ({"groups": NO_BUDGET}, "RT_GROUP_SCHED", "/sys/fs/cgroup/ike/cpu.rt_runtime_us"),
        ({"groups": READ_ONLY}, "charon: cpu.weight: Read-only", "export systemd"),
    ],
)
def test_each_fault_is_found_alone(fault: dict[str, Any], found: str, mend: str, profile: Profile) -> None:
    (check,) = examine(replace(SOUND, **fault), profile)
    assert check.level is Level.WARN
    assert found in check.found
    assert mend in check.mend


@pytest.mark.parametrize(
    "fault",
    [
        {"realtime_refused": "EPERM"},
        {"limits": Limits(throttled=False)},
        {"rr_slice_ms": 100},
        {"groups": NO_BUDGET},
        {"kernel_threads_visible": False},
    ],
)
def test_what_the_profile_does_not_need_is_no_fault(fault: dict[str, Any]) -> None:
    (check,) = examine(replace(SOUND, **fault), ORDINARY)
    assert check.level is Level.OK


def test_negative_nice_values_may_be_refused_too() -> None:
    (check,) = examine(replace(SOUND, nice_refused="EACCES", capable=False), ORDINARY)
    assert "nice values are refused: EACCES" in check.found
    within_limit = replace(SOUND, nice_refused="EACCES", capable=False, nice_limit=40)
    assert "RestrictRealtime" in examine(within_limit, ORDINARY)[0].mend
    paper = Profile("paper", "", {"charon": Placement(SchedulingClass(nice=10))})
    assert examine(replace(SOUND, nice_refused="EACCES"), paper)[0].level is Level.OK


def test_kernel_threads_that_cannot_be_seen() -> None:
    (check,) = examine(replace(SOUND, kernel_threads_visible=False), REALTIME)
    assert "ksoftirqd stay as they are" in check.found


def test_kernel_threads_that_there_are_none_of_are_no_fault() -> None:
    none = Applied("irq", 0, SchedulingClass(SchedulingPolicy.FIFO, priority=50), None, 0, NO_SUCH_THREAD)
    (check,) = examine(SOUND, REALTIME, [none])
    assert check.level is Level.OK


def test_what_could_not_be_applied_is_told() -> None:
    worse = Applied("charon", 7, RR20, SchedulingClass(nice=-20), 3, "rr 20 is refused: EPERM")
    nothing = Applied("olsrv2d", 8, RR20, None, 0, "process 8 is gone")
    well = Applied("meshsecd", 9, RR20, RR20, 1)
    first, second = examine(SOUND, REALTIME, [worse, nothing, well])
    assert first.found == "charon runs with nice -20 instead of rr 20: rr 20 is refused: EPERM"
    assert second.found.startswith("olsrv2d left as it is instead of rr 20")
