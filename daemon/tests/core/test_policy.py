"""The policy profile: the shipped one, its schema, and what is refused."""

import json
import tomllib
from dataclasses import fields, replace
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from meshsec.core.policy.policy import DEFAULT, Policy, PolicyError, RemovedPeers, decode_policy
from meshsec.core.values.model import UnknownNodes

POLICIES = Path(__file__).parents[3] / "policies"
SCHEMA: dict[str, Any] = json.loads((POLICIES / "policy.schema.json").read_text())
NUMBERS = {name: spec for name, spec in SCHEMA["properties"].items() if "minimum" in spec}
LOOSE = replace(DEFAULT, backoff_first=0.1, backoff_max=3600.0, takeover_delay=60.0, takeover_delay_fresh=0.1)
"""A base that puts no order problem in the way of a single field's limits."""


def accepted(table: dict[str, object]) -> bool:
    try:
        decode_policy(table, LOOSE)
    except PolicyError:
        return False
    return True


def valid(table: dict[str, object]) -> bool:
    return not list(jsonschema.Draft202012Validator(SCHEMA).iter_errors(table))


def test_the_shipped_default_is_complete_and_equals_the_built_in_one() -> None:
    table = tomllib.loads((POLICIES / "default.toml").read_text())
    assert set(table) == {field.name for field in fields(Policy)}
    assert decode_policy(table) == DEFAULT
    assert valid(table)


def test_the_schema_describes_every_field() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert set(SCHEMA["properties"]) == {field.name for field in fields(Policy)}


@pytest.mark.parametrize("name", NUMBERS)
def test_the_limits_of_schema_and_decoder_are_the_same(name: str) -> None:
    low, high = NUMBERS[name]["minimum"], NUMBERS[name]["maximum"]
    step = 1 if NUMBERS[name]["type"] == "integer" else 1e-6
    for value, good in ((low, True), (high, True), (low - step, False), (high + step, False)):
        assert accepted({name: value}) is good, value
        assert valid({name: value}) is good, value
    for value in (True, "5", None, float("nan"), [low]):
        assert not accepted({name: value}), value


def test_overrides_change_their_fields_alone() -> None:
    base = replace(DEFAULT, concurrency=7)
    table = {
        "hold_time": 60,
        "unknown_nodes": "allow",
        "removed_peers": "open",
        "mesh_prefixes": ["fc00::/7", "10.77.0.0/16"],
        "esp_proposals": ["aes128gcm16-x25519"],
    }
    assert decode_policy(table, base) == replace(
        base,
        hold_time=60.0,
        unknown_nodes=UnknownNodes.ALLOW,
        removed_peers=RemovedPeers.OPEN,
        mesh_prefixes=(IPv6Network("fc00::/7"), IPv4Network("10.77.0.0/16")),
        esp_proposals=("aes128gcm16-x25519",),
    )


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("hold_time", -1, "a number from 0 to 86400 (seconds)"),
        ("concurrency", 2.5, "a whole number from 1 to 64 (negotiations)"),
        ("unknown_nodes", "reject", '"drop" or "allow"'),
        ("removed_peers", 1, '"drop" or "open"'),
        ("ike_proposals", [], "strongSwan's names"),
        ("ike_proposals", ["aes256"], "strongSwan's names"),
        ("ike_proposals", "aes256gcm16-prfsha256-x25519", "a list"),
        ("esp_proposals", ["aes256gcm16-x25519; quit"], "strongSwan's names"),
        ("esp_proposals", ["aes256gcm16-x25519", "aes256gcm16-x25519"], "different"),
        ("esp_proposals", ["aes256gcm16-x25519", 5], "a list"),
        ("mesh_prefixes", ["::/0"], "IPv6 of /7 or longer"),
        ("mesh_prefixes", ["10.0.0.0/7"], "IPv4 of /8 or longer"),
        ("mesh_prefixes", ["fc00::1/7"], "network prefixes"),
        ("mesh_prefixes", ["mesh"], "network prefixes"),
        ("hold_tme", 5, "one of ike_proposals, esp_proposals"),
        ("backoff_first", 61, "a number from 0.1 to 60"),
        ("backoff_max", 0.5, "at least backoff_first, which is 1"),
        ("takeover_delay_fresh", 3, "at most takeover_delay, which is 2"),
    ],
)
def test_what_is_refused_names_field_value_and_what_is_allowed(name: str, value: object, allowed: str) -> None:
    with pytest.raises(PolicyError) as caught:
        decode_policy({name: value})
    (problem,) = caught.value.problems
    assert (problem.field, problem.value) == (name, value)
    assert allowed in problem.allowed
    assert str(problem) in str(caught.value)
    assert repr(value) in str(problem)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(PolicyError) as caught:
        decode_policy({"hold_time": "long", "deadline_ms": 200, "concurrency": 0, "colour": "red"})
    assert [problem.field for problem in caught.value.problems] == ["hold_time", "concurrency", "colour"]


STRONG = {"name": "strong", "ike": "aes256gcm16-prfsha384-modp4096", "esp": "aes256gcm16-modp4096"}
MIDDLE = {"name": "middle", "ike": "aes256gcm16-prfsha256-x25519", "esp": "aes256gcm16-x25519"}
WEAK = {"name": "weak", "ike": "aes128gcm16-prfsha256-x25519", "esp": "aes128gcm16-x25519"}


def test_the_shipped_profile_with_a_deadline_is_accepted_and_valid() -> None:
    table = tomllib.loads((POLICIES / "deadline.toml").read_text())
    assert valid(table)
    policy = decode_policy(table)
    assert [suite.name for suite in policy.suites] == [suite["name"] for suite in table["suites"]]


def test_what_is_below_the_floor_is_nowhere_in_the_policy() -> None:
    policy = decode_policy({"suites": [STRONG, MIDDLE, WEAK], "floor": "middle"})
    assert [suite.name for suite in policy.suites] == ["strong", "middle"]
    assert policy.ike_proposals == (STRONG["ike"], MIDDLE["ike"])
    assert policy.esp_proposals == (STRONG["esp"], MIDDLE["esp"])
    assert "aes128" not in repr(policy)


def test_a_floor_cannot_be_lowered_by_an_override() -> None:
    base = decode_policy({"suites": [STRONG, MIDDLE, WEAK], "floor": "middle"})
    with pytest.raises(PolicyError, match="floor: 'weak' is not allowed; allowed: the name of a suite of the profile"):
        decode_policy({"floor": "weak"}, base)
    raised = decode_policy({"floor": "strong"}, base)
    assert raised.ike_proposals == (STRONG["ike"],)


@pytest.mark.parametrize(
    "suites",
    [
        "strong",
        ["strong"],
        [{"name": "strong"}],
        [{**STRONG, "rank": 1}],
        [{**STRONG, "name": "Strong suite"}],
        [{**STRONG, "ike": "aes256gcm16-prfsha384-unheard"}],
        [{**STRONG, "ike": "x25519-modp4096"}],
        [{**STRONG, "esp": 5}],
        [STRONG, STRONG],
        [STRONG, {**STRONG, "name": "same-algorithms"}],
    ],
)
def test_suites_that_are_refused(suites: object) -> None:
    with pytest.raises(PolicyError, match=r"suites: .* is not allowed; allowed: a list of tables"):
        decode_policy({"suites": suites})


def test_suites_and_lists_of_proposals_exclude_each_other() -> None:
    with pytest.raises(PolicyError, match=r"ike_proposals: .* allowed: nothing, because the profile's suites"):
        decode_policy({"suites": [STRONG], "ike_proposals": [WEAK["ike"]]})
