"""Networks behind nodes: who announces which, who may speak for which, and the routes that lead there."""

from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import NamedTuple

_Address = IPv4Address | IPv6Address
_Network = IPv4Network | IPv6Network


class Carriage(StrEnum):
    """How packets to a peer's network get to the peer, as ``[routing] accept`` names it."""

    TUNNEL = "tunnel"
    """In UDP between the two nodes' own addresses, inside whatever protects these (ADR 0060)."""
    SELECTORS = "selectors"
    """In CHILD_SAs whose traffic selectors are the networks themselves (ADR 0063)."""


class Announcement(NamedTuple):
    """A network that another router announces (attached network set, RFC 7181, section 10.6)."""

    network: _Network
    originator: _Address
    distance: int
    """Hops from the router to the network, 0 to 255."""
    metric: int
    """What the way from the router to the network weighs (RFC 7181, section 6)."""


class TunnelRoute(NamedTuple):
    """A route of the kernel whose packets travel inside packets to a peer's address."""

    destination: _Network
    peer: IPv6Address
    forwarded: bool = False
    """It is for packets that this node forwards from the networks behind it. Its own packets need no tunnel there."""
    mark: int = 0
    """It is for flows that began through this peer, whose packets have this mark; 0: for all packets."""


class OtherRoute(NamedTuple):
    """A route that is not meshsec's and leads into a network of a peer, past the tunnel."""

    destination: _Network
    interface: str
    by_router: bool = False
    """The routing daemon has set it."""

    @property
    def way(self) -> str:
        """Return by which interface it leads, and that the routing daemon has set it."""
        return f"by {self.interface}{' (set by the routing daemon)' if self.by_router else ''}"

    def __str__(self) -> str:
        """Return it for people."""
        return f"{self.destination} {self.way}"


class ForeignRoute(NamedTuple):
    """A route through the tunnel's device that is not meshsec's."""

    destination: _Network
    protocol: int
    """The rtnetlink protocol number of the program that has set it."""
    metric: int
    table: int


@dataclass(frozen=True, slots=True)
class Speaker:
    """A peer, with the sources that packets from its tunnel may have."""

    tunnels: tuple[IPv6Address, ...]
    """The addresses that its keys give it: one, or two while its key is being changed."""
    hosts: tuple[_Address, ...]
    """All of its own addresses."""
    networks: tuple[_Network, ...] = ()
    """What it may speak for."""
    serves: tuple[_Network, ...] = ()
    """Those of them whose clients this node serves, too."""


@dataclass(frozen=True, slots=True)
class BehindNodes:
    """What the fail-closed rules have to know of networks."""

    device: str = ""
    """The tunnel's device; empty: this node neither has protected networks nor uses any."""
    own: tuple[_Network, ...] = ()
    """The protected networks behind this node."""
    speakers: tuple[Speaker, ...] = field(default=())
    closed: tuple[_Network, ...] = ()
    """The networks of peers: packets from and to them pass through the tunnel alone, also while no peer is there."""
    selected: tuple[_Network, ...] = ()
    """The networks of peers in traffic selectors: packets from and to them pass inside IPsec alone."""
    shared: tuple[_Network, ...] = ()
    """The networks of clients, which other access nodes serve, too. They are among ``own``."""
