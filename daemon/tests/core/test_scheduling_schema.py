"""The schema of scheduling profiles accepts what the decoder accepts, and describes all that it reads.

A schema cannot express the order of classes: the ladder rises, and nothing has the level of ``irq``. No document here
has that fault alone.
"""

import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from meshsec.core.scheduling.profiles import (
    CPU_MAX,
    KERNEL_PRIORITY_MAX,
    KERNEL_THREADS,
    LADDER_MAX,
    NICE_HIGHEST,
    NICE_LOWEST,
    PRIORITY_MAX,
    SERVICES,
    WEIGHT_MAX,
    ProfileError,
    SchedulingPolicy,
    decode_profile,
)

PROFILES = Path(__file__).parents[3] / "rt/profiles"
SCHEMA: dict[str, Any] = json.loads((PROFILES / "profile.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

KINDS = st.sampled_from((*SERVICES, *KERNEL_THREADS))
ODD: st.SearchStrategy[Any] = st.sampled_from([True, None, "5", "rr", [], [0], {}, 2.5, -1])
"""Values of a wrong type or outside of every range."""


def near(*edges: int) -> st.SearchStrategy[int]:
    return st.sampled_from([edge + step for edge in edges for step in (-1, 0, 1)])


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "policy": st.sampled_from([*map(str, SchedulingPolicy), "deadline"]),
    "nice": near(NICE_LOWEST, NICE_HIGHEST),
    "priority": near(1, PRIORITY_MAX, KERNEL_PRIORITY_MAX),
    "weight": near(1, WEIGHT_MAX),
    "cpus": st.lists(near(0, CPU_MAX), max_size=3),
    "color": st.just("red"),
}
PLACEMENTS = st.sets(st.sampled_from(sorted(VALUES)), max_size=3).flatmap(
    lambda keys: st.fixed_dictionaries({key: VALUES[key] | ODD for key in sorted(keys)})
)


def accepted(document: dict[str, Any]) -> bool:
    try:
        decode_profile("mine", document)
    except ProfileError:
        return False
    return True


def test_it_is_a_schema_and_names_every_kind() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert set(SCHEMA["properties"]) == {"description", *SERVICES, *KERNEL_THREADS, "ladder"}


@pytest.mark.parametrize("path", sorted(PROFILES.glob("*.toml")), ids=lambda path: path.stem)
def test_the_shipped_profiles_are_valid(path: Path) -> None:
    VALIDATOR.validate(tomllib.loads(path.read_text(encoding="utf-8")))


@given(KINDS, PLACEMENTS | ODD)
@example("charon", {"policy": "rr", "priority": PRIORITY_MAX})
@example("charon", {"policy": "rr", "priority": PRIORITY_MAX + 1})
@example("irq", {"policy": "fifo", "priority": KERNEL_PRIORITY_MAX})
@example("irq", {"policy": "fifo", "priority": 10, "weight": 5})
@example("charon", {"policy": "rr"})
@example("charon", {"policy": "other", "priority": 1})
@example("olsrv2d", {"cpus": [1, 1]})
@example("olsrv2d", {"nice": -3, "weight": WEIGHT_MAX, "cpus": [0, CPU_MAX]})
def test_schema_and_decoder_agree_about_a_placement(kind: str, placement: object) -> None:
    document = {"description": "mine", kind: placement}
    assert VALIDATOR.is_valid(document) is accepted(document)


@given(PLACEMENTS | ODD)
@example({"nice": -5, "weight": 100})
@example({"policy": "rr", "priority": 1})
def test_schema_and_decoder_agree_about_a_step_of_the_ladder(step: object) -> None:
    """charon has the lowest class, so that the order of the steps is no problem."""
    document: dict[str, Any] = {"description": "mine", "charon": {"nice": NICE_HIGHEST}, "ladder": [{"nice": 0}]}
    assert VALIDATOR.is_valid(document)
    assert accepted(document)
    document["ladder"] = [step]
    if isinstance(step, dict) and step.get("nice") == NICE_HIGHEST:
        return
    assert VALIDATOR.is_valid(document) is accepted(document)


@pytest.mark.parametrize(
    ("document", "good"),
    [
        ({"description": "mine"}, True),
        ({}, False),
        ({"description": ""}, False),
        ({"description": 5}, False),
        ({"description": "mine", "charom": {}}, False),
        ({"description": "mine", "ladder": {}}, False),
        ({"description": "mine", "ladder": [{"nice": -2 * step - 1} for step in range(LADDER_MAX)]}, True),
        ({"description": "mine", "ladder": [{"nice": -2 * step - 1} for step in range(LADDER_MAX + 1)]}, False),
    ],
)
def test_schema_and_decoder_agree_about_a_document(document: dict[str, Any], good: bool) -> None:
    assert VALIDATOR.is_valid(document) is good
    assert accepted(document) is good
