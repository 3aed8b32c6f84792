"""The routes of the routing daemon. Those of strangers are untrusted input: kept to be shown, up to a limit."""

from collections.abc import Iterator, Mapping

from meshsec.core.values.model import Address, Network, Route

MAX_STRANGERS = 16384
"""Routes to destinations that are no peer's: about 5 MB."""


class RouteTable:
    """Peers' routes are always kept. ``watch`` says which destinations those are."""

    def __init__(self, max_strangers: int = MAX_STRANGERS) -> None:
        self._max_strangers = max_strangers
        self._owners: dict[Network, tuple[str, ...]] = {}
        self._peers: dict[Network, Route] = {}
        self._strangers: dict[Network, Route] = {}
        self.truncated = False
        """Strangers' routes were left out since the last snapshot."""

    def __iter__(self) -> Iterator[Route]:
        yield from self._peers.values()
        yield from self._strangers.values()

    def owners(self, destination: Network) -> tuple[str, ...]:
        """Return the names of the channels to the peer whose end point it is: one for each key of this node."""
        return self._owners.get(destination, ())

    def watch(self, destination: Network, name: str) -> Route | None:
        """Record that it is the endpoint of channel ``name``, too, and return its route if one is known."""
        self._owners[destination] = tuple(dict.fromkeys((*self.owners(destination), name)))
        route = self._strangers.pop(destination, None)
        if route is not None:
            self._peers[destination] = route
        return self._peers.get(destination)

    def unwatch(self, destination: Network, name: str) -> None:
        """Forget that the address is the endpoint of ``name``; without any channel it is a stranger's."""
        left = tuple(owner for owner in self.owners(destination) if owner != name)
        if left:
            self._owners[destination] = left
            return
        self._owners.pop(destination, None)
        route = self._peers.pop(destination, None)
        if route is not None:
            self.put(route)

    def put(self, route: Route) -> tuple[str, ...]:
        """Add or replace a route; the names of the channels to the peer that it leads to."""
        owners = self.owners(route.destination)
        if owners:
            self._peers[route.destination] = route
        elif route.destination in self._strangers or len(self._strangers) < self._max_strangers:
            self._strangers[route.destination] = route
        else:
            self.truncated = True
        return owners

    def remove(self, destination: Network) -> tuple[str, ...]:
        """Take a route out; the names of the channels to the peer that it led to."""
        self._strangers.pop(destination, None)
        self._peers.pop(destination, None)
        return self.owners(destination)

    def reset(self, routes: Mapping[Network, Route]) -> set[str]:
        """Replace all; the names of the channels whose route appeared, changed or went away."""
        old = self._peers
        self._peers, self._strangers, self.truncated = {}, {}, False
        for route in routes.values():
            self.put(route)
        changed = {key for key in old.keys() | self._peers.keys() if old.get(key) != self._peers.get(key)}
        return {name for key in changed for name in self._owners[key]}

    def next_hop(self, destination: Network) -> Address | None:
        """Return the neighbour through which a destination is reached, be it a peer's or a stranger's."""
        route = self._peers.get(destination) or self._strangers.get(destination)
        return route.next_hop if route else None

    def to(self, destination: Network) -> Route | None:
        """Return the route to a peer's end point."""
        return self._peers.get(destination)
