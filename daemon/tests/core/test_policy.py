"""The policy profile: the shipped one, its schema, and refusals."""

import json
import tomllib
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from msgspec import structs

from meshsec.core.policy.policy import DEFAULT, Policy, PolicyError, Profile, RemovedPeers, decode_policy
from meshsec.core.values.model import UnknownNodes

POLICIES = Path(__file__).parents[3] / "policies"
SCHEMA: dict[str, Any] = json.loads((POLICIES / "policy.schema.json").read_text())
NUMBERS = {name: spec for name, spec in SCHEMA["properties"].items() if "minimum" in spec}


def accepted(table: dict[str, object]) -> bool:
    try:
        decode_policy(table)
    except PolicyError:
        return False
    return True


def valid(table: dict[str, object]) -> bool:
    return not list(jsonschema.Draft202012Validator(SCHEMA).iter_errors(table))


def test_the_shipped_default_is_complete_and_equals_the_built_in_one() -> None:
    table = tomllib.loads((POLICIES / "default.toml").read_text())
    assert set(table) == set(Profile.__struct_fields__)
    assert decode_policy(table) == DEFAULT
    assert valid(table)


def test_the_schema_describes_every_field() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert set(SCHEMA["properties"]) == set(Profile.__struct_fields__)


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
    base = structs.replace(DEFAULT, concurrency=7)
    table = {
        "hold_time": 60,
        "unknown_nodes": "allow",
        "removed_peers": "open",
        "mesh_prefixes": ["fc00::/7", "10.77.0.0/16"],
        "esp_proposals": ["aes128gcm16-x25519"],
    }
    assert decode_policy(table, base) == structs.replace(
        base,
        hold_time=60.0,
        unknown_nodes=UnknownNodes.ALLOW,
        removed_peers=RemovedPeers.OPEN,
        mesh_prefixes=(IPv6Network("fc00::/7"), IPv4Network("10.77.0.0/16")),
        esp_proposals=("aes128gcm16-x25519",),
    )


LISTED = "strongSwan's names"


@pytest.mark.parametrize(
    ("table", "path", "allowed"),
    [
        ({"hold_time": -1}, ("hold_time",), "a number from 0 to 86400 (seconds)"),
        ({"concurrency": 2.5}, ("concurrency",), "a whole number from 1 to 64 (negotiations)"),
        ({"unknown_nodes": "reject"}, ("unknown_nodes",), '"drop" or "allow"'),
        ({"removed_peers": 1}, ("removed_peers",), '"drop" or "open"'),
        ({"data_plane": "plain"}, ("data_plane",), '"ipsec" or "overlay"'),
        ({"ike_proposals": []}, ("ike_proposals",), LISTED),
        ({"ike_proposals": ["aes256"]}, ("ike_proposals", 0), LISTED),
        ({"ike_proposals": "aes256gcm16-prfsha256-x25519"}, ("ike_proposals",), "a list"),
        ({"esp_proposals": ["aes256gcm16-x25519; quit"]}, ("esp_proposals", 0), LISTED),
        ({"esp_proposals": ["aes256gcm16-x25519", "aes256gcm16-x25519"]}, ("esp_proposals", 1), "each proposal once"),
        ({"esp_proposals": ["aes256gcm16-x25519", 5]}, ("esp_proposals", 1), LISTED),
        ({"mesh_prefixes": ["::/0"]}, ("mesh_prefixes", 0), "IPv6 of /7 or longer"),
        ({"mesh_prefixes": ["fc00::/7", "10.0.0.0/7"]}, ("mesh_prefixes", 1), "IPv4 of /8 or longer"),
        ({"mesh_prefixes": ["fc00::1/7"]}, ("mesh_prefixes", 0), "network prefixes"),
        ({"mesh_prefixes": ["mesh"]}, ("mesh_prefixes", 0), "network prefixes"),
    ],
)
def test_a_refusal_names_place_value_and_what_is_allowed(
    table: dict[str, Any], path: tuple[str | int, ...], allowed: str
) -> None:
    with pytest.raises(PolicyError) as caught:
        decode_policy(table)
    (problem,) = caught.value.problems
    value = table
    for step in path:
        value = value[step]  # type: ignore[index]
    assert problem.path == path
    assert problem.message.startswith(f"{value!r} is not allowed; allowed: ")
    assert allowed in problem.message


def test_an_unknown_or_former_key_is_named_with_what_applies() -> None:
    with pytest.raises(PolicyError) as caught:
        decode_policy({"hold_tme": 5, "takeover_delay": 3})
    unknown, gone = map(str, caught.value.problems)
    assert unknown.startswith("hold_tme: is not a known key; perhaps 'hold_time' is meant; allowed here: ike_proposals")
    assert gone == "takeover_delay: is no longer a key; the other end takes over after 2 s; delete it"


def test_pacing_is_for_a_lab() -> None:
    constants = set(Policy.__struct_fields__) - set(Profile.__struct_fields__)
    assert constants == set(Profile.removed)
    assert decode_policy({"takeover_delay": 60}, pacing=True).takeover_delay == 60.0
    with pytest.raises(PolicyError):
        decode_policy({"takeover_delay": 61}, pacing=True)


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(PolicyError) as caught:
        decode_policy({"hold_time": "long", "deadline_ms": 200, "concurrency": 0, "colour": "red"})
    assert [problem.path for problem in caught.value.problems] == [("hold_time",), ("concurrency",), ("colour",)]


STRONG = {"name": "strong", "ike": "aes256gcm16-prfsha384-modp4096", "esp": "aes256gcm16-modp4096"}
MIDDLE = {"name": "middle", "ike": "aes256gcm16-prfsha256-x25519", "esp": "aes256gcm16-x25519"}
WEAK = {"name": "weak", "ike": "aes128gcm16-prfsha256-x25519", "esp": "aes128gcm16-x25519"}


def test_the_shipped_profile_with_a_deadline_is_accepted_and_valid() -> None:
    table = tomllib.loads((POLICIES / "deadline.toml").read_text())
    assert valid(table)
    policy = decode_policy(table)
    assert [suite.name for suite in policy.suites] == [suite["name"] for suite in table["suites"]]


def test_a_suite_below_the_floor_is_nowhere_in_the_policy() -> None:
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
def test_bad_suites_are_refused(suites: object) -> None:
    with pytest.raises(PolicyError, match=r"suites.*: (.* is not allowed|is missing|is not a known key).*; allowed"):
        decode_policy({"suites": suites})


def test_suites_and_lists_of_proposals_exclude_each_other() -> None:
    with pytest.raises(PolicyError, match=r"ike_proposals: .* allowed: nothing, because the profile's suites"):
        decode_policy({"suites": [STRONG], "ike_proposals": [WEAK["ike"]]})
