"""The verdict of the wall on each kind of packet from and to networks behind nodes, in a real kernel.

Packets of two peers arrive in a real VXLAN-GPE device by an interface with the name of charon's, so that they count as
protected. What each raises is the verdict, as in test_wall_verdicts.py.
"""

import asyncio
import socket
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest
from scapy.layers.inet import ICMP, TCP, UDP
from scapy.layers.inet6 import ICMPv6TimeExceeded, IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from adapters.test_nftables import OWN, OWN4, PEER, PEER4, SPEC, STRANGER, within
from adapters.test_wall_verdicts import BEHIND_THE_WALL, MARK, PASSED, counted, hardware, plain, udp
from meshsec.adapters.kernel import tunnel
from meshsec.adapters.kernel.nftables import Nftables
from meshsec.adapters.kernel.tunnel import Own
from meshsec.core.channels.nft_networks import PORT
from meshsec.core.networks.networks import DEVICE
from meshsec.core.values.model import RulesSpec
from meshsec.core.values.networks import BehindNodes, Speaker, TunnelRoute
from namespaces import ip, needs_root, wait_for

pytestmark = needs_root

OTHER = IPv6Address("fc00::c")
"""A second peer, which is a gateway."""
LAN6, LAN4 = ip_network("2001:db8:1::/64"), ip_network("192.168.1.0/24")
HOST6, HOST4 = IPv6Address("2001:db8:1::5"), IPv4Address("192.168.1.5")
NET6, NET4 = ip_network("2001:db8:3::/64"), ip_network("192.168.3.0/24")
"""Behind the first peer."""
FAR6, FAR4 = IPv6Address("2001:db8:3::5"), IPv4Address("192.168.3.5")
OTHERS = ip_network("2001:db8:4::/64")
OTHER6 = IPv6Address("2001:db8:4::5")
PUBLIC6, PUBLIC4 = IPv6Address("2001:db8:b::9"), IPv4Address("203.0.113.9")
PRIVATE6, PRIVATE4 = IPv6Address("fd77::9"), IPv4Address("10.200.0.9")
BESIDE6, BESIDE4 = IPv6Address("2001:db8:9::5"), IPv4Address("192.168.9.5")
"""At the LAN, in networks that the node does not announce."""
DEFAULTS = (ip_network("::/0"), ip_network("0.0.0.0/0"))

MARKED = f"""table inet behind {{
  counter marked {{ }}
  chain count {{
    ip6 flowlabel {MARK} meta mark and 0xffff0000 == 0x4d530000 counter name marked
    ip id {MARK} meta mark and 0xffff0000 == 0x4d530000 counter name marked
  }}
}}"""
"""Counts packets on which a peer's mark is left behind the wall, where others' rules might meet it."""

BEHIND = BehindNodes(
    DEVICE,
    own=(LAN6, LAN4),
    speakers=(
        Speaker((PEER,), (PEER, PEER4), (NET6, NET4)),
        Speaker((OTHER,), (OTHER,), (OTHERS, *DEFAULTS)),
    ),
    closed=(NET6, NET4, OTHERS, *DEFAULTS),
)
WALL = replace(SPEC, protected=SPEC.protected | {OTHER}, behind=BEHIND)
GATEWAY = replace(WALL, behind=replace(BEHIND, own=(LAN6, LAN4, *DEFAULTS)))


@dataclass
class Site:
    """A node, where the test runs, with peers behind ``ipsec0``, a stranger at ``mesh0`` and a host at ``lan0``."""

    spaces: dict[str, str]
    """The namespace at the other end of each interface."""

    def apply(self, spec: RulesSpec) -> None:
        asyncio.run(Nftables().apply(spec))

    def arrives(self, device: str, packet: Packet) -> str:
        """Return what a packet raises that arrives by an interface."""
        source, target = hardware(self.spaces[device], device), hardware(None, device)

        def forge() -> None:
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
                out.bind((device, 0))
                out.send(bytes(Ether(src=source, dst=target) / packet))

        before = counted()
        within(self.spaces[device], forge)
        wait_for(lambda: counted() != before, f"a verdict on {packet.summary()}")
        return ", ".join(sorted(name for name, count in counted().items() if count != before[name]))

    def tunnelled(self, peer: IPv6Address, inner: Packet, device: str = "ipsec0") -> str:
        """Return what a packet raises that a peer sends through the tunnel."""
        header = bytes([0x0C, 0, 0, 2 if IPv6 in inner else 1, 0, 0, 1, 0])
        outer = IPv6(src=str(peer), dst=str(OWN)) / UDP(sport=49152, dport=PORT) / Raw(header + bytes(inner))
        return self.arrives(device, outer)


@pytest.fixture
def site(new_namespace: Callable[[], str], inside: str) -> Site:
    subprocess.run(
        ["sysctl", "-qw", "net.ipv6.conf.all.forwarding=1", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0"],
        check=True,
    )
    spaces = {device: new_namespace() for device in ("ipsec0", "mesh0", "lan0")}
    for device, other in spaces.items():
        ip("link", "add", device, "type", "veth", "peer", "name", device, "netns", other)
        for space, number in ((inside, 1), (other, 2)):
            ip("-n", space, "link", "set", device, "up")
            ip("-n", space, "address", "add", f"fe80::{number}/64", "dev", device, "nodad")
    ip("address", "add", str(OWN), "dev", "lo", "nodad")  # Else it is no route's source for a moment.
    ip("address", "add", str(OWN4), "dev", "lo")
    for network, host in ((LAN6, HOST6), (LAN4, HOST4)):
        ip("route", "add", str(network), "dev", "lan0")
        ip("-n", spaces["lan0"], "address", "add", str(host), "dev", "lan0")
        ip("neigh", "add", str(host), "lladdr", hardware(spaces["lan0"], "lan0"), "dev", "lan0")
    for address in (BESIDE6, BESIDE4):
        ip("route", "add", str(address), "dev", "lan0")
    for peer in (PEER, OTHER):
        ip("-6", "route", "add", f"{peer}/128", "via", "fe80::2", "dev", "ipsec0")
    routes = {TunnelRoute(NET6, PEER), TunnelRoute(NET4, PEER), *(TunnelRoute(one, OTHER) for one in DEFAULTS)}
    asyncio.run(tunnel.apply(routes, DEVICE, Own(OWN, OWN4), ["mesh0"], 1340))
    subprocess.run(["nft", f"{BEHIND_THE_WALL}\n{MARKED}"], check=True)
    return Site(spaces)


@pytest.mark.parametrize(
    ("peer", "source", "target", "verdict"),
    [
        (PEER, FAR6, HOST6, PASSED),
        (PEER, FAR4, HOST4, PASSED),
        (PEER, PEER, HOST6, PASSED),
        (PEER, PEER4, HOST4, PASSED),
        (OTHER, OTHER6, HOST6, PASSED),
        (OTHER, FAR6, HOST6, "networks_in"),
        (OTHER, FAR4, HOST4, "networks_in"),
        (OTHER, PEER, HOST6, "networks_in"),
        (OTHER, PEER4, HOST4, "networks_in"),
        (PEER, OTHER6, HOST6, "networks_in"),
        (PEER, PUBLIC6, HOST6, "networks_in"),
        (PEER, PUBLIC4, HOST4, "networks_in"),
        (OTHER, PUBLIC6, HOST6, PASSED),
        (OTHER, PUBLIC4, HOST4, PASSED),
        (OTHER, PRIVATE6, HOST6, "networks_in"),
        (OTHER, PRIVATE4, HOST4, "networks_in"),
        (OTHER, HOST6, HOST6, "networks_in"),
        (OTHER, HOST4, HOST4, "networks_in"),
        (OTHER, OWN, HOST6, "spoofed"),
        (OTHER, OWN4, HOST4, "spoofed"),
        (STRANGER, FAR6, HOST6, "networks_in"),
        (PEER, FAR6, OWN, PASSED),
        (PEER, FAR4, OWN4, PASSED),
        (PEER, FAR6, BESIDE6, "into_networks"),
        (PEER, FAR4, BESIDE4, "into_networks"),
    ],
)
def test_a_peer_sends_only_from_what_it_may_speak_for_and_only_into_networks_behind_this_node(
    site: Site, peer: IPv6Address, source: object, target: object, verdict: str
) -> None:
    site.apply(WALL)
    assert site.tunnelled(peer, udp(source, target)) == verdict


def test_a_peer_that_speaks_for_a_network_does_not_speak_for_a_peer_whose_address_lies_in_it(site: Site) -> None:
    speakers = (WALL.behind.speakers[0], Speaker((OTHER,), (OTHER,), (ip_network("10.77.0.0/16"),)))
    site.apply(replace(WALL, behind=replace(BEHIND, speakers=speakers)))
    assert site.tunnelled(OTHER, udp("10.77.0.99", HOST4)) == PASSED
    assert site.tunnelled(OTHER, udp(PEER4, HOST4)) == "networks_in"
    assert site.tunnelled(PEER, udp(PEER4, HOST4)) == PASSED


def test_a_gateway_sends_errors_from_private_addresses_and_others_do_not(site: Site) -> None:
    site.apply(WALL)
    errors = (
        plain(PRIVATE6, HOST6) / ICMPv6TimeExceeded() / Raw(bytes(48)),
        plain(PRIVATE4, HOST4) / ICMP(type=11) / Raw(bytes(28)),
    )
    for error in errors:
        assert site.tunnelled(OTHER, error) == PASSED
        assert site.tunnelled(PEER, error) == "networks_in"


def test_through_a_gateway_peers_reach_what_is_public_and_no_private_networks_beside_it(site: Site) -> None:
    site.apply(GATEWAY)
    for address in (PUBLIC6, PUBLIC4, PRIVATE6, PRIVATE4):
        ip("route", "add", str(address), "dev", "lan0")
        ip("neigh", "add", str(address), "lladdr", hardware(site.spaces["lan0"], "lan0"), "dev", "lan0")
    assert site.tunnelled(PEER, udp(FAR6, PUBLIC6)) == PASSED
    assert site.tunnelled(PEER, udp(FAR4, PUBLIC4)) == PASSED
    assert site.tunnelled(PEER, udp(FAR6, PRIVATE6)) == "into_networks"
    assert site.tunnelled(PEER, udp(FAR4, PRIVATE4)) == "into_networks"


def test_a_tunnel_outside_of_ipsec_is_nobodys(site: Site) -> None:
    site.apply(WALL)
    assert site.tunnelled(PEER, udp(FAR6, HOST6), "mesh0") == "networks_in"
    assert site.tunnelled(STRANGER, udp(FAR6, HOST6), "lan0") == "networks_in"


@pytest.mark.parametrize(
    ("device", "source", "target", "verdict"),
    [
        ("mesh0", HOST6, OWN, "spoofed"),
        ("mesh0", HOST4, OWN4, "spoofed"),
        ("lan0", FAR6, OWN, "networks_in"),
        ("lan0", FAR4, OWN4, "networks_in"),
        ("lan0", OTHER6, FAR6, "networks_in"),
        ("lan0", HOST6, OWN, PASSED),
        ("lan0", HOST4, OWN4, PASSED),
        ("lan0", HOST6, FAR6, PASSED),
        ("lan0", HOST4, FAR4, PASSED),
        ("lan0", HOST6, PUBLIC6, PASSED),
        ("lan0", PRIVATE6, FAR6, "networks_out"),
        ("lan0", PRIVATE4, FAR4, "networks_out"),
        ("lan0", PUBLIC6, FAR6, "networks_out"),
    ],
)
def test_what_is_not_behind_this_node_uses_no_tunnel_and_peers_networks_come_by_no_other_way(
    site: Site, device: str, source: object, target: object, verdict: str
) -> None:
    site.apply(WALL)
    assert site.arrives(device, udp(source, target)) == verdict


def test_a_route_past_the_tunnel_carries_nothing_to_a_network_of_a_peer(site: Site) -> None:
    site.apply(WALL)
    ip("-6", "route", "add", f"{FAR6}/128", "via", "fe80::2", "dev", "mesh0")
    assert site.arrives("lan0", udp(HOST6, FAR6)) == "networks_out"
    gateway = replace(GATEWAY, behind=replace(GATEWAY.behind, closed=(NET6, NET4)))
    site.apply(gateway)
    assert site.arrives("lan0", udp(PUBLIC6, OTHER6)) == PASSED, "what a gateway passes on is public"


@pytest.mark.parametrize(("source", "target"), [(HOST6, FAR6), (HOST4, FAR4)])
def test_the_largest_segment_fits_into_the_tunnel(site: Site, source: object, target: object) -> None:
    """The device's MTU of 1340 leaves 1280 bytes of a segment for IPv6, and 1300 for IPv4."""
    site.apply(WALL)
    subprocess.run(["nft", "add", "counter", "inet", "behind", "clamped"], check=True)
    largest = 1280 if source == HOST6 else 1300
    rule = f'oifname "{DEVICE}" tcp option maxseg size {largest} counter name clamped'
    subprocess.run(["nft", f"add rule inet behind out {rule}"], check=True)
    syn = plain(source, target) / TCP(sport=9, dport=9, flags="S", options=[("MSS", 1460)])
    assert site.arrives("lan0", syn) == f"clamped, {PASSED}"
