"""What the engine tells the agent to do."""

from dataclasses import dataclass
from typing import NamedTuple

from meshsec.core.model import ConnectionSpec, RulesSpec


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


Action = ApplyRules | LoadKey | LoadConnection | UnloadConnection | Initiate | Terminate


class Label(NamedTuple):
    """An action in words; ``peer`` is None when it concerns all."""

    name: str
    peer: str | None
    detail: str


def describe(action: Action) -> Label:
    """The words for ``action`` in plans and logs."""
    match action:
        case ApplyRules(rules):
            return Label("apply-rules", None, f"{len(rules.protected)} protected addresses")
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
