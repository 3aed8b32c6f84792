"""Scheduling classes and their bounds, the shipped profiles, and refusals."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshsec.core.scheduling.profiles import (
    BEST_WITHOUT_REALTIME,
    PRIORITY_MAX,
    SERVICES,
    Limits,
    Placement,
    Profile,
    ProfileError,
    SchedulingClass,
    SchedulingPolicy,
    decode_profile,
    weight_of,
    within,
)

PROFILES = sorted((Path(__file__).parents[3] / "rt/profiles").glob("*.toml"))

RR20 = SchedulingClass(SchedulingPolicy.RR, priority=20)
ordinary = st.integers(-20, 19).map(lambda nice: SchedulingClass(nice=nice))
realtime = st.builds(
    lambda policy, priority: SchedulingClass(policy, priority=priority),
    st.sampled_from([SchedulingPolicy.RR, SchedulingPolicy.FIFO]),
    st.integers(1, 99),
)
limits = st.builds(Limits, st.booleans(), st.none() | st.integers(1, 99))


def shipped(name: str) -> Profile:
    path = next(path for path in PROFILES if path.stem == name)
    return decode_profile(name, tomllib.loads(path.read_text(encoding="utf-8")))


def refusal(document: dict[str, Any]) -> list[str]:
    with pytest.raises(ProfileError) as refused:
        decode_profile("mine", {"description": "mine", **document})
    return [str(problem) for problem in refused.value.problems]


@given(ordinary | realtime, limits)
def test_any_wanted_class_is_kept_within_the_bounds(wanted: SchedulingClass, bounds: Limits) -> None:
    given_, reason = within(wanted, bounds)
    if given_.is_realtime:
        assert bounds.throttled
        assert given_.priority <= PRIORITY_MAX
        assert bounds.interrupt_priority is None or given_.priority < bounds.interrupt_priority
    assert given_.rank <= wanted.rank
    assert bool(reason) == (given_ != wanted)


@given(ordinary, limits)
def test_nice_values_need_no_bounds(wanted: SchedulingClass, bounds: Limits) -> None:
    assert within(wanted, bounds) == (wanted, "")


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        (Limits(), RR20),
        (Limits(interrupt_priority=21), RR20),
        (Limits(interrupt_priority=20), SchedulingClass(SchedulingPolicy.RR, priority=19)),
        (Limits(interrupt_priority=1), BEST_WITHOUT_REALTIME),
        (Limits(throttled=False), BEST_WITHOUT_REALTIME),
    ],
)
def test_a_class_at_the_edge_of_the_bounds_is_kept(bounds: Limits, expected: SchedulingClass) -> None:
    assert within(RR20, bounds)[0] == expected


@pytest.mark.parametrize(
    "values",
    [
        {"nice": -21},
        {"nice": 20},
        {"priority": 1},
        {"policy": SchedulingPolicy.RR},
        {"policy": SchedulingPolicy.FIFO, "priority": 100},
    ],
)
def test_a_class_that_the_kernel_lacks_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="is not allowed; allowed"):
        SchedulingClass(**values)


def test_classes_are_ordered_by_precedence() -> None:
    rising = [
        SchedulingClass(nice=19),
        SchedulingClass(),
        SchedulingClass(nice=-20),
        SchedulingClass(SchedulingPolicy.RR, priority=1),
        SchedulingClass(SchedulingPolicy.FIFO, priority=2),
    ]
    assert sorted(set(rising), key=lambda one: one.rank) == rising
    assert list(map(str, rising)) == ["nice 19", "nice 0", "nice -20", "rr 1", "fifo 2"]


def test_weights_are_those_of_the_kernel() -> None:
    """The kernel's sched_prio_to_weight has 88761 at -20 and 15 at 19, where a group's 100 is 1024."""
    assert [weight_of(nice) for nice in (-20, -1, 0, 1, 19)] == [8674, 125, 100, 80, 1]
    assert abs(weight_of(-20) - 88761 / 10.24) < 10


def test_the_benchmarks_profiles_are_shipped() -> None:
    assert [path.stem for path in PROFILES] == ["fifo", "governor", "nice", "paper-2007", "stock"]


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
def test_each_shipped_profile_is_good_and_keeps_below_interrupts(path: Path) -> None:
    profile = shipped(path.stem)
    assert profile.description
    placements = {service: profile.placements[service].scheduling for service in SERVICES if profile.class_of(service)}
    for scheduling in (*placements.values(), *profile.ladder):
        assert within(scheduling, Limits(interrupt_priority=50)) == (scheduling, "")


def test_each_shipped_profile_does_what_its_name_says() -> None:
    assert shipped("stock").placements == {}
    assert shipped("paper-2007").placements == {"charon": Placement(SchedulingClass(nice=10))}
    assert not shipped("nice").realtime
    assert shipped("fifo").class_of("charon") == RR20
    governor = shipped("governor")
    assert (governor.governed, governor.realtime) == (True, True)
    watcher = governor.class_of("meshsecd")
    assert watcher is not None
    assert watcher.rank > max(step.rank for step in governor.ladder), "it could not take back what it gave"
    assert not any(shipped(name).governed for name in ("stock", "paper-2007", "nice", "fifo"))


def test_a_profile_with_every_setting_is_read() -> None:
    document = """
        description = "all"
        [charon]
        nice = -3
        weight = 10000
        cpus = [3, 1]
        [irq]
        policy = "fifo"
        priority = 60
        [[ladder]]
        policy = "fifo"
        priority = 49
    """
    profile = decode_profile("all", tomllib.loads(document))
    assert profile.placements["charon"] == Placement(SchedulingClass(nice=-3), 10000, (1, 3))
    assert profile.placements["irq"].scheduling == SchedulingClass(SchedulingPolicy.FIFO, priority=60)
    assert profile.ladder == (SchedulingClass(SchedulingPolicy.FIFO, priority=49),)


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"description": ""}, "description: '' is not allowed; allowed: a text in quotes, not empty"),
        ({"charom": {}}, "charom: is not a known key; perhaps 'charon' is meant"),
        ({"charon": {"nice": -21}}, "charon.nice: -21 is not allowed; allowed: a whole number, -20 to 19"),
        ({"charon": {"nice": 20}}, "charon.nice: 20 is not allowed"),
        ({"charon": {"policy": "deadline"}}, "charon.policy: 'deadline' is not allowed; allowed: other, rr, fifo"),
        ({"charon": {"policy": "rr"}}, "charon.priority: is missing; allowed: a whole number, 1 to 49"),
        ({"charon": {"policy": "rr", "priority": 50}}, "charon.priority: 50 is not allowed"),
        ({"charon": {"policy": "rr", "priority": 9, "nice": 0}}, "charon.nice: is not a known key"),
        ({"charon": {"weight": 0}}, "charon.weight: 0 is not allowed; allowed: a whole number, 1 to 10000"),
        ({"charon": {"cpus": []}}, "charon.cpus: [] is not allowed; allowed: a list of processor numbers"),
        ({"charon": {"cpus": [0, -1]}}, "charon.cpus.1: -1 is not allowed"),
        ({"charon": {"cpus": [0, 0]}}, "charon.cpus.1: 0 is not allowed; allowed: each processor once"),
        ({"charon": 5}, "charon: 5 is not allowed; allowed: a table"),
        ({"irq": {"policy": "fifo", "priority": 61}}, "irq.priority: 61 is not allowed"),
        ({"ksoftirqd": {"weight": 5}}, "ksoftirqd.weight: is not a known key"),
        ({"ladder": [{"nice": 0}]}, "ladder.0: 'nice 0' is not allowed; allowed: a class above nice 0"),
        (
            {"ladder": [{"nice": -2}, {"nice": -1}]},
            "ladder.1: 'nice -1' is not allowed; allowed: a class above nice -2",
        ),
        ({"ladder": [{"nice": -2, "color": 1}]}, "ladder.0.color: is not a known key"),
        ({"ladder": [{}] * 9}, "ladder.8: {} is not allowed; allowed: at most 8 classes"),
        (
            {"irq": {"policy": "fifo", "priority": 20}, "charon": {"policy": "rr", "priority": 20}},
            "charon: 'rr 20' is not allowed; allowed: a class below that of irq, fifo 20",
        ),
        (
            {"irq": {"policy": "fifo", "priority": 20}, "ladder": [{"policy": "rr", "priority": 20}]},
            "ladder.0: 'rr 20' is not allowed; allowed: a class below that of irq, fifo 20",
        ),
    ],
)
def test_a_bad_profile_is_refused(document: dict[str, Any], problem: str) -> None:
    (told,) = refusal(document)
    assert told.startswith(problem)


def test_all_problems_are_reported_at_once() -> None:
    assert len(refusal({"charon": {"nice": 99}, "olsrv2d": {"nice": 99}, "x": 1})) == 3
