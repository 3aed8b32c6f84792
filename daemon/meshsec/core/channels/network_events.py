"""What announcements and the tunnel's routes do, and which routes to networks are wanted."""

from collections.abc import Iterator, Mapping
from ipaddress import IPv6Address

from meshsec.core.channels.actions import RouteNetworks
from meshsec.core.channels.channel import Channel
from meshsec.core.channels.desired import addresses, host
from meshsec.core.channels.events import (
    AnnouncementRemoved,
    AnnouncementSet,
    AnnouncementsReset,
    ClientsSet,
    GatewaysSilent,
    OwnNetworksSet,
    TunnelObserved,
)
from meshsec.core.channels.situation import Situation
from meshsec.core.networks.choice import NO_ROUTE, Candidate, choose
from meshsec.core.networks.flow_marks import MAX
from meshsec.core.networks.networks import originators, selectors
from meshsec.core.values.model import Address, Card, Network
from meshsec.core.values.networks import Announcement, TunnelRoute


def announcements_reset(known: Situation, event: AnnouncementsReset) -> None:
    """Take all announcements: the routing daemon was connected (again)."""
    known.networks.reset(event.announcements)


def announcement_set(known: Situation, event: AnnouncementSet) -> None:
    """Take one announcement."""
    known.networks.put(event.announcement)


def announcement_removed(known: Situation, event: AnnouncementRemoved) -> None:
    """Take the end of one announcement."""
    known.networks.remove(event.network, event.originator)


def own_networks_set(known: Situation, event: OwnNetworksSet) -> None:
    """Take the protected networks behind this node: the fail-closed rules follow from them."""
    known.networks.take_own(event.networks)
    known.rules.changed()


def clients_set(known: Situation, event: ClientsSet) -> None:
    """Take which node serves each client's address."""
    if event.nodes != known.networks.clients:
        known.networks.clients = event.nodes
        known.networks.changed()


def gateways_silent(known: Situation, event: GatewaysSilent) -> None:
    """Take which gateways do not answer."""
    known.networks.silent = event.peers
    known.networks.changed()


def tunnel_observed(known: Situation, event: TunnelObserved) -> None:
    """Take the routes into the tunnel as read back."""
    known.networks.flows.learn({one.peer: one.mark for one in event.routes if one.mark})
    known.networks.installed = event.routes
    known.networks.changed()


def network_actions(known: Situation) -> list[RouteNetworks]:
    """Return what is lacking of the routes to networks. They are set only after the rules that close the networks."""
    if not known.networks.device or not known.rules.met():
        return []
    wanted = known.networks.wanted
    if wanted is None:
        wanted = known.networks.wanted = frozenset(
            _to_networks(known) | _to_clients(known) | _to_hosts(known) | _of_flows(known)
        )
    return [RouteNetworks(wanted)] if wanted != known.networks.installed else []


def _to_networks(known: Situation) -> set[TunnelRoute]:
    in_use, routes = known.networks.in_use, set[TunnelRoute]()
    for network in known.networks.selected:
        routes |= {TunnelRoute(network, card.address) for _, card in selected(known, network)}
    for network in known.networks.tunnelled:
        chosen = choose(candidates(known, network), in_use.get(network)) or known.networks.kept(network)
        if chosen is not None and _may_speak(known, network, chosen):
            routes.add(TunnelRoute(network, chosen))
    return routes


def _to_clients(known: Situation) -> set[TunnelRoute]:
    """Return the routes to single clients. Access nodes agree about them; others go by what is announced.

    While a client moves, two nodes announce it. Either will do, because the former one forwards to the present one.
    """
    networks, routes = known.networks, set[TunnelRoute]()
    cards = {card.address: (channel, card) for channel, card in of_present_key(known)}
    for client, node in networks.clients.items():
        outer = networks.around(client)
        if node in cards and outer is not None and networks.may_speak(outer, cards[node][0].title, cards[node][1]):
            routes.add(TunnelRoute(client, node))
    voices = {voice: pair for pair in cards.values() for voice in originators(pair[1])}
    in_use, announced = networks.in_use, networks.announcements.clients
    for client in (*announced, *(one for one in in_use if one not in announced)):
        outer = networks.around(client)
        if outer is None or outer in networks.shared:
            continue
        announcers = announced.get(client, {})
        chosen = choose(_serving(known, outer, announcers, voices), in_use.get(client)) or networks.kept(client)
        if chosen in cards and networks.may_speak(outer, cards[chosen][0].title, cards[chosen][1]):
            routes.add(TunnelRoute(client, chosen))
    return routes


def _serving(
    known: Situation,
    outer: Network,
    announcers: Mapping[Address, Announcement],
    voices: Mapping[Address, tuple[Channel, Card]],
) -> Iterator[Candidate]:
    for originator, announced in announcers.items():
        channel, card = voices.get(originator, (None, None))
        if channel is None or card is None or not known.networks.may_speak(outer, channel.title, card):
            continue
        way = NO_ROUTE if channel.route is None else channel.route.metric
        yield Candidate(card.address, _answers(known, channel, card), way + announced.metric)


def selected(known: Situation, network: Network) -> list[tuple[Channel, Card]]:
    """Return the peer in whose traffic selectors the network is: one, or none that is trusted.

    The kernel needs a route before it looks for a policy. Without the SA that route leads into the tunnel's device,
    where the rules drop these packets, so it is set whether or not the peer is reached.
    """
    present = of_present_key(known)
    return [(one, card) for one, card in present if _selects(known, one, card, network)]


def _selects(known: Situation, channel: Channel, card: Card, network: Network) -> bool:
    return any(there == network for _, there in selectors(known.networks, channel.title, card))


def _may_speak(known: Situation, network: Network, peer: IPv6Address) -> bool:
    cards = ((channel.title, card) for channel, card in of_present_key(known))
    return any(card.address == peer and known.networks.may_speak(network, name, card) for name, card in cards)


def candidates(known: Situation, network: Network) -> list[Candidate]:
    """Return the peers that may speak for the network and announce it, by whichever of their addresses."""
    announcers = known.networks.announcements.of(network)
    found = []
    for channel, card in of_present_key(known) if announcers else ():
        if not known.networks.may_speak(network, channel.title, card):
            continue
        heard = [announcers[one] for one in originators(card) if one in announcers]
        if heard:
            way = NO_ROUTE if channel.route is None else channel.route.metric
            cost = way + min(one.metric for one in heard)
            found.append(Candidate(card.address, _answers(known, channel, card), cost))
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


def _answers(known: Situation, channel: Channel, card: Card) -> bool:
    return card.address not in known.networks.silent and carries(known, channel)


def gateways(known: Situation) -> tuple[list[IPv6Address], list[IPv6Address]]:
    """Return the gateways in use, and those that could take their place; each in order."""
    in_use = known.networks.in_use
    defaults = [network for network in known.networks.grants if network.prefixlen == 0]
    used = {in_use[network] for network in defaults if network in in_use}
    others = {one.peer: one for network in defaults for one in candidates(known, network) if one.peer not in used}
    ranked = sorted(others.values(), key=lambda one: (not one.carries, one.cost, one.peer))
    return sorted(used), [one.peer for one in ranked]


def _of_flows(known: Situation) -> set[TunnelRoute]:
    """Return the routes of flows that stay with the gateway through which they began, while that one lives."""
    networks = known.networks
    defaults = [network for network in networks.grants if network.prefixlen == 0]
    living = {network: _living(known, network) for network in defaults}
    costs = {peer: cost for found in living.values() for peer, cost in found.items()}
    marks = networks.flows.of(sorted(costs, key=lambda peer: (costs[peer], peer))[:MAX])
    found = ((network, peer) for network, peers in living.items() for peer in peers)
    return {TunnelRoute(network, peer, mark=marks[peer]) for network, peer in found if peer in marks}


def _living(known: Situation, network: Network) -> dict[IPv6Address, int]:
    """Return the gateways that live, with the cost of the way through each.

    One that a predecessor used lives until the routing daemon and the IKE daemon have been heard.
    """
    marked = {one.peer for one in known.networks.installed if one.mark and one.destination == network}
    found = candidates(known, network)
    if known.networks.kept(network) is not None and not found:
        return dict.fromkeys((peer for peer in marked if _may_speak(known, network, peer)), 0)
    unheard = marked if known.ike_down is not None else set()
    return {one.peer: one.cost for one in found if one.carries or one.peer in unheard}


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
