"""The wall in a real kernel: packets are sent, and nft's counters and the other end show what became of them."""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any, TypeVar

import pytest
from pyroute2 import netns

from meshsec.adapters.kernel import netlink
from meshsec.adapters.kernel.nft import RulesError
from meshsec.adapters.kernel.nftables import BLOCK_PRIORITY, Nftables, rewriting_chains
from meshsec.adapters.sockets.join_datagrams import join_datagrams
from meshsec.core.channels.nft_rules import TABLE, render
from meshsec.core.ike import guard
from meshsec.core.trust.fleet_exchange import PORT as FLEET_PORT
from meshsec.core.trust.joining import PORT as JOIN_PORT
from meshsec.core.values.bypass import Bypass
from meshsec.core.values.model import EspBackend, Perimeter, RulesSpec, UnknownNodes
from meshsec.core.values.networks import BehindNodes, Speaker
from namespaces import ip, needs_root, wait_for

pytestmark = needs_root

T = TypeVar("T")

OWN, PEER, STRANGER = (IPv6Address(f"fc00::{suffix}") for suffix in ("a", "b", "5"))
OWN_LOCATOR, LOCATOR = IPv6Address("fd00::a"), IPv6Address("fd00::b")
OWN4, PEER4, STRANGER4 = IPv4Address("10.77.0.1"), IPv4Address("10.77.0.2"), IPv4Address("10.77.0.9")
OUTSIDE = IPv6Address("2001:db8::b")
"""An address beyond the mesh, for which test_wall.py has the tests."""
NOBODY = 65534
"""An account without privileges."""
PATIENCE, SILENCE = 60.0, 0.3
"""Seconds to wait for a datagram that must arrive, and for one that must not."""

SPEC = RulesSpec(
    backend=EspBackend.LIBIPSEC,
    own=frozenset({OWN, OWN4}),
    protected=frozenset({PEER, PEER4}),
    locators=frozenset({LOCATOR}),
    mesh_prefixes=(IPv6Network("fc00::/7"), IPv4Network("10.77.0.0/16")),
    unknown_nodes=UnknownNodes.DROP,
    perimeter=Perimeter(frozenset({"mesh0"})),
)


@dataclass
class Wire:
    """This namespace, and one neighbour that has every other address of the tests."""

    other: str
    rules: Nftables

    def apply(self, spec: RulesSpec) -> None:
        asyncio.run(self.rules.apply(spec))

    def counters(self) -> dict[str, int]:
        return {name: count for name, count in asyncio.run(self.rules.counters()).items() if count}

    def arrives(self, source: object, target: object, port: int = 9, *, source_port: int = 0) -> bool:
        """Return whether one datagram to the neighbour was heard there."""
        return self._reaches(source, target, port, source_port, PATIENCE)

    def keeps_in(self, source: object, target: object, port: int = 9, *, source_port: int = 0) -> bool:
        """Return whether one datagram to the neighbour was not heard there."""
        return not self._reaches(source, target, port, source_port, SILENCE)

    def comes_in(self, source: object, target: object, port: int = 9, *, source_port: int = 0) -> bool:
        """Return whether one datagram of the neighbour was heard here."""
        return self._is_reached(source, target, port, source_port, PATIENCE)

    def keeps_out(self, source: object, target: object, port: int = 9, *, source_port: int = 0) -> bool:
        """Return whether one datagram of the neighbour was not heard here."""
        return not self._is_reached(source, target, port, source_port, SILENCE)

    def _reaches(self, source: object, target: object, port: int, source_port: int, seconds: float) -> bool:
        with listening(self.other, target, port) as heard:
            sendto(source, target, port, source_port)
            return received(heard, seconds)

    def _is_reached(self, source: object, target: object, port: int, source_port: int, seconds: float) -> bool:
        with listening(None, target, port) as heard:
            within(self.other, lambda: sendto(source, target, port, source_port))
            return received(heard, seconds)


def within(namespace: str | None, action: Callable[[], T]) -> T:
    if namespace:
        netns.pushns(namespace)
    try:
        return action()
    finally:
        if namespace:
            netns.popns()


def listening(namespace: str | None, address: object, port: int) -> socket.socket:
    def open_it() -> socket.socket:
        opened = socket.socket(family(address), socket.SOCK_DGRAM)
        opened.bind(resolved(address, port))
        return opened

    return within(namespace, open_it)


def family(address: object) -> socket.AddressFamily:
    return socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6


def resolved(address: object, port: int) -> Any:
    """Return a socket address, with the number of the interface that a link-local address names."""
    return socket.getaddrinfo(str(address), port, type=socket.SOCK_DGRAM)[0][4]


def sendto(source: object, target: object, port: int, source_port: int, uid: int = 0) -> None:
    os.seteuid(uid)
    sender = socket.socket(family(target), socket.SOCK_DGRAM)
    os.seteuid(0)
    with sender:
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sender.bind(resolved(source, source_port))
        try:
            sender.sendto(b"user data", resolved(target, port))
        except PermissionError:  # what the output hook drops is told to the sender
            return


def received(heard: socket.socket, seconds: float = PATIENCE) -> bool:
    heard.settimeout(seconds)
    try:
        return heard.recv(64) == b"user data"
    except TimeoutError:
        return False


@pytest.fixture
def wire(new_namespace: Callable[[], str], inside: str) -> Wire:
    other = new_namespace()
    ip("link", "add", "mesh0", "type", "veth", "peer", "name", "mesh0", "netns", other)
    for space, number, own, rest in (
        (inside, 1, (OWN, OWN_LOCATOR, OWN4), (PEER, STRANGER, LOCATOR, OUTSIDE)),
        (other, 2, (PEER, STRANGER, LOCATOR, OUTSIDE, PEER4, STRANGER4), (OWN, OWN_LOCATOR)),
    ):
        ip("-n", space, "link", "set", "mesh0", "up")
        ip("-n", space, "addr", "add", f"fe80::{number}/64", "dev", "mesh0", "nodad")
        for address in own:
            nodad = ["nodad"] if address.version == 6 else []
            ip("-n", space, "addr", "add", f"{address}/{address.max_prefixlen}", "dev", "lo", *nodad)
        for address in rest:
            ip("-n", space, "route", "add", f"{address}/128", "via", f"fe80::{3 - number}", "dev", "mesh0")
        ip("-n", space, "route", "add", "10.77.0.0/16", "dev", "mesh0")
    wait_for(lambda: all(carries(space) for space in (inside, other)), "the link")
    return Wire(other, Nftables())


def carries(space: str) -> bool:
    """Return whether the kernel has noticed the carrier; until then it loses what is sent."""
    (link,) = json.loads(ip("-n", space, "-j", "link", "show", "mesh0"))
    return bool(link["operstate"] == "UP")


def test_without_rules_everything_passes(wire: Wire) -> None:
    assert wire.arrives(OWN, PEER)
    assert wire.comes_in(PEER, OWN)
    assert wire.arrives(OWN4, PEER4)


def test_user_data_to_a_peer_does_not_leave_in_the_clear(wire: Wire) -> None:
    wire.apply(SPEC)
    assert wire.keeps_in(OWN, PEER)
    assert wire.keeps_in(OWN4, PEER4)
    assert wire.counters() == {"clear_out": 2}


def test_user_data_in_the_clear_from_a_peers_address_is_dropped(wire: Wire) -> None:
    wire.apply(SPEC)
    assert wire.keeps_out(PEER, OWN)
    assert wire.keeps_out(PEER4, OWN4)
    assert wire.counters() == {"clear_in": 2}


def test_locators_carry_ike_and_nothing_else(wire: Wire) -> None:
    wire.apply(SPEC)
    for port in (500, 4500):
        assert wire.arrives(OWN_LOCATOR, LOCATOR, port, source_port=port)
        assert wire.comes_in(LOCATOR, OWN_LOCATOR, port, source_port=port)
    assert wire.counters() == {}
    assert wire.keeps_in(OWN_LOCATOR, LOCATOR, 4500, source_port=40000)
    assert wire.keeps_in(OWN_LOCATOR, LOCATOR)
    assert wire.keeps_out(LOCATOR, OWN_LOCATOR)
    assert wire.counters() == {"clear_out": 2, "clear_in": 1}


@pytest.mark.parametrize("backend", EspBackend)
def test_only_root_sends_ike(backend: EspBackend, wire: Wire) -> None:
    """On this node only root sends from an IKE port, whoever the receiver is."""
    wire.apply(replace(SPEC, backend=backend, protected=frozenset({PEER}), barred=frozenset({OUTSIDE})))
    ip("xfrm", "policy", "flush", check=False)  # the IKE daemon's own sockets pass by these policies
    for target in (LOCATOR, PEER, OUTSIDE, STRANGER):
        passes = target in {LOCATOR, STRANGER} or backend is EspBackend.KERNEL
        assert wire.arrives(OWN, target, 4500, source_port=4500) if passes else True
        with listening(wire.other, target, 4500) as heard:
            sendto(OWN, target, 4500, 4500, uid=65534)
            assert not received(heard, SILENCE)


@pytest.mark.parametrize("target", [STRANGER, PEER, LOCATOR])
@pytest.mark.parametrize("joins", [True, False])
def test_only_root_speaks_from_the_port_without_an_sa_to_strangers_only_where_there_is_a_fleet(
    target: IPv6Address, wire: Wire, *, joins: bool
) -> None:
    wire.apply(spec := replace(SPEC, joins=joins))
    if target == STRANGER and not joins:
        assert wire.keeps_in(OWN, target, JOIN_PORT, source_port=JOIN_PORT)
        assert wire.keeps_out(target, OWN, JOIN_PORT, source_port=JOIN_PORT)
        return
    assert wire.arrives(OWN, target, JOIN_PORT, source_port=JOIN_PORT)
    assert wire.comes_in(target, OWN, JOIN_PORT, source_port=JOIN_PORT)
    assert wire.counters() == {}
    with listening(wire.other, target, JOIN_PORT) as heard:
        sendto(OWN, target, JOIN_PORT, JOIN_PORT, uid=NOBODY)
        assert not received(heard, SILENCE)
    assert wire.keeps_in(OWN, target, JOIN_PORT, source_port=JOIN_PORT + 1)
    assert wire.keeps_in(OWN, target, JOIN_PORT + 1, source_port=JOIN_PORT)
    assert wire.keeps_out(target, OWN, JOIN_PORT, source_port=JOIN_PORT + 1)
    wire.apply(replace(spec, barred=frozenset({target})))
    assert wire.keeps_in(OWN, target, JOIN_PORT, source_port=JOIN_PORT)
    assert wire.keeps_out(target, OWN, JOIN_PORT, source_port=JOIN_PORT)


@pytest.mark.parametrize("backend", EspBackend)
def test_a_new_node_and_the_member_that_trusts_it_already_talk(backend: EspBackend, wire: Wire) -> None:
    """Of the kernel's policies against peers the socket has exceptions, and nothing else has."""
    wire.apply(replace(SPEC, backend=backend, joins=True))
    if backend is EspBackend.KERNEL:
        assert wire.keeps_in(OWN, PEER, JOIN_PORT, source_port=JOIN_PORT)
        assert wire.keeps_out(PEER, OWN, JOIN_PORT, source_port=JOIN_PORT)
    assert asyncio.run(_greeted(wire.other)) == [(PEER, b"user data")]


async def _greeted(other: str) -> list[tuple[IPv6Address, bytes]]:
    """Send a datagram to the peer, and return what comes in after the peer has heard it."""
    came: asyncio.Queue[tuple[IPv6Address, bytes]] = asyncio.Queue()
    opened = await join_datagrams(OWN, lambda *one: came.put_nowait(one))
    try:
        with listening(other, PEER, JOIN_PORT) as heard:
            opened.send(PEER, b"user data")
            assert await asyncio.to_thread(received, heard)
        within(other, lambda: sendto(PEER, OWN, JOIN_PORT, JOIN_PORT + 1))
        within(other, lambda: sendto(PEER, OWN, JOIN_PORT, JOIN_PORT))
        return [await asyncio.wait_for(came.get(), PATIENCE)]
    finally:
        opened.close()


def begins(
    uid: int,
    source: object,
    target: object,
    port: int,
    *,
    source_port: int = 0,
    namespace: str | None = None,
    seconds: float = PATIENCE,
) -> bool:
    """Return whether an account's connection to a TCP port is answered in time."""
    with within(namespace, lambda: _stream(uid, source, source_port)) as opened:
        opened.settimeout(seconds)
        try:
            opened.connect((str(target), port))
        except OSError:
            return False
        return True


def serving(uid: int, namespace: str | None, address: object, port: int) -> socket.socket:
    """Listen at a TCP port as an account."""
    opened = within(namespace, lambda: _stream(uid, address, port))
    opened.listen()
    return opened


def _stream(uid: int, address: object, port: int) -> socket.socket:
    """Return a socket that belongs to an account."""
    os.seteuid(uid)
    opened = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    os.seteuid(0)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    opened.bind((str(address), port))
    return opened


@pytest.mark.parametrize("device", ["ipsec0", "overlay0"])
def test_only_root_begins_and_answers_a_fleets_exchange(device: str, wire: Wire) -> None:
    wire.apply(replace(SPEC, overlay_device="overlay0", admitted=frozenset({PEER})))
    mesh_is_named(device)
    ip("route", "add", f"{PEER}/128", "via", "fe80::2", "dev", device)
    introduce(None, device, "fe80::2", wire.other, "mesh0")
    introduce(wire.other, "mesh0", "fe80::1", None, device)
    with serving(0, wire.other, PEER, FLEET_PORT):
        assert begins(0, OWN, PEER, FLEET_PORT)
        assert not begins(NOBODY, OWN, PEER, FLEET_PORT, seconds=SILENCE)
        assert wire.counters() == {"fleet_out": 1}
    with serving(0, None, OWN, FLEET_PORT):
        assert begins(0, PEER, OWN, FLEET_PORT, namespace=wire.other)
    with serving(NOBODY, None, OWN, FLEET_PORT):
        assert not begins(0, PEER, OWN, FLEET_PORT, namespace=wire.other, seconds=SILENCE)
    assert wire.counters()["fleet_out"] > 1


def test_the_rest_of_a_closed_exchange_arrives(wire: Wire) -> None:
    """Data that the kernel sends after the program closed its socket passes, though the socket has no owner."""
    wire.apply(SPEC)
    mesh_is_named("ipsec0")
    ip("route", "add", f"{PEER}/128", "via", "fe80::2", "dev", "ipsec0")
    with serving(0, wire.other, PEER, FLEET_PORT) as listener:
        sent = 0
        with _stream(0, OWN, 0) as opened:
            opened.connect((str(PEER), FLEET_PORT))
            opened.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    sent += opened.send(bytes(1 << 16))
        accepted, _ = listener.accept()
        with accepted:
            accepted.settimeout(PATIENCE)
            assert sum(iter(lambda: len(accepted.recv(1 << 16)), 0)) == sent


def test_every_account_reaches_other_ports_and_other_nodes(wire: Wire) -> None:
    wire.apply(replace(SPEC, unknown_nodes=UnknownNodes.ALLOW))
    mesh_is_named("ipsec0")
    for address in (PEER, STRANGER):
        ip("route", "add", f"{address}/128", "via", "fe80::2", "dev", "ipsec0")
    with serving(0, wire.other, PEER, FLEET_PORT + 1), serving(0, wire.other, STRANGER, FLEET_PORT):
        assert begins(NOBODY, OWN, PEER, FLEET_PORT + 1)
        assert begins(NOBODY, OWN, STRANGER, FLEET_PORT)
    with serving(NOBODY, None, OWN, FLEET_PORT + 1):
        assert begins(0, PEER, OWN, FLEET_PORT + 1, namespace=wire.other)
    assert wire.counters() == {}


def test_with_esp_in_the_kernel_only_ike_passes_to_a_removed_peer() -> None:
    text = render(replace(SPEC, backend=EspBackend.KERNEL, barred=frozenset({PEER})))
    assert text.index("@barred6 udp sport") < text.index("@barred6 counter") < text.index("ipsec exists accept")


def mesh_is_named(device: str) -> None:
    """Give the only cable the name of charon's or overlayd's device."""
    ip("link", "set", "mesh0", "down")
    ip("link", "set", "mesh0", "name", device)
    ip("link", "set", device, "up")
    ip("addr", "add", "fe80::1/64", "dev", device, "nodad", check=False)


def test_a_peer_that_was_removed_is_closed_inside_ipsec_too(wire: Wire) -> None:
    wire.apply(SPEC)
    mesh_is_named("ipsec0")
    for address in (PEER, STRANGER):
        ip("route", "add", f"{address}/128", "via", "fe80::2", "dev", "ipsec0")
    ip("route", "add", f"{PEER4}/32", "dev", "ipsec0")
    assert wire.arrives(OWN, PEER)
    assert wire.arrives(OWN4, PEER4)
    wire.apply(replace(SPEC, barred=frozenset({PEER, PEER4})))
    for own, peer in ((OWN, PEER), (OWN4, PEER4)):
        assert wire.keeps_in(own, peer)
        assert wire.keeps_out(peer, own)
    assert wire.arrives(OWN, STRANGER)
    assert wire.counters() == {"barred_out": 2, "barred_in": 2}


def test_only_charons_device_carries_user_data(wire: Wire) -> None:
    wire.apply(SPEC)
    mesh_is_named("ipsec0")
    ip("route", "add", f"{PEER}/128", "via", "fe80::2", "dev", "ipsec0")
    assert wire.arrives(OWN, PEER)
    assert wire.comes_in(PEER, OWN)
    assert wire.counters() == {}


@pytest.fixture
def by_overlay(wire: Wire) -> Wire:
    """Give a wire whose neighbour is reached through the overlay's device."""
    mesh_is_named("overlay0")
    for address in (PEER, STRANGER):
        ip("route", "add", f"{address}/128", "via", "fe80::2", "dev", "overlay0")
    introduce(None, "overlay0", "fe80::2", wire.other, "mesh0")
    introduce(wire.other, "mesh0", "fe80::1", None, "overlay0")
    return wire


def introduce(space: str | None, device: str, address: str, other: str | None, his: str) -> None:
    """Set a neighbour's hardware address: the veth that stands in for a TUN device needs one."""
    where, there = (["-n", name] if name else [] for name in (space, other))
    (link,) = json.loads(ip(*there, "-j", "link", "show", "dev", his))
    ip(*where, "neigh", "replace", address, "lladdr", link["address"], "nud", "permanent", "dev", device)


def test_the_overlays_device_carries_user_data_of_those_who_are_trusted_and_nothing_else(by_overlay: Wire) -> None:
    open_policy = replace(SPEC, unknown_nodes=UnknownNodes.ALLOW, overlay_device="overlay0", admitted=frozenset({PEER}))
    by_overlay.apply(open_policy)
    assert by_overlay.arrives(OWN, PEER)
    assert by_overlay.comes_in(PEER, OWN)
    assert by_overlay.counters() == {}
    assert by_overlay.keeps_in(OWN, STRANGER)
    assert by_overlay.keeps_out(STRANGER, OWN)
    assert by_overlay.counters() == {"overlay_out": 1, "overlay_in": 1}


@pytest.mark.parametrize(
    "changes", [{"overlay_device": "overlay0"}, {"overlay_device": "another0", "admitted": frozenset({PEER})}]
)
def test_neither_a_former_peer_nor_another_device_passes_for_the_overlay(
    by_overlay: Wire, changes: dict[str, Any]
) -> None:
    by_overlay.apply(replace(SPEC, **changes))
    assert by_overlay.keeps_in(OWN, PEER)
    assert by_overlay.keeps_out(PEER, OWN)


def test_unknown_mesh_nodes_get_no_user_data_not_even_by_the_port_at_which_they_may_ask_for_an_sa(wire: Wire) -> None:
    wire.apply(SPEC)
    assert wire.keeps_in(OWN, STRANGER)
    assert wire.keeps_out(STRANGER, OWN)
    assert wire.keeps_out(STRANGER4, OWN4)
    assert wire.counters() == {"unknown_out": 1, "unknown_in": 2}
    assert wire.keeps_out(STRANGER, OWN, 500, source_port=500), "first messages alone pass (test_ike_guard)"


def test_unknown_nodes_are_reachable_when_the_policy_says_so(wire: Wire) -> None:
    wire.apply(replace(SPEC, unknown_nodes=UnknownNodes.ALLOW))
    assert wire.arrives(OWN, STRANGER)
    assert wire.comes_in(STRANGER, OWN)
    assert wire.keeps_in(OWN, PEER)


BYPASSED = replace(
    SPEC,
    bypass=(
        Bypass(IPv6Network((int(STRANGER) & ~0xF, 124)), "all of it", "", 0),
        Bypass(IPv4Network("10.77.0.0/24"), "a service", "udp", 7000),
    ),
)
"""Prefixes that contain the peers' addresses."""


def test_bypassed_traffic_passes_in_the_clear_and_is_counted(wire: Wire) -> None:
    wire.apply(BYPASSED)
    assert wire.arrives(OWN, STRANGER)
    assert wire.comes_in(STRANGER, OWN)
    assert wire.arrives(OWN4, STRANGER4, 7000)
    assert wire.comes_in(STRANGER4, OWN4, source_port=7000)
    assert wire.counters() == {"bypass_out": 2, "bypass_in": 2}
    assert wire.keeps_in(OWN4, STRANGER4, 7001), "another port"
    assert wire.keeps_out(STRANGER4, OWN4, 7000), "the port is that of the other end"
    assert wire.counters() == {"bypass_out": 2, "bypass_in": 2, "unknown_out": 1, "unknown_in": 1}


def test_a_peer_within_a_bypassed_prefix_is_protected(wire: Wire) -> None:
    wire.apply(BYPASSED)
    for source, target in ((OWN, PEER), (OWN4, PEER4)):
        assert wire.keeps_in(source, target, 7000)
        assert wire.keeps_out(target, source, source_port=7000)
    assert wire.counters() == {"clear_out": 2, "clear_in": 2}
    wire.apply(replace(BYPASSED, protected=frozenset(), barred=frozenset({PEER, PEER4})))
    assert wire.keeps_in(OWN, PEER), "nor one that was removed, while its SAs end"
    assert wire.keeps_out(PEER4, OWN4, source_port=7000)


def test_a_bypassed_service_gets_neighbour_discovery_and_icmp_errors(wire: Wire) -> None:
    """Neighbour discovery and ICMP errors pass for a bypassed address."""
    service = Bypass(IPv6Network("fc00::/64"), "a service", "udp", 7000)
    wire.apply(replace(SPEC, bypass=(service,)))
    ip("addr", "add", "fc00::a/64", "dev", "mesh0", "nodad")
    ip("-n", wire.other, "addr", "add", "fc00::5/64", "dev", "mesh0", "nodad")
    ip("route", "replace", "fc00::5/128", "dev", "mesh0")
    ip("-n", wire.other, "route", "replace", "fc00::a/128", "dev", "mesh0")
    assert wire.arrives(OWN, STRANGER, 7000)
    assert wire.keeps_in(OWN, STRANGER, 7001)


def test_nobody_else_speaks_with_our_own_address(wire: Wire) -> None:
    wire.apply(replace(SPEC, unknown_nodes=UnknownNodes.ALLOW))
    ip("-n", wire.other, "addr", "add", f"{OWN_LOCATOR}/128", "dev", "lo", "nodad")
    ip("-n", wire.other, "route", "del", f"{OWN_LOCATOR}/128")
    assert wire.keeps_out(OWN_LOCATOR, OWN)
    assert wire.counters() == {"spoofed": 1}


def test_routers_hear_each_other_by_their_mesh_addresses(wire: Wire) -> None:
    wire.apply(SPEC)
    group = IPv4Address("224.0.0.109")
    ip("addr", "add", f"{OWN4}/32", "dev", "mesh0")
    with listening(None, group, 269) as heard:
        heard.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member(group))
        within(wire.other, lambda: multicast(PEER4, group, 269))
        assert received(heard)


def member(group: IPv4Address) -> bytes:
    """Return struct ip_mreqn: the group, no address, the interface."""
    return group.packed + bytes(4) + socket.if_nametoindex("mesh0").to_bytes(4, sys.byteorder)


def multicast(source: IPv4Address, group: IPv4Address, port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, member(group))
        sender.bind((str(source), port))
        sender.sendto(b"user data", (str(group), port))


def test_the_node_reaches_itself(wire: Wire) -> None:
    wire.apply(SPEC)
    with listening(None, OWN, 9) as heard:
        sendto(OWN, OWN, 9, 0)
        assert received(heard)


@pytest.mark.parametrize("backend", EspBackend)
def test_a_relay_forwards_packets_of_others(
    wire: Wire, new_namespace: Callable[[], str], inside: str, backend: EspBackend
) -> None:
    """Packets between peers pass too, on the kernel backend also this node's XFRM policies."""
    links = Perimeter(frozenset({"mesh0", "mesh1"}))
    protected = SPEC.protected | {IPv6Address("fc00::c")}
    wire.apply(replace(SPEC, backend=backend, protected=protected, perimeter=links))
    third = new_namespace()
    ip("link", "add", "mesh1", "type", "veth", "peer", "name", "mesh1", "netns", third)
    ip("link", "set", "mesh1", "up")
    ip("addr", "add", "fe80::1/64", "dev", "mesh1", "nodad")
    ip("-n", third, "link", "set", "mesh1", "up")
    ip("-n", third, "addr", "add", "fe80::3/64", "dev", "mesh1", "nodad")
    ip("-n", third, "addr", "add", "fc00::c/128", "dev", "lo", "nodad")
    ip("-n", third, "route", "add", f"{PEER}/128", "via", "fe80::1", "dev", "mesh1")
    ip("-n", wire.other, "route", "add", "fc00::c/128", "via", "fe80::1", "dev", "mesh0")
    ip("route", "add", "fc00::c/128", "via", "fe80::3", "dev", "mesh1")
    subprocess.run(["sysctl", "-qw", "net.ipv6.conf.all.forwarding=1"], check=True)
    with listening(wire.other, PEER, 9) as heard:
        within(third, lambda: sendto("fc00::c", PEER, 9, 0))
        assert received(heard)


def test_with_esp_in_the_kernel_only_ike_and_esp_pass(wire: Wire) -> None:
    wire.apply(replace(SPEC, backend=EspBackend.KERNEL))
    assert wire.keeps_in(OWN, PEER)
    assert wire.keeps_out(PEER, OWN)
    assert wire.keeps_in(OWN4, PEER4)
    text = render(replace(SPEC, backend=EspBackend.KERNEL))
    assert "rt ipsec exists accept" in text
    assert "meta ipsec exists accept" in text
    assert "ipsec0" not in text


def test_with_esp_in_the_kernel_xfrm_policies_are_a_second_wall(wire: Wire) -> None:
    wire.apply(replace(SPEC, backend=EspBackend.KERNEL))
    asyncio.run(flush_nft())
    assert wire.keeps_in(OWN, PEER), "nft is gone, XFRM still blocks"
    assert wire.keeps_out(PEER, OWN)
    assert f"priority {BLOCK_PRIORITY}" in ip("xfrm", "policy", "list")
    wire.apply(SPEC)
    assert not ip("xfrm", "policy", "list"), "policies of the other backend would block charon's device"


def test_rules_without_their_xfrm_policies_are_not_reported_in_force(wire: Wire) -> None:
    wire.apply(replace(SPEC, backend=EspBackend.KERNEL))
    assert asyncio.run(wire.rules.in_force())
    ip("xfrm", "policy", "delete", "src", f"{PEER}/128", "dst", "::/0", "dir", "in")
    assert asyncio.run(wire.rules.in_force()) is None


def test_peers_that_may_use_the_overlay_have_no_xfrm_policy(wire: Wire) -> None:
    spec = replace(SPEC, backend=EspBackend.KERNEL, overlay_device="overlay0")
    wire.apply(replace(spec, admitted=frozenset({PEER})))
    assert not ip("xfrm", "policy", "list")
    assert wire.keeps_in(OWN, PEER), "nft stands alone"
    wire.apply(spec)
    assert str(PEER) in ip("xfrm", "policy", "list"), "one that is trusted no longer"


def test_the_xfrm_policies_do_not_replace_charons(wire: Wire) -> None:
    """The kernel keeps one policy for each selector, so ours must differ from those of an SA."""
    kernel = replace(SPEC, backend=EspBackend.KERNEL)
    wire.apply(kernel)
    for source, target, direction in ((OWN, PEER, "out"), (PEER, OWN, "in"), (OWN4, PEER4, "out"), (PEER4, OWN4, "in")):
        prefix = source.max_prefixlen
        selector = ["src", f"{source}/{prefix}", "dst", f"{target}/{prefix}", "dir", direction]
        template = ["tmpl", "src", str(OWN), "dst", str(PEER), "proto", "esp", "mode", "tunnel"]
        ip("xfrm", "policy", "update", *selector, "priority", "1000", *template)
    before = ip("xfrm", "policy", "list")
    assert asyncio.run(wire.rules.in_force()) == kernel, "charon's policies left ours alone"
    wire.apply(kernel)
    assert ip("xfrm", "policy", "list").count("priority 1000") == before.count("priority 1000") == 4


async def flush_nft() -> None:
    process = await asyncio.create_subprocess_exec("nft", "flush", "ruleset")
    assert await process.wait() == 0


def test_the_rules_outlive_the_program_and_are_replaced_without_a_gap(wire: Wire) -> None:
    wire.apply(SPEC)
    successor = Nftables()
    assert asyncio.run(successor.in_force()) is None, "what another has applied is not known to be right"
    assert wire.keeps_in(OWN, PEER)
    assert render(SPEC).startswith(f"add table inet {TABLE}\ndelete table inet {TABLE}\n"), "one transaction"
    asyncio.run(successor.apply(SPEC))
    assert asyncio.run(successor.in_force()) == SPEC


def test_rules_for_networks_read_back_and_a_successor_finds_the_closed_addresses(wire: Wire) -> None:
    """Their sets hold pairs of mark and source, which a listing shows in another form than addresses."""
    speaker = Speaker((PEER,), (PEER, PEER4), (IPv4Network("10.1.0.0/16"), IPv6Network("::/0")))
    behind = BehindNodes("meshsec-nets", (IPv4Network("10.9.0.0/16"),), (speaker,), (IPv4Network("10.1.0.0/16"),))
    spec = replace(SPEC, behind=behind)
    wire.apply(spec)
    assert asyncio.run(wire.rules.in_force()) == spec
    assert not asyncio.run(wire.rules.altered())
    found = asyncio.run(Nftables().found(SPEC.backend))
    assert found is not None
    assert (found.protected, found.locators) == (SPEC.protected, SPEC.locators)
    subprocess.run(["nft", "flush", "set", "inet", TABLE, "hosts6"], check=True)
    assert asyncio.run(wire.rules.in_force()) is None
    text = f"the set hosts6 of the table inet {TABLE} is not {{}}"
    assert asyncio.run(wire.rules.altered()) == [text.format("there as it was applied"), text.format("meshsecd's")]


@pytest.mark.parametrize(
    "alteration",
    [
        ["flush", "ruleset"],
        ["delete", "table", "inet", TABLE],
        ["flush", "chain", "inet", TABLE, "output"],
        ["insert", "rule", "inet", TABLE, "output", "accept"],
        ["delete", "element", "inet", TABLE, "protected6", "{ fc00::b }"],
        ["add", "element", "inet", TABLE, "protected6", "{ fc00::77 }"],
        ["add", "chain", "inet", TABLE, "more"],
    ],
    ids=" ".join,
)
def test_an_alteration_by_another_program_is_reported_at_once(wire: Wire, alteration: list[str]) -> None:
    async def scenario() -> None:
        changed = asyncio.Event()
        await wire.rules.apply(SPEC)
        assert await wire.rules.in_force() == SPEC
        with netlink.ruleset_changes(changed.set):
            process = await asyncio.create_subprocess_exec("nft", *alteration)
            assert await process.wait() == 0
            async with asyncio.timeout(60):
                await changed.wait()
        assert await wire.rules.in_force() is None
        assert await wire.rules.altered()

    asyncio.run(scenario())


def test_alterations_by_other_programs_are_named(wire: Wire) -> None:
    def altered(*command: str) -> list[str]:
        subprocess.run(["nft", *command], check=True)
        return asyncio.run(wire.rules.altered())

    assert asyncio.run(wire.rules.altered()) == ["none were applied"]
    wire.apply(SPEC)
    assert asyncio.run(wire.rules.altered()) == []
    assert altered("insert", "rule", "inet", TABLE, "output", "accept") == [
        f"a rule of the chain output of the table inet {TABLE} is not meshsecd's"
    ]
    wire.apply(SPEC)
    assert f"the set protected6 of the table inet {TABLE} is not there as it was applied" in altered(
        "delete", "element", "inet", TABLE, "protected6", "{ fc00::b }"
    )
    wire.apply(SPEC)
    forged = ("add", "element", "inet", guard.TABLE, guard.Contest.ANSWERED, "{ fc00::b timeout 60s }")
    assert altered(*forged) == [], "its entries come and go by themselves"
    of_guard = altered("flush", "chain", "inet", guard.TABLE, "output")
    assert set(of_guard) == {
        f"a rule of the chain output of the table inet {guard.TABLE} is not there as it was applied"
    }
    assert altered("flush", "ruleset") == [f"the table inet {one} is not there" for one in (TABLE, guard.TABLE)]


def test_chains_that_rewrite_addresses_are_named(wire: Wire) -> None:
    wire.apply(SPEC)
    assert asyncio.run(rewriting_chains()) == ()
    text = "add table ip6 other; add chain ip6 other out { type nat hook postrouting priority 100; }"
    subprocess.run(["nft", text], check=True)
    assert asyncio.run(rewriting_chains()) == ("ip6 other out",)


def test_counting_is_no_alteration(wire: Wire) -> None:
    wire.apply(SPEC)
    assert wire.keeps_in(OWN, PEER)
    assert asyncio.run(wire.rules.in_force()) == SPEC


def test_a_refused_transaction_changes_nothing(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    wire.apply(SPEC)
    monkeypatch.setattr("meshsec.core.channels.nft_rules.render", lambda spec: f"{render(spec)}nonsense\n")
    with pytest.raises(RulesError, match="nonsense"):
        wire.apply(replace(SPEC, protected=frozenset()))
    assert asyncio.run(wire.rules.in_force()) == SPEC
    assert wire.keeps_in(OWN, PEER)


def test_without_nft_the_error_says_so(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(RulesError, match="nft: No such file or directory"):
        wire.apply(SPEC)


def test_a_thousand_peers_are_one_transaction(wire: Wire) -> None:
    peers = frozenset(PEER + number for number in range(1000))
    wire.apply(replace(SPEC, protected=peers))
    listing = subprocess.run(["nft", "-j", "list", "set", "inet", TABLE, "protected6"], check=True, capture_output=True)
    (found,) = (entry["set"] for entry in json.loads(listing.stdout)["nftables"] if "set" in entry)
    assert {IPv6Address(text) for text in found["elem"]} == peers
