"""The verdict on each kind of packet at each hook of the wall, in a real kernel.

A packet is forged, or sent by a raw socket of the node. The counter that it raises is the verdict: one of the wall's
own, or ``PASSED`` of a table behind the wall. So a rule that is missing, too wide or in a wrong place is seen. The
guard before the IKE daemon is taken away, because it would drop many packets first.
"""

import contextlib
import itertools
import json
import socket
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any

import pytest
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import (
    ICMPv6DestUnreach,
    ICMPv6EchoRequest,
    ICMPv6MLDone,
    ICMPv6MLQuery,
    ICMPv6MLReport,
    ICMPv6MLReport2,
    ICMPv6ND_NA,
    ICMPv6ND_NS,
    ICMPv6ND_RS,
    ICMPv6PacketTooBig,
    ICMPv6ParamProblem,
    ICMPv6TimeExceeded,
    IPv6,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrSegmentRouting,
    RouterAlert,
)
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from adapters.test_nftables import (
    BYPASSED,
    LOCATOR,
    OUTSIDE,
    OWN,
    OWN4,
    OWN_LOCATOR,
    PEER,
    PEER4,
    SPEC,
    STRANGER,
    STRANGER4,
    listening,
    within,
)
from adapters.test_wall import GATE, HOST, HOST4, OPENED, THROUGH_OTHERS, WAY_OUT, Between, between, is_refused
from meshsec.core.channels.nft_rules import TABLE, render
from meshsec.core.ike import guard
from meshsec.core.trust.joining import PORT as JOIN_PORT
from meshsec.core.values.bypass import Bypass
from meshsec.core.values.model import Address, EspBackend, Perimeter, RulesSpec, UnknownNodes
from namespaces import ip, needs_root, wait_for

pytestmark = needs_root
__all__ = ["between"]

PASSED = "passed"
MARK = 0xBEEF
"""Flow label or IPv4 identification by which the table behind the wall recognises a tested packet."""
BEHIND_THE_WALL = f"""table inet behind {{
  counter {PASSED} {{ }}
  chain in {{ type filter hook input priority 300; jump count; }}
  chain out {{ type filter hook postrouting priority 300; jump count; }}
  chain count {{ ip6 flowlabel {MARK} counter name {PASSED}; ip id {MARK} counter name {PASSED}; }}
}}"""

NEIGHBOUR, OWN_LINK, ALL_NODES, ROUTERS = (IPv6Address(text) for text in ("fe80::2", "fe80::1", "ff02::1", "ff02::6d"))
ROUTERS4, ALL_NODES4 = IPv4Address("224.0.0.109"), IPv4Address("224.0.0.1")
BESIDE, BESIDE4 = IPv6Address("fc00::6"), IPv4Address("10.77.9.9")
"""Addresses in the mesh and in none of the exceptions."""
OUTSIDE4 = IPv4Address("203.0.113.9")
ALLOWING = replace(SPEC, unknown_nodes=UnknownNodes.ALLOW)
ANYWHERE = Perimeter(frozenset({"mesh0"}), reached=(IPv4Network("0.0.0.0/0"), IPv6Network("::/0")))
PRIVATE = ("10.1.1.1", "100.64.1.1", "169.254.1.1", "172.16.1.1", "192.168.9.9", "239.1.1.1", "240.0.0.1")
PRIVATE6 = ("64:ff9b::1", "fd99::1")
Verdicts = Iterable[tuple[Packet, str]]


@dataclass
class Judge:
    """Sends packets one by one, and checks which counter each of them raised."""

    between: Between

    def apply(self, spec: RulesSpec) -> None:
        self.between.apply(spec)
        subprocess.run(["nft", "delete", "table", "inet", guard.TABLE], check=True)

    def arriving(self, verdicts: Verdicts, device: str = "mesh0") -> None:
        """Check what the stranger sends by ``mesh0``, or the host behind the node by ``lan0``."""
        self._judge(verdicts, self.forger(device))

    def forger(self, device: str, other: str = "") -> Callable[..., None]:
        """Return what sends packets, on request from another hardware address."""
        space = self.between.stranger if device == "mesh0" else self.between.host
        source, target = other or hardware(space, device), hardware(None, device)

        def forge(frames: list[bytes]) -> None:
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
                out.bind((device, 0))
                for frame in frames:
                    out.send(frame)

        def send(*packets: Packet) -> None:
            frames = [bytes(Ether(src=source, dst=target) / packet) for packet in packets]
            within(space, lambda: forge(frames))

        return send

    def leaving(self, verdicts: Verdicts, device: str = "mesh0") -> None:
        """Check what a raw socket of root sends from this node."""
        self._judge(verdicts, lambda packet: speak(packet, device))

    def _judge(self, verdicts: Verdicts, send: Callable[[Packet], None]) -> None:
        for packet, expected in verdicts:
            before = counted()
            send(packet)
            wait_for(lambda before=before: counted() != before, f"a verdict on {packet.summary()}")  # type: ignore[misc]
            raised = {name for name, count in counted().items() if count != before[name]}
            counted_on_its_way = {PASSED} if expected.startswith("bypass") else set()
            assert raised == {expected} | counted_on_its_way, packet.summary()


def speak(packet: Packet, device: str) -> None:
    family = socket.AF_INET if IP in packet else socket.AF_INET6
    with socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_RAW) as out:
        out.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
        if IP in packet:
            out.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
        try:
            out.sendto(bytes(packet), (packet.dst, 0))
        except PermissionError:  # the kernel tells the sender what the output hook drops
            return


def counted() -> dict[str, int]:
    listed = subprocess.run(["nft", "-j", "list", "counters"], check=True, capture_output=True).stdout
    counters = [entry["counter"] for entry in json.loads(listed)["nftables"] if "counter" in entry]
    return {one["name"]: one["packets"] for one in counters if one["table"] in {TABLE, "behind"}}


def hardware(space: str | None, device: str) -> str:
    (link,) = json.loads(ip(*(["-n", space] if space else []), "-j", "link", "show", "dev", device))
    return str(link["address"])


@pytest.fixture
def judge(between: Between) -> Iterator[Judge]:
    """Give a judge with listeners on the IKE ports at both ends, so that no kernel answers with an error."""
    subprocess.run(["nft", BEHIND_THE_WALL], check=True)
    ip("route", "add", f"{STRANGER4}/32", "dev", "mesh0")
    with contextlib.ExitStack() as stack:
        for space, port in itertools.product((None, between.stranger), (500, 4500)):
            stack.enter_context(listening(space, "::", port))
        yield Judge(between)


def plain(source: object, target: object, **fields: Any) -> Packet:
    if ip_address(str(target)).version == 4:
        return IP(src=str(source), dst=str(target), id=MARK, **fields)
    return IPv6(src=str(source), dst=str(target), fl=MARK, **fields)


def udp(source: object, target: object, from_port: int = 9, to_port: int = 9) -> Packet:
    return plain(source, target) / UDP(sport=from_port, dport=to_port) / Raw(b"user data")


def ike(source: object, target: object) -> list[Packet]:
    return [udp(source, target, port, port) for port in (500, 4500)]


def beside_ike(source: object, target: object) -> list[Packet]:
    """Return datagrams with an IKE port at one end only."""
    return [udp(source, target, 4500, 9), udp(source, target, 9, 500)]


def errors(source: object, target: object) -> list[Packet]:
    if ip_address(str(target)).version == 4:
        return [plain(source, target) / ICMP(type=kind) / Raw(bytes(28)) for kind in (3, 11, 12)]
    kinds = (ICMPv6DestUnreach(), ICMPv6PacketTooBig(), ICMPv6TimeExceeded(), ICMPv6ParamProblem())
    return [plain(source, target) / kind / Raw(bytes(48)) for kind in kinds]


def discovery(source: object, target: object) -> list[Packet]:
    return [plain(source, target, hlim=255) / kind for kind in (ICMPv6ND_NS(tgt=str(target)), ICMPv6ND_NA())]


def echo(source: object, target: object) -> Packet:
    version = ip_address(str(target)).version
    return plain(source, target) / (ICMP() if version == 4 else ICMPv6EchoRequest())


def esp(source: object, target: object) -> Packet:
    return plain(source, target, nh=50) / Raw(bytes(40))


def multicast_listening(source: object, group: object) -> list[Packet]:
    options = IPv6ExtHdrHopByHop(options=[RouterAlert()])
    kinds = (ICMPv6MLQuery(), ICMPv6MLReport(), ICMPv6MLDone(), ICMPv6MLReport2())
    return [plain(source, group, hlim=1) / options / kind for kind in kinds]


def all_of(packets: Iterable[Packet], verdict: str) -> Verdicts:
    return [(packet, verdict) for packet in packets]


# --- prerouting ---


def routed(source: object, target: object) -> Packet:
    header = IPv6ExtHdrSegmentRouting(addresses=[str(target)], segleft=0)
    return plain(source, target) / header / UDP(sport=9, dport=9) / Raw(b"user data")


def test_headers_and_addresses_that_hide_a_sender_are_dropped_before_anything_else(judge: Judge) -> None:
    judge.apply(replace(ALLOWING, perimeter=OPENED))
    for device, neighbour in (("mesh0", STRANGER), ("lan0", HOST)):
        judge.arriving(
            [
                (udp(neighbour, OWN), PASSED),
                (routed(neighbour, OWN), "disguised"),
                (udp(f"::ffff:{PEER4}", OWN), "disguised"),
                (udp(neighbour, f"::ffff:{HOST4}"), "disguised"),
                (udp(OWN, OWN), "spoofed"),
                (udp(OWN4, OWN4), "spoofed"),
            ],
            device,
        )


def test_only_the_nodes_mesh_addresses_count_as_spoofed(judge: Judge) -> None:
    """Other addresses of the node may be on two machines by intent, as of a redundant pair of routers."""
    judge.apply(SPEC)
    judge.arriving([(udp(GATE, GATE), PASSED)], "lan0")


def test_the_node_sends_no_headers_that_hide_a_sender_either(judge: Judge) -> None:
    judge.apply(ALLOWING)
    ip("route", "add", "::ffff:0:0/96", "via", HOST, "dev", "lan0")
    judge.leaving(
        [
            (udp(OWN, STRANGER), PASSED),
            (routed(OWN, STRANGER), "disguised"),
            (udp(f"::ffff:{OWN4}", STRANGER), "disguised"),
        ]
    )
    judge.leaving([(udp(GATE, f"::ffff:{PEER4}"), "disguised")], "lan0")


# --- input ---


def test_a_locator_sends_ike_and_errors(judge: Judge) -> None:
    judge.apply(SPEC)
    for sender, verdict in ((LOCATOR, PASSED), (PEER, "clear_in")):
        judge.arriving(all_of([*ike(sender, OWN_LOCATOR), *errors(sender, OWN_LOCATOR)], verdict))
    judge.arriving(all_of([*beside_ike(LOCATOR, OWN_LOCATOR), echo(LOCATOR, OWN_LOCATOR)], "clear_in"))
    judge.arriving(all_of([*ike(PEER4, OWN4), *errors(PEER4, OWN4)], "clear_in"))


def test_with_esp_in_the_kernel_a_peer_sends_ike_esp_and_errors(judge: Judge) -> None:
    judge.apply(replace(SPEC, backend=EspBackend.KERNEL, locators=frozenset()))
    judge.arriving(all_of([*ike(PEER, OWN), esp(PEER, OWN), *errors(PEER, OWN)], PASSED))
    judge.arriving(all_of([*beside_ike(PEER, OWN), echo(PEER, OWN), *ike(PEER4, OWN4)], "clear_in"))
    judge.arriving([(esp(STRANGER, OWN), "unknown_in"), *all_of(ike(OUTSIDE, OWN), "link_in")])


@pytest.mark.parametrize("backend", EspBackend)
def test_of_a_removed_peer_only_ike_to_close_its_sas_passes(judge: Judge, backend: EspBackend) -> None:
    """IKE to close its SAs passes; it uses the peer's address only with ESP in the kernel."""
    removed: frozenset[Address] = frozenset({STRANGER, STRANGER4})
    judge.apply(replace(ALLOWING, backend=backend, barred=removed))
    verdict = PASSED if backend is EspBackend.KERNEL else "barred_in"
    judge.arriving(all_of(ike(STRANGER, OWN), verdict))
    judge.arriving(all_of([*beside_ike(STRANGER, OWN), *errors(STRANGER, OWN), esp(STRANGER, OWN)], "barred_in"))
    judge.arriving(all_of([*ike(STRANGER4, OWN4), udp(STRANGER4, OWN4)], "barred_in"))
    judge.leaving(all_of(ike(OWN, STRANGER), verdict.replace("_in", "_out")))
    judge.leaving(all_of([*beside_ike(OWN, STRANGER), *errors(OWN, STRANGER), esp(OWN, STRANGER)], "barred_out"))
    judge.leaving(all_of([*ike(OWN4, STRANGER4), udp(OWN4, STRANGER4)], "barred_out"))


def test_an_unknown_node_sends_ike_and_errors(judge: Judge) -> None:
    judge.apply(SPEC)
    judge.arriving(all_of([*ike(STRANGER, OWN), *errors(STRANGER, OWN)], PASSED))
    judge.arriving(all_of([*beside_ike(STRANGER, OWN), echo(STRANGER, OWN)], "unknown_in"))
    judge.arriving(all_of([*ike(STRANGER4, OWN4), *errors(STRANGER4, OWN4)], "unknown_in"))
    judge.arriving(all_of(ike(OUTSIDE, OWN), "link_in"))


def test_where_unknown_nodes_are_allowed_peers_are_still_protected(judge: Judge) -> None:
    judge.apply(ALLOWING)
    judge.arriving([(udp(STRANGER, OWN), PASSED), (udp(STRANGER4, OWN4), PASSED), (udp(OUTSIDE, OWN), "link_in")])
    judge.arriving(all_of([udp(PEER, OWN), udp(PEER4, OWN4), udp(LOCATOR, OWN)], "clear_in"))
    judge.arriving([(udp(OUTSIDE4, OWN4), "link_in")])
    judge.leaving([(udp(OWN, STRANGER), PASSED), (udp(OWN4, STRANGER4), PASSED), (udp(OWN, OUTSIDE), "link_out")])
    judge.leaving(all_of([udp(OWN, PEER), udp(OWN4, PEER4), udp(OWN, LOCATOR)], "clear_out"))


OF_ONE, OF_NEIGHBOUR = 20, 200
"""Datagrams without an SA that pass at once."""


@pytest.mark.parametrize("unknown_nodes", UnknownNodes)
def test_requests_to_join_above_the_rate_are_dropped_whatever_the_policy(
    judge: Judge, unknown_nodes: UnknownNodes
) -> None:
    judge.apply(replace(SPEC, unknown_nodes=unknown_nodes, joins=True))
    send, many = judge.forger("mesh0"), 2000
    ip("-6", "route", "add", "fc07::/16", "dev", "mesh0")
    send(*[udp(f"fc08::{number:x}", OWN, JOIN_PORT, JOIN_PORT) for number in range(1, 500)])
    send(*[udp(STRANGER, OWN, JOIN_PORT, JOIN_PORT)] * many)
    wait_for(lambda: counted()[PASSED] >= OF_ONE, "a verdict on what one node may send")
    assert counted()[PASSED] < many / 10, "no route leads to the others; the rest is what some seconds add"
    send(*[udp(f"fc07::{number:x}", OWN, JOIN_PORT, JOIN_PORT) for number in range(1, many)])
    wait_for(lambda: counted()[PASSED] >= OF_NEIGHBOUR, "a verdict on what comes through one neighbour")
    assert counted()[PASSED] < many / 2


def test_a_flood_under_a_nodes_address_costs_that_node_nothing_through_another_neighbour(judge: Judge) -> None:
    judge.apply(replace(SPEC, joins=True))
    asked = udp(STRANGER, OWN, JOIN_PORT, JOIN_PORT)
    judge.forger("mesh0")(*[asked] * 2000)
    wait_for(lambda: counted()[PASSED] >= OF_ONE, "a verdict on the flood")
    before = counted()[PASSED]
    judge.forger("mesh0", "02:00:00:00:00:77")(*[asked] * (OF_ONE - 5))
    wait_for(lambda: counted()[PASSED] >= before + OF_ONE - 5, "a verdict on the node's own requests")


def test_the_routers_group_and_port_pass_only_together(judge: Judge) -> None:
    judge.apply(SPEC)
    index = socket.if_nametoindex("mesh0")
    options = [(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, ROUTERS.packed + index.to_bytes(4, "little"))]
    options += [(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, ROUTERS4.packed + bytes(4) + index.to_bytes(4, "little"))]
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as member:
        for option in options:
            member.setsockopt(*option)
        judge.arriving([(udp(LOCATOR, ROUTERS, 269, 269), PASSED)])
        for source, own, group, others, dropped in (
            (NEIGHBOUR, OWN_LINK, ROUTERS, ALL_NODES, ("link_in", "link_out")),
            (PEER4, OWN4, ROUTERS4, ALL_NODES4, ("clear_in", "link_out")),
        ):
            beside = ((group, 270, 269), (group, 269, 270), (others, 269, 269))
            judge.arriving([(udp(source, group, 269, 269), PASSED)])
            judge.arriving([(udp(source, target, *ports), dropped[0]) for target, *ports in beside])
            judge.leaving([(udp(own, group, 269, 269), PASSED)])
            judge.leaving([(udp(own, target, *ports), dropped[1]) for target, *ports in beside])


def test_a_link_carries_what_it_needs_in_both_directions(judge: Judge) -> None:
    judge.apply(SPEC)

    def needed(source: object, target: object, group: object) -> list[Packet]:
        return [*discovery(source, target), *errors(source, target), *multicast_listening(source, group)]

    query = plain(IPv4Address(0), ALL_NODES4, ttl=1, proto=2) / Raw(b"\x11" + bytes(7))
    judge.arriving(all_of([*needed(NEIGHBOUR, OWN_LINK, ALL_NODES), query], PASSED))
    judge.arriving(all_of([echo(NEIGHBOUR, OWN_LINK), plain(NEIGHBOUR, ALL_NODES) / ICMPv6ND_RS()], "link_in"))
    report = plain(OWN4, ROUTERS4, ttl=1, proto=2) / Raw(b"\x16" + bytes(7))
    judge.leaving(all_of([*needed(OWN_LINK, NEIGHBOUR, ALL_NODES), report], PASSED))
    judge.leaving(all_of([echo(OWN_LINK, NEIGHBOUR), plain(OWN_LINK, ALL_NODES) / ICMPv6ND_RS()], "link_out"))


def test_the_kernels_own_multicast_on_the_overlays_device_is_dropped_and_not_counted(judge: Judge) -> None:
    judge.apply(replace(SPEC, overlay_device="lan0", admitted=frozenset({PEER})))
    judge.arriving([(udp(PEER, ALL_NODES), PASSED)], "lan0")
    before = counted()
    judge.forger("lan0")(udp(STRANGER, ALL_NODES))
    judge.arriving([(udp(STRANGER, OWN), "overlay_in")], "lan0")
    assert counted() == before | {"overlay_in": 1}


def test_where_there_is_an_overlay_other_interfaces_are_judged_as_before(judge: Judge) -> None:
    judge.apply(replace(SPEC, overlay_device="overlay0", admitted=frozenset({PEER})))
    judge.arriving(all_of([*ike(LOCATOR, OWN_LOCATOR), *multicast_listening(NEIGHBOUR, ALL_NODES)], PASSED))
    judge.leaving(all_of([*ike(OWN_LOCATOR, LOCATOR), *multicast_listening(OWN_LINK, ALL_NODES)], PASSED))
    judge.arriving([(udp(PEER, OWN), "clear_in")])
    judge.leaving([(udp(OWN, PEER), "clear_out")])


# --- forward ---


def test_a_way_out_opens_no_private_network_beside_it(judge: Judge) -> None:
    for version, target in ((6, "2001:db8:1::5"), (4, str(HOST4))):
        ip(f"-{version}", "route", "add", "default", "via", target, "dev", "lan0")
    for network in ("64:ff9b::/96", "fd99::/16"):
        ip("route", "add", network, "via", HOST, "dev", "lan0")
    for network in ("10.1.0.0/16", "239.1.0.0/16"):
        ip("route", "add", network, "via", str(HOST4), "dev", "lan0", check=False)
    judge.apply(replace(SPEC, perimeter=WAY_OUT))
    judge.arriving([(udp(PEER4, OUTSIDE4), PASSED), (udp(STRANGER, HOST), PASSED)])
    judge.arriving([(udp(PEER4, target), "into_networks") for target in PRIVATE[:5]])
    judge.arriving([(udp(STRANGER, target), "into_networks") for target in PRIVATE6])


# --- output ---


def test_to_a_locator_root_sends_ike_and_errors(judge: Judge) -> None:
    judge.apply(SPEC)
    for target, verdict in ((LOCATOR, PASSED), (PEER, "clear_out")):
        judge.leaving(all_of([*ike(OWN_LOCATOR, target), *errors(OWN_LOCATOR, target)], verdict))
    judge.leaving(all_of([*beside_ike(OWN_LOCATOR, LOCATOR), echo(OWN_LOCATOR, LOCATOR)], "clear_out"))
    judge.leaving(all_of([*ike(OWN4, PEER4), *errors(OWN4, PEER4)], "clear_out"))


def test_with_esp_in_the_kernel_ike_and_esp_go_to_a_peer(judge: Judge) -> None:
    judge.apply(replace(SPEC, backend=EspBackend.KERNEL, locators=frozenset()))
    ip("xfrm", "policy", "flush")
    judge.leaving(all_of([*ike(OWN, PEER), esp(OWN, PEER)], PASSED))
    judge.leaving(all_of([*beside_ike(OWN, PEER), echo(OWN, PEER), *ike(OWN4, PEER4)], "clear_out"))
    judge.leaving([(esp(OWN, STRANGER), "unknown_out"), *all_of(ike(OWN, OUTSIDE), "link_out")])


def test_to_an_unknown_node_root_sends_ike_and_errors(judge: Judge) -> None:
    judge.apply(SPEC)
    judge.leaving(all_of([*ike(OWN, STRANGER), *errors(OWN, STRANGER)], PASSED))
    judge.leaving(all_of([*beside_ike(OWN, STRANGER), echo(OWN, STRANGER)], "unknown_out"))
    judge.leaving(all_of([*ike(OWN4, STRANGER4), *errors(OWN4, STRANGER4)], "unknown_out"))
    judge.leaving(all_of(ike(OWN, OUTSIDE), "link_out"))


def test_announced_networks_are_reached_and_no_private_network_by_a_default_route(judge: Judge) -> None:
    reached = replace(THROUGH_OTHERS, reached=(IPv4Network("203.0.113.0/24"), *THROUGH_OTHERS.reached))
    for version in (4, 6):
        ip(f"-{version}", "route", "add", "default", "dev", "mesh0")
    judge.apply(replace(SPEC, perimeter=reached))
    judge.leaving([(udp(OWN4, OUTSIDE4), PASSED), (udp(OWN4, "198.51.100.1"), "link_out")])
    narrow = (IPv6Network("fc00::/16"), IPv4Network("10.77.0.0/16"))
    judge.apply(replace(SPEC, perimeter=ANYWHERE, mesh_prefixes=narrow))
    judge.leaving([(udp(OWN4, OUTSIDE4), PASSED), (udp(OWN, OUTSIDE), PASSED)])
    judge.leaving([(udp(OWN4, target), "link_out") for target in PRIVATE])
    judge.leaving([(udp(OWN, target), "link_out") for target in (*PRIVATE6, NEIGHBOUR, ALL_NODES)])


# --- postrouting ---


def test_hosts_behind_the_node_send_errors_to_unknown_nodes_and_no_ike(judge: Judge) -> None:
    judge.apply(SPEC)
    judge.arriving(all_of(errors(HOST, STRANGER), PASSED), "lan0")
    judge.arriving(all_of([*ike(HOST, STRANGER), echo(HOST, STRANGER), udp(HOST4, STRANGER4)], "unknown_out"), "lan0")
    judge.arriving(all_of([*ike(HOST, LOCATOR), *ike(HOST, PEER), udp(HOST4, PEER4)], "clear_out"), "lan0")


def test_an_unknown_node_receives_path_errors(between: Between) -> None:
    """The kernel's ICMP errors, which come from no socket, pass the postrouting chain."""
    Judge(between).apply(SPEC)
    is_refused(between, STRANGER, OWN)


# --- path errors (RFC 1191, RFC 8201) ---


def too_large(router: str, packet: Packet) -> Packet:
    """Return what a router answers to a packet that does not fit."""
    fits = ICMP(type=3, code=4, nexthopmtu=1280) if IP in packet else ICMPv6PacketTooBig(mtu=1280)
    return plain(router, packet.src) / fits / packet


def test_networks_beyond_the_mesh_say_which_packets_are_too_large(judge: Judge) -> None:
    for version in (4, 6):
        ip(f"-{version}", "route", "add", "default", "dev", "mesh0")
    judge.apply(replace(SPEC, perimeter=ANYWHERE))
    for router, host, outside in (("198.51.100.1", HOST4, OUTSIDE4), ("2001:db8:5::1", HOST, OUTSIDE)):
        sent, never_sent = udp(host, outside), udp(host, outside, 11)
        judge.arriving([(sent, PASSED)], "lan0")
        judge.arriving([(too_large(router, sent), PASSED), (too_large(router, never_sent), "into_networks")])
    sent, never_sent = udp(OWN4, OUTSIDE4), udp(OWN4, OUTSIDE4, 11)
    judge.leaving([(sent, PASSED)])
    judge.arriving([(too_large("198.51.100.1", sent), PASSED), (too_large("198.51.100.1", never_sent), "link_in")])


def test_opened_networks_say_which_packets_are_too_large(judge: Judge) -> None:
    judge.apply(replace(SPEC, perimeter=OPENED))
    sent, never_sent = udp(STRANGER4, HOST4), udp(STRANGER4, HOST4, 11)
    judge.arriving([(sent, PASSED)])
    router = str(HOST4 + 1)
    judge.arriving([(too_large(router, sent), PASSED), (too_large(router, never_sent), "unknown_out")], "lan0")


# --- bypass ---


def test_an_exception_for_a_service_lets_errors_and_neighbour_discovery_through_and_nothing_else(judge: Judge) -> None:
    service = Bypass(IPv6Network((int(STRANGER), 128)), "a service", "udp", 7000)
    judge.apply(replace(BYPASSED, bypass=(service, BYPASSED.bypass[1])))
    for other in (BESIDE, BESIDE4):
        ip("route", "add", str(other), "dev", "mesh0")
    judge.arriving(all_of([*errors(STRANGER4, OWN4), *errors(STRANGER, OWN), *discovery(STRANGER, OWN)], PASSED))
    judge.leaving(all_of([*errors(OWN4, STRANGER4), *errors(OWN, STRANGER), *discovery(OWN, STRANGER)], PASSED))
    judge.arriving([(udp(STRANGER, OWN, 7000, 9), "bypass_in"), (udp(STRANGER, OWN, 9, 7000), "unknown_in")])
    judge.leaving([(udp(OWN, STRANGER, 9, 7000), "bypass_out"), (udp(OWN, STRANGER, 7000, 9), "unknown_out")])
    for service_there, beside, own in ((STRANGER4, BESIDE4, OWN4), (STRANGER, BESIDE, OWN)):
        judge.arriving(all_of([echo(service_there, own), udp(beside, own, 7000, 9)], "unknown_in"))
        judge.leaving(all_of([echo(own, service_there), udp(own, beside, 9, 7000)], "unknown_out"))
    judge.arriving(all_of([*errors(BESIDE4, OWN4), *discovery(BESIDE, OWN)], "unknown_in"))
    judge.leaving(all_of([*errors(OWN4, BESIDE4), *discovery(OWN, BESIDE)], "unknown_out"))


# --- the text, where this kernel has no ESP to send ---


def test_with_esp_in_the_kernel_the_rules_that_close_a_peer_come_before_those_for_its_sas() -> None:
    barred: frozenset[Address] = frozenset({PEER, PEER4})
    text = render(replace(SPEC, backend=EspBackend.KERNEL, barred=barred, overlay_device="overlay0"))
    for name, asked in (("input", "meta ipsec exists accept"), ("leaving", "rt ipsec exists accept")):
        rules = chain(text, name)
        closing = ("@barred6 counter", "@barred4 counter", 'counter name "overlay_')
        assert max(map(rules.index, closing)) < rules.index(asked)


@pytest.mark.parametrize("backend", EspBackend)
def test_no_network_is_opened_before_the_way_into_sas_is_closed(backend: EspBackend) -> None:
    rules = chain(render(replace(SPEC, backend=backend, perimeter=OPENED, overlay_device="overlay0")), "forward")
    relayed = "iifname @links oifname @links accept\n"
    assert rules.rindex("into_sa") < rules.replace(relayed, " " * len(relayed)).index(" accept\n")
    if backend is EspBackend.KERNEL:
        assert max(rules.index("rt ipsec"), rules.index("meta ipsec")) < rules.index(relayed)


def chain(text: str, name: str) -> str:
    start = text.index(f"chain {name} {{")
    return text[start : text.index("\n  }", start)]


def test_without_the_guard_messages_of_strangers_to_the_ports_of_ike_pass_at_a_rate(judge: Judge) -> None:
    judge.apply(SPEC)
    before, send = counted(), judge.forger("mesh0")
    burst, many = 100, 400
    send(*[udp(STRANGER, OWN_LOCATOR, 500, 500)] * many)

    def raised(name: str) -> int:
        return counted()[name] - before[name]

    wait_for(lambda: raised(PASSED) + raised("unknown_in") == many, "a verdict on each message")
    assert burst <= raised(PASSED) < many / 2, "the rest is what a second or two adds"
