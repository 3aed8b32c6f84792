"""The orchestrator's decisions over time: ``handle`` takes events, ``poll_actions`` gives what to do.

Theory of operation. An event changes the record of the peers that it touches, fires their life cycle (lifecycle.py) and
marks them. The next ``poll_*`` settles the marked peers: ``reconcile`` says what each lacks, and the engine issues it
when what must come before is in place (rules, key, configuration), when nothing about it is in progress, and when the
delay after a failure is over. A negotiation waits for its turn too: the end with the lower fingerprint goes first, the
other takes over after its delay; then a place in the queue under the cap and the rate (attempt_queue.py).

All SAs are taken from what the IKE daemon shows, never from the success of an action. Two ends that start at the same
time both succeed; reconcile then closes the same duplicate on both. An end that lost its SA starts again, and the IKE
daemon's INITIAL_CONTACT (RFC 7296, section 2.4), or reconcile where that is not heeded, clears what the other end has.

Strangers' routes touch no peer and cost one dictionary entry, up to a limit (routes.py).
"""

from collections.abc import Callable, Mapping
from typing import Any

from meshsec.core.channels import (
    answers,
    ike_events,
    level_events,
    network_events,
    overlay_events,
    plan,
    progress,
    route_events,
    trust_events,
)
from meshsec.core.channels.actions import (
    QUEUE,
    Action,
    Initiate,
    Kind,
    Subject,
)
from meshsec.core.channels.channel import Channel
from meshsec.core.channels.events import (
    ActionDone,
    AnnouncementRemoved,
    AnnouncementSet,
    AnnouncementsReset,
    ClientsSet,
    Event,
    GatewaysSilent,
    IkeDaemonDown,
    IkeDaemonUp,
    ModesSet,
    NegotiationTimed,
    OpeningSet,
    OverlayDown,
    OverlayObserved,
    OverlayRoutesObserved,
    OverlayUp,
    OwnNetworksSet,
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
    SurroundingsSet,
    TrustStoreRead,
    TunnelObserved,
)
from meshsec.core.channels.lifecycle import State, Trigger
from meshsec.core.channels.plan import Planned
from meshsec.core.channels.reconcile import missing
from meshsec.core.channels.situation import Situation
from meshsec.core.policy.policy import Policy
from meshsec.core.values.model import Card, EspBackend


class Engine:
    """Decides incrementally: the cost of an event grows with the number of peers that it touches.

    The IKE daemon is meshsec's own: configurations and SAs of names that are no peers' are closed.
    """

    def __init__(
        self, node: Card, backend: EspBackend, policy: Policy, random: Callable[[], float], overlay_device: str = ""
    ) -> None:
        """``random`` gives floats in [0, 1) for the jitters. ``overlay_device``: empty where there is no overlay."""
        self.known = Situation(node, backend, policy, random, overlay_device)
        """All that is known; written only here, and before the first event by what the rules need."""

    # --- what the agent calls ---

    def handle(self, now: float, event: Event) -> None:
        """Take in one event. Decisions follow with the next ``poll_*``, so a burst of events is decided on once."""
        self.known.now = max(self.known.now, now)
        _HANDLERS[type(event)](self.known, event)

    def handle_timeout(self, now: float) -> None:
        """Call at or after the time that ``poll_timeout`` gave; calls without need are harmless."""
        self.known.now = max(self.known.now, now)
        while (subject := self.known.timers.pop_due(self.known.now)) is not None:
            if subject.kind is Kind.PEER:
                progress.peer_timeout(self.known, self.known.by_name[subject.peer])
            elif subject.peer in self.known.by_name:
                self.known.mark(subject.peer)

    def poll_timeout(self) -> float | None:
        """Return when to call ``handle_timeout``; None: not before the next event."""
        self._settle()
        return self.known.timers.next()

    def poll_actions(self) -> list[Action]:
        """Return what to do now, in this order; each is carried out once and answered by one ``ActionDone``."""
        self._settle()
        return self.known.in_flight.drain()

    def plan(self, now: float) -> list[Planned]:
        """Return what the engine would do from here and why. Changes nothing."""
        return plan.plan(self.known, now)

    # --- settling ---

    def _settle(self) -> None:
        for action in plan.common_actions(self.known):
            self._issue(action)
        while self.known.dirty:
            name = next(iter(self.known.dirty))
            del self.known.dirty[name]
            self._settle_peer(self.known.by_name[name])
        for action in (*plan.overlay_actions(self.known), *network_events.network_actions(self.known)):
            self._issue(action)
        self._start_attempts()

    def _settle_peer(self, channel: Channel) -> None:
        overlay_events.follow_overlay(self.known, channel)
        level_events.follow_level(self.known, channel)
        attempt = False
        for action in plan.lacking(self.known, channel):
            if isinstance(action, Initiate):
                attempt = self._may_attempt(channel, action)
            else:
                self._issue(action)
        if attempt:
            self.known.queue.enqueue(channel.name)
        else:
            self.known.queue.withdraw(channel.name)
        self._arm(channel)

    def _may_attempt(self, channel: Channel, action: Initiate) -> bool:
        if plan.obstacle(self.known, action) is not None:
            self.known.blocked.add(channel.name)
            return False
        return (channel.state is State.WAITING or channel.is_rising()) and channel.attempt.due <= self.known.now

    def _issue(self, action: Action) -> None:
        if plan.obstacle(self.known, action) is None:
            self.known.in_flight.send(self.known.now, action)
        else:
            self.known.blocked.add(action.subject.peer)

    def _arm(self, channel: Channel) -> None:
        """Set the peer's timer to what comes next for it, or forget a peer of which nothing is left."""
        subject = Subject(Kind.PEER, channel.name)
        if self.known.is_over(channel):
            del self.known.by_name[channel.name]
            self.known.timers.set(subject, None)
            return
        may_expire = self.known.router_down is None
        self.known.timers.set(subject, channel.next_time(self.known.now, may_expire=may_expire))

    def _start_attempts(self) -> None:
        while (name := self.known.queue.start_next(self.known.now)) is not None:
            self._start_attempt(self.known.by_name[name])
        ready_at = self.known.queue.ready_at(self.known.now)
        self.known.timers.set(QUEUE, ready_at)

    def _start_attempt(self, channel: Channel) -> None:
        wanted = channel.desired()
        absent = missing(wanted, channel.observed()) if wanted is not None else ()
        if channel.is_rising():
            absent = plan.all_children(channel)
        channel.level.began_at = channel.level.choice.level.name if channel.level.choice else ""
        channel.fire(self.known.now, Trigger.NEGOTIATION_STARTED, "by this node")
        channel.attempt.begin(self.known.now)
        self._issue(Initiate(channel.name, absent, channel.attempt.timeout(self.known.policy)))
        self._arm(channel)


_HANDLERS: Mapping[type[Event], Callable[[Situation, Any], None]] = {
    PeerSet: trust_events.peer_set,
    PeerRemoved: trust_events.peer_removed,
    TrustStoreRead: trust_events.trust_store_read,
    OpeningSet: trust_events.opening_set,
    RoutesReset: route_events.routes_reset,
    RouteSet: route_events.route_set,
    RouteRemoved: route_events.route_removed,
    RouterDown: route_events.router_lost,
    AnnouncementsReset: network_events.announcements_reset,
    AnnouncementSet: network_events.announcement_set,
    AnnouncementRemoved: network_events.announcement_removed,
    TunnelObserved: network_events.tunnel_observed,
    OwnNetworksSet: network_events.own_networks_set,
    ClientsSet: network_events.clients_set,
    GatewaysSilent: network_events.gateways_silent,
    IkeDaemonUp: ike_events.ike_daemon_up,
    IkeDaemonDown: ike_events.ike_daemon_down,
    SasObserved: ike_events.sas_observed,
    QuietSeen: ike_events.quiet_seen,
    ActionDone: answers.action_done,
    RulesObserved: trust_events.rules_observed,
    SurroundingsSet: level_events.surroundings_set,
    NegotiationTimed: ike_events.negotiation_timed,
    RenegotiationAsked: ike_events.renegotiation_asked,
    ModesSet: overlay_events.modes_set,
    OverlayUp: overlay_events.overlay_up,
    OverlayDown: overlay_events.overlay_down,
    OverlayObserved: overlay_events.overlay_observed,
    OverlayRoutesObserved: overlay_events.overlay_routes_observed,
}
