"""The tunnel's device, its routes and the rules that lead to them, in a real kernel."""

import asyncio
import json
from collections.abc import Collection
from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest

from meshsec.adapters.kernel import tunnel
from meshsec.adapters.kernel.tunnel import Own, TunnelError
from meshsec.core.channels.nft_networks import PORT
from meshsec.core.networks.flow_marks import BASE
from meshsec.core.values.networks import TunnelRoute
from namespaces import ip, needs_root

pytestmark = needs_root

OWN = Own(IPv6Address("fc00::a"), IPv4Address("10.77.0.1"))
ROUTER = 100
"""The protocol number of the routing daemon's routes."""
PEER, OTHER = IPv6Address("fc00::b"), IPv6Address("fc00::c")
DEVICE, LINKS, MTU = "meshsec-nets", ["mesh0"], 1388


@pytest.fixture
def node(inside: str) -> None:
    """Give the node its addresses, a mesh interface with the router's route to a peer, and a LAN."""
    ip("address", "add", str(OWN.address), "dev", "lo", "nodad")  # Else it is no route's source for a moment.
    ip("address", "add", str(OWN.ipv4), "dev", "lo")
    for name, far in (("mesh0", "mesh1"), ("lan0", "lan1")):
        ip("link", "add", name, "type", "veth", "peer", "name", far)
        for end in (name, far):
            ip("link", "set", end, "up")
    ip("-6", "route", "add", f"{PEER}/128", "dev", "mesh0", "proto", "100")


def to(network: str, peer: IPv6Address = PEER, *, forwarded: bool = False) -> TunnelRoute:
    return TunnelRoute(ip_network(network), peer, forwarded)


def apply(*routes: TunnelRoute) -> Collection[TunnelRoute]:
    return asyncio.run(tunnel.apply(frozenset(routes), DEVICE, OWN, LINKS, MTU))


def installed() -> Collection[TunnelRoute]:
    return asyncio.run(tunnel.installed(DEVICE, OWN, LINKS))


def taken(destination: str, *further: str) -> tuple[str, str]:
    """Return device and source address that the kernel chooses for a packet."""
    (route,) = json.loads(ip("-j", "route", "get", destination, *further))
    return route["dev"], route.get("prefsrc", "")


def test_packets_to_networks_go_into_the_device_from_this_nodes_address(node: None) -> None:
    routes = {to("10.1.0.0/16"), to("2001:db8:1::/64"), to("::/0", OTHER), to("0.0.0.0/0", OTHER)}
    assert apply(*routes) == installed() == routes
    assert taken("10.1.2.3") == taken("192.0.2.1") == (DEVICE, str(OWN.ipv4))
    assert taken("2001:db8:1::5") == taken("2001:db8:9::5") == (DEVICE, str(OWN.address))
    (link,) = json.loads(ip("-j", "-d", "link", "show", DEVICE))
    assert (link["mtu"], link["linkinfo"]["info_data"]["port"]) == (MTU, PORT)
    assert apply() == installed() == frozenset()


def test_a_network_moves_to_another_peer_by_one_replaced_route(node: None) -> None:
    apply(to("10.1.0.0/16"), to("2001:db8:1::/64"))
    moved = {to("10.1.0.0/16", OTHER), to("2001:db8:1::/64", OTHER)}
    assert apply(*moved) == installed() == moved
    assert ip("route", "show", "10.1.0.0/16").count("\n") == 1
    assert ip("-6", "route", "show", "2001:db8:1::/64").count("\n") == 1


def test_routes_from_an_address_of_a_former_key_are_not_installed_and_are_replaced(node: None) -> None:
    routes = {to("10.1.0.0/16"), to("2001:db8:1::/64"), to(f"{PEER}/128", forwarded=True)}
    former = Own(IPv6Address("fc00::f"), OWN.ipv4)
    ip("-6", "address", "add", str(former.address), "dev", "lo", "nodad")
    assert asyncio.run(tunnel.apply(routes, DEVICE, former, LINKS, MTU)) == routes
    assert installed() == frozenset()
    assert apply(*routes) == installed() == routes
    assert ip("-6", "route", "show", "table", "all", "dev", DEVICE, "proto", str(tunnel.PROTOCOL)).count("\n") == 2


def test_what_is_forwarded_to_a_peer_takes_the_tunnel_unless_it_comes_from_the_mesh(node: None) -> None:
    routes = {to(f"{PEER}/128", forwarded=True), to("10.77.0.2/32", forwarded=True)}
    assert apply(*routes) == installed() == routes
    assert taken(str(PEER))[0] == "mesh0", "this node's own packets need no tunnel"
    ip("-6", "address", "add", "2001:db8:9::1/64", "dev", "lan0", "nodad")
    assert taken(str(PEER), "from", "2001:db8:9::5", "iif", "lan0")[0] == DEVICE
    assert taken(str(PEER), "from", "fc00::d", "iif", "mesh0")[0] == "mesh0", "a relay passes it on"
    apply(to("10.1.0.0/16"))
    assert "proto 102" not in ip("-6", "rule", "show")


def test_packets_with_the_mark_of_a_gateway_take_its_table(node: None) -> None:
    near, far = (TunnelRoute(ip_network("::/0"), peer, mark=BASE + number) for number, peer in ((1, PEER), (2, OTHER)))
    routes = {to("::/0"), near, far}
    assert apply(*routes) == installed() == routes

    def target(*mark: str) -> str:
        text = ip("-6", "-d", "route", "get", "2001:db8:9::5", *mark)
        return text.partition(" dst ")[2].split()[0]

    assert [target(), target("mark", hex(BASE + 1)), target("mark", hex(BASE + 2))] == [
        str(PEER),
        str(PEER),
        str(OTHER),
    ]
    assert apply(to("::/0"), near) == {to("::/0"), near}
    assert target("mark", hex(BASE + 2)) == str(PEER), "no table is left, so that it takes the main one"
    ip("-6", "rule", "del", "priority", str(tunnel.FLOWS_PRIORITY))
    assert installed() == {to("::/0")}
    apply()
    assert "proto 102" not in ip("-6", "rule", "show")


def test_what_another_program_removes_is_missing_from_what_is_read_back(node: None) -> None:
    routes = {to("10.1.0.0/16"), to(f"{PEER}/128", forwarded=True)}
    apply(*routes)
    ip("-6", "rule", "del", "priority", str(tunnel.FORWARDED_PRIORITY))
    assert installed() == {to("10.1.0.0/16")}
    assert apply(*routes) == routes
    ip("route", "del", "10.1.0.0/16")
    assert installed() == {to(f"{PEER}/128", forwarded=True)}
    ip("link", "del", DEVICE)
    assert installed() == frozenset()
    assert apply(*routes) == routes


def test_routes_of_others_are_left_alone(node: None) -> None:
    apply(to("10.1.0.0/16"))
    ip("route", "add", "10.2.0.0/16", "dev", DEVICE)
    ip("route", "add", "10.3.0.0/16", "dev", "lan0", "proto", str(tunnel.PROTOCOL))
    assert apply() == frozenset()
    left = ip("route", "show")
    assert "10.2.0.0/16" in left
    assert "10.3.0.0/16" in left


def test_routes_of_others_through_the_tunnel_are_named_and_the_kernels_and_meshsecs_are_not(node: None) -> None:
    clients = 103

    def foreign() -> list[str]:
        found = asyncio.run(tunnel.foreign(DEVICE, (clients,)))
        return [f"{one.destination} {one.protocol} {one.metric} {one.table}" for one in found]

    assert foreign() == [], "there is no device"
    apply(to("10.1.0.0/16"), to("2001:db8:1::/64"), to(f"{PEER}/128", forwarded=True))
    ip("-6", "address", "add", "2001:db8:7::1/64", "dev", DEVICE, "nodad")
    ip("route", "add", "10.9.0.0/16", "dev", DEVICE, "proto", str(clients))
    ip("route", "add", "10.8.0.0/16", "dev", "lan0")
    assert foreign() == []
    ip("route", "add", "10.1.2.0/24", "dev", DEVICE)
    ip("-6", "route", "add", "2001:db8:1::/64", "dev", DEVICE, "metric", "7", "proto", "static", "table", "300")
    assert foreign() == ["10.1.2.0/24 3 0 254", "2001:db8:1::/64 4 7 300"]


def test_routes_of_others_into_a_network_are_named(node: None) -> None:
    networks = [ip_network("10.1.0.0/16"), ip_network("2001:db8:1::/64"), ip_network("0.0.0.0/0")]

    def others() -> list[str]:
        return [str(one) for one in asyncio.run(tunnel.others(networks, DEVICE, ROUTER))]

    apply(to("10.1.0.0/16"), to("2001:db8:1::/64"))
    ip("route", "add", "10.0.0.0/8", "dev", "lan0")
    ip("route", "add", "default", "dev", "lan0")
    assert not others()
    ip("address", "add", "10.1.3.1/24", "dev", "lan0")
    ip("-6", "route", "add", "2001:db8:1::/64", "dev", "mesh0")
    ip("route", "add", "unreachable", "10.1.4.0/24")
    assert others() == ["10.1.3.0/24 by lan0", "10.1.4.0/24 by no interface", "2001:db8:1::/64 by mesh0"]


def test_routes_of_the_routing_daemon_past_the_tunnel_are_named_as_such(node: None) -> None:
    networks = [ip_network("10.1.0.0/16"), ip_network("0.0.0.0/0")]
    for destination in ("10.1.4.0/24", "10.2.0.0/16", "default"):
        ip("route", "add", destination, "dev", "mesh0", "proto", str(ROUTER))
    found = asyncio.run(tunnel.others(networks, DEVICE, ROUTER))
    by = "by mesh0 (set by the routing daemon)"
    assert [*map(str, found)] == [f"0.0.0.0/0 {by}", f"10.1.4.0/24 {by}"]


def test_a_route_behind_that_through_the_tunnel_is_not_past_it(node: None) -> None:
    networks, client = [ip_network("fd00:1::/64")], "fd00:1::5/128"
    ip("-6", "route", "add", client, "dev", "mesh0", "proto", str(ROUTER), "metric", "20")
    assert [*map(str, asyncio.run(tunnel.others(networks, DEVICE, ROUTER)))] == [
        f"{client} by mesh0 (set by the routing daemon)"
    ]
    apply(to(client))
    assert asyncio.run(tunnel.others(networks, DEVICE, ROUTER)) == ()
    ip("-6", "route", "add", client, "dev", "lan0", "metric", "2")
    assert [*map(str, asyncio.run(tunnel.others(networks, DEVICE, ROUTER)))] == [f"{client} by lan0"]


def test_a_node_without_networks_has_neither_device_nor_rules(node: None) -> None:
    apply(to("10.1.0.0/16"), to(f"{PEER}/128", forwarded=True))
    asyncio.run(tunnel.clear(DEVICE))
    assert DEVICE not in ip("link", "show")
    assert "proto 102" not in ip("rule", "show") + ip("-6", "rule", "show")
    asyncio.run(tunnel.clear(DEVICE))


def test_a_refusal_of_a_route_names_the_route_and_the_reason(node: None) -> None:
    foreign = Own(IPv6Address("fc00::f"), None)
    with pytest.raises(TunnelError, match=r"route replace 2001:db8:1::/64 in table 254, .*Invalid argument"):
        asyncio.run(tunnel.apply({to("2001:db8:1::/64")}, DEVICE, foreign, LINKS, MTU))


def test_a_refusal_of_the_kernel_names_the_request(node: None) -> None:
    ip("link", "add", "taken", "type", "vxlan", "id", "7", "dstport", str(PORT), "dev", "lan0")
    ip("link", "set", "taken", "up")
    with pytest.raises(TunnelError, match=f"link (add|set) {DEVICE}"):
        apply(to("10.1.0.0/16"))
