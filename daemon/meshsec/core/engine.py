"""Events and actions of the orchestrator: ``handle`` takes events, ``poll_actions`` gives what to do.

Theory of operation: docs/architecture.md, "How the core decides".
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from meshsec.core.model import Card, ConnectionSpec, EspGround, IkeSa, Network, Observed, Peer, Route, RulesSpec
from meshsec.core.policy import Policy


@dataclass(frozen=True, slots=True)
class PeerSet:
    """A peer was added to the trust store, or its card changed."""

    peer: Peer


@dataclass(frozen=True, slots=True)
class PeerRemoved:
    """A peer was removed from the trust store."""

    name: str


@dataclass(frozen=True, slots=True)
class RoutesReset:
    """A snapshot of all routes: at the (re)connection to the routing daemon."""

    routes: Mapping[Network, Route]


@dataclass(frozen=True, slots=True)
class RouteSet:
    """One route appeared or changed; the kernel has it."""

    route: Route


@dataclass(frozen=True, slots=True)
class RouteRemoved:
    """One route went away."""

    destination: Network


@dataclass(frozen=True, slots=True)
class RouterDown:
    """The routing daemon is not reachable. What was known stays in force until the next snapshot."""

    reason: str


@dataclass(frozen=True, slots=True)
class IkeDaemonUp:
    """The IKE daemon answers. ``fresh``: it is another process than the one before (its SAs are gone)."""

    observed: Observed
    fresh: bool


@dataclass(frozen=True, slots=True)
class IkeDaemonDown:
    """The IKE daemon does not answer."""

    reason: str


@dataclass(frozen=True, slots=True)
class SasObserved:
    """The IKE daemon's SAs with one peer, read back after an event (empty: none)."""

    peer: str
    ike_sas: tuple[IkeSa, ...]
    reason: str = ""
    """Why an SA went or failed, where the IKE daemon tells."""


@dataclass(frozen=True, slots=True)
class ActionDone:
    """An action ended. ``reason`` is empty when it succeeded."""

    action: "Action"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RulesObserved:
    """The fail-closed rules as read back; None when they are gone or were altered."""

    rules: RulesSpec | None


@dataclass(frozen=True, slots=True)
class NegotiationTimed:
    """How long each phase of a peer's IKE_SA set-up took, in seconds, where the IKE daemon tells."""

    peer: str
    ike_sa_init: float | None = None
    ike_auth: float | None = None
    child: float | None = None
    """CREATE_CHILD_SA; None when the only CHILD_SA came with IKE_AUTH (RFC 7296, section 1.2)."""


Event = (
    PeerSet
    | PeerRemoved
    | RoutesReset
    | RouteSet
    | RouteRemoved
    | RouterDown
    | IkeDaemonUp
    | IkeDaemonDown
    | SasObserved
    | ActionDone
    | RulesObserved
    | NegotiationTimed
)


@dataclass(frozen=True, slots=True)
class ApplyRules:
    """Replace the fail-closed rules, in one transaction."""

    rules: RulesSpec


@dataclass(frozen=True, slots=True)
class LoadKey:
    """Give the IKE daemon the node's private key."""


@dataclass(frozen=True, slots=True)
class LoadConnection:
    """Configure a peer in the IKE daemon; SAs that stand are kept."""

    spec: ConnectionSpec


@dataclass(frozen=True, slots=True)
class UnloadConnection:
    """Take a peer out of the IKE daemon's configuration."""

    name: str


@dataclass(frozen=True, slots=True)
class Initiate:
    """Negotiate the peer's CHILD_SAs (and the IKE_SA when there is none)."""

    peer: str
    children: tuple[str, ...]
    timeout: float
    """Seconds after which the attempt counts as failed."""


@dataclass(frozen=True, slots=True)
class Terminate:
    """Close one IKE_SA with its CHILD_SAs."""

    unique_id: str
    peer: str
    reason: str


Action = ApplyRules | LoadKey | LoadConnection | UnloadConnection | Initiate | Terminate


@dataclass(frozen=True, slots=True)
class Planned:
    """One action of the plan: why, and when (monotonic seconds; None: as soon as what it waits for is there)."""

    action: Action
    why: str
    at: float | None = None


class Engine:
    """Decides incrementally: the cost of an event grows with the number of peers that it touches."""

    def __init__(self, node: Card, ground: EspGround, policy: Policy, random: Callable[[], float]) -> None:
        """``random`` gives floats in [0, 1) for the jitters."""
        raise NotImplementedError

    def handle(self, now: float, event: Event) -> None:
        """Take in one event. Decisions follow with the next ``poll_*``, so a burst of events is decided on once."""
        raise NotImplementedError

    def handle_timeout(self, now: float) -> None:
        """Call at or after the time that ``poll_timeout`` gave; calls without need are harmless."""
        raise NotImplementedError

    def poll_timeout(self) -> float | None:
        """When to call ``handle_timeout``; None: not before the next event."""
        raise NotImplementedError

    def poll_actions(self) -> list[Action]:
        """What to do now, in this order; each is carried out once and answered by one ``ActionDone``."""
        raise NotImplementedError

    def plan(self, now: float) -> list[Planned]:
        """What the engine would do from here and why. Changes nothing."""
        raise NotImplementedError
