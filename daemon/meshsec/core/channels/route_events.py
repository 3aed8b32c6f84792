"""What the routing daemon's routes do to the channels."""

from meshsec.core.channels.channel import Channel
from meshsec.core.channels.events import RouterDown, RouteRemoved, RouteSet, RoutesReset
from meshsec.core.channels.lifecycle import State, Trigger
from meshsec.core.channels.progress import await_turn, refresh
from meshsec.core.channels.situation import Situation
from meshsec.core.values.model import Route


def routes_reset(known: Situation, event: RoutesReset) -> None:
    """Take all routes: the routing daemon was connected (again)."""
    known.router_down = None
    for name in known.routes.reset(event.routes):
        channel = known.by_name[name]
        apply_route(known, channel, _known_route(known, channel), known.now)
    for channel in known.by_name.values():
        if channel.hold.until is not None:
            known.mark(channel.name)


def route_set(known: Situation, event: RouteSet) -> None:
    """Take one route that appeared or changed."""
    decided_at = event.route.decided_at
    for owner in known.routes.put(event.route):
        apply_route(known, known.by_name[owner], event.route, known.now if decided_at is None else decided_at)


def route_removed(known: Situation, event: RouteRemoved) -> None:
    """Take the end of one route."""
    for owner in known.routes.remove(event.destination):
        apply_route(known, known.by_name[owner], None, known.now)


def router_lost(known: Situation, event: RouterDown) -> None:
    """Keep what is known: the routing daemon does not answer."""
    known.router_down = event.reason


def apply_route(known: Situation, channel: Channel, route: Route | None, at: float) -> None:
    """Take the route to a peer (None: there is none), decided at the monotonic time ``at``."""
    before, channel.route = channel.route, route
    if route is not None and before is None:
        channel.attempt.patience_until = None
        channel.fire(known.now, Trigger.ROUTE_FOUND, _describe(route))
        if channel.state is State.WAITING:
            await_turn(known, channel, at)
    elif route is None and before is not None:
        channel.fire(known.now, Trigger.ROUTE_LOST)
    refresh(known, channel)


def _known_route(known: Situation, channel: Channel) -> Route | None:
    return known.routes.to(channel.destination) if channel.destination is not None else None


def _describe(route: Route) -> str:
    hops = "1 hop" if route.hops == 1 else f"{route.hops} hops"
    return f"{hops}, by {route.next_hop} on {route.interface}"
