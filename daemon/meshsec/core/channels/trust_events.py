"""What trust does to the channels: cards that are set and withdrawn, and the rules as read back."""

from dataclasses import replace

from meshsec.core.channels.channel import Channel
from meshsec.core.channels.desired import endpoint, host, initiates
from meshsec.core.channels.events import OpeningSet, PeerRemoved, PeerSet, RulesObserved, TrustStoreRead
from meshsec.core.channels.lifecycle import Trigger
from meshsec.core.channels.overlay_events import take_from_overlay
from meshsec.core.channels.progress import refresh, revoke
from meshsec.core.channels.route_events import apply_route
from meshsec.core.channels.situation import Situation
from meshsec.core.networks.claims import Claim
from meshsec.core.policy.limits import Backoff
from meshsec.core.values.model import Card, peer_name


def peer_set(known: Situation, event: PeerSet) -> None:
    """Take a peer's card: its channel begins, or begins again with another card."""
    channel = known.opened(event.peer.key)
    channel.title, channel.fleet, channel.ipv4_doubt = event.peer.name, event.peer.fleet, event.peer.ipv4_doubt
    card, own = event.peer.card, event.peer.own
    if channel.own == own and channel.card is not None and replace(channel.card, networks=card.networks) == card:
        channel.card = card  # at most its networks or its name changed: the SAs stay
        _claim(known, channel, card)
        _specify(known, channel, card)
        return
    _disown(known, channel, "its card changed")
    known.rules.unbar(channel.name)
    channel.card, channel.own = card, own
    channel.connection = known.specified(channel, card)
    channel.initiator = initiates(own or known.node, card)
    channel.attempt.backoff = Backoff()
    channel.destination = host(endpoint(card, known.backend))
    known.names[card.address] = channel.name
    _claim(known, channel, card)
    channel.handover.mode = known.overlay.mode(card.address)
    known.rules.changed()
    apply_route(known, channel, known.routes.watch(channel.destination, channel.name), known.now)


def peer_removed(known: Situation, event: PeerRemoved) -> None:
    """Withdraw a peer's card. User data with the peer ends at once, its SAs when the peer confirms it."""
    channel = known.by_name.get(event.name)
    if channel is not None:
        known.rules.bar(channel)
        _disown(known, channel, "it is not trusted any more")


def trust_store_read(known: Situation, event: TrustStoreRead) -> None:
    """Take what is wrong with the trust store, and whether there is a fleet."""
    known.rules.joins = event.joins
    known.rules.doubts(event.problems)


def opening_set(known: Situation, event: OpeningSet) -> None:
    """Take what passes in the clear for a benchmark."""
    known.rules.opening = event.opening
    known.rules.changed()


def rules_observed(known: Situation, event: RulesObserved) -> None:
    """Take the rules as read back from the kernel."""
    known.rules.observed(event.rules)


def _specify(known: Situation, channel: Channel, card: Card) -> None:
    """Take the networks in traffic selectors, which a next key has only when it has become the present one."""
    connection = known.specified(channel, card)
    if connection != channel.connection or channel.level.refused:
        channel.connection = connection
        known.mark(channel.name)


def _claim(known: Situation, channel: Channel, card: Card | None) -> None:
    """Take the networks on a peer's card, or that it has none any more."""
    networks = card.networks if card is not None else ()
    claim = Claim(bool(channel.fleet), peer_name(channel.title), networks) if networks else None
    if known.networks.claim(channel.name, claim):
        known.rules.changed()


def _disown(known: Situation, channel: Channel, why: str) -> None:
    card = channel.card
    if card is None or channel.destination is None:
        return
    known.routes.unwatch(channel.destination, channel.name)
    take_from_overlay(known, channel, card)
    channel.route = None
    channel.fire(known.now, Trigger.ROUTE_LOST, why)
    channel.card = channel.connection = None
    _claim(known, channel, None)
    known.rules.keep_closed(card)
    channel.sas.disowned = True
    revoke(known, channel)
    refresh(known, channel, why)
