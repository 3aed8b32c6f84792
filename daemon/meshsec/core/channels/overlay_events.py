"""What the overlay and the operator's choice of the data plane do to the channels."""

from meshsec.core.channels.actions import Kind, Subject
from meshsec.core.channels.channel import Channel
from meshsec.core.channels.events import ModesSet, OverlayDown, OverlayObserved, OverlayRoutesObserved, OverlayUp
from meshsec.core.channels.lifecycle import State
from meshsec.core.channels.progress import refresh
from meshsec.core.channels.situation import Situation
from meshsec.core.values.model import Card, DataPlane


def modes_set(known: Situation, event: ModesSet) -> None:
    """Take the operator's choice of the data plane for each peer."""
    known.overlay.modes = event.modes
    for address, name in known.names.items():
        _switch(known, known.by_name[name], known.overlay.mode(address))


def overlay_up(known: Situation, _event: OverlayUp) -> None:
    """Tell the overlay's node everything again: it answers (again)."""
    known.overlay.came()
    for kind in (Kind.PERMIT, Kind.KEEP):
        known.in_flight.settled(Subject(kind))
    known.mark_addresses(known.names)


def overlay_down(known: Situation, event: OverlayDown) -> None:
    """Forget the overlay's sessions: its node does not answer."""
    known.overlay.went(event.reason)
    known.mark_addresses(known.names)


def overlay_observed(known: Situation, event: OverlayObserved) -> None:
    """Take the overlay's sessions."""
    changed = (known.overlay.kept ^ event.kept) | (known.overlay.linked ^ event.linked)
    known.overlay.kept, known.overlay.linked = event.kept, event.linked
    known.mark_addresses(changed)


def overlay_routes_observed(known: Situation, event: OverlayRoutesObserved) -> None:
    """Take the routes into the overlay's device."""
    changed = known.overlay.routes ^ event.addresses
    known.overlay.routes = event.addresses
    known.mark_addresses(changed)


def follow_overlay(known: Situation, channel: Channel) -> None:
    """Decide what is wanted of the overlay for one peer.

    In mode ``overlay`` all of it. In mode ``ipsec``, where the policy has ``overlay_fallback``, that it bridges to a
    peer that has a session with us, from when no SA is established until one is: whether the session goes on is our own
    doing then, and no sign of anything. An installed route is kept while nothing else carries, or while nobody knows
    better; a session goes after its route."""
    card, overlay = channel.card, known.overlay
    if card is None or not overlay.enabled:
        return
    address, wanted = card.address, channel.handover.mode is DataPlane.OVERLAY
    sa_established = _relies_on_sa(channel)
    bridged = not sa_established and overlay.may_bridge(address)
    is_routed = address in overlay.routes
    sticks = is_routed and (not sa_established or (wanted and overlay.down is not None))
    begins = address in overlay.kept and (wanted or bridged)
    keep, is_near = wanted or bridged or is_routed, channel.route is not None
    overlay.want(address, permit=True, keep=keep, route=sticks or begins, near=is_near)
    channel.handover.follow(known.now, carries=overlay.carries(address))
    _replace_sas(known, channel)


def _relies_on_sa(channel: Channel) -> bool:
    """Return whether an SA is established and is not about to end."""
    sa = channel.ike_sa()
    is_ending = sa is not None and sa.unique_id in channel.handover.superseded
    return channel.established().complete and not channel.hold.over and not is_ending


def _replace_sas(known: Situation, channel: Channel) -> None:
    """Once for each switch: a peer that goes on with IPsec makes another SA, which is left alone.

    While a change of sessions or routes is on its way nobody knows whether the overlay will carry.
    """
    changing = any(known.in_flight.has(Subject(kind)) for kind in (Kind.KEEP, Kind.OVERLAY_ROUTES))
    changing = changing or known.queue.is_active(channel.name)
    if channel.handover.switching and channel.handover.carried_since is not None and not changing:
        channel.handover.switching = False
        channel.handover.superseded = frozenset(sa.unique_id for sa in channel.sas.listed)


def _switch(known: Situation, channel: Channel, mode: DataPlane) -> None:
    """Start the requested data plane now, and keep the present one until the new one carries user data."""
    if channel.handover.mode is mode:
        return
    handover = channel.handover
    handover.mode, handover.switching = mode, mode is DataPlane.OVERLAY
    handover.superseded = frozenset(one for one in handover.superseded if _is_ending(known, channel, one))
    if mode is DataPlane.IPSEC and channel.state is State.WAITING:
        channel.attempt.due = max(known.now, channel.attempt.backoff.due)
    refresh(known, channel)


def _is_ending(known: Situation, channel: Channel, unique_id: str) -> bool:
    return known.in_flight.has(Subject(Kind.TERMINATE, channel.name, unique_id))


def take_from_overlay(known: Situation, channel: Channel, card: Card) -> None:
    """End what the overlay does for a peer whose card is withdrawn."""
    known.names.pop(card.address, None)
    known.overlay.want(card.address)
    channel.handover.end()
