"""The record of one peer's channel: what is known and what happened. The engine writes it, the views read it."""

from dataclasses import dataclass, field
from typing import NamedTuple

from meshsec.core.channels.desired import DesiredPeer, Wish
from meshsec.core.channels.diagnosis import OF_AUTHENTICATION, Diagnosis
from meshsec.core.channels.lifecycle import State, Trigger, transition
from meshsec.core.channels.one_way_watch import Quiet
from meshsec.core.channels.reconcile import CONNECTING, LEAVING, ObservedPeer, keeper, live, missing
from meshsec.core.policy.limits import Backoff
from meshsec.core.values.model import Card, ConnectionSpec, DataPlane, IkeSa, Network, Route


@dataclass(frozen=True, slots=True)
class Failure:
    """The last attempt that failed."""

    reason: str
    at: float
    diagnosis: Diagnosis

    @property
    def of_authentication(self) -> bool:
        """One end was not, for the other, who it said it was."""
        return any(self.diagnosis == one for _, one in OF_AUTHENTICATION)


@dataclass(frozen=True, slots=True)
class Phases:
    """How long the phases of the set-up took, in seconds."""

    ike_sa_init: float | None
    ike_auth: float | None
    child: float | None


class Standing(NamedTuple):
    """What stands of a channel."""

    live: bool
    """An IKE_SA, with or without all of its CHILD_SAs."""
    complete: bool
    """An IKE_SA with all CHILD_SAs that are wanted."""


@dataclass(slots=True)
class Channel:
    """Times are monotonic seconds. Read-only for all but the engine."""

    name: str
    since: float
    """When the state was entered."""
    state: State = State.NO_ROUTE
    reason: str = "no route to the peer is known"
    """Of the last transition."""

    title: str = ""
    """As people are shown it; the name stays when a key has taken another's place (ADR 0041)."""
    own: Card | None = None
    """This node's side; None: its only one."""
    fleet: str = ""
    """Whose key has signed the card; empty: it was added on this node (ADR 0046)."""
    ipv4_doubt: str = ""
    """Why the card's IPv4 address is not believed (ADR 0057); empty: it is, or there is none."""
    card: Card | None = None
    """None when the peer is not trusted (any more)."""
    destination: Network | None = None
    """The peer's end point, whose route makes the channel wanted."""
    connection: ConnectionSpec | None = None
    initiator: bool = False
    """This node is the end that initiates."""

    route: Route | None = None
    loaded: bool = False
    loaded_connection: ConnectionSpec | None = None
    """None too when it is loaded with contents unknown to us."""
    ike_sas: tuple[IkeSa, ...] = ()
    seen: dict[str, float] = field(default_factory=dict)
    """Since when each of them was seen to stand, by unique id."""
    revoked: frozenset[str] = frozenset()
    """Unique ids of IKE_SAs that are not to be relied on: an older card authenticated them, or they are done anew."""
    disowned: bool = False
    """A card was taken back: what the IKE daemon has or is negotiating may rest on it."""

    route_at: float | None = None
    wanted_at: float | None = None
    """Since when there is a route and no SA, or was until the last set-up."""
    initiate_at: float | None = None
    """When our last attempt began."""
    protected_at: float | None = None
    route_to_protected: float | None = None
    """Seconds from ``wanted_at`` to the SA; None when the SA was adopted."""
    phases: Phases | None = None
    attempts: int = 0
    """Of ours, since the peer is known."""
    measured: int = 0
    """The last of them whose time is known to the choice of a suite."""
    last_failure: Failure | None = None

    asked_anew: bool = False
    """The operator wants what stands to be negotiated anew: neither a turn nor a delay is waited for."""
    due: float = 0.0
    """Our next attempt is not made before."""
    backoff: Backoff = field(default_factory=Backoff)
    hold_until: float | None = None
    hold_over: bool = False
    patience_until: float | None = None
    """Until when the peer's negotiation, or the SA of our own, is waited for."""
    unconfirmed: bool = False
    """The IKE daemon reported the success of our attempt, and the SA was not seen yet."""
    fresh: bool = False
    """Our IKE daemon lost its SAs, and this peer has none since."""

    quiet: Quiet | None = None
    """Nothing comes through the SA although user data goes out; None while something comes, or nothing goes."""

    mode: DataPlane = DataPlane.IPSEC
    """What is to carry user data; ``state`` tells of the SA, whatever the mode."""
    carried_since: float | None = None
    """When the overlay began to carry user data to the peer; None while it does not."""
    switching: bool = False
    """The mode became ``overlay``, and the SAs that stood before are to end when the overlay carries."""
    replaced: frozenset[str] = frozenset()
    """Unique ids of those SAs then."""

    def fire(self, now: float, trigger: Trigger, detail: str = "") -> bool:
        """Apply a trigger. False when it changes nothing."""
        step = transition(self.state, trigger)
        if step is None:
            return False
        self.state = step.state
        self.reason = f"{step.reason}: {detail}" if detail else step.reason
        self.since = now
        return True

    def desired(self) -> DesiredPeer | None:
        """What is wanted for the peer; None when it is not trusted."""
        if self.connection is None:
            return None
        return DesiredPeer(self.connection, self._wish(), self.initiator)

    def _wish(self) -> Wish:
        if self.route is not None:
            return Wish.KEEP if self.mode is DataPlane.OVERLAY else Wish.OPEN
        return Wish.KEEP if self.hold_until is not None and not self.hold_over else Wish.CLOSE

    def observed(self, *, attempting: bool = True) -> ObservedPeer:
        """What the IKE daemon has of the peer. ``attempting``: an attempt of this node's is in progress."""
        return ObservedPeer(
            self.loaded, self.loaded_connection, self.ike_sas, self.revoked, attempting, self.replaced, self.seen
        )

    def ike_sa(self) -> IkeSa | None:
        """The IKE_SA that counts."""
        wanted = self.desired()
        return keeper(wanted, self.observed()) if wanted else None

    def standing(self) -> Standing:
        """How much of what is wanted stands."""
        wanted = self.desired() if self.ike_sas else None
        if wanted is None:
            return Standing(live=False, complete=False)
        observed = self.observed()
        return Standing(bool(live(wanted, observed)), not missing(wanted, observed))

    def unauthenticated(self) -> bool:
        """Nothing stands since the authentication failed."""
        failure, stood = self.last_failure, self.protected_at
        return failure is not None and failure.of_authentication and (stood is None or failure.at > stood)

    def connecting(self) -> bool:
        """The IKE daemon is negotiating an IKE_SA with the peer."""
        return any(sa.state in CONNECTING for sa in self.ike_sas)

    def revoked_stands(self) -> bool:
        """An SA that rests on a card taken back is not closed yet: the IKE daemon would build on it."""
        return any(sa.unique_id in self.revoked and sa.state not in LEAVING for sa in self.ike_sas)

    def configured(self) -> bool:
        """The IKE daemon has the configuration that is wanted."""
        return self.loaded_connection is not None and self.loaded_connection == self.connection

    def gone(self) -> bool:
        """Not trusted, and nothing of it is left."""
        return self.card is None and not self.loaded and not self.ike_sas
