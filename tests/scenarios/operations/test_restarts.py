"""When any of the three daemons dies nothing leaks, and everything that does not need it goes on."""

import time

import pytest

from tests.lab.lab import Lab
from tests.lab.net.packets import Kind
from tests.lab.net.traffic import Flow, wait_arrivals
from tests.lab.node import capabilities
from tests.scenarios.expectations import assert_nothing_clear, captured, flow, flow_without_loss, spis

BACK = 3.0
"""Seconds within which user data passes again."""
TRIES = 5
"""Number of tries, of which the best counts: a busy machine may stall a node during one of them."""


def test_meshsecd_killed_and_restarted_renegotiates_nothing(mesh: Lab) -> None:
    a, c = mesh["a"], mesh["c"]
    before = spis(a, c)
    with captured(mesh, "meshsecd") as captures, flow_without_loss(a, c) as running:
        wait_arrivals(running)
        for node in (a, c):
            node.daemons.agent.kill()
        wait_arrivals(running, 25)
        mesh.start("meshsecd", nodes=[a, c])
        a.wait_protected(c)
        c.wait_protected(a)
        wait_arrivals(running, 25)
    assert spis(a, c) == before
    assert captures["b"].counts[Kind.IKE] == 0, "somebody negotiated"
    assert running.result.lost == 0
    assert_nothing_clear(captures)


def test_a_renegotiation_would_have_been_seen(mesh: Lab) -> None:
    """The negative case of the one above: when charon negotiates again, SPIs and the capture show it."""
    a, c = mesh["a"], mesh["c"]
    before = spis(a, c)
    with captured(mesh, "terminated") as captures:
        a.charon.terminate(c.name)
        a.wait_for("other SPIs", lambda: _settled(mesh) and spis(a, c) != before, 60)
    assert captures["b"].counts[Kind.IKE] > 0
    assert_nothing_clear(captures)


def _settled(mesh: Lab) -> bool:
    a, c = mesh["a"], mesh["c"]
    sides = [
        [spi for sa in node.charon.sas_with(peer.name) for spi in sa.child_spis] for node, peer in ((a, c), (c, a))
    ]
    return bool(sides[0]) and set(sides[0]) == set(sides[1])


def test_charon_killed_leaks_nothing_and_its_sa_is_back_within_three_seconds_of_its_return(mesh: Lab) -> None:
    a, c = mesh["a"], mesh["c"]
    took: list[float] = []
    with captured(mesh, "charon") as captures, flow(a, c) as running:
        wait_arrivals(running)
        while min(took, default=BACK) >= BACK:
            assert len(took) < TRIES, f"never within {BACK} s: {took}"
            took.append(_return_of_charon(mesh, running))
    assert running.result.lost > 0, "charon was not really gone"
    assert_nothing_clear(captures)


def _return_of_charon(mesh: Lab, running: Flow) -> float:
    """Kill c's charon. Return the seconds from its return to user data."""
    a, c = mesh["a"], mesh["c"]
    c.daemons.charon.kill()
    c.wait_for("c knows that charon is gone", lambda: c.control.peer(a.name).get("state") != "protected", 60)
    mesh.start("charon", nodes=[c])
    returned = time.monotonic()
    c.wait_protected(a)
    wait_arrivals(running)
    took = time.monotonic() - returned
    a.wait_protected(c)
    return took


@pytest.mark.skipif(capabilities.probe().esp == "kernel", reason="the kernel's SAs outlive charon: nothing is refused")
def test_charon_killed_at_the_sender_leaks_nothing(mesh: Lab) -> None:
    a, c = mesh["a"], mesh["c"]
    with captured(mesh, "charon-sender") as captures, flow(a, c) as running:
        wait_arrivals(running)
        a.daemons.charon.kill()
        refused = running.result.refused
        a.wait_for("the sender's kernel refuses", lambda: running.result.refused >= refused + 10 or None, 60)
        mesh.start("charon", nodes=[a])
        a.wait_protected(c)
        wait_arrivals(running)
    assert_nothing_clear(captures)


def test_olsrv2d_killed_and_restarted_keeps_the_sa_and_brings_the_routes_back(mesh: Lab) -> None:
    a, b, c = mesh["a"], mesh["b"], mesh["c"]
    before = spis(a, c)
    with captured(mesh, "router") as captures, flow(a, c) as running:
        wait_arrivals(running)
        b.daemons.router.kill()
        wait_arrivals(running, 10)
        mesh.start("router", nodes=[b])
        b.wait_route(a)
        b.wait_route(c)
        a.wait_route(c)
        a.wait_state(c, "protected")
        wait_arrivals(running, 10)
    assert spis(a, c) == before
    assert_nothing_clear(captures)


def test_all_daemons_of_a_node_killed_at_once_come_back_to_protection(mesh: Lab) -> None:
    a, c = mesh["a"], mesh["c"]
    with captured(mesh, "all") as captures, flow(a, c) as running:
        wait_arrivals(running)
        for daemon in reversed(a.daemons.all()):
            daemon.kill()
        mesh.start(nodes=[a])
        a.wait_protected(c)
        wait_arrivals(running, 10)
    assert_nothing_clear(captures)
