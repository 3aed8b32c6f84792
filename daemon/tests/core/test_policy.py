"""The policy profile: the shipped one, its schema, and what is refused."""

import json
import tomllib
from dataclasses import fields, replace
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from meshsec.core.model import UnknownNodes
from meshsec.core.policy import DEFAULT, Policy, PolicyError, RemovedPeers, decode_policy

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
        decode_policy({"hold_time": "long", "deadline": 0.2, "concurrency": 0, "colour": "red"})
    assert [problem.field for problem in caught.value.problems] == ["hold_time", "concurrency", "colour"]
