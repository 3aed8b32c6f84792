"""A node's key is changed while user data flows: both keys are in force until the old one is ended."""

from collections.abc import Iterator

import pytest

from tests.lab.lab import Lab
from tests.lab.net.topology import line, names
from tests.lab.net.traffic import Flow, wait_arrivals
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.scenarios.expectations import (
    assert_no_drift,
    assert_nothing_clear,
    captured,
    flow_without_loss,
    restart_for_keys,
)
from tests.scenarios.ike.key_changes import begin, end, wait_both


@pytest.fixture
def mesh() -> Iterator[Lab]:
    """Start a - b - c, in which all trust each other; the key of c is about to change."""
    with Lab("rotation", line(names(3)), Options(ipv4=True)) as lab:
        lab.set_up().trust_all().start().wait_full_mesh()
        yield lab


def test_user_data_flows_through_the_change_of_a_key(mesh: Lab) -> None:
    a, b, c = (mesh[name] for name in "abc")
    with captured(mesh, "rotation") as captures, _flow_by_ipv4(a, c) as four:
        with flow_without_loss(a, c) as old:
            wait_arrivals(old)
            address = begin(c, (a, b))
            for node in (a, b, c):
                assert_no_drift(node)
            with _flow_to(a, c, address) as new:
                wait_arrivals(new)
                wait_arrivals(old)
        assert (old.result.lost, new.result.lost) == (0, 0)
        with _flow_to(a, c, address) as new, _flow_to(c, a, a.address, address) as back:
            for running in (new, back):
                wait_arrivals(running)
            end(c, (a, b))
            for running in (new, back, four):
                wait_arrivals(running, 50)
    # Routes and SAs stay; ESP in user space may lose single packets when processors are few.
    assert (new.result.lost + back.result.lost) * 50 <= new.result.sent
    assert_nothing_clear(captures)
    for node in (a, b, c):
        assert_no_drift(node)


def test_the_old_key_ends_for_good_and_a_restart_of_charon_costs_neither_before(mesh: Lab) -> None:
    a, b, c = (mesh[name] for name in "abc")
    stolen = (c.var / "node.key").read_bytes()
    begin(c, (a, b))
    c.daemons.charon.kill()
    c.daemons.charon.start()
    c.daemons.charon.wait_ready()
    wait_both(c, (a, b))
    end(c, (a, b))
    for half in ("node.pub", "node.rotation"):
        (c.var / half).unlink()
    (c.var / "node.key").write_bytes(stolen)
    restart_for_keys(c)
    c.wait_for("the old key is refused", lambda: c.control.peer(b.name).get("last_failure"), 90)
    b.wait_for("it is reported as a stranger", lambda: c.locator in b.meshsec("doctor", check=False).stdout, 60)
    assert c.address not in {peer["address"] for peer in b.control.ask("status")["peers"]}


def _flow_to(source: Node, target: Node, address: str, own: str = "") -> Flow:
    port = 7002 if own else 7001
    running = Flow((source.namespace, own or source.address), (target.namespace, address), port=port)
    running.grace = 30.0
    return running


def _flow_by_ipv4(source: Node, target: Node) -> Flow:
    return Flow((source.namespace, source.ipv4), (target.namespace, target.ipv4), port=7003)
