"""One peer's channel: its card, its route, its state, and the four parts that own their data and times.

``sas`` is what the IKE daemon shows, ``attempt`` this node's negotiations, ``hold`` the time without a route, and
``handover`` the change between the data planes. The functions that take events write a channel; all others read it.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from meshsec.core.channels.attempt import Attempt
from meshsec.core.channels.desired import DesiredPeer, Wish
from meshsec.core.channels.handover import Handover
from meshsec.core.channels.hold import Hold
from meshsec.core.channels.level import PeerLevel
from meshsec.core.channels.lifecycle import WITH_SA, State, Trigger, transition
from meshsec.core.channels.one_way_watch import Quiet
from meshsec.core.channels.reconcile import ObservedPeer, keeper, live, missing
from meshsec.core.channels.sas import Sas
from meshsec.core.values.model import Card, ConnectionSpec, DataPlane, IkeSa, Network, Route


class Established(NamedTuple):
    """What is established of a channel."""

    live: bool
    """An IKE_SA, with or without all of its CHILD_SAs."""
    complete: bool
    """An IKE_SA with all CHILD_SAs that are wanted."""


@dataclass(slots=True)
class Channel:
    """Times are monotonic seconds."""

    name: str
    since: float
    """Time at which the state was entered."""
    state: State = State.NO_ROUTE
    reason: str = "no route to the peer is known"
    """Reason of the last transition."""

    title: str = ""
    """The peer's name as people see it; it stays when another key takes the present one's place (ADR 0041)."""
    own: Card | None = None
    """This node's side; None: its only one."""
    fleet: str = ""
    """Whose key has signed the card; empty: it was added on this node (ADR 0046)."""
    ipv4_doubt: str = ""
    """Why the card's IPv4 address is not believed (ADR 0057); empty: it is, or there is none."""
    card: Card | None = None
    """The peer's card; None when it is not trusted, or no longer."""
    destination: Network | None = None
    """The peer's end point, whose route makes the channel wanted."""
    connection: ConnectionSpec | None = None
    initiator: bool = False
    """This node is the end that initiates."""

    route: Route | None = None
    loaded: bool = False
    loaded_connection: ConnectionSpec | None = None
    """The connection in the IKE daemon; None when there is none, or one with unknown contents."""
    protected_at: float | None = None
    """Time at which all wanted CHILD_SAs were last installed."""
    sas: Sas = field(default_factory=Sas)
    attempt: Attempt = field(default_factory=Attempt)
    hold: Hold = field(default_factory=Hold)
    handover: Handover = field(default_factory=Handover)
    level: PeerLevel = field(default_factory=PeerLevel)
    quiet: Quiet | None = None
    """Nothing comes through the SA although user data goes out; None while something comes, or nothing goes."""

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
        """Return what is wanted for the peer; None when it is not trusted."""
        if self.connection is None:
            return None
        return DesiredPeer(self.connection, self._wish(), self.initiator)

    def _wish(self) -> Wish:
        if self.route is not None:
            return Wish.KEEP if self.handover.mode is DataPlane.OVERLAY else Wish.OPEN
        return Wish.KEEP if self.hold.is_running() else Wish.CLOSE

    def observed(self, *, attempting: bool = True) -> ObservedPeer:
        """Return what the IKE daemon has of the peer. ``attempting``: this node's own attempt is in progress."""
        return ObservedPeer(
            self.loaded,
            self.loaded_connection,
            self.sas.listed,
            self.sas.revoked,
            attempting,
            self.handover.superseded,
            self.sas.first_seen,
        )

    def ike_sa(self) -> IkeSa | None:
        """Return the IKE_SA that counts."""
        wanted = self.desired()
        return keeper(wanted, self.observed()) if wanted else None

    def carrying_sa(self) -> IkeSa | None:
        """Return the IKE_SA that counts, if all that is wanted goes through it; None: nothing is protected now."""
        return self.ike_sa() if self.state in WITH_SA else None

    def established(self) -> Established:
        """Return how much of what is wanted is established."""
        wanted = self.desired() if self.sas.listed else None
        if wanted is None:
            return Established(live=False, complete=False)
        observed = self.observed()
        return Established(bool(live(wanted, observed)), not missing(wanted, observed))

    def unauthenticated(self) -> bool:
        """Nothing has been established since the authentication failed."""
        failure, protected = self.attempt.last_failure, self.protected_at
        return failure is not None and failure.of_authentication and (protected is None or failure.at > protected)

    def configured(self) -> bool:
        """Note that the IKE daemon has the configuration that is wanted."""
        return self.loaded_connection is not None and self.loaded_connection == self.connection

    def gone(self) -> bool:
        """Return whether the peer is not trusted and nothing of it is left."""
        return self.card is None and not self.loaded and not self.sas.listed

    def next_time(self, now: float, *, may_expire: bool) -> float | None:
        """Return when the channel needs the engine next; None: not before the next event.

        ``may_expire``: the hold may end. Its time is stopped while the routing daemon is away.
        """
        hold = self.hold.until if may_expire and not self.hold.over else None
        times = (hold, self.attempt.next_time(now, self.state, rising=self.is_rising()), self.level.rise_by)
        return min((one for one in (*times, self.level.due) if one is not None), default=None)

    def is_rising(self) -> bool:
        """Return whether a successor at a stronger level is wanted for the SA that carries."""
        if self.level.rise_by is None or self.level.refused:
            return False
        return self.state is State.PROTECTED and self._wish() is Wish.OPEN
