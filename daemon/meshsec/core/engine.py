"""Events and actions of the orchestrator: ``handle`` takes events, ``poll_actions`` gives what to do.

Theory of operation: docs/architecture.md, "How the core decides".
"""

from collections.abc import Mapping
from dataclasses import dataclass

from meshsec.core.model import Address, ConnectionSpec, IkeSa, Network, Observed, Peer, Route, RulesSpec


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

__all__ = ["Action", "Address", "Event"]
