"""The bridge of an access node, the ways to clients, and their flows, in a real kernel."""

import asyncio
import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv6Address, ip_address, ip_network
from pathlib import Path

import pytest

from meshsec.adapters.kernel import clients, tunnel
from meshsec.adapters.kernel.clients import ClientsError, Handed, Host
from meshsec.adapters.kernel.flows import flows_of
from meshsec.adapters.kernel.tunnel import Own
from meshsec.core.access.messages import Flow
from meshsec.core.access.shared_address import DEVICE, addresses_of, mac_of
from meshsec.core.networks.flow_marks import BASE
from meshsec.core.values.networks import TunnelRoute
from namespaces import ip, needs_root, wait_for

pytestmark = needs_root

NETWORKS = (ip_network("10.130.0.0/16"), ip_network("fd00:1::/64"))
FOUR = Host(ip_address("10.130.0.5"), "06:00:00:00:00:05")
SIX = Host(ip_address("fd00:1::5"), "06:00:00:00:00:05")
TUNNEL = "meshsec-nets"
OWN, PEER = IPv6Address("fc00::a"), IPv6Address("fc00::b")


@pytest.fixture
def node(inside: str) -> None:
    """Give the node its address, two ports, and the device of the tunnel."""
    ip("address", "add", f"{OWN}/128", "dev", "lo", "nodad")
    for name in ("eth1", "eth2"):
        ip("link", "add", name, "type", "veth", "peer", "name", f"far-{name}")
        ip("link", "set", f"far-{name}", "up")
    mesh = TunnelRoute(ip_network("10.1.0.0/16"), PEER)
    asyncio.run(tunnel.apply(frozenset({mesh}), TUNNEL, Own(OWN, None), [], 1400))


def bridge(*ports: str) -> tuple[str, ...]:
    return asyncio.run(clients.set_bridge(DEVICE, mac_of(NETWORKS), addresses_of(NETWORKS), ports))


def serve(*hosts: Host, handed: tuple[Handed, ...] = ()) -> frozenset[Host]:
    asyncio.run(clients.set_hosts(DEVICE, hosts, handed, OWN, NETWORKS))
    return asyncio.run(clients.hosts(DEVICE))


def way(destination: str) -> str:
    """Return the device by which a packet leaves; empty: by none."""
    shown = ip("-j", "route", "get", destination, check=False)
    return str(json.loads(shown)[0].get("dev", "")) if shown.startswith("[") else ""


@contextmanager
def changes() -> Iterator[list[str]]:
    """Collect what the kernel reports of interfaces, addresses and routes."""
    argv = ["ip", "monitor", "link", "address", "route"]
    seen: list[str] = []
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        try:
            wait_for(lambda: _hears(watching.pid), "ip monitor")
            yield seen
            ip("link", "add", "last", "type", "bridge")
            while "last" not in (line := watching.stdout.readline()):
                seen.append(line)
        finally:
            watching.kill()


def _hears(process: int) -> bool:
    """Tell whether a process has joined groups of netlink: what changes before that, it does not report."""
    sockets = [line.split() for line in Path("/proc/thread-self/net/netlink").read_text("ascii").splitlines()[1:]]
    return any(int(one[2]) == process and int(one[3], 16) for one in sockets)


def test_the_bridge_is_the_same_gateway_everywhere_and_its_ports_are_isolated(node: None) -> None:
    assert bridge("eth1", "eth3") == ("eth3",)
    (shown,) = json.loads(ip("-j", "address", "show", "dev", DEVICE))
    assert shown["address"] == mac_of(NETWORKS)
    assert {"10.130.0.1", "fd00:1::1"} < {one["local"] for one in shown["addr_info"]}
    assert "10.130.0.0" not in ip("route", "show", "dev", DEVICE), "no network is on the link"
    settings = Path(f"/proc/sys/net/ipv4/conf/{DEVICE}")
    found = [(settings / name).read_text("ascii") for name in ("proxy_arp", "proxy_arp_pvlan", "send_redirects")]
    assert found == ["1\n", "1\n", "0\n"]
    ip("link", "set", "eth2", "master", DEVICE)
    bridge("eth1")
    for name in ("eth1", "eth2"):
        (port,) = json.loads(ip("-j", "-d", "link", "show", name))
        assert (port["master"], port["linkinfo"]["info_slave_data"]["isolated"]) == (DEVICE, True)


def test_a_bridge_that_is_as_it_ought_to_be_is_left_alone(node: None) -> None:
    """A change would be one of an interface, for which meshsecd looks here again: without end."""
    bridge("eth1")
    serve(FOUR, SIX)
    wait_for(
        lambda: all("state UP" in ip("link", "show", one) for one in (DEVICE, "eth1")),
        "the carriers of bridge and port",
    )
    with changes() as seen:
        bridge("eth1")
    assert not [line for line in seen if DEVICE in line or "eth1" in line]
    assert asyncio.run(clients.hosts(DEVICE)) == {FOUR, SIX}


def test_clients_are_reached_and_others_are_unreachable(node: None) -> None:
    bridge("eth1")
    assert serve(FOUR, SIX) == {FOUR, SIX}
    assert (way("10.130.0.5"), way("fd00:1::5")) == (DEVICE, DEVICE)
    assert (way("10.130.0.6"), way("fd00:1::6")) == ("", "")
    assert FOUR.mac in ip("neigh", "show", "dev", DEVICE, "nud", "permanent")
    assert serve(SIX) == {SIX}
    assert way("10.130.0.5") == ""
    assert "10.130.0.5" not in ip("neigh", "show", "dev", DEVICE, "nud", "permanent")


def test_a_client_that_is_handed_over_is_reached_through_the_tunnel_and_again_when_it_is_back(node: None) -> None:
    bridge("eth1")
    serve(FOUR, SIX)
    handed = (Handed(FOUR.address, PEER), Handed(SIX.address, PEER))
    assert serve(handed=handed) == frozenset()
    assert (way("10.130.0.5"), way("fd00:1::5")) == (TUNNEL, TUNNEL)
    assert ip("route", "show", "10.130.0.5").count("\n") == 1, "replaced, not added"
    assert serve(FOUR, handed=handed[1:]) == {FOUR}
    assert (way("10.130.0.5"), way("fd00:1::5")) == (DEVICE, TUNNEL)
    serve(FOUR)
    assert way("fd00:1::5") == ""


def test_a_node_without_clients_has_nothing_of_them(node: None) -> None:
    bridge("eth1")
    serve(FOUR, handed=(Handed(SIX.address, PEER),))
    for _ in range(2):
        asyncio.run(clients.remove_bridge(DEVICE))
        assert "proto 103" not in ip("route", "show") + ip("-6", "route", "show")
        assert DEVICE not in ip("link", "show")
    with pytest.raises(ClientsError, match=f"{DEVICE}: there is no such device"):
        serve(FOUR)


@pytest.mark.parametrize("target", ["127.0.0.1", "::1"])
def test_the_flows_of_a_client_are_read_with_their_gateways(inside: str, target: str) -> None:
    """The client is this node itself, whose flows get a gateway's mark."""
    chain = f"type filter hook output priority mangle; udp dport 7000 ct mark set {BASE + 1};"
    subprocess.run(["nft", f"table inet marks {{ chain output {{ {chain} }}; }}"], check=True)
    family = socket.AF_INET6 if ":" in target else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sender:
        for port in (7000, 7001):
            sender.sendto(b"x", (target, port))
        source = sender.getsockname()[1]
    client, other = ip_address(target), ip_address("192.0.2.1")
    marked, unmarked = (Flow(client, client, 17, source, port, PEER) for port in (7000, 7001))
    assert asyncio.run(flows_of([client, other], {BASE + 1: PEER})) == [marked]
    assert set(asyncio.run(flows_of([client], {BASE + 1: PEER, 0: PEER}))) == {marked, unmarked}
    assert asyncio.run(flows_of([other], {BASE + 1: PEER})) == asyncio.run(flows_of([client], {BASE + 2: PEER})) == []
