"""Each shipped profile sets up an SA with charon that has its own algorithms."""

import json
import tomllib
from collections.abc import Iterator
from ipaddress import IPv6Address

import pytest

from meshsec.adapters.files import config_file
from meshsec.core.policy.policy import Policy, decode_policy
from meshsec.core.policy.suites import Suite
from tests.lab.basics.places import REPOSITORY
from tests.lab.basics.waiting import wait_until
from tests.lab.lab import Lab
from tests.lab.net import traffic
from tests.lab.net.packets import Kind
from tests.lab.net.topology import line, names, star
from tests.lab.net.traffic import wait_arrivals
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.scenarios.expectations import assert_nothing_clear, captured, flow

PROFILES = {
    path.stem.replace("-", "")[:8]: path
    for path in sorted((REPOSITORY / "policies").glob("*.toml"))
    if path.stem != "ccm"
}
"""The profile of each node. ccm differs in ESP only, in the kernel: test_transport_mode.py."""


def _policy(name: str) -> Policy:
    return decode_policy(tomllib.loads(PROFILES[name].read_text()))


@pytest.fixture(scope="module")
def mesh() -> Iterator[Lab]:
    """Start a mesh in which ``a`` accepts every profile's suites and each other node only its own profile's."""
    policies = [_policy(name) for name in PROFILES]
    both = {
        "ike_proposals": list(dict.fromkeys(one for policy in policies for one in policy.ike_proposals)),
        "esp_proposals": list(dict.fromkeys(one for policy in policies for one in policy.esp_proposals)),
    }
    with Lab("policies", star(["a", *PROFILES])) as lab:
        options = {name: Options(policy={"profile": path.stem}) for name, path in PROFILES.items()}
        lab.set_up({"a": Options(policy=both), **options})
        for name in PROFILES:
            lab.trust("a", name)
        lab.start()
        yield lab


@pytest.mark.parametrize("name", PROFILES)
def test_an_sa_of_the_profile_is_established(mesh: Lab, name: str) -> None:
    hub, node = mesh["a"], mesh[name]
    node.wait_state(hub, "protected", 120)
    policy = _policy(name)
    allowed = {Suite(name, one, "").algorithms for one in policy.ike_proposals}
    assert tuple(node.control.peer(hub.name)["ike_algorithms"]) in allowed


def test_what_charon_cannot_do_of_the_policy_is_left_out_and_named(mesh: Lab) -> None:
    node, policy = mesh["default"], _policy("default")
    node.wait_state(mesh["a"], "protected", 120)
    explained = json.loads(node.meshsec("policy", "explain", "--json").stdout)["proposals"]
    lacking = {one["strongswan"]: one["lacks"] for one in explained if one["lacks"]}
    hybrid = {one for one in (*policy.ike_proposals, *policy.esp_proposals) if "mlkem" in one}
    assert all(hybrid.intersection(one) for one in (policy.ike_proposals, policy.esp_proposals))
    assert lacking in ({}, {one: ["ML_KEM_768"] for one in hybrid}), "charon has it, or it does not"
    assert all(one["lacks"] is not None for one in explained), "it was asked"
    assert {one["proposal"]: one["lacks"] for one in node.control.ask("status")["left_out"]} == lacking


def test_in_the_lab_an_sa_of_the_measurements_of_2007_is_established(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(config_file.LAB, config_file.IN_LAB)
    with Lab("paper", line(names(2)), Options(policy={"profile": "paper-2007"})) as lab:
        lab.set_up().trust_all().start()
        a, b = lab["a"], lab["b"]
        a.wait_protected(b, 120)
        assert a.control.peer(b.name)["ike_algorithms"] == ["3DES_CBC", "MODP_1536"]
        monkeypatch.delenv(config_file.LAB)
        refused = a.meshsec("check", check=False)
        assert refused.returncode == 1
        assert "'paper-2007' is not allowed" in refused.stderr


def test_what_the_policy_bypasses_is_reached_in_the_clear_and_a_peer_beside_it_is_not() -> None:
    """The printer behind b has an address in b's own /64; another address there and another port stay closed."""
    with Lab("bypass", line(names(2))) as lab:
        lab.set_up().trust_all()
        a, b = lab["a"], lab["b"]
        printer, nobody = (str(IPv6Address(int(IPv6Address(b.address)) ^ other)) for other in (1, 2))
        bypass: list[dict[str, str | int]] = [
            {"prefix": f"{printer}/128", "protocol": "udp", "port": 9100, "reason": "the printer"},
            {"prefix": f"{b.address}/128", "reason": "a mistake"},
        ]
        a.reconfigure(Options(policy={"bypass": bypass}))
        lab.start("meshsecd", "router")
        a.wait_route(b)
        b.run(
            "ip", "link", "add", "office", "type", "veth", "peer", "desk"
        )  # On lo meshsecd would take them for addresses of another key.
        for end in ("office", "desk"):
            b.run("ip", "link", "set", end, "up")
        for address in (printer, nobody):
            b.run("ip", "address", "add", address, "dev", "office")
            a.run("ip", "route", "add", address, *_way(a, b))
        with captured(lab, "bypass") as captures:
            for target, port in ((b.address, 9100), (b.locator, 9100), (nobody, 9100), (printer, 9101)):
                assert traffic.send((a.namespace, a.address), target, port=port) == 0
            lab.start("charon")
            a.wait_protected(b)
            with flow(a, b) as running:
                wait_arrivals(running)
            assert_nothing_clear(captures)
            assert traffic.send((a.namespace, a.address), printer, port=9100) == 5
            seen = captures["b"]
            wait_until("user data in the clear", lambda: seen.counts[Kind.CLEAR] >= 5, [seen], 60)
            assert all(IPv6Address(printer).packed.hex() in packet for packet in captures["a"].clear)
        assert [one["reason"] for one in a.control.ask("status")["bypass"]] == ["the printer", "a mistake"]
        (check,) = (one for one in a.control.ask("doctor")["checks"] if one["name"] == "bypass list")
        assert f"{printer}/128 udp 9100 (the printer)" in check["found"]
        assert "packets so far: 5 out" in check["found"]
        a.meshsec("leaktest", b.name)
        differences = json.loads(a.meshsec("drift", "--json").stdout)["differences"]
        assert differences == []


def _way(node: Node, neighbour: Node) -> list[str]:
    """Return the route to a neighbour's other addresses, as arguments of ``ip route``."""
    announced = neighbour.locator if neighbour.locator in node.kernel.interfaces() else neighbour.address
    (route,) = json.loads(node.run("ip", "-j", "-6", "route", "get", announced).stdout)
    return ["via", route["gateway"], "dev", route["dev"]]
