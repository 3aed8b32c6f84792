"""What a routing daemon knows beside its routes: for people to look at, never for decisions."""

from dataclasses import dataclass

from meshsec.core.values.model import Address, Edge, Neighbour


@dataclass(frozen=True, slots=True)
class Topology:
    """One moment of the routing daemon's information bases."""

    software: str = ""
    """The routing daemon and its version; empty while none is reachable."""
    originators: tuple[Address, ...] = ()
    """This router's own addresses."""
    neighbours: tuple[Neighbour, ...] = ()
    nodes: tuple[Address, ...] = ()
    """The originators of the routers that are known."""
    edges: tuple[Edge, ...] = ()
    warnings: tuple[str, ...] = ()
    """What the routing daemon or its reader found wrong, such as routes that the kernel lacks."""
