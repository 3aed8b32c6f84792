"""The life of a peer's channel, as one table.

Theory of operation. A channel starts in NO_ROUTE. The routing daemon's route to the peer makes it wanted: WAITING, for
our turn (jitter of the initiator, delay of the other end), for rules, key and configuration, for a free place among the
concurrent negotiations. NEGOTIATING is an attempt in progress, ours or the peer's. When every CHILD_SA that is wanted
is established, it is PROTECTED. Losing the route does not close an SA, because an SA binds end points and not paths: it
is HELD until the route is back or the hold time is over. A failed attempt leads to FAILED, and from there back to
WAITING when its delay is over.

User data of a peer in any state but PROTECTED and HELD goes nowhere: the fail-closed rules are in force in all of them.

The table has a row for each pair of state and trigger that means something. The catch-all: any other trigger leaves
the state as it is, for instance the failure of an attempt of ours after the peer's own attempt succeeded.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """In the order of life."""

    NO_ROUTE = "no-route"
    WAITING = "waiting"
    NEGOTIATING = "negotiating"
    PROTECTED = "protected"
    HELD = "held"
    FAILED = "failed"


WITH_SA = frozenset({State.PROTECTED, State.HELD})
"""The states in which all wanted CHILD_SAs are installed."""


class Trigger(StrEnum):
    """What happens to a channel."""

    ROUTE_FOUND = "route-found"
    ROUTE_LOST = "route-lost"
    NEGOTIATION_STARTED = "negotiation-started"
    NEGOTIATION_ENDED = "negotiation-ended"
    """The peer's attempt went away without a result."""
    SA_UP = "sa-up"
    """All CHILD_SAs that are wanted are installed."""
    SA_LOST = "sa-lost"
    ATTEMPT_FAILED = "attempt-failed"
    RETRY_DUE = "retry-due"
    HOLD_OVER = "hold-over"
    IKE_DAEMON_LOST = "ike-daemon-lost"


@dataclass(frozen=True, slots=True)
class Transition:
    """To where, and why in words that ``explain`` shows."""

    state: State
    reason: str


TABLE: Mapping[State, Mapping[Trigger, Transition]] = {
    State.NO_ROUTE: {
        Trigger.ROUTE_FOUND: Transition(State.WAITING, "a route to the peer appeared"),
        Trigger.SA_UP: Transition(State.HELD, "an SA is established although there is no route to the peer"),
    },
    State.WAITING: {
        Trigger.ROUTE_LOST: Transition(State.NO_ROUTE, "the route to the peer went away"),
        Trigger.NEGOTIATION_STARTED: Transition(State.NEGOTIATING, "a negotiation started"),
        Trigger.SA_UP: Transition(State.PROTECTED, "the SA is established"),
        Trigger.ATTEMPT_FAILED: Transition(State.FAILED, "the attempt failed"),
    },
    State.NEGOTIATING: {
        Trigger.ROUTE_LOST: Transition(State.NO_ROUTE, "the route to the peer went away during the negotiation"),
        Trigger.NEGOTIATION_ENDED: Transition(State.WAITING, "the peer's negotiation ended without an SA"),
        Trigger.SA_UP: Transition(State.PROTECTED, "the SA is established"),
        Trigger.ATTEMPT_FAILED: Transition(State.FAILED, "the attempt failed"),
        Trigger.IKE_DAEMON_LOST: Transition(State.WAITING, "the IKE daemon does not answer"),
    },
    State.PROTECTED: {
        Trigger.ROUTE_LOST: Transition(State.HELD, "the route to the peer went away; the SA is kept"),
        Trigger.SA_LOST: Transition(State.WAITING, "the SA is gone"),
        Trigger.IKE_DAEMON_LOST: Transition(State.WAITING, "the IKE daemon does not answer"),
    },
    State.HELD: {
        Trigger.ROUTE_FOUND: Transition(State.PROTECTED, "the route to the peer is back; the SA was kept"),
        Trigger.SA_LOST: Transition(State.NO_ROUTE, "the SA is gone while there is no route to the peer"),
        Trigger.HOLD_OVER: Transition(State.NO_ROUTE, "there was no route to the peer for the hold time"),
        Trigger.IKE_DAEMON_LOST: Transition(State.NO_ROUTE, "the IKE daemon does not answer"),
    },
    State.FAILED: {
        Trigger.ROUTE_LOST: Transition(State.NO_ROUTE, "the route to the peer went away"),
        Trigger.NEGOTIATION_STARTED: Transition(State.NEGOTIATING, "a negotiation started"),
        Trigger.SA_UP: Transition(State.PROTECTED, "the SA is established"),
        Trigger.RETRY_DUE: Transition(State.WAITING, "it is time for the next attempt"),
        Trigger.IKE_DAEMON_LOST: Transition(State.WAITING, "the IKE daemon does not answer"),
    },
}


def transition(state: State, trigger: Trigger) -> Transition | None:
    """Return where ``trigger`` leads from ``state``; None when it changes nothing (the catch-all)."""
    return TABLE[state].get(trigger)
