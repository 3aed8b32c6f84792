"""The routes into the tunnel and the announced networks, as they are and as they should be."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from meshsec.core.ike.drift import Difference, Where
from meshsec.core.networks.networks import DEVICE
from meshsec.core.values.model import Network
from meshsec.core.values.networks import ForeignRoute, OtherRoute, TunnelRoute

_ROUTES_FIX = "systemctl restart meshsecd: it sets its routes again, SAs stay; within a minute it does so by itself"
_ROUTER_FIX = "see the log of the routing daemon: it refuses the network, or has no room for more"


class Ways(NamedTuple):
    """What was found of networks."""

    wanted: frozenset[TunnelRoute] | None
    """None: they are being derived, so that nothing is said of them."""
    installed: frozenset[TunnelRoute]
    foreign: Sequence[ForeignRoute] = ()
    """Routes of other programs through the tunnel."""
    past: Sequence[OtherRoute] = ()
    """Routes of other programs into networks of peers, past the tunnel."""
    unannounced: Sequence[Network] = ()
    """Networks behind this node that the router does not announce."""


def differences(ways: Ways) -> Iterator[Difference]:
    """Yield each route that is lacking or should not be there, and each network that is not announced."""
    wanted = ways.installed if ways.wanted is None else ways.wanted
    for route in sorted(wanted - ways.installed, key=str):
        yield _difference(_title(route), "none", _way(route), _ROUTES_FIX)
    for route in sorted(ways.installed - wanted, key=str):
        yield _difference(_title(route), _way(route), "none", _ROUTES_FIX)
    yield from map(_foreign, ways.foreign)
    yield from map(_past, ways.past)
    for network in ways.unannounced:
        yield _difference(str(network), "not announced", "announced by the router", _ROUTER_FIX)


def _title(route: TunnelRoute) -> str:
    """Return which route it is: one destination may have a route for each kind of packets."""
    if route.mark:
        return f"route to {route.destination} for flows that began through {route.peer}"
    return f"route to {route.destination}{' for forwarded packets' if route.forwarded else ''}"


def _way(route: TunnelRoute) -> str:
    return f"through the tunnel to {route.peer}"


def _foreign(route: ForeignRoute) -> Difference:
    fix = (
        f"ip -{route.destination.version} route del {route.destination} dev {DEVICE} proto {route.protocol} "
        f"metric {route.metric} table {route.table}"
    )
    what = f"route to {route.destination} through the tunnel, of metric {route.metric} in table {route.table}"
    return _difference(what, "set by another program", "none", fix)


def _past(route: OtherRoute) -> Difference:
    fix = (
        f"ip -{route.destination.version} route del {route.destination} dev {route.interface}; the network of an "
        "interface must be renumbered instead"
    )
    is_ = f"{route.way}, where the rules drop it"
    return _difference(f"route to {route.destination}", is_, "through the tunnel alone", fix)


def _difference(what: str, is_: str, should: str, fix: str) -> Difference:
    return Difference(Where.NETWORK, None, what, is_, should, fix)
