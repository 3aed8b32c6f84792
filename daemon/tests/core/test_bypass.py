"""The bypass list: what an entry may contain, and that no list opens a peer."""

from ipaddress import IPv4Network, IPv6Network
from typing import Any

import jsonschema
import pytest

from core.test_policy import SCHEMA
from core.world import card
from meshsec.core.channels.desired import in_doubt, rules_spec
from meshsec.core.explain.policy_view import settings
from meshsec.core.policy.bypass import MOST
from meshsec.core.policy.policy import PolicyError, decode_policy
from meshsec.core.values.bypass import Bypass
from meshsec.core.values.model import EspBackend

ENTRY: dict[str, Any] = {"prefix": "fd12:3456:789a::/64", "protocol": "udp", "port": 123, "reason": "the ship's clock"}
MESH = ["fc00::/7", "10.77.0.0/16"]


def valid(entry: object) -> bool:
    return not list(jsonschema.Draft202012Validator(SCHEMA).iter_errors({"bypass": [entry]}))


@pytest.mark.parametrize(
    ("entry", "expected", "text"),
    [
        (
            ENTRY,
            Bypass(IPv6Network("fd12:3456:789a::/64"), "the ship's clock", "udp", 123),
            "fd12:3456:789a::/64 udp 123",
        ),
        (
            {"prefix": "10.77.9.0/24", "protocol": "tcp", "reason": "cameras"},
            Bypass(IPv4Network("10.77.9.0/24"), "cameras", "tcp"),
            "10.77.9.0/24 tcp",
        ),
        (
            {"prefix": "fd12:3456:789a::/48", "reason": "printers"},
            Bypass(IPv6Network("fd12:3456:789a::/48"), "printers"),
            "fd12:3456:789a::/48",
        ),
        (
            {"prefix": "fe80::/10", "protocol": "tcp", "port": 22, "reason": "neighbours log in"},
            Bypass(IPv6Network("fe80::/10"), "neighbours log in", "tcp", 22),
            "fe80::/10 tcp 22",
        ),
        (
            {"prefix": "192.168.1.0/24", "reason": "the LAN on the same cable"},
            Bypass(IPv4Network("192.168.1.0/24"), "the LAN on the same cable"),
            "192.168.1.0/24",
        ),
    ],
)
def test_an_entry_is_read_and_shown_as_it_was_given(entry: dict[str, Any], expected: Bypass, text: str) -> None:
    policy = decode_policy({"mesh_prefixes": MESH, "bypass": [entry]})
    assert policy.bypass == (expected,)
    assert str(expected) == text
    assert settings(policy)["bypass"] == [entry]
    assert valid(entry)


PREFIX = "an IPv6 prefix of /48 or longer, such as 'fd12:3456:789a::/64', an IPv4 prefix of /16 or longer, or fe80::/10"
REASON = "one line of 1 to 200 characters"
PORT = "a whole number from 1 to 65535"


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("prefix", "fd12::/47", PREFIX),
        ("prefix", "::/0", PREFIX),
        ("prefix", "fe80::/9", PREFIX),
        ("prefix", "fe80::/11", PREFIX),
        ("prefix", "10.77.0.0/15", PREFIX),
        ("prefix", "fd12:3456:789a::1/64", PREFIX),
        ("prefix", "fd12:3456:789a::1", PREFIX),
        ("prefix", 5, PREFIX),
        ("reason", "", REASON),
        ("reason", " ", REASON),
        ("reason", "two\nlines", REASON),
        ("reason", "x" * 201, REASON),
        ("reason", 1, REASON),
        ("protocol", "icmp", '"tcp" or "udp"'),
        ("protocol", "", '"tcp" or "udp"'),
        ("port", 0, PORT),
        ("port", 65536, PORT),
        ("port", True, PORT),
        ("port", "123", PORT),
        ("colour", "red", "allowed here: prefix, reason, protocol, port"),
    ],
)
def test_a_bad_key_is_refused_with_what_is_allowed(key: str, value: object, allowed: str) -> None:
    with pytest.raises(PolicyError) as caught:
        decode_policy({"mesh_prefixes": MESH, "bypass": [{**ENTRY, key: value}]})
    (problem,) = caught.value.problems
    assert problem.path == ("bypass", 0, key)
    assert problem.message.endswith(allowed)


def test_all_problems_of_an_entry_are_reported_at_once() -> None:
    with pytest.raises(PolicyError) as caught:
        decode_policy({"bypass": [{"prefix": "::/0", "reason": "", "port": 0}]})
    assert [problem.path[2] for problem in caught.value.problems] == ["prefix", "reason", "port"]


@pytest.mark.parametrize("lacking", ["prefix", "reason", "protocol"])
def test_prefix_and_reason_are_needed_and_a_port_needs_a_protocol(lacking: str) -> None:
    entry = {name: value for name, value in ENTRY.items() if name != lacking}
    with pytest.raises(
        PolicyError, match="port: 123 is not allowed" if lacking == "protocol" else f"{lacking}: is missing"
    ):
        decode_policy({"bypass": [entry]})


@pytest.mark.parametrize("lacking", ["prefix", "reason"])
def test_the_schema_sees_what_is_missing(lacking: str) -> None:
    assert not valid({name: value for name, value in ENTRY.items() if name != lacking})


@pytest.mark.parametrize("value", ["fd12:3456:789a::/64", [ENTRY["prefix"]], [ENTRY] * 2, {"a": ENTRY}, None])
def test_anything_but_a_list_of_different_entries_is_refused(value: object) -> None:
    with pytest.raises(PolicyError, match="bypass"):
        decode_policy({"bypass": value})


def test_a_list_with_too_many_entries_is_refused() -> None:
    entries = [{"prefix": f"fd12:3456:789a:{number:x}::/64", "reason": "one of many"} for number in range(MOST + 1)]
    assert len(decode_policy({"bypass": entries[:MOST]}).bypass) == MOST
    with pytest.raises(PolicyError, match=f"at most {MOST}"):
        decode_policy({"bypass": entries})


def test_while_a_card_is_refused_nothing_is_bypassed() -> None:
    """The peer with the refused card may have an address of the list."""
    policy = decode_policy({"bypass": [ENTRY]})
    rules = rules_spec(card(3), (), (), EspBackend.LIBIPSEC, policy)
    assert rules.bypass
    assert in_doubt(rules).bypass == ()
