"""The way out through a node: what its uplink does for packets from the mesh."""

from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv6Network


class Way(StrEnum):
    """How packets of one IP version leave by the uplink."""

    NAT = "nat"
    """With the uplink's own address: NAT44 (RFC 3022) or NAT66."""
    NPT = "npt"
    """With another prefix, host for host: IPv6 prefix translation, as in RFC 6296, by connection tracking."""
    ROUTE = "route"
    """As they are, because the outside knows a way back to the clients."""
    OFF = "off"
    """Not at all."""


@dataclass(frozen=True, slots=True)
class Uplink:
    """The interface to the outside, and what it does."""

    interface: str
    ipv4: Way
    ipv6: Way
    inside: IPv6Network | None = None
    outside: IPv6Network | None = None
    """The prefixes of clients in the mesh and outside, of the same length; only with NPT."""

    @property
    def versions(self) -> tuple[int, ...]:
        """Return the IP versions that it offers."""
        return tuple(version for version, way in ((4, self.ipv4), (6, self.ipv6)) if way is not Way.OFF)
