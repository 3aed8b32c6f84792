"""The orchestrator's decisions over time: ``handle`` takes events, ``poll_actions`` gives what to do.

Theory of operation. An event changes the record of the peers that it touches, fires their life cycle (lifecycle.py)
and marks them. The next ``poll_*`` settles the marked peers: ``reconcile`` says what each lacks, and the engine issues
it when what must come before stands (rules, key, configuration), when nothing about it is in progress, and when the
delay after a failure is over. A negotiation waits for its turn too: the end with the lower fingerprint goes first, the
other takes over after its delay; then a place in the queue under the cap and the rate (attempt_queue.py).

All SAs are taken from what the IKE daemon shows, never from the success of an action. Two ends that start at the same
time both succeed; reconcile then closes the same duplicate on both. An end that lost its SA starts anew, and the IKE
daemon's INITIAL_CONTACT (RFC 7296, section 2.4), or reconcile where that is not heeded, clears what the other end has.

Strangers' routes touch no peer and cost one dictionary entry, up to a limit (routes.py).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from meshsec.core.channels.actions import (
    QUEUE,
    Action,
    ApplyRules,
    Initiate,
    Keep,
    Kind,
    LoadConnection,
    LoadKey,
    OverlayAction,
    Permit,
    RouteOverlay,
    Subject,
    Terminate,
    UnloadConnection,
)
from meshsec.core.channels.attempt_queue import AttemptQueue
from meshsec.core.channels.channel import Channel, Failure, Phases
from meshsec.core.channels.desired import (
    connection_spec,
    endpoint,
    host,
    initiates,
)
from meshsec.core.channels.diagnosis import FORGED, Fault, diagnose
from meshsec.core.channels.events import (
    ActionDone,
    Event,
    IkeDaemonDown,
    IkeDaemonUp,
    ModesSet,
    NegotiationTimed,
    OverlayDown,
    OverlayObserved,
    OverlayRoutesObserved,
    OverlayUp,
    PeerRemoved,
    PeerSet,
    QuietSeen,
    RenegotiationAsked,
    RouterDown,
    RouteRemoved,
    RouteSet,
    RoutesReset,
    RulesObserved,
    SasObserved,
    TrustStoreRead,
)
from meshsec.core.channels.fail_closed import FailClosed
from meshsec.core.channels.in_flight import ActionsInFlight
from meshsec.core.channels.lifecycle import State, Trigger
from meshsec.core.channels.overlay import NONE, Overlay
from meshsec.core.channels.reconcile import LEAVING, LIVE, is_moved, missing, reconcile_peer
from meshsec.core.policy.limits import Backoff
from meshsec.core.policy.policy import Policy
from meshsec.core.policy.suite_choice import SuiteChoice
from meshsec.core.values.model import (
    Address,
    Card,
    ConnectionSpec,
    DataPlane,
    EspGround,
    IkeSa,
    Peer,
    Route,
)
from meshsec.core.values.routes import RouteTable
from meshsec.core.values.timers import Timers

if TYPE_CHECKING:
    from ipaddress import IPv6Address

__all__ = [
    "Action",
    "ActionDone",
    "ApplyRules",
    "Engine",
    "Event",
    "IkeDaemonDown",
    "IkeDaemonUp",
    "Initiate",
    "LoadConnection",
    "LoadKey",
    "NegotiationTimed",
    "PeerRemoved",
    "PeerSet",
    "Planned",
    "RenegotiationAsked",
    "RouteRemoved",
    "RouteSet",
    "RouterDown",
    "RoutesReset",
    "RulesObserved",
    "SasObserved",
    "Terminate",
    "TrustStoreRead",
    "UnloadConnection",
]

_STANDING = frozenset({State.PROTECTED, State.HELD})
_UNANSWERED = frozenset({Fault.PATH, Fault.UNKNOWN})
"""Failures after which nobody knows what the peer made of the attempt: not its refusals, and not our own daemon's."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One action of the plan: why, and when (monotonic seconds; None: as soon as what it waits for is there)."""

    action: Action
    why: str
    at: float | None = None


class Engine:
    """Decides incrementally: the cost of an event grows with the number of peers that it touches.

    The IKE daemon is meshsec's own: configurations and SAs of names that are no peers' are closed.
    """

    def __init__(
        self, node: Card, ground: EspGround, policy: Policy, random: Callable[[], float], overlay_device: str = ""
    ) -> None:
        """``random`` gives floats in [0, 1) for the jitters. ``overlay_device``: empty where there is no overlay."""
        self.node = node
        self.ground = ground
        self.policy = policy
        self.suites = SuiteChoice(policy)
        """Which suite is proposed first, and why; to be read only."""
        self.routes = RouteTable()
        self.overlay = Overlay(overlay_device, policy.data_plane)
        """To be read only."""
        self.ike_down: str | None = "not contacted yet"
        """Why the IKE daemon does not answer; None when it does."""
        self.router_down: str | None = "not contacted yet"
        """Why the routing daemon does not answer; None when it does."""
        self.key_loaded = False
        self._random = random
        self._now = 0.0
        self._channels: dict[str, Channel] = {}
        self.rules = FailClosed(node, ground, policy, overlay_device, self._channels)
        """To be read only, but for what is set before the first event."""
        self._names: dict[IPv6Address, str] = {}
        """Of the peers that are trusted now."""
        self._dirty: dict[str, None] = {}
        self._blocked: set[str] = set()
        self._in_flight = ActionsInFlight(policy)
        self._timers: Timers[Subject] = Timers()
        self._queue = AttemptQueue(policy)
        self._handlers: Mapping[type[Event], Callable[[Any], None]] = {
            PeerSet: self._peer_set,
            PeerRemoved: self._peer_removed,
            TrustStoreRead: self._trust_store_read,
            RoutesReset: self._routes_reset,
            RouteSet: self._route_set,
            RouteRemoved: self._route_removed,
            RouterDown: self._router_lost,
            IkeDaemonUp: self._ike_daemon_up,
            IkeDaemonDown: self._ike_daemon_down,
            SasObserved: self._sas_observed,
            QuietSeen: self._quiet_seen,
            ActionDone: self._action_done,
            RulesObserved: self._rules_observed,
            NegotiationTimed: self._negotiation_timed,
            RenegotiationAsked: self._renegotiation_asked,
            ModesSet: self._modes_set,
            OverlayUp: self._overlay_up,
            OverlayDown: self._overlay_down,
            OverlayObserved: self._overlay_observed,
            OverlayRoutesObserved: self._overlay_routes_observed,
        }

    # --- what the agent calls ---

    def handle(self, now: float, event: Event) -> None:
        """Take in one event. Decisions follow with the next ``poll_*``, so a burst of events is decided on once."""
        self._now = max(self._now, now)
        self._handlers[type(event)](event)

    def handle_timeout(self, now: float) -> None:
        """Call at or after the time that ``poll_timeout`` gave; calls without need are harmless."""
        self._now = max(self._now, now)
        while (subject := self._timers.pop_due(self._now)) is not None:
            if subject.kind is Kind.PEER:
                self._peer_timeout(self._channels[subject.peer])
            elif subject.peer in self._channels:
                self._mark(subject.peer)

    def poll_timeout(self) -> float | None:
        """When to call ``handle_timeout``; None: not before the next event."""
        self._settle()
        return self._timers.next()

    def poll_actions(self) -> list[Action]:
        """What to do now, in this order; each is carried out once and answered by one ``ActionDone``."""
        self._settle()
        return self._in_flight.drain()

    def plan(self, now: float) -> list[Planned]:
        """What the engine would do from here and why. Changes nothing."""
        planned = [self._planned(now, action) for action in self._common_actions()]
        for channel in self._channels.values():
            planned += [self._planned(now, action) for action in self._lacking(channel)]
        return planned + [self._planned(now, action) for action in self._overlay_actions()]

    def channels(self) -> Iterable[Channel]:
        """The channels of all trusted peers, to be read only."""
        return (channel for channel in self._channels.values() if channel.card is not None)

    def channel(self, name: str) -> Channel | None:
        """The channel of one trusted peer, to be read only."""
        channel = self._channels.get(name)
        return channel if channel is not None and channel.card is not None else None

    def peer_at(self, address: str) -> str:
        """Return the name of the channel to the peer whose end point an address is; empty when it is nobody's."""
        found = (one for one in self.channels() if one.connection and str(one.connection.remote_address) == address)
        return next((one.name for one in found), "")

    def shown_as(self, title: str) -> Channel | None:
        """The channel that people are shown under this name, to be read only."""
        return next((channel for channel in self.channels() if channel.title == title), None)

    def title(self, name: str | None) -> str | None:
        """The name under which people are shown a channel; that of an SA of nobody's is its own."""
        channel = self._channels.get(name) if name is not None else None
        return channel.title or name if channel is not None else name

    def _obstacle(self, action: Action) -> str | None:
        """What must come before ``action``; None when nothing stands in its way."""
        if isinstance(action, ApplyRules):
            return None
        if isinstance(action, OverlayAction):
            return self.overlay.obstacle(action) if self.rules.in_force is not None else "the fail-closed rules"
        if self.ike_down is not None:
            return f"the IKE daemon ({self.ike_down})"
        if isinstance(action, LoadKey):
            return None if self.rules.in_force is not None else "the fail-closed rules"
        if isinstance(action, LoadConnection | Initiate):
            return self._opening_obstacle(action)
        return None

    def _opening_obstacle(self, action: LoadConnection | Initiate) -> str | None:
        channel = self._channels[action.subject.peer]
        if not self.rules.covers(channel.card):
            return "the fail-closed rules"
        if not self.key_loaded:
            return "this node's key in the IKE daemon"
        if isinstance(action, Initiate) and not self._configured(channel):
            return "the peer's configuration in the IKE daemon"
        if isinstance(action, Initiate) and channel.revoked_stands():
            return "the end of an SA that is not to be relied on"
        return None

    def _configured(self, channel: Channel) -> bool:
        changing = self._in_flight.has(Subject(Kind.CONNECTION, channel.name))
        return channel.configured() and not changing

    # --- trust ---

    def _peer_set(self, event: PeerSet) -> None:
        channel = self._channel(event.peer.key)
        channel.title, channel.fleet, channel.ipv4_doubt = event.peer.name, event.peer.fleet, event.peer.ipv4_doubt
        card, own = event.peer.card, event.peer.own
        if channel.card == card and channel.own == own:
            return
        self._disown(channel, "its card changed")
        self.rules.unbar(channel.name)
        channel.card, channel.own = card, own
        channel.connection = self._specified(channel, card)
        channel.initiator = initiates(own or self.node, card)
        channel.backoff = Backoff()
        channel.destination = host(endpoint(card, self.ground))
        self._names[card.address] = channel.name
        channel.mode = self.overlay.mode(card.address)
        self.rules.changed()
        self._apply_route(channel, self.routes.watch(channel.destination, channel.name), self._now)

    def _specified(self, channel: Channel, card: Card) -> ConnectionSpec:
        node = channel.own or self.node
        return connection_spec(node, Peer(channel.name, card), self.ground, self.suites.policy())

    def _peer_removed(self, event: PeerRemoved) -> None:
        channel = self._channels.get(event.name)
        if channel is not None:
            self.rules.bar(channel)
            self._disown(channel, "it is not trusted any more")

    def _trust_store_read(self, event: TrustStoreRead) -> None:
        self.rules.doubts(event.problems)

    def _disown(self, channel: Channel, why: str) -> None:
        card = channel.card
        if card is None or channel.destination is None:
            return
        self.routes.unwatch(channel.destination, channel.name)
        self._take_from_overlay(channel, card)
        channel.route = None
        channel.fire(self._now, Trigger.ROUTE_LOST, why)
        channel.card = channel.connection = None
        self.rules.keep_closed(card)
        channel.disowned = True
        self._revoke(channel)
        self._refresh(channel, why)

    def _revoke(self, channel: Channel) -> None:
        """What stands rests on a card that was taken back, and so may what is still being negotiated."""
        if channel.configured() and not self._queue.is_active(channel.name):
            channel.disowned = False
        if channel.disowned:
            channel.revoked |= {sa.unique_id for sa in channel.ike_sas}

    # --- topology ---

    def _routes_reset(self, event: RoutesReset) -> None:
        self.router_down = None
        for name in self.routes.reset(event.routes):
            channel = self._channels[name]
            self._apply_route(channel, self._known_route(channel), self._now)
        for channel in self._channels.values():
            if channel.hold_until is not None:
                self._mark(channel.name)

    def _route_set(self, event: RouteSet) -> None:
        decided_at = event.route.decided_at
        for owner in self.routes.put(event.route):
            self._apply_route(self._channels[owner], event.route, self._now if decided_at is None else decided_at)

    def _route_removed(self, event: RouteRemoved) -> None:
        for owner in self.routes.remove(event.destination):
            self._apply_route(self._channels[owner], None, self._now)

    def _router_lost(self, event: RouterDown) -> None:
        self.router_down = event.reason

    def _known_route(self, channel: Channel) -> Route | None:
        return self.routes.to(channel.destination) if channel.destination is not None else None

    def _apply_route(self, channel: Channel, route: Route | None, at: float) -> None:
        before, channel.route = channel.route, route
        if route is not None and before is None:
            channel.route_at = at
            channel.patience_until = None
            channel.fire(self._now, Trigger.ROUTE_FOUND, _describe(route))
            if channel.state is State.WAITING:
                self._await_turn(channel, at)
        elif route is None and before is not None:
            channel.fire(self._now, Trigger.ROUTE_LOST)
        self._refresh(channel)

    # --- the IKE daemon ---

    def _ike_daemon_up(self, event: IkeDaemonUp) -> None:
        self.ike_down = None
        self.key_loaded = event.observed.key_loaded
        if event.fresh:
            self._forget_attempts()
        observed = event.observed
        for name in self._channels.keys() | observed.connections.keys() | observed.ike_sas.keys():
            channel = self._channel(name)
            channel.loaded = name in observed.connections
            channel.loaded_connection = observed.connections.get(name)
            if event.fresh:
                channel.seen = {}
            self._see(channel, observed.ike_sas.get(name, ()))
            self._take_sas(channel, observed.ike_sas.get(name, ()), "the IKE daemon restarted")
            if event.fresh:
                channel.fresh, channel.backoff = True, Backoff()
            if channel.state in {State.WAITING, State.FAILED}:
                channel.due = max(self._now + self._delay(channel), channel.backoff.due)

    def _ike_daemon_down(self, event: IkeDaemonDown) -> None:
        self.ike_down = event.reason
        self.key_loaded = False
        self._forget_attempts()
        for channel in self._channels.values():
            channel.loaded, channel.loaded_connection, channel.ike_sas = False, None, ()
            self.rules.unbar(channel.name)
            channel.patience_until, channel.unconfirmed = None, False
            if channel.fire(self._now, Trigger.IKE_DAEMON_LOST, event.reason) and channel.state is State.WAITING:
                self._await_turn(channel, self._now)
            self._refresh(channel)

    def _forget_attempts(self) -> None:
        """What was asked of the IKE daemon before is answered by nobody."""
        self._queue.clear()
        self._in_flight.forget_ike()

    def _sas_observed(self, event: SasObserved) -> None:
        if event.peer in self._channels or event.ike_sas:
            channel = self._channel(event.peer)
            self._see(channel, event.ike_sas)
            self._take_sas(channel, event.ike_sas, event.reason or _moved_away(channel, event.ike_sas))

    def _quiet_seen(self, event: QuietSeen) -> None:
        for channel in self._channels.values():
            channel.quiet = event.peers.get(channel.name)

    def _see(self, channel: Channel, ike_sas: tuple[IkeSa, ...]) -> None:
        """What the IKE daemon shows; one that it was told to end, and shows on, is as old as before."""
        live = (sa.unique_id for sa in ike_sas if sa.state in LIVE)
        channel.seen = {unique_id: channel.seen.get(unique_id, self._now) for unique_id in live}

    def _take_sas(self, channel: Channel, ike_sas: tuple[IkeSa, ...], reason: str) -> None:
        present = {sa.unique_id for sa in ike_sas}
        for gone in {sa.unique_id for sa in channel.ike_sas} - present:
            self._in_flight.settled(Subject(Kind.TERMINATE, channel.name, gone))
        channel.ike_sas = ike_sas
        if not ike_sas:
            self.rules.unbar(channel.name)
        channel.unconfirmed = channel.unconfirmed and channel.state not in _STANDING
        channel.revoked = (channel.revoked | _moved(channel, ike_sas).keys()) & present
        channel.replaced &= present
        self._revoke(channel)
        self._refresh(channel, reason)

    def _negotiation_timed(self, event: NegotiationTimed) -> None:
        channel = self._channels.get(event.peer)
        if channel is not None:
            channel.phases = Phases(event.ike_sa_init, event.ike_auth, event.child)

    def _renegotiation_asked(self, event: RenegotiationAsked) -> None:
        """Only what stands can be done anew; user data waits behind the rules meanwhile."""
        channel = self.channel(event.peer)
        if channel is not None and channel.state is State.PROTECTED:
            channel.revoked |= {sa.unique_id for sa in channel.ike_sas}
            channel.asked_anew = True
            self._refresh(channel, "it is negotiated anew, as the operator asked")

    # --- the overlay ---

    def _modes_set(self, event: ModesSet) -> None:
        self.overlay.modes = event.modes
        for address, name in self._names.items():
            self._switch(self._channels[name], self.overlay.mode(address))

    def _switch(self, channel: Channel, mode: DataPlane) -> None:
        """What the operator chose is begun at once; what stands goes on until the other stands."""
        if channel.mode is mode:
            return
        channel.mode = mode
        channel.switching = mode is DataPlane.OVERLAY
        channel.replaced = frozenset(one for one in channel.replaced if self._is_ending(channel, one))
        if mode is DataPlane.IPSEC and channel.state is State.WAITING:
            channel.due = max(self._now, channel.backoff.due)
        self._refresh(channel)

    def _is_ending(self, channel: Channel, unique_id: str) -> bool:
        return self._in_flight.has(Subject(Kind.TERMINATE, channel.name, unique_id))

    def _take_from_overlay(self, channel: Channel, card: Card) -> None:
        self._names.pop(card.address, None)
        self.overlay.want(card.address)
        channel.carried_since, channel.switching, channel.replaced = None, False, frozenset()

    def _overlay_up(self, _event: OverlayUp) -> None:
        self.overlay.came()
        for kind in (Kind.PERMIT, Kind.KEEP):
            self._in_flight.settled(Subject(kind))
        self._mark_addresses(self._names)

    def _overlay_down(self, event: OverlayDown) -> None:
        self.overlay.went(event.reason)
        self._mark_addresses(self._names)

    def _overlay_observed(self, event: OverlayObserved) -> None:
        changed = (self.overlay.kept ^ event.kept) | (self.overlay.linked ^ event.linked)
        self.overlay.kept, self.overlay.linked = event.kept, event.linked
        self._mark_addresses(changed)

    def _overlay_routes_observed(self, event: OverlayRoutesObserved) -> None:
        changed = self.overlay.routes ^ event.addresses
        self.overlay.routes = event.addresses
        self._mark_addresses(changed)

    def _mark_addresses(self, addresses: Iterable["IPv6Address"]) -> None:
        for address in addresses:
            if address in self._names:
                self._mark(self._names[address])

    def _follow_overlay(self, channel: Channel) -> None:
        """What is wanted of the overlay for one peer.

        In mode ``overlay`` all of it. In mode ``ipsec`` that it bridges to a peer that has a session with us, from when
        no SA stands until one does: whether the session goes on is our own doing then, and no sign of anything. A route
        that stands is kept while nothing else does, or while nobody knows better; a session goes after its route.
        """
        card, overlay = channel.card, self.overlay
        if card is None or not overlay.enabled:
            return
        address, wanted = card.address, channel.mode is DataPlane.OVERLAY
        sa_stands = self._relies_on_sa(channel)
        bridged = not sa_stands and (address in overlay.linked or overlay.wants_session(address))
        is_routed = address in overlay.routes
        sticks = is_routed and (not sa_stands or (wanted and overlay.down is not None))
        begins = address in overlay.kept and (wanted or bridged)
        keep, is_near = wanted or bridged or is_routed, channel.route is not None
        overlay.want(address, permit=True, keep=keep, route=sticks or begins, near=is_near)
        if not overlay.carries(address):
            channel.carried_since = None
        elif channel.carried_since is None:
            channel.carried_since = self._now
        self._replace_sas(channel)

    def _relies_on_sa(self, channel: Channel) -> bool:
        """An SA stands, and is not about to end."""
        sa = channel.ike_sa()
        is_ending = sa is not None and sa.unique_id in channel.replaced
        return channel.standing().complete and not channel.hold_over and not is_ending

    def _replace_sas(self, channel: Channel) -> None:
        """Once for each switch: a peer that goes on with IPsec makes another SA, which is left alone.

        While a change of sessions or routes is on its way nobody knows whether the overlay will carry.
        """
        changing = any(self._in_flight.has(Subject(kind)) for kind in (Kind.KEEP, Kind.OVERLAY_ROUTES))
        changing = changing or self._queue.is_active(channel.name)
        if channel.switching and channel.carried_since is not None and not changing:
            channel.switching = False
            channel.replaced = frozenset(sa.unique_id for sa in channel.ike_sas)

    def _overlay_actions(self) -> list[OverlayAction]:
        rules = self.rules.in_force
        return self.overlay.actions(rules.admitted if rules is not None and self.rules.met() else NONE)

    # --- the rules ---

    def _rules_observed(self, event: RulesObserved) -> None:
        self.rules.observed(event.rules)

    # --- ends of actions ---

    def _action_done(self, event: ActionDone) -> None:
        if not self._in_flight.answer(event.action):
            return
        subject = event.action.subject
        channel = self._channels.get(subject.peer)
        if isinstance(event.action, Initiate):
            self._queue.finish(subject.peer)
            self._attempt_done(self._channels[subject.peer], event.reason)
        elif event.reason:
            self._failed(subject, channel, event.reason)
        else:
            self._in_flight.settled(subject)
            self._took_effect(event.action, channel)
        if channel is not None:
            self._refresh(channel)
        if isinstance(event.action, Keep | RouteOverlay):
            self._mark_addresses(one for one, name in self._names.items() if self._channels[name].switching)

    def _took_effect(self, action: Action, channel: Channel | None) -> None:
        match action:
            case ApplyRules(rules):
                self.rules.applied(rules)
                if self.key_loaded:
                    self._unblock()
            case LoadKey():
                self.key_loaded = True
                self._unblock()
            case LoadConnection(spec) if channel is not None:
                channel.loaded, channel.loaded_connection = True, spec
                self._revoke(channel)
            case UnloadConnection() if channel is not None:
                channel.loaded, channel.loaded_connection = False, None
            case Permit() | Keep() | RouteOverlay():
                self.overlay.took_effect(action)
            case Terminate(unique_id, _, reason) if channel is not None:
                left = tuple(sa for sa in channel.ike_sas if sa.unique_id != unique_id or sa.state in LEAVING)
                self._take_sas(channel, left, reason)

    def _failed(self, subject: Subject, channel: Channel | None, reason: str) -> None:
        due = self._in_flight.failed(self._now, subject, self._random())
        self._timers.set(subject, due)
        if channel is not None and subject.kind is Kind.CONNECTION:
            self._note_failure(channel, reason)
            channel.due = max(channel.due, due)
            channel.fire(self._now, Trigger.ATTEMPT_FAILED, reason)

    def _attempt_done(self, channel: Channel, reason: str) -> None:
        channel.patience_until = None
        if channel.disowned:
            self._revoke(channel)
        elif reason:
            self._attempt_failed(channel, reason)
        else:
            channel.unconfirmed = channel.state is State.NEGOTIATING or channel.connecting()
        if channel.unconfirmed and channel.state is State.NEGOTIATING:
            channel.patience_until = self._now + self.policy.backoff_first

    def _attempt_failed(self, channel: Channel, reason: str) -> None:
        if channel.standing().complete:
            self._doubt(channel, reason)
            return
        channel.unconfirmed = False
        channel.backoff = self._after_failure(channel, reason)
        channel.due = channel.backoff.due
        self._note_failure(channel, reason)
        channel.fire(self._now, Trigger.ATTEMPT_FAILED, reason)

    def _after_failure(self, channel: Channel, reason: str) -> Backoff:
        if reason.startswith(FORGED):
            return channel.backoff.contested(self._now)
        return channel.backoff.failed(self._now, self.policy, self._random())

    def _doubt(self, channel: Channel, reason: str) -> None:
        """Give up an SA of the peer's that came while an attempt of ours stayed without answer.

        The attempt may have reached the peer: then its INITIAL_CONTACT made the peer drop that SA, and the two ends
        would hold different ones for ever, as neither can see the other's.
        """
        sa, is_forged = channel.ike_sa(), reason.startswith(FORGED)
        if sa is not None and not sa.initiator and not is_forged and diagnose(reason, "").fault in _UNANSWERED:
            channel.revoked |= {sa.unique_id}
            self._note_failure(channel, reason)

    def _note_failure(self, channel: Channel, reason: str) -> None:
        address = endpoint(channel.card, self.ground) if channel.card is not None else channel.name
        channel.last_failure = Failure(reason, self._now, diagnose(reason, address))

    # --- the life of a channel ---

    def _channel(self, name: str) -> Channel:
        if name not in self._channels:
            self._channels[name] = Channel(name, self._now)
        return self._channels[name]

    def _mark(self, name: str) -> None:
        self._dirty[name] = None

    def _unblock(self) -> None:
        self._dirty.update(dict.fromkeys(name for name in sorted(self._blocked) if name in self._channels))
        self._blocked.clear()

    def _refresh(self, channel: Channel, reason: str = "") -> None:
        """Bring the life cycle in line with what is known, and let the peer be settled."""
        self._mark(channel.name)
        live, complete = channel.standing()
        self._time_hold(channel, live=live)
        stands = complete and not channel.hold_over
        if stands and channel.state not in _STANDING:
            self._sa_up(channel)
        elif not stands and channel.state in _STANDING:
            self._sa_lost(channel, reason)
        if channel.card is not None:
            self._follow_negotiation(channel, incomplete=live and not complete)

    def _time_hold(self, channel: Channel, *, live: bool) -> None:
        if channel.route is not None or not live:
            channel.hold_until, channel.hold_over = None, False
        elif channel.hold_until is None:
            channel.hold_until = self._now + self.policy.hold_time

    def _sa_up(self, channel: Channel) -> None:
        sa = channel.ike_sa()
        by = "this node" if sa is not None and sa.initiator else "the peer"
        channel.fire(self._now, Trigger.SA_UP, f"initiated by {by}")
        channel.protected_at = self._now
        if sa is not None and sa.initiator:
            self._measure(channel, sa)
        channel.patience_until, channel.unconfirmed, channel.fresh = None, False, False
        if channel.wanted_at is not None:
            adopted = sa is not None and sa.established_at is not None and sa.established_at < channel.wanted_at
            channel.route_to_protected = None if adopted else self._now - channel.wanted_at

    def _measure(self, channel: Channel, sa: IkeSa) -> None:
        """The initiator alone sees all of a set-up: what the peer took and what the network took is in its time."""
        if channel.initiate_at is None or channel.measured == channel.attempts:
            return
        channel.measured = channel.attempts
        if self.suites.measured(self._now, sa, self._now - channel.initiate_at):
            for other in self._channels.values():
                if other.card is not None:
                    other.connection = self._specified(other, other.card)
                    self._mark(other.name)

    def _sa_lost(self, channel: Channel, reason: str) -> None:
        """Damping: an SA that stood for less than the delay before it did not last."""
        stood = self._now - (channel.protected_at or 0.0)
        if stood < max(channel.backoff.delay, self.policy.backoff_first):
            channel.backoff = channel.backoff.lost(self._now, self.policy, self._random())
        else:
            channel.backoff = Backoff()
        channel.patience_until = channel.quiet = None
        channel.fire(self._now, Trigger.SA_LOST, reason)
        if channel.state is State.WAITING:
            self._await_turn(channel, self._now)
        if channel.asked_anew:
            channel.asked_anew, channel.backoff, channel.due = False, Backoff(), self._now

    def _follow_negotiation(self, channel: Channel, *, incomplete: bool) -> None:
        """The peer's negotiation is waited for, but only once and for a time: half-open IKE_SAs can be forged.

        The initiator does not wait for an IKE_SA that is not authenticated yet.
        """
        if self._queue.is_active(channel.name):
            channel.fire(self._now, Trigger.NEGOTIATION_STARTED, "by this node")
            return
        connecting = channel.connecting() and not channel.initiator
        busy = connecting or incomplete
        if busy and channel.patience_until is None:
            patience = self.policy.initiate_timeout if connecting else self.policy.takeover_delay
            if channel.fire(self._now, Trigger.NEGOTIATION_STARTED, "by the peer"):
                channel.patience_until = self._now + patience
        elif not busy and not channel.unconfirmed and channel.fire(self._now, Trigger.NEGOTIATION_ENDED):
            channel.due = max(self._now + self._delay(channel), channel.backoff.due)

    def _await_turn(self, channel: Channel, wanted_at: float) -> None:
        channel.wanted_at = wanted_at
        channel.due = max(self._now + self._delay(channel), channel.backoff.due)

    def _delay(self, channel: Channel) -> float:
        jitter = self._random() * self.policy.initiator_jitter
        if channel.initiator:
            return jitter
        return jitter + (self.policy.takeover_delay_fresh if channel.fresh else self.policy.takeover_delay)

    def _peer_timeout(self, channel: Channel) -> None:
        self._mark(channel.name)
        if self._hold_expired(channel):
            channel.hold_over = True
            channel.fire(self._now, Trigger.HOLD_OVER)
        if channel.patience_until is not None and channel.patience_until <= self._now:
            self._patience_over(channel)
        if channel.due <= self._now:
            channel.fire(self._now, Trigger.RETRY_DUE)

    def _hold_expired(self, channel: Channel) -> bool:
        """Never while the routing daemon is away: its routes may be back with it."""
        return channel.hold_until is not None and channel.hold_until <= self._now and self.router_down is None

    def _patience_over(self, channel: Channel) -> None:
        if channel.unconfirmed:
            self._attempt_failed(channel, "the IKE daemon reported success and shows no SA")
        elif not self._queue.is_active(channel.name) and channel.fire(self._now, Trigger.NEGOTIATION_ENDED):
            channel.due = max(self._now + self._delay(channel), channel.backoff.due)

    # --- settling ---

    def _settle(self) -> None:
        for action in self._common_actions():
            self._issue(action)
        while self._dirty:
            name = next(iter(self._dirty))
            del self._dirty[name]
            self._settle_peer(self._channels[name])
        for action in self._overlay_actions():
            self._issue(action)
        self._start_attempts()

    def _common_actions(self) -> list[Action]:
        actions: list[Action] = []
        if not self.rules.met():
            actions.append(ApplyRules(self.rules.wanted()))
        if not self.key_loaded:
            actions.append(LoadKey())
        return actions

    def _lacking(self, channel: Channel) -> list[Action]:
        attempting = self._queue.is_active(channel.name) or channel.unconfirmed
        observed = channel.observed(attempting=attempting)
        return reconcile_peer(channel.name, channel.desired(), observed, self.policy.initiate_timeout)

    def _settle_peer(self, channel: Channel) -> None:
        self._follow_overlay(channel)
        attempt = False
        for action in self._lacking(channel):
            if isinstance(action, Initiate):
                attempt = self._may_attempt(channel, action)
            else:
                self._issue(action)
        if attempt:
            self._queue.enqueue(channel.name)
        else:
            self._queue.withdraw(channel.name)
        self._arm(channel)

    def _may_attempt(self, channel: Channel, action: Initiate) -> bool:
        if self._obstacle(action) is not None:
            self._blocked.add(channel.name)
            return False
        return channel.state is State.WAITING and channel.due <= self._now

    def _issue(self, action: Action) -> None:
        if self._obstacle(action) is None:
            self._in_flight.send(self._now, action)
        else:
            self._blocked.add(action.subject.peer)

    def _arm(self, channel: Channel) -> None:
        """Set the peer's timer to what comes next for it, or forget a peer of which nothing is left."""
        subject = Subject(Kind.PEER, channel.name)
        if channel.gone() and not self._queue.is_active(channel.name):
            del self._channels[channel.name]
            self._timers.set(subject, None)
            return
        self._timers.set(subject, min(self._times(channel), default=None))

    def _times(self, channel: Channel) -> list[float]:
        times = []
        if channel.hold_until is not None and not channel.hold_over and self.router_down is None:
            times.append(channel.hold_until)
        if channel.state is State.NEGOTIATING and channel.patience_until is not None:
            times.append(channel.patience_until)
        if channel.state is State.FAILED or (channel.state is State.WAITING and channel.due > self._now):
            times.append(channel.due)
        return times

    def _start_attempts(self) -> None:
        while (name := self._queue.start_next(self._now)) is not None:
            self._start_attempt(self._channels[name])
        ready_at = self._queue.ready_at(self._now)
        self._timers.set(QUEUE, ready_at)

    def _start_attempt(self, channel: Channel) -> None:
        wanted = channel.desired()
        absent = missing(wanted, channel.observed()) if wanted is not None else ()
        channel.fire(self._now, Trigger.NEGOTIATION_STARTED, "by this node")
        channel.initiate_at = self._now
        channel.attempts += 1
        channel.fresh, channel.patience_until = False, None
        self._issue(Initiate(channel.name, absent, self.policy.initiate_timeout))
        self._arm(channel)

    # --- the plan ---

    def _planned(self, now: float, action: Action) -> Planned:
        subject = action.subject
        why = action.why or self._channels[subject.peer].reason
        if self._in_flight.has(subject):
            return Planned(action, f"{why}; in progress")
        obstacle = self._obstacle(action)
        if obstacle is not None:
            return Planned(action, f"{why}; waits for {obstacle}")
        if isinstance(action, Initiate) and self._queue.waits(action.peer):
            return Planned(action, f"{why}; waits for its place among the concurrent negotiations")
        at = self._due(action)
        return Planned(action, why, at if at > now else None)

    def _due(self, action: Action) -> float:
        if isinstance(action, Initiate):
            return self._channels[action.peer].due
        return self._in_flight.due(action.subject)


def _moved_away(channel: Channel, ike_sas: Iterable[IkeSa]) -> str:
    """Say that somebody on the way moved an SA to another address than the card's; empty when nobody has."""
    moved = _moved(channel, ike_sas)
    return f"somebody on the way rewrote its remote address to {next(iter(moved.values()))}" if moved else ""


def _moved(channel: Channel, ike_sas: Iterable[IkeSa]) -> dict[str, Address | None]:
    """Return where the SAs go that do not go to the card's address, by unique id."""
    connection = channel.connection
    return {sa.unique_id: sa.remote_host for sa in ike_sas if connection is not None and is_moved(sa, connection)}


def _describe(route: Route) -> str:
    hops = "1 hop" if route.hops == 1 else f"{route.hops} hops"
    return f"{hops}, by {route.next_hop} on {route.interface}"
