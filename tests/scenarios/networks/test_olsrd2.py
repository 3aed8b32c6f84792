"""Networks behind peers whose router is olsrd2: on all nodes, or on the relay or the ends alone.

The relay b, which nobody trusts, also announces what it likes, as a stranger can.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial

import pytest

from tests.lab.basics import programs
from tests.lab.net import traffic
from tests.lab.net.traffic import wait_arrivals
from tests.lab.node.node import Node
from tests.lab.node.routers import TextInterface
from tests.scenarios.expectations import assert_nothing_clear, captured, wait_no_drift
from tests.scenarios.networks.sites import Sites, assert_hosts_talk, connected, flows_between, is_routed

pytestmark = [
    pytest.mark.skipif(not programs.find("olsrd2"), reason="olsrd2 is not on PATH"),
    pytest.mark.timeout(400),
]

MORE_SPECIFIC = "2001:db8:3::/80"
"""A part of the network behind c."""
ANNOUNCED = ("2001:db8:3::/64", "::ffff:192.168.3.0/120")
"""The networks behind c as they are announced."""
UNPROTECTED = "fd00:77::/64"
"""A network among the addresses of nodes (``fc00::/7``), to which olsrd2 sets a route if somebody announces it."""
WITHDRAWN = 15.0
"""Seconds after which a no longer uses a network: a message of olsrd2 each 5 s, a poll each second."""


@pytest.fixture(scope="module", params=["b", "ac", "a"])
def mixed(request: pytest.FixtureRequest) -> Iterator[Sites]:
    with connected(f"olsrd2-{request.param}", olsrd2=request.param) as made:
        yield made


@pytest.fixture(scope="module")
def sites() -> Iterator[Sites]:
    with connected("olsrd2-all", olsrd2="abc") as made:
        yield made


def test_hosts_talk_through_a_mesh_of_both_routers(mixed: Sites) -> None:
    _assert_protected(mixed)


def test_hosts_behind_peers_talk_and_the_relay_sees_esp_alone(sites: Sites) -> None:
    _assert_protected(sites)
    a = sites.lab["a"]
    assert not [one for one in _routers_routes(a) if one.startswith(("2001:db8:", "192.168."))]


def test_a_more_specific_announcement_of_a_stranger_diverts_nothing(sites: Sites) -> None:
    a = sites.lab["a"]
    with _announced_by_relay(sites, MORE_SPECIFIC, UNPROTECTED):
        a.wait_for("a route to what nobody protects", lambda: UNPROTECTED in _routers_routes(a), 60)
        assert MORE_SPECIFIC not in _routers_routes(a)
        _assert_protected(sites)


def test_olsrd2_with_its_own_configuration_learns_which_networks_are_protected(sites: Sites) -> None:
    """Without a list of routable addresses in its file it routes to all networks."""
    a, c = sites.ends
    past = {MORE_SPECIFIC, sites.hosts[1].networks[0]}
    a.daemons.agent.kill()
    _session(a, "config remove olsrv2.routable_acl", "config commit")
    with _announced_by_relay(sites, MORE_SPECIFIC):
        a.wait_for("routes past the tunnel", lambda: past <= {*_routers_routes(a)}, 60)
        sites.lab.heal()
        a.wait_protected(c)
        a.wait_for("no route past the tunnel", lambda: not past & {*_routers_routes(a)}, 60)
        _assert_protected(sites)
    assert "-192.168.3.0/24" in _session(a, "config get olsrv2.routable_acl")
    assert "meshsec_recompute" not in _session(a, "config get olsrv2_lan.")


def test_a_route_of_olsrd2_past_the_tunnel_is_reported_as_its_own(sites: Sites) -> None:
    a, (network, _) = sites.lab["a"], sites.hosts[1].networks
    via = ["via", sites.lab.end_of("b", "a").link_local(), "dev", "mesh-b", "metric", "2", "proto", "100"]
    a.run("ip", "-6", "route", "add", network, *via)
    try:
        (check,) = (
            one
            for one in json.loads(a.meshsec("doctor", "--json", check=False).stdout)["checks"]
            if one["name"] == "routes past the tunnel"
        )
        assert f"{network} by mesh-b (set by the routing daemon)" in check["found"]
        shown = " ".join(a.meshsec("status", check=False).stdout.split())
        assert "(set by the routing daemon) leads past the tunnel" in shown
    finally:
        a.run("ip", "-6", "route", "del", network, *via)
    wait_no_drift(a)


def test_a_withdrawn_network_is_used_no_longer_and_the_operators_networks_stay(sites: Sites) -> None:
    a, c = sites.ends
    networks = sites.hosts[1].networks
    options = c.options
    _session(c, "config set olsrv2_lan[camera].prefix=10.8.0.0/16", "config commit")
    c.reconfigure(replace(options, attached=networks[:1]))
    c.daemons.agent.kill()
    sites.lab.heal()
    a.wait_for("no route to the withdrawn one", lambda: not is_routed(a, networks[1]), WITHDRAWN)
    assert is_routed(a, networks[0])
    named = _session(c, "config get olsrv2_lan.").split()
    assert {"camera", "meshsec_2001:db8:3::_64"} <= {*named}
    assert not [one for one in named if "192.168.3.0" in one]
    c.reconfigure(options)
    c.daemons.agent.kill()
    sites.lab.heal()
    a.wait_for("a route again", partial(is_routed, a, networks[1]), 60)


def test_a_restarted_olsrd2_announces_again_and_nothing_leaves_in_the_clear(sites: Sites) -> None:
    """olsrd2 has no routes at first and needs its time for them; the tunnel's routes stay.

    It is the last test with this mesh: by chance others ignore what a new olsrd2 changes (ADR 0064).
    """
    a, c = sites.ends
    with ExitStack() as stack, captured(sites.lab, "restart") as captures:
        flows = [stack.enter_context(flow) for flow in flows_between(sites)]
        for flow in flows:
            wait_arrivals(flow, 10)
        c.daemons.router.stop()
        sites.lab.start("router", nodes=[c])
        c.wait_for("its networks", partial(_announces, c), 60)
        assert all(is_routed(a, network) for network in sites.hosts[1].networks)
        for flow in flows:
            wait_arrivals(flow, 200, 120)
    assert_nothing_clear(captures)
    wait_no_drift(a)
    wait_no_drift(c)


def test_a_network_that_nobody_may_speak_for_is_not_used() -> None:
    with connected("olsrd2-no", a_accepts=False, olsrd2="abc") as sites:
        a, (first, second) = sites.lab["a"], sites.hosts
        a.wait_for("word of the network", lambda: "announced networks" in a.meshsec("doctor", check=False).stdout, 60)
        with captured(sites.lab, "nobody") as captures:
            for network in second.networks:
                assert not is_routed(a, network)
            assert not [one for one in _routers_routes(a) if one.startswith(("2001:db8:", "192.168."))]
            traffic.send((first.namespace, first.address), second.address)
        assert_nothing_clear(captures)


def _assert_protected(sites: Sites) -> None:
    assert_hosts_talk(sites)
    for node in sites.ends:
        wait_no_drift(node)


def _session(node: Node, *lines: str) -> str:
    return TextInterface(node.namespace, None).ask(*lines, "quit")


@contextmanager
def _announced_by_relay(sites: Sites, *networks: str) -> Iterator[None]:
    """Let the relay announce networks to the whole mesh."""
    b = sites.lab["b"]
    _session(b, *(f"config set olsrv2_lan[x{i}].prefix={one}" for i, one in enumerate(networks)), "config commit")
    try:
        yield
    finally:
        _session(b, "config remove olsrv2_lan.", "config commit")


def _routers_routes(node: Node) -> list[str]:
    """Return the destinations of the routes that the routing daemon has set."""
    versions = (node.run("ip", version, "route", "show", "proto", "100").stdout for version in ("-4", "-6"))
    return [line.split()[0] for text in versions for line in text.splitlines()]


def _announces(node: Node) -> bool:
    """Return whether the olsrd2 of c announces the networks behind it; False while it does not answer."""
    try:
        announced = _session(node, "olsrv2info json lan")
    except ConnectionError:
        return False
    return all(f'"{one}"' in announced for one in ANNOUNCED)
