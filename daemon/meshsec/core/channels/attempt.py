"""This node's attempts to negotiate with one peer: their turn, their time and their failures."""

from dataclasses import dataclass, field

from meshsec.core.channels.diagnosis import OF_AUTHENTICATION, Diagnosis
from meshsec.core.channels.lifecycle import State
from meshsec.core.policy.limits import Backoff
from meshsec.core.policy.policy import Policy
from meshsec.core.values.failures import Cause


@dataclass(frozen=True, slots=True)
class Failure:
    """The last attempt that failed."""

    cause: Cause
    at: float
    """Monotonic seconds."""
    diagnosis: Diagnosis

    @property
    def of_authentication(self) -> bool:
        """Return whether one end was not, for the other, who it said it was."""
        return self.cause.kind in OF_AUTHENTICATION


@dataclass(frozen=True, slots=True)
class Phases:
    """How long the phases of the set-up took, in seconds."""

    ike_sa_init: float | None
    ike_auth: float | None
    child: float | None


@dataclass(slots=True)
class Attempt:
    """Times are monotonic seconds."""

    wanted_at: float | None = None
    """Time since which there is a route and no SA, or was until the last set-up."""
    began_at: float | None = None
    """Time at which this node's last attempt began."""
    count: int = 0
    """Number of negotiations that this node has started with the peer."""
    measured: int = 0
    """The last of them whose time the choice of a suite knows."""
    phases: Phases | None = None
    """Phases of the last set-up; None while an attempt of this node has not been timed yet."""
    route_to_protected: float | None = None
    """Seconds from ``wanted_at`` to the SA; None when the SA was adopted."""
    last_failure: Failure | None = None
    asked_again: bool = False
    """The operator wants the SA to be negotiated again, without waiting for a turn or a delay."""
    due: float = 0.0
    """Time before which this node does not begin its next attempt."""
    backoff: Backoff = field(default_factory=Backoff)
    patience_until: float | None = None
    """Time until which the peer's negotiation, or the SA of this node's own, is waited for."""
    unconfirmed: bool = False
    """The IKE daemon reported the success of an attempt, and its SA was not seen yet."""
    daemon_restarted: bool = False
    """This node's IKE daemon lost its SAs, and the peer has none since."""

    def wait(self, now: float, delay: float) -> None:
        """Put the next attempt off by ``delay`` seconds, and not before the backoff is over."""
        self.due = max(now + delay, self.backoff.due)

    def timeout(self, policy: Policy) -> float:
        """Return the seconds that the next attempt may take: twice as many after a failure.

        A board without time for it would otherwise fail for ever, and its attempts take the time of each other.
        """
        return policy.initiate_timeout * (2 if self.backoff.failures else 1)

    def begin(self, now: float) -> None:
        """Count an attempt that begins now."""
        self.began_at = now
        self.count += 1
        self.phases = None
        self.daemon_restarted, self.patience_until = False, None

    def next_time(self, now: float, state: State, *, rising: bool = False) -> float | None:
        """Return when the attempt needs the engine next; None: not before the next event.

        ``rising``: the SA that is established is to have a successor.
        """
        if state is State.NEGOTIATING:
            return self.patience_until
        waits = state is State.WAITING or rising
        return self.due if state is State.FAILED or (waits and self.due > now) else None
