"""``explain --scheduling`` is valid against its schema and gives a reason for each statement; its settings."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from meshsec.core.explain.scheduling_view import Known, view
from meshsec.core.scheduling.governor import Governor
from meshsec.core.scheduling.governor_events import (
    Contention,
    DaemonUp,
    LevelRefused,
    NegotiationBegan,
    NegotiationEnded,
    StreamReported,
)
from meshsec.core.scheduling.governor_settings import DEFAULTS, GovernorSettings, GovernorTable
from meshsec.core.scheduling.profiles import STOCK, Applied, Placement, Profile, SchedulingClass, SchedulingPolicy
from meshsec.core.values.definition import Reading
from meshsec.core.values.tables import Problem

SCHEMA = Path(__file__).parents[3] / "docs/reference/schema/meshsec-scheduling-1.json"
BASE, NICE = SchedulingClass(nice=-5), SchedulingClass(nice=-20)
REALTIME = SchedulingClass(SchedulingPolicy.RR, priority=20)
PROFILE = Profile("governor", "As little as needed.", {"charon": Placement(BASE)}, (NICE, REALTIME))


def shown(known: Known, governor: Governor | None, now: float = 20.0) -> Any:
    found = json.loads(json.dumps(view(known, governor, now)))
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(found)
    return found


def governed() -> Governor:
    governor = Governor(DEFAULTS, 2)
    governor.advance(10.0, 1.0)
    governor.handle(DaemonUp(2))
    return governor


def told(found: Any) -> str:
    return "\n".join(found["sentences"])


def test_stock_says_that_nothing_moves() -> None:
    found = shown(Known(STOCK), None)
    assert found["governor"] is None
    assert "The profile is stock" in told(found)
    assert "No governor runs" in told(found)


def test_a_governor_at_rest_explains_itself() -> None:
    applied = Applied("charon", 77, BASE, BASE, 25)
    found = shown(Known(PROFILE, 77, (applied,), "pressure by /x"), governed())
    assert "charon has nice -5, 25 threads." in found["sentences"]
    assert "charon's class is nice -5 (level 0 of 2): no negotiation runs or is expected." in found["sentences"]
    assert "Measured: pressure by /x." in told(found)
    assert found["governor"]["ladder"] == ["nice -5", "nice -20", "rr 20"]
    assert "500 of 500 ms left; 20.0% of a processor flow in." in told(found)


FIFO = Profile("fifo", "Always.", {"charon": Placement(REALTIME)})


@pytest.mark.parametrize(
    ("profile", "in_force", "behind", "sentence"),
    [
        (FIFO, REALTIME, (91,), "it has one priority less than the others, with rr 19."),
        (PROFILE, BASE, (), "with a real-time class it has one priority less than the others."),
    ],
)
def test_the_thread_that_is_placed_behind_is_named(
    profile: Profile, in_force: SchedulingClass, behind: tuple[int, ...], sentence: str
) -> None:
    applied = Applied("charon", 77, in_force, in_force, 25, behind=behind)
    found = shown(Known(profile, 77, (applied,), poller=91), None)
    assert f"Thread 91 of charon waits for its sockets: {sentence}" in found["sentences"]
    assert (found["poller"], found["services"][0]["behind"]) == (91, list(behind))


def test_an_unknown_or_irrelevant_thread_is_not_named() -> None:
    assert "is not known yet: all get the same priority" in told(shown(Known(FIFO, 77), None))
    ordinary = Profile("nice", "Nice.", {"charon": Placement(BASE)})
    for known in (Known(ordinary, 77, poller=91), Known(FIFO)):
        assert "sockets" not in told(shown(known, None))


def test_a_group_without_the_wanted_weight_is_reported() -> None:
    applied = Applied("olsrv2d", 78, NICE, NICE, 1, group="/g/cpu.weight: Read-only file system")
    assert (
        "olsrv2d has nice -20, 1 threads; /g/cpu.weight: Read-only file system."
        in shown(Known(PROFILE, 77, (applied,)), None)["sentences"]
    )


@pytest.mark.parametrize(("ceiling", "begins"), [(2, "rr 20"), (1, "nice -20")])
def test_the_view_says_at_which_level_each_negotiation_begins(ceiling: int, begins: str) -> None:
    governor = Governor(DEFAULTS, 2, start=2)
    governor.handle(DaemonUp(2))
    governor.handle(LevelRefused(ceiling + 1, "because"))
    found = shown(Known(PROFILE, 77), governor)
    assert f"The next negotiation begins with {begins}, as each does" in told(found)
    assert found["governor"]["start"] == 2


def test_every_decision_is_shown_with_its_reason_and_the_newest_first() -> None:
    governor = governed()
    governor.handle(Contention(delay=0.004, starving=2, queued=1))
    governor.handle(NegotiationBegan("boat"))
    governor.advance(10.03, 1.001)
    governor.handle(NegotiationEnded("boat", protected=True, took=0.03, waited=0.02))
    found = shown(Known(PROFILE), governor, now=11.0)
    first, second = found["governor"]["decisions"]
    assert (first["before"], first["class"], second["class"]) == ("nice -5", "nice -20", "rr 20")
    assert "1.0 s ago: from nice -5 to nice -20, negotiation with boat: the CPU is contended" in told(found)
    assert "2 of its threads got no CPU, its threads waited 4.00 ms for each run, 1 jobs were queued" in told(found)
    assert told(found).index("from nice -20 to rr 20") < told(found).index("from nice -5 to nice -20")
    assert "The next negotiation begins with rr 20, because the set-up with boat took 30 ms and waited 20 ms" in told(
        found
    )
    assert found["governor"]["last_setup"]["late_by_cpu"]


def test_refusals_of_the_host_and_reports_of_streams_are_shown() -> None:
    governor = governed()
    governor.handle(LevelRefused(2, "no CAP_SYS_NICE"))
    governor.handle(StreamReported("video", loss=0.03, delay=0.012))
    refused = Applied("charon", 77, REALTIME, NICE, 25, "rr 20 is refused")
    found = shown(Known(PROFILE, 77, (refused,), "", "the journal cannot be written"), governor)
    assert "No more than nice -20 is given here: no CAP_SYS_NICE." in found["sentences"]
    assert "The stream video reported: lost 3.0% of its frames, 12 ms late." in found["sentences"]
    assert "charon has nice -20, 25 threads; wanted was rr 20: rr 20 is refused." in found["sentences"]
    assert "Nothing can be changed: the journal cannot be written." in found["sentences"]


def test_a_base_that_the_profile_leaves_alone_is_called_so() -> None:
    found = shown(Known(Profile("own", "Ours.", {}, (NICE,))), Governor(DEFAULTS, 1))
    assert found["governor"]["class"] == "as it was started"


# --- [scheduling.governor] ---


def decoded(values: dict[str, object]) -> tuple[GovernorSettings, list[Problem]]:
    reading = Reading("/")
    return reading.table(GovernorTable, values, ("scheduling", "governor")).settings, reading.problems


def test_settings_replace_the_defaults_they_name() -> None:
    found, problems = decoded({"share": 0.3, "linger": 2})
    assert not problems
    assert (found.share, found.linger, found.burst) == (0.3, 2.0, DEFAULTS.burst)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"share": 0.9}, "share: 0.9 is not allowed; allowed: a number from 0.02 to 0.5 (CPU seconds a second)"),
        ({"burst": True}, "burst: true is not allowed"),
        ({"head_start": False}, "head_start: is no longer a key; a negotiation always begins with the ladder's first"),
        ({"bursts": 1}, "perhaps 'burst' is meant"),
        ({"share_min": 0.1}, "share_min: is no longer a key; streams that complain leave 0.02 CPU seconds a second"),
    ],
)
def test_bad_settings_are_named_with_what_is_allowed(values: dict[str, object], message: str) -> None:
    found, problems = decoded(values)
    assert message in "; ".join(map(str, problems))
    assert found.share_min <= found.share
