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
    signing: frozenset[Address] = frozenset()
    """Those of the nodes whose newest TC was signed."""
    edges: tuple[Edge, ...] = ()
    warnings: tuple[str, ...] = ()
    """What the routing daemon or its reader found wrong, such as routes that the kernel lacks."""

    def signs(self, originator: Address) -> bool:
        """Return whether the newest HELLO or TC of a router was signed."""
        neighbours = (one.signs for one in self.neighbours if one.originator == originator)
        return originator in self.signing or any(neighbours)

    def is_confirmed(self, edge: Edge) -> bool:
        """Return whether both ends have signed a link.

        olsrv2d says so of links between other routers. A link of this router counts when the neighbour signs, because
        it becomes symmetric only after the neighbour has proved that it heard this router lately.
        """
        ends = {edge.source, edge.target}
        if ends.isdisjoint(self.originators):
            return edge.confirmed
        return any(one.symmetric and one.signs and one.originator in ends for one in self.neighbours)
