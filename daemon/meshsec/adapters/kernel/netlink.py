"""Read and set this node's addresses and routes through rtnetlink(7), and watch for changes.

Requests go through pyroute2. A notification only says that something changed, and its reader then reads what it needs.
So a flood of notifications is cheap and a lost one (ENOBUFS) does no harm.
"""

import asyncio
import errno
import socket
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address, ip_network
from pathlib import Path
from typing import Any, NamedTuple

from pyroute2.netlink.exceptions import NetlinkError as NetlinkRefusal

from meshsec.core.channels.ipv4_claims import Elsewhere
from meshsec.core.values.model import Address, Network
from meshsec.rtnetlink import route_socket

_IFA_F_NODAD = 0x02
_IFA_F_NOPREFIXROUTE = 0x200
_LOOPBACK = "lo"
_MAIN = 254
"""RT_TABLE_MAIN."""

_NETLINK_ROUTE = 0
_NETLINK_XFRM = 6
_NETLINK_NETFILTER = 12
_GROUPS_ROUTES = 0x40 | 0x400
"""RTMGRP_IPV4_ROUTE and RTMGRP_IPV6_ROUTE."""
_GROUPS_ADDRESSES = 0x1 | 0x10 | 0x100
"""RTMGRP_LINK, RTMGRP_IPV4_IFADDR and RTMGRP_IPV6_IFADDR."""
_GROUPS_NFTABLES = 1 << 6
"""NFNLGRP_NFTABLES (7)."""
_GROUPS_XFRM_POLICIES = 1 << 3
"""XFRMNLGRP_POLICY (4)."""
_GROUPS_LINKS = 0x1
"""RTMGRP_LINK."""
_GROUPS_UPLINK = _GROUPS_LINKS | _GROUPS_ROUTES
_OUTSIDE: Mapping[int, Address] = {4: IPv4Address("192.0.2.1"), 6: IPv6Address("2001:db8::1")}
"""Addresses outside, by IP version, to which no route but a default route leads (RFC 5737; RFC 3849)."""
_GROUPS_WAYS = _GROUPS_LINKS | 1 << 18
"""RTMGRP_LINK and RTNLGRP_IPV6_RULE (19)."""
_XFRM_MSG_FLUSHPOLICY = 0x1D
_HEADER = struct.Struct("=IHHII")
"""struct nlmsghdr: length, kind, flags, sequence number, sender."""
_IFF_UP = 0x1
_IFF_LOWER_UP = 0x10000


class NetlinkError(OSError):
    """The kernel refused; the text names the request and the reason."""


@dataclass(frozen=True, slots=True)
class KernelRoute:
    """One unicast route of the kernel."""

    destination: Network
    gateway: Address | None
    interface: str
    protocol: int
    table: int
    metric: int


@dataclass(frozen=True, slots=True)
class Link:
    """One network interface."""

    index: int
    up: bool
    carrier: bool


class Way(NamedTuple):
    """How packets of this node leave."""

    interface: str = ""
    """Empty: by none, because there is no route."""
    source: Address | None = None
    """The source address that the kernel gives them; None: it has none."""


Changes = Callable[[Callable[[], None]], AbstractContextManager[None]]
"""A context manager that calls back in the running loop at each change that the kernel reports."""


@contextmanager
def _told(family: int, groups: int, on_change: Callable[[], None], kind: int | None = None) -> Iterator[None]:
    """Call ``on_change`` in the running loop at each notification of the multicast groups.

    With ``kind``, only messages of this kind count, and lost messages.
    """
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK, family) as sock:
        sock.bind((0, groups))

        def drain() -> None:
            kinds = _drain(sock)
            if kind is None or kinds & {kind, None}:
                on_change()

        loop.add_reader(sock, drain)
        try:
            yield
        finally:
            loop.remove_reader(sock)


def _drain(sock: socket.socket) -> set[int | None]:
    """Read the waiting messages and return their kinds, with None for lost ones.

    Each notification is a datagram. At most some hundred are read, so that a flood cannot block the loop.
    """
    kinds: set[int | None] = set()
    for _ in range(256):
        try:
            kinds.add(_HEADER.unpack_from(sock.recv(65536))[1])
        except BlockingIOError:
            break
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            kinds.add(None)
    return kinds


def route_changes(on_change: Callable[[], None]) -> AbstractContextManager[None]:
    """Call ``on_change`` at each change of any IPv4 or IPv6 route."""
    return _told(_NETLINK_ROUTE, _GROUPS_ROUTES, on_change)


def address_changes(on_change: Callable[[], None]) -> AbstractContextManager[None]:
    """Call ``on_change`` at each change of an interface or address."""
    return _told(_NETLINK_ROUTE, _GROUPS_ADDRESSES, on_change)


def link_changes(on_change: Callable[[], None]) -> AbstractContextManager[None]:
    """Call ``on_change`` at each change of an interface."""
    return _told(_NETLINK_ROUTE, _GROUPS_LINKS, on_change)


def way_changes(on_change: Callable[[], None]) -> AbstractContextManager[None]:
    """Call ``on_change`` at each change of an interface, because its routes go with it, or of an IPv6 rule."""
    return _told(_NETLINK_ROUTE, _GROUPS_WAYS, on_change)


def uplink_changes(on_change: Callable[[], None]) -> AbstractContextManager[None]:
    """Call ``on_change`` at each change of an interface or a route."""
    return _told(_NETLINK_ROUTE, _GROUPS_UPLINK, on_change)


@contextmanager
def ruleset_changes(on_change: Callable[[], None]) -> Iterator[None]:
    """Call ``on_change`` at each change of any nftables rule, set or table, and when XFRM policies are flushed.

    An IKE daemon may flush all policies at its start and end (ADR 0044). Changes of single policies are ignored,
    because each new or ended SA causes some.
    """
    with ExitStack() as stack:
        stack.enter_context(_told(_NETLINK_NETFILTER, _GROUPS_NFTABLES, on_change))
        with suppress(OSError):  # a kernel without XFRM has no policies
            stack.enter_context(_told(_NETLINK_XFRM, _GROUPS_XFRM_POLICIES, on_change, _XFRM_MSG_FLUSHPOLICY))
        yield


async def routes(protocol: int | None = None) -> tuple[KernelRoute, ...]:
    """Return the kernel's unicast routes of all tables, or those of one protocol number."""
    async with route_socket(NetlinkError) as ipr:
        names = await _interface_names(ipr)
        match = {} if protocol is None else {"proto": protocol}
        found = []
        for family in (socket.AF_INET, socket.AF_INET6):
            found += [_route(message, names) async for message in await ipr.route("dump", family=family, **match)]
    return tuple(found)


async def ipv4_elsewhere(mesh_interfaces: Collection[str], own: Collection[Address]) -> tuple[Elsewhere, ...]:
    """Return the IPv4 networks that this node reaches outside the mesh, and its addresses that are not ``own``.

    Default routes are left out, because they lead everywhere. Raises ``NetlinkError``.
    """
    async with route_socket(NetlinkError) as ipr:
        names = await _interface_names(ipr)
        routes = [_route(one, names) async for one in await ipr.route("dump", family=socket.AF_INET, table=_MAIN)]
        addresses = await _addresses(ipr)
    found = {
        Elsewhere(route.destination, route.interface)
        for route in routes
        if isinstance(route.destination, IPv4Network) and route.destination.prefixlen and route.table == _MAIN
        if route.interface and route.interface not in mesh_interfaces
    }
    for name, given in addresses.items():
        others = (address for address in given if isinstance(address, IPv4Address) and address not in own)
        found |= {Elsewhere(IPv4Network(address), name) for address in others}
    return tuple(sorted(found))


def _route(message: Any, names: dict[int, str]) -> KernelRoute:
    everything = "0.0.0.0/0" if message["family"] == socket.AF_INET else "::/0"
    destination = message.get("dst")
    gateway = message.get("gateway")
    return KernelRoute(
        destination=ip_network(f"{destination}/{message['dst_len']}" if destination else everything),
        gateway=ip_address(gateway) if gateway else None,
        interface=names.get(message.get("oif") or 0, ""),
        protocol=message["proto"],
        table=message.get("table") or 0,
        metric=message.get("priority") or 0,
    )


async def _interface_names(ipr: Any) -> dict[int, str]:
    return {link["index"]: link.get("ifname") async for link in await ipr.link("dump")}


async def assign_addresses(
    ipv6: Iterable[IPv6Address], ipv4: IPv4Address | None, mesh_interfaces: Iterable[str]
) -> tuple[str, ...]:
    """Assign this node's addresses and return those that were added. Existing ones stay. Raises ``NetlinkError``.

    All go to the loopback device, because they belong to the node and not to a link. Each mesh interface without an
    IPv4 address gets the IPv4 address too, because IPv4 next hops need a source address there. Missing interfaces are
    skipped.
    """
    async with route_socket(NetlinkError) as ipr:
        indexes = {name: index for index, name in (await _interface_names(ipr)).items()}
        assigned = await _addresses(ipr)
        wanted: list[tuple[str, Address]] = [
            (_LOOPBACK, own) for own in (*ipv6, ipv4) if own and own not in assigned.get(_LOOPBACK, set())
        ]
        bare = [name for name in mesh_interfaces if name in indexes and not _has_ipv4(assigned.get(name, set()))]
        wanted += [(name, ipv4) for name in bare if ipv4]
        for name, own in wanted:
            await _add(ipr, indexes[name], name, own)
    return tuple(f"{own} on {name}" for name, own in wanted)


async def take_off(addresses: Collection[IPv6Address]) -> tuple[IPv6Address, ...]:
    """Remove addresses from the loopback device and return those that existed. Raises ``NetlinkError``."""
    async with route_socket(NetlinkError) as ipr:
        indexes = {name: index for index, name in (await _interface_names(ipr)).items()}
        assigned = (await _addresses(ipr)).get(_LOOPBACK, set())
        taken = tuple(sorted(address for address in addresses if address in assigned))
        for address in taken:
            try:
                await ipr.addr("del", index=indexes[_LOOPBACK], address=str(address), prefixlen=128)
            except Exception as error:
                if getattr(error, "code", None) != errno.EADDRNOTAVAIL:
                    raise NetlinkError(f"address {address} on {_LOOPBACK}: {error}") from error
    return taken


async def assigned(name: str = _LOOPBACK) -> frozenset[Address]:
    """Return the addresses of one interface."""
    async with route_socket(NetlinkError) as ipr:
        return frozenset((await _addresses(ipr)).get(name, set()))


async def ipv4_addresses() -> frozenset[IPv4Address]:
    """Return the IPv4 addresses of all interfaces. Raises ``NetlinkError``."""
    async with route_socket(NetlinkError) as ipr:
        found = await _addresses(ipr)
    return frozenset(one for given in found.values() for one in given if isinstance(one, IPv4Address))


async def mtus() -> dict[str, int]:
    """Return the MTU of every interface."""
    async with route_socket(NetlinkError) as ipr:
        return {link.get("ifname"): link.get("mtu") async for link in await ipr.link("dump")}


def has_carrier(flags: int) -> bool:
    """Return whether an interface with these flags is up and has a carrier."""
    return bool(flags & _IFF_UP and flags & _IFF_LOWER_UP)


async def links() -> dict[str, Link]:
    """Return every interface by name."""
    async with route_socket(NetlinkError) as ipr:
        return {
            link.get("ifname"): Link(link["index"], bool(link["flags"] & _IFF_UP), bool(link["flags"] & _IFF_LOWER_UP))
            async for link in await ipr.link("dump")
        }


async def ways_out() -> dict[int, str]:
    """Return by IP version the interface by which packets to the outside leave; empty without a route.

    Raises ``NetlinkError``.
    """
    ways = await ways_to(_OUTSIDE.values())
    return {version: ways[address].interface for version, address in _OUTSIDE.items()}


async def ways_to(addresses: Iterable[Address]) -> dict[Address, Way]:
    """Return how this node's own packets to addresses leave. Raises ``NetlinkError``.

    The kernel is asked for single routes, because a node may have thousands.
    """
    found = dict[Address, Way]()
    async with route_socket(NetlinkError) as ipr:
        names = await _interface_names(ipr)
        for address in addresses:
            found[address] = Way()
            with suppress(NetlinkRefusal):  # there is no route
                for route in await ipr.route("get", dst=str(address)):
                    source = route.get("prefsrc")
                    found[address] = Way(names.get(route.get("oif") or 0, ""), ip_address(source) if source else None)
    return found


def packets(device: str) -> tuple[int, int]:
    """Return the packets that an interface has sent and received; none where there is no such interface."""
    directory = Path("/sys/class/net") / device / "statistics"
    try:
        sent, received = (int((directory / name).read_text()) for name in ("tx_packets", "rx_packets"))
    except OSError:
        return 0, 0
    return sent, received


async def set_link(index: int, *, up: bool) -> None:
    """Set an interface up or down. Raises ``NetlinkError``."""
    async with route_socket(NetlinkError) as ipr:
        await ipr.link("set", index=index, state="up" if up else "down")


def _has_ipv4(addresses: Iterable[Address]) -> bool:
    return any(address.version == 4 for address in addresses)


async def _addresses(ipr: Any) -> dict[str, set[Address]]:
    names = await _interface_names(ipr)
    found: dict[str, set[Address]] = {}
    async for message in await ipr.addr("dump"):
        text = message.get("local") or message.get("address")
        found.setdefault(names.get(message["index"], ""), set()).add(ip_address(text))
    return found


async def _add(ipr: Any, index: int, name: str, address: Address) -> None:
    """Add one host address, without duplicate address detection, because it is derived from a key."""
    options: dict[str, Any] = {"flags": _IFA_F_NODAD} if address.version == 6 else {}
    if address.version == 4 and name != _LOOPBACK:
        options = {"flags": _IFA_F_NOPREFIXROUTE}
    try:
        await ipr.addr("add", index=index, address=str(address), prefixlen=address.max_prefixlen, **options)
    except Exception as error:
        if getattr(error, "code", None) != errno.EEXIST:
            raise NetlinkError(f"address {address} on {name}: {error}") from error
