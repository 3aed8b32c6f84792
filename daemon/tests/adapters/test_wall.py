"""The wall towards the mesh in a real kernel: forwarding, address translation, and other addresses of the node.

The node under test stands between a stranger on the mesh interface ``mesh0`` and a host behind it on ``lan0``.
"""

import asyncio
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network, IPv6Network
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import ICMPv6PacketTooBig, IPv6, IPv6ExtHdrSegmentRouting
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from adapters.test_nftables import (
    LOCATOR,
    OUTSIDE,
    OWN,
    OWN4,
    OWN_LOCATOR,
    PATIENCE,
    PEER,
    PEER4,
    SILENCE,
    SPEC,
    STRANGER,
    begins,
    listening,
    received,
    sendto,
    serving,
    within,
)
from meshsec.adapters.kernel.nftables import Nftables
from meshsec.core.channels.nft_rules import render
from meshsec.core.trust.fleet_exchange import PORT as FLEET_PORT
from meshsec.core.values.bypass import Bypass
from meshsec.core.values.model import EspBackend, Perimeter, RulesSpec, UnknownNodes
from namespaces import ip, needs_root, wait_for

pytestmark = needs_root

HOST, GATE = "2001:db8:1::5", "2001:db8:1::1"
"""The host behind the node, and the node's address there."""
HOST4, GATE4 = IPv4Address("192.168.1.5"), IPv4Address("192.168.1.1")
OPENED = Perimeter(frozenset({"mesh0"}), opened=(IPv6Network("2001:db8:1::/64"), IPv4Network("192.168.1.0/24")))
WAY_OUT = Perimeter(frozenset({"mesh0"}), opened=(IPv6Network("::/0"), IPv4Network("0.0.0.0/0")))
THROUGH_OTHERS = Perimeter(frozenset({"mesh0"}), reached=(IPv6Network("2001:db8::/32"),))
_IPV6_RTHDR = 57  # linux/in6.h


@dataclass
class Between:
    """The namespaces of a stranger and of a host behind this node; None is the node's, where the test runs."""

    stranger: str
    host: str
    macs: tuple[str, str]
    """Hardware addresses of ``mesh0``: the node's and the stranger's."""
    rules: Nftables

    def apply(self, spec: RulesSpec) -> None:
        asyncio.run(self.rules.apply(spec))

    def counters(self) -> dict[str, int]:
        return {name: count for name, count in asyncio.run(self.rules.counters()).items() if count}

    def forge(self, packet: Packet) -> None:
        """Send a packet of the stranger's making to the node's hardware address."""

        def send() -> None:
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
                out.bind(("mesh0", 0))
                out.send(bytes(Ether(src=self.macs[1], dst=self.macs[0]) / packet))

        within(self.stranger, send)

    def masquerade(self) -> None:
        """Let what is behind the node leave with the node's address, as a container engine does."""
        rules = (
            'table inet nat { chain out { type nat hook postrouting priority srcnat; iifname "lan0" masquerade; }; }'
        )
        subprocess.run(["nft", rules], check=True)


def passes(sender: str | None, source: object, receiver: str | None, target: object, *ports: int) -> bool:
    """Return whether a datagram between two namespaces was heard. ``ports``: to, and from."""
    return _heard((sender, source), (receiver, target), ports, PATIENCE)


def stops(sender: str | None, source: object, receiver: str | None, target: object, *ports: int) -> bool:
    """Return whether a datagram between two namespaces was not heard."""
    return not _heard((sender, source), (receiver, target), ports, SILENCE)


def _heard(
    sender: tuple[str | None, object], receiver: tuple[str | None, object], ports: tuple[int, ...], seconds: float
) -> bool:
    to_port, own_port = (*ports, 9, 0)[:2] if len(ports) != 1 else (ports[0], 0)
    with listening(*receiver, to_port) as heard:
        within(sender[0], lambda: sendto(sender[1], receiver[1], to_port, own_port))
        return received(heard, seconds)


def answers(sender: str | None, source: str, receiver: str | None, target: str) -> bool:
    """Return whether a datagram's answer reaches its sender."""
    with listening(receiver, target, 9) as heard, listening(sender, source, 10) as back:
        back.sendto(b"user data", (target, 9))
        heard.settimeout(PATIENCE)
        _, seen_from = heard.recvfrom(64)
        heard.sendto(b"user data", seen_from)
        return received(back)


def mac(space: str | None) -> str:
    prefix = ["-n", space] if space else []
    return ip(*prefix, "-br", "link", "show", "mesh0").split()[2]


@pytest.fixture
def between(new_namespace: Callable[[], str], inside: str) -> Between:
    stranger, host = new_namespace(), new_namespace()
    subprocess.run(
        ["sysctl", "-qw", "net.ipv6.conf.all.forwarding=1", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0"],
        check=True,
    )
    for device, other in (("mesh0", stranger), ("lan0", host)):
        ip("link", "add", device, "type", "veth", "peer", "name", device, "netns", other)
        for space, number in ((inside, 1), (other, 2)):
            ip("-n", space, "link", "set", device, "up")
            ip("-n", space, "addr", "add", f"fe80::{number}/64", "dev", device, "nodad")
        ip("-n", other, "route", "add", "default", "via", "fe80::1", "dev", device)
    for address in (OWN, OWN_LOCATOR):
        ip("addr", "add", f"{address}/128", "dev", "lo", "nodad")
    for address in (PEER, STRANGER, LOCATOR, OUTSIDE):
        ip("-n", stranger, "addr", "add", f"{address}/128", "dev", "lo", "nodad")
        ip("route", "add", f"{address}/128", "via", "fe80::2", "dev", "mesh0")
    ip("addr", "add", f"{OWN4}/32", "dev", "mesh0")
    ip("route", "add", f"{PEER4}/32", "dev", "mesh0")
    ip("-n", stranger, "addr", "add", f"{PEER4}/32", "dev", "mesh0")
    ip("-n", stranger, "route", "add", "default", "via", str(OWN4), "dev", "mesh0", "onlink")
    for space, address6, address4 in ((inside, GATE, GATE4), (host, HOST, HOST4)):
        ip("-n", space, "addr", "add", f"{address6}/64", "dev", "lan0", "nodad")
        ip("-n", space, "addr", "add", f"{address4}/24", "dev", "lan0")
    ip("-n", host, "route", "add", "default", "via", str(GATE4))
    carried = ("mesh0", "lan0")
    wait_for(lambda: all("LOWER_UP" in ip("link", "show", device) for device in carried), "the links")
    return Between(stranger, host, (mac(None), mac(stranger)), Nftables())


# --- what a stranger sends through this node ---


def test_without_the_wall_all_of_it_passes(between: Between) -> None:
    """Control of this module: without rules everything passes that the tests see stopped."""
    stranger, host = between.stranger, between.host
    assert passes(stranger, STRANGER, host, HOST)
    assert passes(stranger, PEER4, host, HOST4)
    assert passes(host, HOST, stranger, PEER)
    assert passes(host, HOST4, stranger, PEER4)
    assert passes(None, "fe80::1%mesh0", stranger, "fe80::2%mesh0")
    between.masquerade()
    assert passes(host, HOST4, stranger, PEER4)
    assert passes(host, HOST, stranger, LOCATOR, 4500, 4500)


@pytest.mark.parametrize(("source", "target"), [(STRANGER, HOST), (PEER4, HOST4)])
def test_a_stranger_does_not_reach_the_networks_behind_the_node(
    between: Between, source: object, target: object
) -> None:
    between.apply(SPEC)
    assert stops(between.stranger, source, between.host, target)
    assert between.counters() == {"into_networks": 1}


def test_a_network_that_is_opened_by_name_is_reached_and_answers(between: Between) -> None:
    between.apply(replace(SPEC, perimeter=OPENED))
    for source in (STRANGER, PEER):
        assert answers(between.stranger, str(source), between.host, HOST)
    assert passes(between.stranger, PEER4, between.host, HOST4)
    assert between.counters() == {}


def test_a_network_that_is_opened_begins_nothing_with_the_mesh(between: Between) -> None:
    between.apply(replace(SPEC, perimeter=OPENED))
    assert stops(between.host, HOST, between.stranger, PEER)
    assert stops(between.host, HOST, between.stranger, STRANGER)
    assert between.counters() == {"clear_out": 1, "unknown_out": 1}


def test_a_way_out_does_not_lead_into_private_networks_beside_it(between: Between) -> None:
    between.apply(replace(SPEC, perimeter=WAY_OUT))
    assert answers(between.stranger, str(STRANGER), between.host, HOST), "2001:db8::/32 stands for the outside"
    assert stops(between.stranger, PEER4, between.host, HOST4)
    assert between.counters() == {"into_networks": 1}


@pytest.mark.parametrize(
    ("device", "changes"),
    [
        ("ipsec0", {}),
        ("ipsec0", {"overlay_device": "overlay0"}),
        ("overlay0", {"overlay_device": "overlay0"}),
        ("overlay0", {"overlay_device": "overlay0", "backend": EspBackend.KERNEL}),
    ],
)
def test_a_stranger_uses_neither_sa_nor_overlay_of_the_node(
    between: Between, device: str, changes: dict[str, Any]
) -> None:
    ip("link", "set", "lan0", "down")
    ip("link", "set", "lan0", "name", device)
    ip("link", "set", device, "up")
    ip("addr", "add", "fe80::1/64", "dev", device, "nodad", check=False)
    ip("route", "replace", "2001:db8:1::/64", "via", "fe80::2", "dev", device)
    assert passes(between.stranger, OUTSIDE, between.host, HOST)
    assert passes(between.host, HOST, between.stranger, OUTSIDE)
    between.apply(replace(SPEC, perimeter=OPENED, **changes))
    assert stops(between.stranger, OUTSIDE, between.host, HOST)
    assert stops(between.host, HOST, between.stranger, OUTSIDE)
    assert between.counters() == {"into_sa": 2}


def test_with_esp_in_the_kernel_the_rules_demand_transformed_packets_in_both_directions() -> None:
    """The guest, whose kernel has ESP, sends the packets."""
    text = render(replace(SPEC, backend=EspBackend.KERNEL))
    assert 'iifname @links rt ipsec exists counter name "into_sa" drop' in text
    assert 'oifname @links meta ipsec exists counter name "into_sa" drop' in text


def test_a_stranger_cannot_send_through_the_node_with_the_nodes_address(between: Between) -> None:
    """Else a stranger could speak with the address that the node's SAs authenticate."""
    forged = IPv6(src=str(OWN), dst=HOST) / UDP(sport=9, dport=9) / Raw(b"user data")
    with listening(between.host, HOST, 9) as heard:
        between.forge(forged)
        assert received(heard), "without rules it is forwarded"
        between.apply(replace(SPEC, perimeter=OPENED, unknown_nodes=UnknownNodes.ALLOW))
        between.forge(forged)
        assert not received(heard, SILENCE)
    assert between.counters() == {"spoofed": 1}


def test_a_stranger_cannot_send_through_the_node_with_its_ipv4_address(between: Between) -> None:
    """The rules drop it without relying on the kernel's check for martians (ADR 0024)."""
    between.apply(SPEC)
    between.forge(IP(src=str(OWN4), dst=str(HOST4)) / UDP(sport=9, dport=9) / Raw(b"user data"))
    wait_for(lambda: between.counters() == {"spoofed": 1}, "the drop")


def test_an_ipv4_peer_is_not_spoofed_by_a_mapped_source(between: Between) -> None:
    """A dual-stack socket would take the packet for one of the IPv4 peer."""
    forged = IPv6(src=f"::ffff:{PEER4}", dst=str(OWN)) / UDP(sport=9, dport=9) / Raw(b"user data")
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as heard:
        heard.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        heard.bind(("::", 9))
        between.forge(forged)
        heard.settimeout(PATIENCE)
        assert heard.recvfrom(64)[1][0] == f"::ffff:{PEER4}", "without rules the socket believes it"
        between.apply(SPEC)
        between.forge(forged)
        assert not received(heard, SILENCE)
    assert between.counters() == {"disguised": 1}


def test_nothing_is_forwarded_to_a_mapped_destination(between: Between) -> None:
    ip("route", "add", "::ffff:0:0/96", "via", "fe80::2", "dev", "lan0")
    between.apply(replace(SPEC, perimeter=OPENED))
    between.forge(IPv6(src=str(STRANGER), dst=f"::ffff:{HOST4}") / UDP(sport=9, dport=9) / Raw(b"user data"))
    wait_for(lambda: between.counters() == {"disguised": 1}, "the drop")


def segments(*addresses: str) -> bytes:
    """Return a segment routing header for IPV6_RTHDR (RFC 8754, section 2), the last destination first."""
    left = len(addresses) - 1
    head = struct.pack("!BBBBBBH", 0, 2 * len(addresses), 4, left, left, 0, 0)
    return head + b"".join(socket.inet_pton(socket.AF_INET6, one) for one in addresses)


def test_a_routing_header_does_not_hide_the_last_destination(between: Between) -> None:
    """An unprivileged account cannot use a routing header to reach a peer in the clear."""
    waypoint = "2001:db8:2::9"
    ip("-n", between.host, "addr", "add", f"{waypoint}/128", "dev", "lo", "nodad")
    ip("route", "add", f"{waypoint}/128", "via", "fe80::2", "dev", "lan0")

    def seen() -> str:
        return ip("-n", between.host, "-s", "-j", "link", "show", "lan0")

    def send() -> bool:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as out:
            out.setsockopt(socket.IPPROTO_IPV6, _IPV6_RTHDR, segments(str(PEER), waypoint))
            try:
                out.sendto(b"user data", (str(PEER), 9))
            except PermissionError:
                return False
        return True

    assert send(), seen()
    between.apply(SPEC)
    assert not send()
    assert between.counters() == {"disguised": 1}


def test_a_routing_header_from_outside_is_dropped(between: Between) -> None:
    """A packet with a routing header is neither received nor forwarded."""
    header = IPv6ExtHdrSegmentRouting(addresses=[str(OWN)], segleft=0)
    for device in ("all", "lan0"):
        setting = f"net.ipv6.conf.{device}.seg6_enabled=1"
        subprocess.run(["ip", "netns", "exec", between.host, "sysctl", "-qw", setting], check=True)
    forged = IPv6(src=str(OUTSIDE), dst=HOST) / header / UDP(sport=9, dport=9) / Raw(b"user data")
    with listening(between.host, HOST, 9) as heard:
        between.forge(forged)
        assert received(heard), "without rules it is forwarded"
        between.apply(replace(SPEC, perimeter=OPENED))
        between.forge(forged)
        assert not received(heard, SILENCE)
    assert between.counters() == {"disguised": 1}


# --- what is behind this node ---


@pytest.mark.parametrize("translated", [False, True])
def test_nothing_behind_the_node_reaches_a_peer_in_the_clear(between: Between, translated: bool) -> None:
    if translated:
        between.masquerade()
    between.apply(SPEC)
    for source, target in ((HOST, PEER), (HOST4, PEER4), (HOST, LOCATOR)):
        assert stops(between.host, source, between.stranger, target)
    assert stops(between.host, HOST, between.stranger, LOCATOR, 4500, 4500), "it is not the IKE daemon"
    assert between.counters() == {"clear_out": 4}


def test_a_host_behind_the_node_cannot_begin_a_fleets_exchange_as_the_node(between: Between) -> None:
    """A masqueraded host may use the node's SA, but must not pass for its meshsecd."""
    between.masquerade()
    ip("link", "set", "mesh0", "down")
    ip("link", "set", "mesh0", "name", "ipsec0")
    ip("link", "set", "ipsec0", "up")
    ip("addr", "add", "fe80::1/64", "dev", "ipsec0", "nodad", check=False)
    ip("route", "replace", f"{PEER}/128", "via", "fe80::2", "dev", "ipsec0", "src", str(OWN))
    ip("-n", between.stranger, "route", "replace", "default", "via", "fe80::1", "dev", "mesh0")
    between.apply(SPEC)
    with serving(0, between.stranger, PEER, FLEET_PORT), serving(0, between.stranger, PEER, FLEET_PORT + 1):
        assert not begins(0, HOST, PEER, FLEET_PORT, namespace=between.host, seconds=SILENCE)
        assert begins(0, HOST, PEER, FLEET_PORT + 1, namespace=between.host)
    assert between.counters() == {"fleet_out": 1}


def test_nothing_behind_the_node_reaches_a_peer_by_an_interface_outside_the_mesh(between: Between) -> None:
    """Without a route to a peer the default route does not take its data to somebody else."""
    between.apply(replace(SPEC, perimeter=Perimeter(frozenset({"elsewhere"}))))
    between.masquerade()
    assert stops(between.host, HOST, between.stranger, PEER)
    assert stops(between.host, HOST4, between.stranger, PEER4)
    assert passes(between.host, HOST, between.stranger, STRANGER), "what is no peer's is not the node's business there"


def test_a_host_behind_the_node_reaches_unknown_nodes_and_the_link_as_the_node_does(between: Between) -> None:
    between.apply(SPEC)
    assert stops(between.host, HOST, between.stranger, STRANGER)
    assert stops(between.host, HOST, between.stranger, OUTSIDE)
    assert between.counters() == {"unknown_out": 1, "link_out": 1}
    between.apply(replace(SPEC, unknown_nodes=UnknownNodes.ALLOW))
    assert passes(between.host, HOST, between.stranger, STRANGER)


def test_a_host_behind_the_node_gets_answers_from_beyond_the_mesh(between: Between) -> None:
    between.apply(replace(SPEC, perimeter=THROUGH_OTHERS))
    assert answers(between.host, HOST, between.stranger, str(OUTSIDE))
    assert stops(between.stranger, OUTSIDE, between.host, HOST, 11), "nothing is begun from there"
    assert between.counters() == {"into_networks": 1}


@pytest.mark.parametrize("device", ["lan1", "ipsec0"])
def test_the_nodes_own_networks_reach_each_other_and_its_peers_as_before(
    between: Between, new_namespace: Callable[[], str], device: str
) -> None:
    third = new_namespace()
    ip("link", "add", device, "type", "veth", "peer", "name", device, "netns", third)
    for where, number in ((), 1), (("-n", third), 2):
        ip(*where, "link", "set", device, "up")
        for address in (f"fe80::{number}/64", f"2001:db8:3::{number}/64"):
            ip(*where, "addr", "add", address, "dev", device, "nodad")
    ip("-n", third, "route", "add", "default", "via", "2001:db8:3::1")
    wait_for(lambda: "LOWER_UP" in ip("link", "show", device), "the link")
    for unknown_nodes in UnknownNodes:
        between.apply(replace(SPEC, unknown_nodes=unknown_nodes))
        assert passes(between.host, HOST, third, "2001:db8:3::2")
        assert passes(third, "2001:db8:3::2", between.host, HOST)
        assert between.counters() == {}


# --- a mesh interface, whatever the address ---


def test_no_user_data_crosses_a_mesh_interface_in_the_clear_by_any_address(between: Between) -> None:
    between.apply(SPEC)
    assert stops(None, "fe80::1%mesh0", between.stranger, "fe80::2%mesh0")
    assert stops(between.stranger, "fe80::2%mesh0", None, "fe80::1%mesh0")
    assert stops(None, GATE, between.stranger, OUTSIDE)
    assert stops(between.stranger, OUTSIDE, None, GATE)
    assert between.counters() == {"link_out": 2, "link_in": 2}
    assert passes(None, "fe80::1%lan0", between.host, "fe80::2%lan0"), "another interface is not the mesh"
    assert passes(between.host, "fe80::2%lan0", None, "fe80::1%lan0")


def test_neighbours_are_found_and_groups_are_reported(between: Between) -> None:
    between.apply(replace(SPEC, bypass=(Bypass(IPv6Network("fe80::/10"), "neighbours", "udp", 9),)))
    for space in (None, between.stranger):
        where = ["-n", space] if space else []
        ip(*where, "neigh", "flush", "dev", "mesh0")
    assert passes(None, "fe80::1%mesh0", between.stranger, "fe80::2%mesh0"), "it takes neighbour discovery"
    assert stops(None, "fe80::1%mesh0", between.stranger, "fe80::2%mesh0", 10)
    with listening_to_all(between) as seen, socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as member:
        member.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, GROUP + index())
        seen.settimeout(PATIENCE)
        while GROUP not in seen.recv(256):
            continue


def test_a_report_of_an_ipv4_group_is_no_user_data(between: Between) -> None:
    between.apply(SPEC)
    before = leaving(between)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as joined:
        joined.setsockopt(
            socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, IPv4Address("224.0.0.109").packed + bytes(4) + index()
        )
        wait_for(lambda: leaving(between) > before, "a report")
    assert between.counters() == {}


def leaving(between: Between) -> int:
    """Return how many IPv4 packets to groups this node's kernel has sent."""
    text = Path("/proc/self/net/netstat").read_text(encoding="ascii")
    names, values = (line.split() for line in text.splitlines() if line.startswith("IpExt:"))
    return int(values[names.index("OutMcastPkts")])


GROUP = socket.inet_pton(socket.AF_INET6, "ff02::6d")


def index() -> bytes:
    """Return the number of the mesh interface as kernel structures have it."""
    return socket.if_nametoindex("mesh0").to_bytes(4, sys.byteorder)


def listening_to_all(between: Between) -> socket.socket:
    """Return a socket that receives everything at the stranger's interface."""

    def opened() -> socket.socket:
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x86DD))
        made.bind(("mesh0", 0x86DD))
        return made

    return within(between.stranger, opened)


def test_routers_hear_each_other_by_ipv6_and_nothing_else_uses_their_group(between: Between) -> None:
    between.apply(SPEC)
    assert to_group(between, 269)
    assert not to_group(between, 270)
    assert between.counters()["link_out"] == 1


def to_group(between: Between, port: int) -> bool:
    """Return whether the stranger hears what the node sends to LL-MANET-Routers."""

    def joined() -> socket.socket:
        opened = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        opened.bind(("::", port))
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, GROUP + index())
        return opened

    with within(between.stranger, joined) as heard:
        sendto("fe80::1%mesh0", "ff02::6d%mesh0", port, port)
        return received(heard, PATIENCE if port == 269 else SILENCE)


def test_a_named_outside_network_is_reached_and_begins_nothing(between: Between) -> None:
    between.apply(replace(SPEC, perimeter=THROUGH_OTHERS))
    assert answers(None, GATE, between.stranger, str(OUTSIDE))
    assert stops(between.stranger, OUTSIDE, None, GATE, 11)
    assert between.counters() == {"link_in": 1}


def test_path_errors_from_a_peers_locator_are_accepted(between: Between) -> None:
    """Path MTU discovery of charon's packets needs these errors (RFC 8201)."""
    between.apply(SPEC)
    sent = IPv6(src=str(OWN_LOCATOR), dst=str(LOCATOR)) / UDP(sport=4500, dport=4500)
    with listening(None, OWN_LOCATOR, 4500):
        between.forge(IPv6(src=str(LOCATOR), dst=str(OWN_LOCATOR)) / ICMPv6PacketTooBig(mtu=1300) / Raw(bytes(sent)))
        wait_for(lambda: "mtu 1300" in ip("-6", "route", "get", str(LOCATOR)), "the path's MTU")
    assert between.counters() == {}


def test_a_peer_receives_path_errors(between: Between) -> None:
    between.apply(SPEC)
    is_refused(between, LOCATOR, OWN_LOCATOR)
    assert between.counters() == {}


def is_refused(between: Between, source: object, target: object) -> None:
    """Send from the stranger's namespace to the node's closed IKE port, and check that its ICMP error returns."""

    def asked() -> socket.socket:
        made = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        made.bind((str(source), 500))
        made.connect((str(target), 500))
        made.send(b"user data")
        return made

    with within(between.stranger, asked) as asking:
        asking.settimeout(PATIENCE)
        with pytest.raises(ConnectionRefusedError):
            asking.recv(64)
