"""Set what links over the internet need in the kernel, through rtnetlink(7): addresses, devices, and ways out.

A path's device is VXLAN between two addresses on ``lo``. Each uplink has a routing table of its own, which rules choose
by the source address: otherwise all IKE_SAs to a peer would leave by the uplink that the main table prefers.
"""

import errno
import socket
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any, NamedTuple

from pyroute2.netlink import NLM_F_ACK, NLM_F_CREATE, NLM_F_REQUEST
from pyroute2.netlink.rtnl import RTM_DELROUTE, RTM_NEWROUTE
from pyroute2.netlink.rtnl.rtmsg import rtmsg

from meshsec.adapters.kernel import netlink
from meshsec.adapters.kernel.netlink import NetlinkError
from meshsec.core.islands.paths import MTU, PORT, PREFIX, is_path
from meshsec.core.values.islands import Joint
from meshsec.core.values.model import Address, Network
from meshsec.rtnetlink import answered, asked, route_socket

PROTOCOL = 104
"""The rtnetlink protocol number of our routes and rules; all others are not ours."""
TABLE = 223
"""The first uplink's routing table; the next ones follow."""
PRIORITY = 214
"""Priority of the rules that send what has an uplink's address to the uplink's table."""

_MAIN = 254
_UNICAST = 1
_UNUSABLE = 0x20 | 0x40 | 0x08
"""IFA_F_DEPRECATED, IFA_F_TENTATIVE, IFA_F_DADFAILED."""
_ONLINK = 4
"""RTNH_F_ONLINK: the gateway is taken to be on the link."""
_ON_LINK = 253
"""RT_SCOPE_LINK."""
_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}


@dataclass(frozen=True, slots=True)
class Uplink:
    """An interface to the outside, as it is now."""

    carrier: bool = False
    addresses: tuple[Address, ...] = ()
    """Those that can be used outside its link, IPv4 first."""


class _Way(NamedTuple):
    """A route of an uplink's table."""

    destination: Network
    gateway: Address | None
    interface: int
    """Its index."""
    priority: int
    onlink: bool
    table: int


class _Rule(NamedTuple):
    """Packets from this address take this table."""

    source: Address
    table: int


async def look(names: Iterable[str]) -> dict[str, Uplink]:
    """Return the uplinks by name. One that does not exist has no carrier. Raises ``NetlinkError``."""
    async with route_socket(NetlinkError) as ipr:
        links = {link.get("ifname"): link async for link in await ipr.link("dump")}
        found: dict[int, list[tuple[bool, Address]]] = {}
        async for message in await ipr.addr("dump"):
            address = ip_address(message.get("local") or message.get("address"))
            flags = message.get("flags") or 0
            if not (address.is_link_local or flags & _UNUSABLE):
                found.setdefault(message["index"], []).append((address.version == 6, address))
    uplinks = {}
    for name in names:
        link = links.get(name)
        up = link is not None and netlink.has_carrier(link["flags"])
        own = tuple(address for _, address in sorted(found.get(link["index"], []))) if link else ()
        uplinks[name] = Uplink(up, own)
    return uplinks


async def assign(addresses: Collection[IPv6Address]) -> None:
    """Give the loopback device exactly these addresses of paths. Raises ``NetlinkError``."""
    await netlink.assign_addresses(addresses, None, ())
    present = await netlink.assigned()
    stale = {one for one in present if isinstance(one, IPv6Address) and one in PREFIX}
    await netlink.take_off(stale - set(addresses))


async def set_devices(joints: Collection[Joint]) -> frozenset[str]:
    """Have exactly the devices of these paths, and return their names as read back. Raises ``NetlinkError``."""
    async with route_socket(NetlinkError) as ipr:
        present = await _present(ipr)
        wanted = {joint.device: joint for joint in joints}
        for name in present.keys() - wanted.keys():
            await _asked(ipr.link("del", index=present[name]), f"link del {name}", (errno.ENODEV,))
        for name in sorted(wanted.keys() - present.keys()):
            await _make(ipr, wanted[name])
        return frozenset(await _present(ipr))


async def _present(ipr: Any) -> dict[str, int]:
    found = {link.get("ifname"): link["index"] async for link in await ipr.link("dump")}
    return {name: index for name, index in found.items() if is_path(name)}


async def _make(ipr: Any, joint: Joint) -> None:
    """Checksums are left out, because the SA protects the contents better."""
    made = ipr.link(
        "add",
        ifname=joint.device,
        kind="vxlan",
        vxlan_id=joint.network_id,
        vxlan_local6=str(joint.own),
        vxlan_group6=str(joint.peer),
        vxlan_port=PORT,
        vxlan_learning=0,
        vxlan_udp_zero_csum6_tx=1,
        vxlan_udp_zero_csum6_rx=1,
        mtu=MTU,
    )
    what = f"link add {joint.device} type vxlan id {joint.network_id} local {joint.own} remote {joint.peer}"
    await _asked(made, what, (errno.EEXIST,))
    index = (await _present(ipr))[joint.device]
    await _asked(ipr.link("set", index=index, state="up"), f"link set {joint.device} up")


async def set_ways(uplinks: Mapping[str, Uplink], ends: Mapping[IPv6Address, str]) -> None:
    """Let what bears an uplink's address leave by it. Raises ``NetlinkError``.

    ``ends`` are the far addresses of paths, with the uplink that leads there: with ESP in the kernel a packet needs a
    route before an SA takes it.
    """
    tables = {name: TABLE + number for number, name in enumerate(uplinks)}
    async with route_socket(NetlinkError) as ipr:
        indexes = {link.get("ifname"): link["index"] async for link in await ipr.link("dump")}
        by_index = {indexes[name]: table for name, table in tables.items() if name in indexes}
        wanted, present = set[_Way](), set[_Way]()
        for version, family in _FAMILIES.items():
            async for message in await ipr.route("dump", family=family, table=_MAIN):
                if message.get("oif") in by_index and message["type"] == _UNICAST and message["proto"] != PROTOCOL:
                    wanted.add(_way(message, version, by_index[message.get("oif")]))
            async for message in await ipr.route("dump", family=family, proto=PROTOCOL):
                present.add(_way(message, version, message.get("table") or 0))
        wanted |= {
            _Way(ip_network(end), None, indexes[name], 1024, False, _MAIN)
            for end, name in ends.items()
            if name in indexes
        }
        for way in sorted(wanted - present, key=_before):
            await _change(ipr, RTM_NEWROUTE, way)
        rules = {_Rule(one, tables[name]) for name, uplink in uplinks.items() for one in uplink.addresses}
        await _set_rules(ipr, rules)
        for way in sorted(present - wanted, key=_before, reverse=True):
            await _change(ipr, RTM_DELROUTE, way)


def _before(way: _Way) -> tuple[bool, str]:
    """Routes to gateways come first: without them the kernel refuses those through them."""
    return way.gateway is not None, str(way)


def _way(message: Any, version: int, table: int) -> _Way:
    everything = "0.0.0.0" if version == 4 else "::"  # noqa: S104 - a destination, not an address to listen on
    gateway = message.get("gateway")
    return _Way(
        destination=ip_network(f"{message.get('dst') or everything}/{message['dst_len']}"),
        gateway=ip_address(gateway) if gateway else None,
        interface=message.get("oif") or 0,
        priority=message.get("priority") or 0,
        onlink=bool(message["flags"] & _ONLINK),
        table=table,
    )


async def _change(ipr: Any, kind: int, way: _Way) -> None:
    message = rtmsg()  # type: ignore[no-untyped-call]
    message["family"], message["dst_len"] = _FAMILIES[way.destination.version], way.destination.prefixlen
    message["table"], message["type"], message["proto"] = way.table, _UNICAST, PROTOCOL
    message["scope"] = _ON_LINK if way.gateway is None and way.destination.version == 4 else 0
    message["flags"] = _ONLINK if way.onlink else 0
    message["attrs"] = [
        *([("RTA_DST", str(way.destination.network_address))] if way.destination.prefixlen else []),
        *([("RTA_GATEWAY", str(way.gateway))] if way.gateway else []),
        ("RTA_OIF", way.interface),
        ("RTA_PRIORITY", way.priority),
    ]
    is_new = kind == RTM_NEWROUTE
    flags = NLM_F_REQUEST | NLM_F_ACK | (NLM_F_CREATE if is_new else 0)
    what = f"route {'add' if is_new else 'del'} {way.destination} in table {way.table}"
    request = answered(ipr.nlm_request(message, kind, flags))
    await _asked(request, what, (errno.EEXIST, errno.ESRCH))


async def _set_rules(ipr: Any, wanted: Collection[_Rule]) -> None:
    found = set()
    for family in _FAMILIES.values():
        async for message in await ipr.rule("dump", family=family):
            if message.get("protocol") == PROTOCOL and message.get("src"):
                found.add(_Rule(ip_address(message.get("src")), message.get("table") or 0))
    for command, rules in (("add", set(wanted) - found), ("del", found - set(wanted))):
        for rule in sorted(rules, key=str):
            request = ipr.rule(
                command,
                family=_FAMILIES[rule.source.version],
                src=str(rule.source),
                src_len=rule.source.max_prefixlen,
                priority=PRIORITY,
                table=rule.table,
                protocol=PROTOCOL,
            )
            await _asked(
                request, f"rule {command} from {rule.source} to table {rule.table}", (errno.EEXIST, errno.ENOENT)
            )


async def clear() -> None:
    """Remove everything of links: this node has none (any more). Raises ``NetlinkError``."""
    await set_devices(())
    await set_ways({}, {})
    await assign(())


async def _asked(request: Any, what: str, gone: Collection[int] = ()) -> None:
    await asked(request, what, NetlinkError, gone)
