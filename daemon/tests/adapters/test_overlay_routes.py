"""The routes into the overlay's device and the rules that lead to them, in a real kernel."""

import asyncio
import json
from ipaddress import IPv6Address

import pytest

from meshsec.adapters.overlay import routes
from meshsec.adapters.overlay.routes import RoutesError
from namespaces import ip, needs_root

pytestmark = needs_root

OWN, PEER, OTHER = IPv6Address("fc00::a"), IPv6Address("fc00::b"), IPv6Address("fc00::c")
DEVICE = "overlay0"


@pytest.fixture
def device(inside: str) -> str:
    """Give a device such as overlayd's, beside a mesh interface with the router's routes to all peers."""
    ip("address", "add", f"{OWN}/128", "dev", "lo", "nodad")
    ip("link", "add", "mesh0", "type", "veth", "peer", "name", "mesh1")
    for name in ("mesh0", "mesh1"):
        ip("link", "set", name, "up")
    for peer in (PEER, OTHER):
        ip("-6", "route", "add", f"{peer}/128", "dev", "mesh0", "proto", "100", "src", str(OWN))
    ip("tuntap", "add", DEVICE, "mode", "tun")
    ip("link", "set", DEVICE, "up")
    return DEVICE


def apply(*addresses: IPv6Address) -> frozenset[IPv6Address]:
    return asyncio.run(routes.apply(frozenset(addresses), DEVICE, OWN))


def standing() -> frozenset[IPv6Address]:
    return asyncio.run(routes.installed(DEVICE))


def taken(to: IPv6Address, *further: str) -> tuple[str, str]:
    """Return device and source address that the kernel chooses for a packet of this node."""
    (route,) = json.loads(ip("-6", "-j", "route", "get", str(to), *further))
    return route["dev"], route.get("prefsrc", "")


def test_only_user_data_to_the_given_peers_goes_into_the_device(device: str) -> None:
    assert apply(PEER) == standing() == {PEER}
    assert (taken(PEER), taken(OTHER)) == ((DEVICE, str(OWN)), ("mesh0", str(OWN)))
    assert apply(OTHER) == standing() == {OTHER}
    assert (taken(PEER), taken(OTHER)) == (("mesh0", str(OWN)), (DEVICE, str(OWN)))
    assert apply() == standing() == frozenset()
    assert taken(OTHER) == ("mesh0", str(OWN))


@pytest.mark.parametrize("port", ["500", "4500"])
def test_ike_goes_by_the_routers_routes(device: str, port: str) -> None:
    apply(PEER)
    assert taken(PEER, "ipproto", "udp", "sport", port, "dport", port)[0] == "mesh0"
    assert taken(PEER, "ipproto", "udp", "sport", "7000", "dport", port)[0] == DEVICE, "user data to that port"


def test_what_is_forwarded_does_not_go_into_the_device(device: str) -> None:
    apply(PEER)
    ip("address", "add", "fe80::9/64", "dev", "mesh1", "nodad")
    assert taken(PEER, "from", "fc00::d", "iif", "mesh1")[0] == "mesh0"


def test_without_the_device_the_routes_are_gone_and_cannot_be_set(device: str) -> None:
    apply(PEER)
    ip("link", "delete", device)
    assert standing() == frozenset()
    assert taken(PEER)[0] == "mesh0", "where the drop rules wait for it"
    with pytest.raises(RoutesError, match="overlay0: there is no such device"):
        apply(PEER)


def test_a_device_that_came_back_needs_its_routes_again(device: str) -> None:
    apply(PEER)
    ip("link", "delete", device)
    ip("tuntap", "add", device, "mode", "tun")
    ip("link", "set", device, "up")
    assert standing() == frozenset()
    assert apply(PEER) == {PEER}


def test_removed_rules_are_noticed_and_set_again(device: str) -> None:
    apply(PEER)
    ip("-6", "rule", "delete", "priority", str(routes.PRIORITY))
    assert standing() == frozenset()
    assert apply(PEER) == {PEER}
    assert taken(PEER)[0] == device


def test_removing_our_routes_leaves_those_of_others(device: str) -> None:
    ip("-6", "rule", "add", "to", "fc00::/8", "lookup", "300", "priority", "300")
    ip("-6", "route", "add", "fc00::e/128", "dev", device, "table", str(routes.TABLE))
    apply(PEER)
    asyncio.run(routes.clear())
    rules = [rule["priority"] for rule in json.loads(ip("-6", "-j", "rule"))]
    assert rules == [0, 300, 32766]
    (left,) = json.loads(ip("-6", "-j", "route", "show", "table", str(routes.TABLE)))
    assert left["dst"] == "fc00::e"
    asyncio.run(routes.clear())


def test_a_refusal_of_the_kernel_is_named(device: str) -> None:
    with pytest.raises(RoutesError, match="route replace fc00::b in table 221"):
        asyncio.run(routes.apply(frozenset({PEER}), device, IPv6Address("fc00::dead")))
