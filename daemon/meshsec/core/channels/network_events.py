"""What announcements and the tunnel's routes do, and which routes to networks are wanted."""

from collections.abc import Iterator
from ipaddress import IPv6Address

from meshsec.core.channels.actions import RouteNetworks
from meshsec.core.channels.channel import Channel
from meshsec.core.channels.desired import addresses, host
from meshsec.core.channels.events import AnnouncementRemoved, AnnouncementSet, AnnouncementsReset, TunnelObserved
from meshsec.core.channels.situation import Situation
from meshsec.core.networks.choice import NO_ROUTE, Candidate, choose
from meshsec.core.networks.networks import originators
from meshsec.core.values.model import Card, Network
from meshsec.core.values.networks import TunnelRoute


def announcements_reset(known: Situation, event: AnnouncementsReset) -> None:
    """Take all announcements: the routing daemon was connected (again)."""
    known.networks.reset(event.announcements)


def announcement_set(known: Situation, event: AnnouncementSet) -> None:
    """Take one announcement."""
    known.networks.put(event.announcement)


def announcement_removed(known: Situation, event: AnnouncementRemoved) -> None:
    """Take the end of one announcement."""
    known.networks.remove(event.network, event.originator)


def tunnel_observed(known: Situation, event: TunnelObserved) -> None:
    """Take the routes into the tunnel as read back."""
    known.networks.installed = event.routes
    known.networks.changed()


def network_actions(known: Situation) -> list[RouteNetworks]:
    """Return what is lacking of the routes to networks. They are set only after the rules that close the networks."""
    if not known.networks.device or not known.rules.met():
        return []
    wanted = known.networks.wanted
    if wanted is None:
        wanted = known.networks.wanted = frozenset(_to_networks(known) | _to_hosts(known))
    return [RouteNetworks(wanted)] if wanted != known.networks.installed else []


def _to_networks(known: Situation) -> set[TunnelRoute]:
    in_use, routes = known.networks.in_use, set[TunnelRoute]()
    for network in known.networks.grants:
        chosen = choose(candidates(known, network), in_use.get(network)) or known.networks.kept(network)
        if chosen is not None and _may_speak(known, network, chosen):
            routes.add(TunnelRoute(network, chosen))
    return routes


def _may_speak(known: Situation, network: Network, peer: IPv6Address) -> bool:
    cards = ((channel.title, card) for channel, card in of_present_key(known))
    return any(card.address == peer and known.networks.may_speak(network, name, card) for name, card in cards)


def candidates(known: Situation, network: Network) -> list[Candidate]:
    """Return the peers that may speak for the network and announce it, by whichever of their addresses."""
    announcers = known.networks.announcers(network)
    found = []
    for channel, card in of_present_key(known) if announcers else ():
        if not known.networks.may_speak(network, channel.title, card):
            continue
        heard = [announcers[one] for one in originators(card) if one in announcers]
        if heard:
            way = NO_ROUTE if channel.route is None else channel.route.metric
            cost = way + min(one.metric for one in heard)
            found.append(Candidate(card.address, carries(known, channel), cost))
    return found


def of_present_key(known: Situation) -> Iterator[tuple[Channel, Card]]:
    """Yield the channels of this node's present key, whose address is the outer source of the tunnel (ADR 0041)."""
    for channel in known.channels():
        if channel.card is not None and channel.own in {None, known.node}:
            yield channel, channel.card


def carries(known: Situation, channel: Channel) -> bool:
    """Return whether user data passes to the peer now, protected."""
    by_overlay = channel.card is not None and known.overlay.carries(channel.card.address)
    return by_overlay or (channel.established().complete and not channel.hold.over)


def _to_hosts(known: Situation) -> set[TunnelRoute]:
    """Return the routes from the networks behind this node to the peers' own addresses.

    An SA takes packets between two nodes' own addresses alone, so that others need the tunnel to a node itself, too.
    Two keys of a peer share its IPv4 address, which one of them carries.
    """
    if not known.networks.own:
        return set()
    present, ways = known.networks.hosts_in_use, dict[Network, list[Candidate]]()
    for channel, card in of_present_key(known):
        cost = NO_ROUTE if channel.route is None else channel.route.metric
        for address in addresses(card):
            ways.setdefault(host(address), []).append(Candidate(card.address, carries(known, channel), cost))
    chosen = ((one, choose(found, present.get(one))) for one, found in ways.items())
    return {TunnelRoute(one, peer, forwarded=True) for one, peer in chosen if peer is not None}
