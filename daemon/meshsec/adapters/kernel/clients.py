"""Set the bridge of an access node, its addresses, and the way to each client, through rtnetlink(7).

The bridge has the same addresses and the same MAC address on all access nodes. No network is on its link: a client is
reached by a route of its own, and the neighbour entry beside it is permanent, so that a move needs no ARP and nobody
can forge one. ARP requests for others are answered here (proxy ARP), because no frame passes from client to client.
"""

import errno
import os
import socket
import struct
from collections.abc import Collection, Iterable
from ipaddress import IPv4Interface, IPv6Address, IPv6Interface, ip_address, ip_network
from typing import Any, NamedTuple

from pyroute2.netlink import NLM_F_ACK, NLM_F_CREATE, NLM_F_REPLACE, NLM_F_REQUEST
from pyroute2.netlink.rtnl import RTM_NEWROUTE, RTM_SETLINK

from meshsec.adapters.kernel.tunnel import through
from meshsec.core.networks.networks import DEVICE as TUNNEL
from meshsec.core.values.model import Address, Network
from meshsec.rtnetlink import answered, asked, route_socket

PROTOCOL = 103
"""The rtnetlink protocol number of our routes to clients; all others are not ours."""
METRIC = 5
"""Before the routes into the tunnel: what is here is not elsewhere."""
_METRIC_OF_NONE = 65536
"""What is at no node is unreachable, and does not leave by a default route; behind other routes to the network."""
_IFF_UP = 0x1
_UNREACHABLE = 7
_PERMANENT = 0x80
_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
_NODAD_NOPREFIXROUTE = 0x02 | 0x200
_ARP = {"proxy_arp": (3, 1), "proxy_arp_pvlan": (25, 1), "send_redirects": (6, 0)}
"""Settings of the bridge (IPV4_DEVCONF_* of linux/ip.h): number and wanted value."""
_IFLA_AF_SPEC, _IFLA_INET_CONF = 26, 1
_HEADER = struct.Struct("=IHHII")
_IFINFOMSG = struct.Struct("=BxHiII")


class ClientsError(OSError):
    """The kernel refused; the text names the request and the reason."""


class Host(NamedTuple):
    """The way to one address of a client."""

    address: Address
    mac: str


class Handed(NamedTuple):
    """An address of a client that another access node serves now."""

    address: Address
    node: IPv6Address


async def set_bridge(
    device: str, mac: str, addresses: Iterable[IPv4Interface | IPv6Interface], ports: Collection[str]
) -> tuple[str, ...]:
    """Make the bridge as far as it is not there. Return the ports that do not exist (yet). Raises ``ClientsError``."""
    async with route_socket(ClientsError) as ipr:
        index = await _bridge(ipr, device, mac)
        present = {one.get("address") async for one in await ipr.addr("dump", index=index)}
        for one in addresses:
            if str(one.ip) not in present:
                length = one.network.prefixlen
                request = ipr.addr(
                    "add", index=index, address=str(one.ip), prefixlen=length, flags=_NODAD_NOPREFIXROUTE
                )
                await _asked(request, f"address {one} on {device}")
        links = {link.get("ifname"): link async for link in await ipr.link("dump")}
        for name, link in links.items():
            if name in ports and link.get("master") != index:
                request = ipr.link("set", index=link["index"], master=index, state="up")
                await _asked(request, f"link set {name} master {device}")
            if (name in ports or link.get("master") == index) and not _is_isolated(link):
                await _asked(ipr.brport("set", index=link["index"], isolated=1), f"isolated port {name}")
        return tuple(name for name in ports if name not in links)


async def remove_bridge(device: str) -> None:
    """Remove the bridge and the routes to clients: this node serves none (any more). Raises ``ClientsError``."""
    async with route_socket(ClientsError) as ipr:
        for message in await _routes(ipr):
            destination = f"{message.get('dst')}/{message['dst_len']}"
            request = ipr.route("del", family=message["family"], dst=destination, proto=PROTOCOL, type=message["type"])
            await _asked(request, f"route del {destination}", gone=(errno.ESRCH,))
        if (index := _index(device)) is not None:
            await _asked(ipr.link("del", index=index), f"link del {device}")


async def set_hosts(
    device: str, hosts: Collection[Host], handed: Collection[Handed], own: IPv6Address, networks: Iterable[Network]
) -> None:
    """Set exactly these ways: new ones first. The rest of ``networks`` is unreachable. Raises ``ClientsError``.

    The way to a client that was handed over is replaced by one through the tunnel, whose outer source is ``own``.
    """
    async with route_socket(ClientsError) as ipr:
        index = _index(device)
        if index is None:
            raise ClientsError(f"{device}: there is no such device")
        routes = await _routes(ipr)
        found = await _hosts(ipr, index, routes)
        for host in hosts:
            if host not in found:
                await _reach(ipr, index, device, host)
        tunnel = _index(TUNNEL) if handed else None
        for one in handed:
            if tunnel is not None:
                await _hand_over(ipr, tunnel, one, own)
        wanted = {host.address for host in hosts}
        for host in found:
            if host.address not in wanted:
                await _leave(ipr, index, host)
        await _take_back(ipr, index, routes, {one.address for one in handed})
        for network in networks:
            request = ipr.route(
                "replace", dst=str(network), type=_UNREACHABLE, proto=PROTOCOL, priority=_METRIC_OF_NONE,
                family=_FAMILIES[network.version],
            )  # fmt: skip
            await _asked(request, f"route unreachable {network}")


async def hosts(device: str) -> frozenset[Host]:
    """Return the ways that are set. Raises ``ClientsError``."""
    async with route_socket(ClientsError) as ipr:
        index = _index(device)
        return frozenset() if index is None else await _hosts(ipr, index, await _routes(ipr))


async def _link(ipr: Any, device: str) -> Any | None:
    return next(iter([link async for link in await ipr.link("dump") if link.get("ifname") == device]), None)


def _index(device: str) -> int | None:
    """Return an interface's number. It takes microseconds, where a list of all interfaces takes milliseconds."""
    try:
        return socket.if_nametoindex(device)
    except OSError:
        return None


async def _bridge(ipr: Any, device: str, mac: str) -> int:
    """Return the index of the bridge. What is as it ought to be is not set again: that would flush its neighbours, and
    be a change of an interface, which brings meshsecd here.
    """
    link = await _link(ipr, device)
    if link is None:
        made = ipr.link("add", ifname=device, kind="bridge", address=mac, br_mcast_snooping=0, br_forward_delay=0)
        await _asked(made, f"link add {device} type bridge")
        link = await _link(ipr, device)
        if link is None:
            raise ClientsError(f"{device}: the kernel made no such device")
    index: int = link["index"]
    if link.get("address") != mac:
        await _asked(ipr.link("set", index=index, address=mac), f"link set {device} address {mac}")
    if not link["flags"] & _IFF_UP:
        await _asked(ipr.link("set", index=index, state="up"), f"link set {device} up")
    if not _answers_arp(link):
        _set_arp(index)
    return index


def _answers_arp(link: Any) -> bool:
    families = link.get_attr("IFLA_AF_SPEC")
    found = families.get_attr("AF_INET") if families is not None else None
    return found is not None and all(found[name] == value for name, (_, value) in _ARP.items())


def _is_isolated(link: Any) -> bool:
    info = link.get_attr("IFLA_LINKINFO")
    data = info.get_attr("IFLA_INFO_SLAVE_DATA") if info is not None else None
    return data is not None and bool(data.get_attr("IFLA_BRPORT_ISOLATED"))


async def _hosts(ipr: Any, index: int, routes: Iterable[Any]) -> frozenset[Host]:
    """Return the clients' addresses that have both one of the routes and a neighbour entry."""
    macs = dict[Address, str]()
    for family in _FAMILIES.values():
        async for message in await ipr.neigh("dump", family=family, ifindex=index):
            if message["state"] & _PERMANENT and message.get("dst") and message.get("lladdr"):
                macs[ip_address(message.get("dst"))] = message.get("lladdr")
    routed = {ip_address(one.get("dst")) for one in routes if one.get("oif") == index}
    return frozenset(Host(address, mac) for address, mac in macs.items() if address in routed)


async def _routes(ipr: Any) -> list[Any]:
    found = []
    for family in _FAMILIES.values():
        found += [one async for one in await ipr.route("dump", family=family, proto=PROTOCOL)]
    return found


async def _reach(ipr: Any, index: int, device: str, host: Host) -> None:
    family = _FAMILIES[host.address.version]
    entry = ipr.neigh("replace", family=family, dst=str(host.address), lladdr=host.mac, ifindex=index, state=_PERMANENT)
    await _asked(entry, f"neigh {host.address} lladdr {host.mac} on {device}")
    way = ipr.route("replace", family=family, dst=_prefix(host), oif=index, proto=PROTOCOL, priority=METRIC)
    await _asked(way, f"route {host.address} by {device}")


async def _hand_over(ipr: Any, tunnel: int, handed: Handed, own: IPv6Address) -> None:
    """Replace a client's route at once: the one that the announcements ask for takes a little longer."""
    message = through(ip_network(handed.address), handed.node, own, tunnel)
    message["proto"] = PROTOCOL
    message["attrs"].append(("RTA_PRIORITY", METRIC))
    flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE
    await _asked(answered(ipr.nlm_request(message, RTM_NEWROUTE, flags)), f"route {handed.address} to {handed.node}")


async def _take_back(ipr: Any, index: int, routes: Iterable[Any], handed: Collection[Address]) -> None:
    """Remove those of the routes to clients that were handed over, where others stand in their place now."""
    for message in routes:
        if message.get("encap") and message.get("oif") != index and ip_address(message.get("dst")) not in handed:
            destination = f"{message.get('dst')}/{message['dst_len']}"
            request = ipr.route(
                "del",
                family=message["family"],
                dst=destination,
                proto=PROTOCOL,
                priority=METRIC,
                oif=message.get("oif"),
            )
            await _asked(request, f"route del {destination}", gone=(errno.ESRCH,))


async def _leave(ipr: Any, index: int, host: Host) -> None:
    family = _FAMILIES[host.address.version]
    way = ipr.route("del", family=family, dst=_prefix(host), oif=index, proto=PROTOCOL, priority=METRIC)
    await _asked(way, f"route del {host.address}", gone=(errno.ESRCH,))
    entry = ipr.neigh("del", family=family, dst=str(host.address), lladdr=host.mac, ifindex=index)
    await _asked(entry, f"neigh del {host.address}", gone=(errno.ENOENT,))


def _prefix(host: Host) -> str:
    return f"{host.address}/{host.address.max_prefixlen}"


def _set_arp(index: int) -> None:
    """Answer ARP requests of clients for others, also for those on the same bridge."""
    settings = b"".join(_attribute(number, struct.pack("=I", value)) for number, value in _ARP.values())
    nested = _attribute(_IFLA_AF_SPEC, _attribute(socket.AF_INET, _attribute(_IFLA_INET_CONF, settings)))
    body = _IFINFOMSG.pack(socket.AF_UNSPEC, 0, index, 0, 0) + nested
    flags = NLM_F_REQUEST | NLM_F_ACK
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE) as sock:
        sock.send(_HEADER.pack(_HEADER.size + len(body), RTM_SETLINK, flags, 1, 0) + body)
        (error,) = struct.unpack_from("=i", sock.recv(4096), _HEADER.size)
    if error:
        raise ClientsError(f"proxy ARP: {os.strerror(-error)}")


def _attribute(kind: int, contents: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(contents), kind) + contents


async def _asked(request: Any, what: str, gone: Collection[int] = ()) -> None:
    await asked(request, what, ClientsError, gone)
