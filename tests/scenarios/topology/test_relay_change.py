"""A change of the relay needs no negotiation and loses little: the SA binds end points and not paths."""

from collections.abc import Iterator
from functools import partial

import pytest

from tests.lab.basics.waiting import wait_until
from tests.lab.lab import Lab
from tests.lab.net.packets import Kind
from tests.lab.net.topology import names, ring
from tests.lab.net.traffic import wait_arrivals
from tests.scenarios.expectations import assert_nothing_clear, captured, flow, spis

HOLD_TIME = 6.0
"""Seconds after which a router with default timers takes a silent link for lost."""
TRIES = 5
"""Number of tries, of which the best counts: a busy machine may stall a node during one of them."""


@pytest.fixture(scope="module")
def ring_lab() -> Iterator[Lab]:
    """Start a - b - c - d - a: two relays between a and c."""
    with Lab("ring", ring(names(4))) as lab:
        yield lab.set_up().trust_all().start()


@pytest.fixture
def circle(ring_lab: Lab) -> Lab:
    """Return the ring with all links up and all channels protected."""
    return _healthy(ring_lab)


def _direct(lab: Lab, node: str, neighbour: str) -> bool:
    return _interface(lab, node, neighbour) == f"mesh-{neighbour}"


def _interface(lab: Lab, node: str, target: str) -> str:
    routes = lab[node].kernel.interfaces()
    return routes.get(lab[target].locator) or routes.get(lab[target].address, "")


def _relay(lab: Lab) -> str:
    return _interface(lab, "a", "c").removeprefix("mesh-")


@pytest.mark.parametrize(("fault", "longest_gap"), [("down", 1.5), ("cut", HOLD_TIME + 2)])
def test_user_data_takes_the_other_relay_with_the_same_sa(circle: Lab, fault: str, longest_gap: float) -> None:
    gaps = [_change_relay(circle, fault)]
    while min(gaps) >= longest_gap:
        assert len(gaps) < TRIES, f"never less than {longest_gap} s: {gaps}"
        gaps.append(_change_relay(_healthy(circle), fault))


def _change_relay(circle: Lab, fault: str) -> float:
    """Return the longest time without user data, in seconds."""
    a, c = circle["a"], circle["c"]
    before, relay = spis(a, c), _relay(circle)
    link = circle.link(relay, "c")
    with captured(circle, fault) as captures, flow(a, c) as running:
        wait_arrivals(running)
        negotiated = {name: seen.counts[Kind.IKE] for name, seen in captures.items()}
        link.down() if fault == "down" else link.cut()
        a.wait_for("another relay", lambda: _relay(circle) not in (relay, ""), 60)
        wait_arrivals(running, 50)
    assert spis(a, c) == before
    assert {name: seen.counts[Kind.IKE] for name, seen in captures.items()} == negotiated, "somebody negotiated"
    assert_nothing_clear(captures)
    return running.result.longest_gap


def _healthy(lab: Lab) -> Lab:
    lab.heal()
    lab.wait_full_mesh()
    for first, second in ring(names(4)):
        for node, neighbour in ((first, second), (second, first)):
            lab[node].wait_for(f"direct route to {neighbour}", partial(_direct, lab, node, neighbour), 60)
    return lab


def test_the_gap_is_measured_where_there_is_no_other_relay(circle: Lab) -> None:
    """The negative case: with both ways cut nothing arrives, and the flow shows the gap."""
    a, c = circle["a"], circle["c"]
    with flow(a, c) as running:
        wait_arrivals(running)
        for relay in ("b", "d"):
            circle.link(relay, "c").cut()
        a.wait_state(c, "held")
        wait_until("a hundred are lost", lambda: running.result.lost > 100, [], 60, running.summary)
