"""Set the device and the routes of the tunnel to networks behind peers, through rtnetlink(7).

One device serves all peers: VXLAN-GPE, whose outer header each route gives (``ip route ... encap ip6``). Routes to
networks are in the main table, behind what else leads there. Routes for what this node forwards to peers' own
addresses are in a table of their own, which rules (ip-rule(8)) choose for packets that come neither from this node nor
from a mesh interface.
"""

import errno
import socket
from collections.abc import Collection, Iterable
from ipaddress import IPv4Address, IPv6Address, ip_network
from typing import Any, NamedTuple

from pyroute2.netlink import NLM_F_ACK, NLM_F_CREATE, NLM_F_REPLACE, NLM_F_REQUEST, nla
from pyroute2.netlink.rtnl import RTM_DELROUTE, RTM_NEWROUTE
from pyroute2.netlink.rtnl.rtmsg import rtmsg

from meshsec.core.channels.nft_networks import PORT
from meshsec.core.networks.flow_marks import BASE, LAST
from meshsec.core.values.model import Network
from meshsec.core.values.networks import ForeignRoute, OtherRoute, TunnelRoute
from meshsec.rtnetlink import answered, asked, route_socket

FORWARDED_TABLE = 222
FLOWS_PRIORITY = 215
"""Priority of the rules that send flows to the table of their gateway, whose number is their mark."""
LINKS_PRIORITY = 216
"""Priority of the rules that send what comes from a mesh interface to the main table."""
FORWARDED_PRIORITY = LINKS_PRIORITY + 1
PROTOCOL = 102
"""The rtnetlink protocol number of our routes and rules; all others are not ours."""
METRIC = 32768
"""Priority of the routes to networks, behind those of DHCP, router advertisements and operators."""
CLIENT_METRIC = 10
"""Priority of the routes to single addresses, as clients have: before olsrv2d's, which lead there in the clear, and
behind those to clients that are at this node (clients.py)."""
NETWORK_ID = 1
"""VNI of all packets: the outer addresses say whose they are."""

_MAIN = 254
_TABLE_IN_ATTRIBUTE = 252
"""RT_TABLE_COMPAT: the number has more than eight bits."""
_UNICAST = 1
_CLONED = 0x200
"""RTM_F_CLONED (rtnetlink(7)): what the kernel has learnt of one destination, such as its path MTU, and no route."""
_OF_KERNEL = 2
"""RTPROT_KERNEL: the routes that come and go with a device."""
_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
_ENCAP_IP6 = 4
"""LWTUNNEL_ENCAP_IP6."""
_OUTER_ADDRESSES = _OUTER_SOURCE, _OUTER_TARGET = "LWTUNNEL_IP6_SRC", "LWTUNNEL_IP6_DST"
_INVERTED = 0x2
"""FIB_RULE_INVERT: the rule is for packets that do not match."""


class _ip6_encap_info(nla):  # noqa: N801  (named as pyroute2's own)
    """lwtunnel_ip6_t, which pyroute2 does not describe."""

    prefix: Any = "LWTUNNEL_IP6_"
    nla_map: Any = (
        (1, "LWTUNNEL_IP6_ID", "be64"),
        (2, "LWTUNNEL_IP6_DST", "ip6addr"),
        (3, "LWTUNNEL_IP6_SRC", "ip6addr"),
        (4, "LWTUNNEL_IP6_HOPLIMIT", "uint8"),
        (5, "LWTUNNEL_IP6_TC", "uint8"),
        (6, "LWTUNNEL_IP6_FLAGS", "be16"),
    )


rtmsg.encaps[_ENCAP_IP6] = _ip6_encap_info


class TunnelError(OSError):
    """The kernel refused; the text names the request and the reason."""


class Own(NamedTuple):
    """This node's addresses: the source of its own packets to networks, and the outer source of all."""

    address: IPv6Address
    ipv4: IPv4Address | None


class _Rule(NamedTuple):
    """The fields by which our rules differ."""

    version: int
    priority: int
    table: int
    interface: str
    mark: int = 0


async def apply(
    routes: Collection[TunnelRoute], device: str, own: Own, links: Iterable[str], mtu: int
) -> frozenset[TunnelRoute]:
    """Set the device and exactly these routes, and return those that are installed then, as read back.

    ``own`` are this node's addresses, ``links`` are the mesh interfaces, ``mtu`` is the largest inner packet in bytes.
    New routes are added before old ones are removed. One to another peer, or from an address that this node had with a
    former key, is replaced. Raises ``TunnelError``.
    """
    async with route_socket(TunnelError) as ipr:
        index = await _device(ipr, device, mtu)
        await _set_rules(ipr, frozenset(rule for one in routes for rule in _leading_to(one, links)))
        found = await _routes(ipr, index)
        for route in sorted((one for one in routes if found.get(one) != own.address), key=str):
            await _change(ipr, RTM_NEWROUTE, route, index, own)
        kept = {(one.destination, _table(one)) for one in routes}
        for route in sorted((one for one in found if (one.destination, _table(one)) not in kept), key=str):
            await _change(ipr, RTM_DELROUTE, route, index, own)
        return await _installed(ipr, index, own, links)


async def installed(device: str, own: Own, links: Iterable[str]) -> frozenset[TunnelRoute]:
    """Return the routes that are installed: the device exists and the rules lead there. Raises ``TunnelError``."""
    async with route_socket(TunnelError) as ipr:
        return await _installed(ipr, await _index(ipr, device), own, links)


async def others(networks: Collection[Network], device: str, router: int) -> tuple[OtherRoute, ...]:
    """Return the routes of others that lead into these networks past the device. Raises ``TunnelError``.

    ``router`` is the routing daemon's protocol number. A default route among ``networks`` has the routing daemon's
    alone: others of this node's own may well come before it. A route behind one through the tunnel leads nowhere.
    """
    async with route_socket(TunnelError) as ipr:
        names = {link["index"]: str(link.get("ifname")) async for link in await ipr.link("dump")}
        found = dict[OtherRoute, int]()
        tunnelled = dict[Network, int]()
        for version, family in _FAMILIES.items():
            async for message in await ipr.route("dump", family=family, table=_MAIN):
                if message["flags"] & _CLONED:
                    continue
                interface = names.get(message.get("oif"), "no interface")
                other = OtherRoute(_destination(message, version), interface, message["proto"] == router)
                priority = message.get("priority") or 0
                if interface == device:
                    tunnelled[other.destination] = priority
                elif any(_is_past(other, one) for one in networks):
                    found[other] = min(priority, found.get(other, priority))
    past = (one for one, priority in found.items() if priority <= tunnelled.get(one.destination, priority))
    return tuple(sorted(past, key=str))


async def foreign(device: str, known: Collection[int]) -> tuple[ForeignRoute, ...]:
    """Return the routes through the device that neither meshsecd nor the kernel has set. Raises ``TunnelError``.

    ``known`` are the protocol numbers of meshsecd's further routes.
    """
    async with route_socket(TunnelError) as ipr:
        index, found = await _index(ipr, device), []
        for version, family in _FAMILIES.items() if index is not None else ():
            async for message in await ipr.route("dump", family=family, oif=index):
                of_others = message["proto"] not in {PROTOCOL, _OF_KERNEL, *known} and not message["flags"] & _CLONED
                if message.get("oif") == index and of_others:
                    destination, table = _destination(message, version), message.get("table") or message["table"]
                    found.append(ForeignRoute(destination, message["proto"], message.get("priority") or 0, table))
        return tuple(sorted(found, key=str))


def _is_past(route: OtherRoute, network: Network) -> bool:
    part = route.destination
    if not network.prefixlen:
        return route.by_router and part == network
    return part.version == network.version and part.overlaps(network) and part.prefixlen >= network.prefixlen


async def clear(device: str) -> None:
    """Remove the device, its routes and the rules: this node has no use for them (any more). Raises ``TunnelError``."""
    async with route_socket(TunnelError) as ipr:
        await _set_rules(ipr, frozenset())
        index = await _index(ipr, device)
        if index is not None:
            await _asked(ipr.link("del", index=index), f"link del {device}")


async def _index(ipr: Any, device: str) -> int | None:
    found: list[int] = [link["index"] async for link in await ipr.link("dump") if link.get("ifname") == device]
    return found[0] if found else None


async def _device(ipr: Any, device: str, mtu: int) -> int:
    """Return the index of the device. It is made where there is none, and given the MTU."""
    index = await _index(ipr, device)
    if index is None:
        made = ipr.link(
            "add",
            ifname=device,
            kind="vxlan",
            vxlan_collect_metadata=1,
            vxlan_gpe=True,
            vxlan_learning=0,  # GPE carries packets, not frames
            vxlan_port=PORT,
            vxlan_udp_zero_csum6_tx=1,  # IPsec and the overlay protect the contents better than a checksum
            vxlan_udp_zero_csum6_rx=1,
        )
        await _asked(made, f"link add {device} type vxlan external gpe dstport {PORT}")
        index = await _index(ipr, device)
        if index is None:
            raise TunnelError(f"{device}: the kernel made no such device")
    await _asked(ipr.link("set", index=index, mtu=mtu, state="up"), f"link set {device} mtu {mtu} up")
    return index


async def _installed(ipr: Any, index: int | None, own: Own, links: Iterable[str]) -> frozenset[TunnelRoute]:
    if index is None:
        return frozenset()
    found = (route for route, source in (await _routes(ipr, index)).items() if source == own.address)
    rules = await _rules(ipr)
    return frozenset(route for route in found if _leading_to(route, links) <= rules)


async def _routes(ipr: Any, index: int) -> dict[TunnelRoute, IPv6Address | None]:
    """Return the tunnel's routes, each with the outer source."""
    found = dict[TunnelRoute, IPv6Address | None]()
    for version, family in _FAMILIES.items():
        async for message in await ipr.route("dump", family=family, proto=PROTOCOL):
            table, encap = message.get("table") or 0, message.get("encap")
            mark = table if BASE < table <= LAST else 0
            if (
                message["flags"] & _CLONED
                or message.get("oif") != index
                or not (table in {_MAIN, FORWARDED_TABLE} or mark)
                or not encap
            ):
                continue
            outer = {name: IPv6Address(value) for name, value in encap["attrs"] if name in _OUTER_ADDRESSES}
            route = TunnelRoute(_destination(message, version), outer[_OUTER_TARGET], table == FORWARDED_TABLE, mark)
            found[route] = outer.get(_OUTER_SOURCE)
    return found


def _destination(message: Any, version: int) -> Network:
    everything = "0.0.0.0" if version == 4 else "::"  # noqa: S104 - a destination, not an address to listen on
    return ip_network(f"{message.get('dst') or everything}/{message['dst_len']}")


async def _change(ipr: Any, kind: int, route: TunnelRoute, index: int, own: Own) -> None:
    destination = route.destination
    source = own.address if destination.version == 6 else own.ipv4
    table = _table(route)
    message = through(destination, route.peer, own.address, index, table=table)
    message["proto"] = PROTOCOL
    message["attrs"] += [
        ("RTA_PRIORITY", _metric(destination)),
        *([("RTA_PREFSRC", str(source))] if source and not route.forwarded else []),
    ]
    is_new = kind == RTM_NEWROUTE
    flags = NLM_F_REQUEST | NLM_F_ACK | (NLM_F_CREATE | NLM_F_REPLACE if is_new else 0)
    what = f"route {'replace' if is_new else 'del'} {destination} in table {table}, through the tunnel to {route.peer}"
    await _asked(answered(ipr.nlm_request(message, kind, flags)), what, gone=() if is_new else (errno.ESRCH,))


def through(destination: Network, peer: IPv6Address, own: IPv6Address, index: int, table: int = _MAIN) -> Any:
    """Return the message of a route through the tunnel to a peer, whose packets have the outer source ``own``.

    ``index`` is the device's. Protocol number and priority are for the caller to add.
    """
    outer = [("LWTUNNEL_IP6_ID", NETWORK_ID), (_OUTER_TARGET, str(peer)), (_OUTER_SOURCE, str(own))]
    message = rtmsg()  # type: ignore[no-untyped-call]
    message["family"], message["dst_len"] = _FAMILIES[destination.version], destination.prefixlen
    message["table"], message["type"] = (table if table < 256 else _TABLE_IN_ATTRIBUTE), _UNICAST
    message["attrs"] = [
        *([("RTA_DST", str(destination.network_address))] if destination.prefixlen else []),
        ("RTA_OIF", index),
        ("RTA_TABLE", table),
        ("RTA_ENCAP_TYPE", _ENCAP_IP6),
        ("RTA_ENCAP", {"attrs": outer}),
    ]
    return message


def _metric(destination: Network) -> int:
    return METRIC if destination.prefixlen < destination.max_prefixlen else CLIENT_METRIC


def _table(route: TunnelRoute) -> int:
    return FORWARDED_TABLE if route.forwarded else route.mark or _MAIN


def _leading_to(route: TunnelRoute, links: Iterable[str]) -> frozenset[_Rule]:
    """Return the rules that lead to a route: none to one in the main table.

    Of the packets that this node forwards those from a mesh interface come first, which a relay passes on.
    """
    if route.mark:
        return frozenset({_Rule(route.destination.version, FLOWS_PRIORITY, route.mark, "", route.mark)})
    if not route.forwarded:
        return frozenset()
    relayed = (_Rule(version, LINKS_PRIORITY, _MAIN, link) for version in _FAMILIES for link in links)
    forwarded = (_Rule(version, FORWARDED_PRIORITY, FORWARDED_TABLE, "lo") for version in _FAMILIES)
    return frozenset((*relayed, *forwarded))


async def _rules(ipr: Any) -> frozenset[_Rule]:
    found = set()
    for version, family in _FAMILIES.items():
        async for message in await ipr.rule("dump", family=family):
            if message.get("protocol") == PROTOCOL:
                priority, table, mark = (message.get(name) or 0 for name in ("priority", "table", "fwmark"))
                found.add(_Rule(version, priority, table, message.get("iifname") or "", mark))
    return frozenset(found)


async def _set_rules(ipr: Any, wanted: frozenset[_Rule]) -> None:
    """Set the rules. Those for mesh interfaces come first and go last, so that a relay's packets never take ours."""
    found = await _rules(ipr)
    for rule in sorted(wanted - found, key=lambda one: one.priority):
        await _change_rule(ipr, "add", rule)
    for rule in sorted(found - wanted, key=lambda one: -one.priority):
        await _change_rule(ipr, "del", rule)


async def _change_rule(ipr: Any, command: str, rule: _Rule) -> None:
    matched: dict[str, Any] = {"fwmark": rule.mark} if rule.mark else {"iifname": rule.interface}
    if rule.priority == FORWARDED_PRIORITY:
        matched["flags"] = _INVERTED
    request = ipr.rule(
        command,
        family=_FAMILIES[rule.version],
        priority=rule.priority,
        table=rule.table,
        protocol=PROTOCOL,
        **matched,
    )
    what = f"rule {command} {rule.priority} to table {rule.table} for packets of {rule.interface or hex(rule.mark)}"
    await _asked(request, what, gone=(errno.EEXIST, errno.ENOENT))


async def _asked(request: Any, what: str, gone: Collection[int] = ()) -> None:
    await asked(request, what, TunnelError, gone)
