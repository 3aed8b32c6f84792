"""An open 802.11s mesh is protected like a wired one while its nodes move, lose each other and meet again."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import pytest

from tests.lab.basics.waiting import wait_until
from tests.lab.lab import Lab
from tests.lab.net import traffic
from tests.lab.net.packets import Kind
from tests.lab.net.topology import full
from tests.lab.net.traffic import wait_arrivals
from tests.lab.node.node import Node
from tests.lab.observe.capture import Capture
from tests.lab.radio import medium
from tests.scenarios.expectations import assert_nothing_clear, captured, flow, spis

NODES = ["a", "b", "c"]
LINE = (("a", "b"), ("b", "c"))
HEARING = 30.0
"""Seconds until a change of who hears whom has taken effect: the router's hold time, and a negotiation."""


@dataclass(frozen=True)
class Squad:
    """``a`` and ``c`` trust each other; ``b`` is a stranger that relays and runs only the router."""

    lab: Lab
    air: medium.Air

    @property
    def ends(self) -> tuple[Node, Node]:
        """Return the nodes that protect their user data."""
        return self.lab["a"], self.lab["c"]

    def hear(self, *pairs: tuple[str, str]) -> None:
        """Move the nodes."""
        self.air.hear(*pairs)

    @contextmanager
    def watched(self, label: str) -> Iterator[dict[str, Capture]]:
        """Capture at all nodes and, as ``air``, all that the relay's radio hears. None of it may show user data."""
        with captured(self.lab, label) as captures, self.lab["b"].capture(f"{label}-air", [medium.MONITOR]) as air:
            yield {**captures, "air": air}
        assert_nothing_clear(captures)
        assert air.lost == 0, f"the capture of the air lost {air.lost} frames: it proves nothing"
        assert air.counts[Kind.CLEAR] == 0, f"in the clear on the air: {air.clear}"

    def wait_protected(self, *, direct: bool = False) -> None:
        """Wait for protected channels at both ends, over the relay or directly."""
        a, c = self.ends
        for node, peer in ((a, c), (c, a)):
            by = peer if direct else self.lab["b"]
            node.wait_for(f"{peer.name} by way of {by.name}", partial(_leads, node, peer, by), HEARING)
            node.wait_protected(peer, HEARING)


def _leads(node: Node, peer: Node, by: Node) -> bool:
    """Return whether the kernel's route to a peer goes by this neighbour."""
    routes = json.loads(node.run("ip", "-j", "-6", "route", "show", "proto", "100").stdout or "[]")
    gateways = {route["gateway"] for route in routes if route["dst"] in (peer.address, peer.locator)}
    links = json.loads(by.run("ip", "-j", "-6", "address", "show", "scope", "link").stdout)
    return bool(gateways & {address["local"] for link in links for address in link.get("addr_info", [])})


@pytest.fixture(scope="module")
def squad() -> Iterator[Squad]:
    """Start one lab for all tests, on the line a - b - c, and capture from the first packet on."""
    if obstacle := medium.obstacle():
        pytest.skip(obstacle)
    air = medium.Air()
    with Lab("radio", full(NODES), medium=air) as lab:
        air.hear(*LINE)
        lab.set_up()
        a, b, c = (lab[name] for name in NODES)
        lab.trust("a", "c")
        b.assign_addresses()
        air.radios["b"].listen()
        found = Squad(lab, air)
        with found.watched("start") as captures:
            lab.start("router", nodes=[b])
            lab.start(nodes=[a, c])
            found.wait_protected()
        assert captures["air"].counts[Kind.IKE] >= 4, "no negotiation on the air"
        yield found


@pytest.fixture
def line(squad: Squad) -> Squad:
    """Return the line a - b - c, protected."""
    squad.hear(*LINE)
    squad.wait_protected()
    return squad


def test_a_relay_on_the_air_sees_ike_and_esp_alone(line: Squad) -> None:
    a, c = line.ends
    assert line.air.radios["a"].peers() == {line.air.radios["b"].address}, "a hears somebody else"
    with line.watched("relay") as captures, flow(a, c) as running:
        wait_arrivals(running, 50)
        answer = traffic.tcp_stream((c.namespace, c.address), (a.namespace, a.address), 100_000)
    assert answer.octets == 100_000
    assert captures["b"].counts[Kind.ESP] >= 100
    assert captures["b"].counts[Kind.CLEAR] == 0, captures["b"].clear
    assert captures["air"].counts[Kind.ESP] >= 100


def test_a_node_that_drives_from_one_neighbour_to_another_keeps_its_sa(line: Squad) -> None:
    a, c = line.ends
    before = spis(a, c)
    with line.watched("drive") as captures, flow(a, c) as running:
        wait_arrivals(running)
        line.hear(("a", "b"), ("a", "c"))
        line.wait_protected(direct=True)
        wait_arrivals(running)
        line.hear(*LINE)
        line.wait_protected()
        wait_arrivals(running)
    assert spis(a, c) == before
    assert captures["a"].counts[Kind.IKE] == 0, "somebody negotiated"


def test_a_partition_holds_the_sa_and_the_merge_finds_it(line: Squad) -> None:
    a, c = line.ends
    before = spis(a, c)
    with line.watched("partition") as captures, flow(a, c) as running:
        wait_arrivals(running)
        line.hear(("a", "b"))
        a.wait_state(c, "held", HEARING)
        c.wait_state(a, "held", HEARING)
        line.hear(*LINE)
        line.wait_protected()
        wait_arrivals(running)
    assert running.result.lost > 0, "nothing was lost: there was no partition"
    assert spis(a, c) == before
    assert captures["a"].counts[Kind.IKE] == 0, "somebody negotiated"


def test_what_nobody_protects_is_seen_on_the_air(line: Squad) -> None:
    """The negative case of this module: the same detector on the same radio, with data that the stranger sends."""
    a, _ = line.ends
    b = line.lab["b"]
    with b.capture("stranger") as seen, b.capture("stranger-air", [medium.MONITOR]) as air:
        traffic.send((b.namespace, "::"), a.address if a.address in b.kernel.interfaces() else a.locator)
        wait_until("user data in the clear", lambda: seen.counts[Kind.CLEAR] >= 5, [seen], 10)
        wait_until("user data on the air", lambda: air.counts[Kind.CLEAR] >= 5, [air], 10)
