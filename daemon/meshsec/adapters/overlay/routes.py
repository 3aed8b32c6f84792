"""Set the routes into the overlay's device, in a separate table, and the rules that lead there (ip-rule(8)).

A rule before those of charon (220) and of the routing daemon's table sends this node's own packets to mesh nodes
through our table. Without a route there, the look-up continues with the other tables. Forwarded packets skip the table:
a relay's own sessions are not for strangers. IKE uses the routing daemon's routes, because it must work without a
session.
"""

import errno
import socket
from ipaddress import IPv6Address
from typing import Any, NamedTuple

from meshsec.rtnetlink import route_socket

TABLE = 221
PRIORITY = 219
"""One before charon's rule."""
PROTOCOL = 101
"""The rtnetlink protocol number of our routes and rules; all others are not ours."""

_MAIN = 254
_UDP = 17
_IKE_PORTS = (500, 4500)
_MESH = ("fc00::", 8)
_FAMILY = socket.AF_INET6


class RoutesError(OSError):
    """The kernel refused; the text names the request and the reason."""


class _Rule(NamedTuple):
    """The fields by which our rules differ."""

    priority: int
    table: int
    port: str = ""
    """Source and destination port of UDP as FIRST:LAST; empty for any."""


_RULES = frozenset(
    {_Rule(PRIORITY, TABLE), *(_Rule(PRIORITY - 1, _MAIN, f"{port}:{port}") for port in _IKE_PORTS)},
)


async def apply(addresses: frozenset[IPv6Address], device: str, source: IPv6Address) -> frozenset[IPv6Address]:
    """Set the routes to exactly these addresses, and the rules; return what is installed then, as read back.

    ``source`` is this node's address. New routes are added before old ones are removed. Raises ``RoutesError``.
    """
    async with route_socket(RoutesError) as ipr:
        index = await _index(ipr, device)
        await _set_rules(ipr, _RULES)
        found = await _routes(ipr)
        missing = addresses - {address for address, link in found.items() if link == index}
        if missing and index is None:
            raise RoutesError(f"{device}: there is no such device")
        for address in sorted(missing):
            await _change(ipr, "replace", address, oif=index, prefsrc=str(source))
        for address in sorted(found.keys() - addresses):
            await _change(ipr, "del", address)
        return await _installed(ipr, index)


async def installed(device: str) -> frozenset[IPv6Address]:
    """Return the addresses whose user data goes into the device: their routes and the rules exist. Raises
    ``RoutesError``.
    """
    async with route_socket(RoutesError) as ipr:
        return await _installed(ipr, await _index(ipr, device))


async def clear() -> None:
    """Remove all our routes and rules, because this node has no overlay (any more). Raises ``RoutesError``."""
    async with route_socket(RoutesError) as ipr:
        await _set_rules(ipr, frozenset())
        for address in await _routes(ipr):
            await _change(ipr, "del", address)


async def _index(ipr: Any, device: str) -> int | None:
    found: list[int] = [link["index"] async for link in await ipr.link("dump") if link.get("ifname") == device]
    return found[0] if found else None


async def _installed(ipr: Any, index: int | None) -> frozenset[IPv6Address]:
    if index is None or await _rules(ipr) != _RULES:
        return frozenset()
    return frozenset(address for address, link in (await _routes(ipr)).items() if link == index)


async def _routes(ipr: Any) -> dict[IPv6Address, int | None]:
    """Return our routes, each with the index of its device."""
    found = {}
    async for message in await ipr.route("dump", family=_FAMILY, table=TABLE):
        if message["proto"] == PROTOCOL and message["dst_len"] == 128 and message.get("table") == TABLE:
            found[IPv6Address(message.get("dst"))] = message.get("oif")
    return found


async def _change(ipr: Any, command: str, address: IPv6Address, **options: Any) -> None:
    try:
        await ipr.route(command, family=_FAMILY, dst=f"{address}/128", table=TABLE, proto=PROTOCOL, **options)
    except Exception as error:
        if command == "del" and getattr(error, "code", None) == errno.ESRCH:
            return  # it has gone with its device
        raise RoutesError(f"route {command} {address} in table {TABLE}: {error}") from error


async def _set_rules(ipr: Any, wanted: frozenset[_Rule]) -> None:
    """Set the rules. Those for IKE come first, so that IKE never uses another path."""
    found = await _rules(ipr)
    for rule in sorted(wanted - found):
        await _change_rule(ipr, "add", rule)
    for rule in sorted(found - wanted):
        await _change_rule(ipr, "del", rule)


async def _rules(ipr: Any) -> frozenset[_Rule]:
    return frozenset(
        [
            _Rule(message.get("priority") or 0, message.get("table") or 0, message.get("dport_range") or "")
            async for message in await ipr.rule("dump", family=_FAMILY)
            if message.get("protocol") == PROTOCOL
            and (message.get("dst"), message["dst_len"]) == _MESH
            and message.get("iifname") == "lo"
            and message.get("sport_range") == message.get("dport_range")
        ]
    )


async def _change_rule(ipr: Any, command: str, rule: _Rule) -> None:
    ports = {"ip_proto": _UDP, "sport_range": rule.port, "dport_range": rule.port} if rule.port else {}
    try:
        await ipr.rule(
            command,
            family=_FAMILY,
            iifname="lo",
            dst=_MESH[0],
            dst_len=_MESH[1],
            priority=rule.priority,
            table=rule.table,
            protocol=PROTOCOL,
            **ports,
        )
    except Exception as error:
        if getattr(error, "code", None) in (errno.EEXIST, errno.ENOENT):
            return
        raise RoutesError(f"rule {command} {rule.priority} to table {rule.table}: {error}") from error
