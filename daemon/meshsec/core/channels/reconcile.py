"""What turns one peer's observed state into the desired one: ``actions = reconcile_peer(name, desired, observed)``.

The order is that of safety: the configuration comes before the negotiation. Nothing is removed before its replacement
is established, except what is not trusted: that goes at once. ``reconcile_peer`` says what is lacking; the engine
decides when it is done, and which end does it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from meshsec.core.channels.actions import (
    Action,
    Initiate,
    LoadConnection,
    Terminate,
    UnloadConnection,
)
from meshsec.core.channels.desired import CHILD_NETWORKS, DesiredPeer, Wish
from meshsec.core.values.model import ChildSa, ChildSpec, ConnectionSpec, IkeSa
from meshsec.core.values.sa_states import IkeSaState

CROSSING_SECONDS = 10.0
"""IKE_SAs that two ends began at the same time are established within less of each other; whoever begins one later has
lost the other, or wants it no more."""
CHILDREN_MAX = 16
"""CHILD_SAs of one IKE_SA: two are wanted, and each may have some successors while both ends rekey. charon sets no
limit, and does not list an IKE_SA with about a thousand, so that nobody could close it."""
MORE_CHILDREN = 8
"""The same for each CHILD_SA of two networks."""


@dataclass(frozen=True, slots=True)
class ObservedPeer:
    """What the IKE daemon has of one peer."""

    loaded: bool = False
    connection: ConnectionSpec | None = None
    """The connection in the IKE daemon; None when there is none, or one with unknown contents."""
    ike_sas: tuple[IkeSa, ...] = ()
    revoked: frozenset[str] = frozenset()
    """Unique ids of IKE_SAs that rest on a card that was taken back."""
    attempting: bool = True
    """An attempt of this node's may be in progress."""
    superseded: frozenset[str] = frozenset()
    """Unique ids of IKE_SAs in whose place the overlay carries user data."""
    seen: Mapping[str, float] = field(default_factory=dict)
    """Time at which each IKE_SA was first seen established, by unique id."""


def reconcile_peer(
    name: str, desired: DesiredPeer | None, observed: ObservedPeer, timeout: float, unwanted: str = ""
) -> list[Action]:
    """Return what is to be done for one peer; ``desired`` is None when it is not trusted, or not at its level.

    ``unwanted``: why a trusted peer is to have no SA.
    """
    if desired is None:
        return _close_unwelcome(name, observed, unwanted)
    actions = _close_unwanted(name, desired, observed)
    if observed.connection != desired.connection:
        actions.append(LoadConnection(desired.connection))
    if desired.wish is Wish.CLOSE:
        return actions + [Terminate(sa.unique_id, name, "no route for the hold time") for sa in live(desired, observed)]
    absent = missing(desired, observed)
    if absent and desired.wish is Wish.OPEN:
        actions.append(Initiate(name, absent, timeout))
    actions += _close_replaced(name, desired, observed)
    return actions + _close_duplicates(name, desired, observed)


def live(desired: DesiredPeer, observed: ObservedPeer) -> list[IkeSa]:
    """Return the established IKE_SAs of trusted peers."""
    return [sa for sa in observed.ike_sas if sa.is_live and not _distrusted(sa, desired, observed)]


def _distrusted(sa: IkeSa, desired: DesiredPeer, observed: ObservedPeer) -> bool:
    """Another key than that on the card authenticated it, or the SA was agreed on by a card taken back."""
    if sa.unique_id in observed.revoked:
        return True
    return sa.is_live and sa.remote_id is not None and sa.remote_id != desired.connection.remote_id


def is_moved(sa: IkeSa, connection: ConnectionSpec) -> bool:
    """Return whether the IKE daemon sends an SA's packets to another address than the card's.

    It follows the source of an authenticated message, which anybody on the way can rewrite.
    """
    return sa.is_live and sa.remote_host not in (None, connection.remote_address)


def keeper(desired: DesiredPeer, observed: ObservedPeer) -> IkeSa | None:
    """Return the IKE_SA to keep of several from simultaneous starts; both ends choose the same.

    They prefer a complete one, then one of the end that is to initiate, then the lowest SPI of a CHILD_SA (charon alone
    reports those of IKE_SAs). An IKE_SA that was established later than a simultaneous one goes before the others: the
    peer may have lost them, and not every IKE daemon obeys INITIAL_CONTACT (RFC 7296, section 2.4).
    """

    def order(sa: IkeSa) -> tuple[bool, bool, list[str], str, str]:
        incomplete = bool(_absent(desired, sa))
        spis = sorted(spi for child in sa.children if child.carries for spi in (child.spi_in, child.spi_out))
        return incomplete, sa.initiator is not desired.initiator, spis[:1], sa.spi_initiator, sa.spi_responder

    established = _not_outlived(live(desired, observed), observed.seen)
    return min(established, key=order) if len(established) > 1 else next(iter(established), None)


def _not_outlived(established: list[IkeSa], seen: Mapping[str, float]) -> list[IkeSa]:
    """Without those beside which another came too late to have been begun at the same time, and carries."""
    carrying = [sa for sa in established if any(child.carries for child in sa.children)]
    latest = max((seen.get(sa.unique_id, 0.0) for sa in carrying), default=0.0)
    return [sa for sa in established if seen.get(sa.unique_id, latest) >= latest - CROSSING_SECONDS]


def missing(desired: DesiredPeer, observed: ObservedPeer) -> tuple[str, ...]:
    """Names of the CHILD_SAs that are wanted and not established; empty when the channel is protected."""
    return _absent(desired, keeper(desired, observed))


def _absent(desired: DesiredPeer, sa: IkeSa | None) -> tuple[str, ...]:
    established = [child.name for child in sa.children if child.carries] if sa else []
    return tuple(child.name for child in desired.connection.children if child.name not in established)


def _close_unwelcome(name: str, observed: ObservedPeer, unwanted: str) -> list[Action]:
    """Remove the configuration first, so that the peer cannot come back while its SAs are closed.

    User data with who is not trusted is barred already, so that its SAs may end in order; those of a peer end at once.
    """
    unload: list[Action] = [UnloadConnection(name)] if observed.loaded else []
    return unload + [
        Terminate(sa.unique_id, name, unwanted or "the peer is not trusted", patient=not unwanted)
        for sa in observed.ike_sas
        if sa.state is not IkeSaState.DELETING
    ]


def _close_unwanted(name: str, desired: DesiredPeer, observed: ObservedPeer) -> list[Action]:
    actions: list[Action] = []
    wanted = {child.name: _is_of_networks(child) for child in desired.connection.children}
    most = CHILDREN_MAX + MORE_CHILDREN * sum(wanted.values())
    for sa in observed.ike_sas:
        if _distrusted(sa, desired, observed) and sa.state is not IkeSaState.DELETING:
            actions.append(Terminate(sa.unique_id, name, "it is not to be relied on any more"))
        elif sa.is_live and len(sa.children) > most:
            actions.append(Terminate(sa.unique_id, name, f"the peer opened more than {most} CHILD_SAs"))
        elif sa.is_live and any(_is_of_networks(child) and child.name not in wanted for child in sa.children):
            actions.append(Terminate(sa.unique_id, name, "it carries networks that are not in the configuration now"))
        elif sa.is_connecting and sa.initiator and not observed.attempting:
            # Its late success would make the peer drop what was negotiated since (RFC 7296, section 2.4).
            actions.append(Terminate(sa.unique_id, name, "nobody waits for this attempt any more"))
    return actions


def _is_of_networks(child: ChildSa | ChildSpec) -> bool:
    return child.name.startswith(CHILD_NETWORKS)


def _close_replaced(name: str, desired: DesiredPeer, observed: ObservedPeer) -> list[Action]:
    """Only after the overlay carries; the peer must hear of it, or it would go on sending by them."""
    return [
        Terminate(sa.unique_id, name, "the overlay carries user data in its place", patient=True)
        for sa in live(desired, observed)
        if sa.unique_id in observed.superseded
    ]


def _close_duplicates(name: str, desired: DesiredPeer, observed: ObservedPeer) -> list[Action]:
    if len(observed.ike_sas) < 2 or any(sa.state.is_in_rekeying for sa in observed.ike_sas):
        return []
    kept = keeper(desired, observed)
    others = [sa for sa in live(desired, observed) if sa is not kept and sa.unique_id not in observed.superseded]
    absent = _absent(desired, kept)
    # One at most, because a peer could begin any number of them.
    spared = next((sa for sa in others if _carries_any(sa, absent)), None)
    reason = "a duplicate of another IKE_SA"
    return [Terminate(sa.unique_id, name, reason, patient=True) for sa in others if sa is not spared]


def _carries_any(sa: IkeSa, names: tuple[str, ...]) -> bool:
    """Return whether an IKE_SA has a CHILD_SA in whose place the kept one has none yet: user data goes by it."""
    return any(child.carries and child.name in names for child in sa.children)
