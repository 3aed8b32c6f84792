"""Read which link-layer addresses this node and its neighbours have, through rtnetlink(7). It needs no privilege."""

from collections.abc import Mapping
from dataclasses import dataclass
from socket import AF_INET, AF_INET6, if_indextoname

from meshsec.rtnetlink import route_socket


class StationsError(OSError):
    """The kernel refused; the text names the request and the reason."""


@dataclass(frozen=True, slots=True)
class Stations:
    """Link-layer addresses as lower-case text with colons."""

    own: frozenset[str]
    """Of this node's interfaces."""
    neighbours: Mapping[tuple[str, str], str]
    """Of neighbours, by interface and IP address."""


async def stations() -> Stations:
    """Return what the kernel knows now. Raises StationsError."""
    async with route_socket(StationsError) as ipr:
        own = {link.get("address") async for link in await ipr.link("dump")}
        found = {}
        for family in (AF_INET, AF_INET6):
            async for entry in await ipr.neigh("dump", family=family):
                if entry.get("dst") and entry.get("lladdr"):
                    found[if_indextoname(entry["ifindex"]), entry.get("dst")] = entry.get("lladdr")
        return Stations(frozenset(address for address in own if address), found)
