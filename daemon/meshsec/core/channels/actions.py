"""What the engine tells the agent to do."""

from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import NamedTuple

from meshsec.core.values.model import ConnectionSpec, RulesSpec


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
    patient: bool = False
    """The DELETE is repeated until the peer confirms it, and the SA stands as long. Else the SA is gone at once, and
    the peer may not hear of it."""


@dataclass(frozen=True, slots=True)
class Permit:
    """Tell the overlay's node with whom user data is exchanged: these and nobody else."""

    addresses: frozenset[IPv6Address]


@dataclass(frozen=True, slots=True)
class Keep:
    """Tell the overlay's node to whom a session is kept up: these and nobody else."""

    addresses: frozenset[IPv6Address]


@dataclass(frozen=True, slots=True)
class RouteOverlay:
    """Send user data to these addresses into the overlay's device, and to no other."""

    addresses: frozenset[IPv6Address]


OverlayAction = Permit | Keep | RouteOverlay
IpsecAction = LoadKey | LoadConnection | UnloadConnection | Initiate | Terminate
Action = ApplyRules | IpsecAction | OverlayAction


class Label(NamedTuple):
    """An action in words; ``peer`` is None when it concerns all."""

    name: str
    peer: str | None
    detail: str


def describe(action: Action) -> Label:
    """The words for ``action`` in plans and logs."""
    if isinstance(action, ApplyRules):
        return Label("apply-rules", None, f"{len(action.rules.protected)} protected addresses")
    return _describe_overlay(action) if isinstance(action, OverlayAction) else _describe_ipsec(action)


def _describe_ipsec(action: IpsecAction) -> Label:
    match action:
        case LoadKey():
            return Label("load-key", None, "")
        case LoadConnection(spec):
            return Label("load-connection", spec.name, str(spec.remote_address))
        case UnloadConnection(name):
            return Label("unload-connection", name, "")
        case Initiate(peer, children):
            return Label("initiate", peer, ", ".join(children))
        case Terminate(unique_id, peer):
            return Label("terminate", peer, f"IKE_SA {unique_id}")


def _describe_overlay(action: OverlayAction) -> Label:
    match action:
        case Permit(addresses):
            return Label("permit", None, f"{len(addresses)} addresses")
        case Keep(addresses):
            return Label("keep", None, _listed(addresses))
        case RouteOverlay(addresses):
            return Label("route-overlay", None, _listed(addresses))


_LISTED = 4


def _listed(addresses: frozenset[IPv6Address]) -> str:
    """Some of them, in order."""
    shown = ", ".join(map(str, sorted(addresses)[:_LISTED])) or "none"
    return shown if len(addresses) <= _LISTED else f"{shown} and {len(addresses) - _LISTED} more"
