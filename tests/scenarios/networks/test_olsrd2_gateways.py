"""Gateways with olsrd2 as the router of all nodes: found, left when the uplink is dead, and stolen by nobody."""

from collections.abc import Iterator

import pytest

from tests.lab.basics import programs
from tests.lab.gateways import OUTSIDE4, OUTSIDE6, UPLINK, WaysOut, ways_out
from tests.lab.net.packets import Kind
from tests.lab.net.traffic import Flow, wait_arrivals
from tests.lab.node.routers import TextInterface
from tests.scenarios.expectations import assert_nothing_clear, captured, wait_no_drift

pytestmark = [
    pytest.mark.skipif(not programs.find("olsrd2"), reason="olsrd2 is not on PATH"),
    pytest.mark.timeout(400),
]

WITHDRAWN = 7.0
"""Seconds in which a gateway whose uplink is dead is left: a message of olsrd2 each 5 s, and a poll each second at both
ends."""
NOTICED = 3.2
"""Seconds in which a probe notices a dead uplink."""


@pytest.fixture(scope="module")
def mesh() -> Iterator[WaysOut]:
    with ways_out("olsrd2-gateways", "olsrd2", probe=[OUTSIDE4, OUTSIDE6]) as made:
        yield made


@pytest.fixture
def ready(mesh: WaysOut) -> Iterator[WaysOut]:
    yield mesh
    mesh.heal()


@pytest.fixture
def flows(ready: WaysOut) -> Iterator[list[Flow]]:
    with ready.sending() as made:
        yield made


def test_clients_and_nodes_reach_the_outside_and_relays_see_esp_alone(ready: WaysOut) -> None:
    a, client = ready.lab["a"], ready.host
    with captured(ready.lab, "out") as captures:
        for namespace, source in [
            (client.namespace, client.ipv4),
            (client.namespace, client.address),
            (a.namespace, a.address),
        ]:
            with Flow((namespace, source), (ready.outside, OUTSIDE6 if ":" in source else OUTSIDE4)) as flow:
                wait_arrivals(flow, 20)
            assert flow.result.lost == 0
    assert_nothing_clear(captures)
    assert captures["b"].counts[Kind.ESP] > 0


def test_the_default_route_of_a_stranger_is_nobodys(ready: WaysOut, flows: list[Flow]) -> None:
    """The relay also announces a network of its own, so that the test knows when a has heard of both."""
    a, relay = ready.lab["a"], TextInterface(ready.lab["b"].namespace, None)
    sections = ("config set olsrv2_lan[x].prefix=::/0", "config set olsrv2_lan[y].prefix=fd00:77::/64")
    relay.ask(*sections, "config commit", "quit")
    a.wait_for("word of it", lambda: "fd00:77::/64" in a.run("ip", "-6", "route", "show", "proto", "100").stdout, 60)
    assert not a.run("ip", "-6", "route", "show", "default", "proto", "100").stdout
    assert set(ready.used().values()) == {"g"}
    for flow in flows:
        wait_arrivals(flow, 10)
    wait_no_drift(a)
    relay.ask("config remove olsrv2_lan.", "config commit", "quit")


def test_an_uplink_without_carrier_is_left_and_used_again(ready: WaysOut, flows: list[Flow]) -> None:
    uplink = ready.uplinks["g"]
    uplink.link.ends[1].down()
    ready.wait_used("h", WITHDRAWN)
    for flow in flows:
        wait_arrivals(flow, 10)
    uplink.fix()
    ready.wait_used("g")
    for flow in flows:
        wait_arrivals(flow, 10)


def test_a_gateway_that_dies_silently_is_left(ready: WaysOut, flows: list[Flow]) -> None:
    link = ready.lab.link("b", "g")
    link.ends[1].filter("drop")
    ready.wait_used("h")
    for flow in flows:
        wait_arrivals(flow, 50)
    link.ends[1].unfilter()


def test_a_gateway_that_is_turned_off_loses_nothing(ready: WaysOut, flows: list[Flow]) -> None:
    g = ready.lab["g"]
    g.meshsec("gateway", "off")
    ready.wait_used("h")
    for flow in flows:
        wait_arrivals(flow, 50)
    g.wait_for("no table", lambda: "meshsec_uplink" not in g.run("nft", "list", "tables").stdout, 60)
    g.meshsec("gateway", "on", UPLINK)
    ready.wait_used("g")
    for flow in flows:
        wait_arrivals(flow, 50)
    # ESP in user space may lose single packets when processors are few.
    assert max(flow.result.lost for flow in flows) <= 2, [flow.summary() for flow in flows]


def test_a_gateway_whose_provider_forwards_nothing_is_left(ready: WaysOut, flows: list[Flow]) -> None:
    ready.uplinks["g"].lose_outside()
    ready.wait_used("h", NOTICED + WITHDRAWN)
    for flow in flows:
        wait_arrivals(flow, 10)
