"""What the engine asks the agent to do.

Each action knows which side of the node carries it out (``side``), what it is about (``subject``), how people read it
(``label``) and, where that does not depend on the channel's history, why it is needed (``why``). To add one, write its
class here and carry it out in the side of the agent.
"""

from dataclasses import dataclass
from enum import Enum, auto
from ipaddress import IPv6Address
from typing import ClassVar, NamedTuple

from meshsec.core.values.model import ConnectionSpec, RulesSpec
from meshsec.core.values.networks import TunnelRoute


class Side(Enum):
    """The parts of the agent that carry out actions."""

    KERNEL = auto()
    IKE = auto()
    OVERLAY = auto()
    NETWORKS = auto()


class Kind(Enum):
    """Kinds of subjects. The last two are subjects of timers only."""

    RULES = auto()
    PERMIT = auto()
    KEEP = auto()
    OVERLAY_ROUTES = auto()
    TUNNEL = auto()
    KEY = auto()
    CONNECTION = auto()
    INITIATE = auto()
    TERMINATE = auto()
    PEER = auto()
    QUEUE = auto()


class Subject(NamedTuple):
    """What an action or a timer is about. At most one action about a subject is in flight."""

    kind: Kind
    peer: str = ""
    unique_id: str = ""


QUEUE = Subject(Kind.QUEUE)
"""The subject of the timer of the attempt queue."""


class Label(NamedTuple):
    """An action in words for plans and logs. ``peer`` is None when the action concerns all peers."""

    name: str
    peer: str | None = None
    detail: str = ""

    def __str__(self) -> str:
        """Return one line for the log. An action contains no secret."""
        words = " ".join(filter(None, (self.name.replace("-", " "), self.peer)))
        return f"{words} ({self.detail})" if self.detail else words


@dataclass(frozen=True, slots=True)
class ApplyRules:
    """Replace the fail-closed rules, in one transaction."""

    side: ClassVar = Side.KERNEL
    subject: ClassVar = Subject(Kind.RULES)
    why: ClassVar = "the rules in force are not those that the trust store and the policy ask for"
    rules: RulesSpec

    @property
    def label(self) -> Label:
        """Return the words for plans and logs."""
        return Label("apply-rules", None, f"{len(self.rules.protected)} protected addresses")


@dataclass(frozen=True, slots=True)
class LoadKey:
    """Give the IKE daemon the node's private key."""

    side: ClassVar = Side.IKE
    subject: ClassVar = Subject(Kind.KEY)
    why: ClassVar = "the IKE daemon does not have this node's key"
    label: ClassVar = Label("load-key")


@dataclass(frozen=True, slots=True)
class LoadConnection:
    """Configure a peer in the IKE daemon. Its established SAs are kept."""

    side: ClassVar = Side.IKE
    spec: ConnectionSpec

    @property
    def subject(self) -> Subject:
        """Return the peer's configuration."""
        return Subject(Kind.CONNECTION, self.spec.name)

    @property
    def label(self) -> Label:
        """Return the words for plans and logs."""
        return Label("load-connection", self.spec.name, str(self.spec.remote_address))

    @property
    def why(self) -> str:
        """Return the reason."""
        return f"the IKE daemon does not have {self.spec.name}'s configuration as wanted"


@dataclass(frozen=True, slots=True)
class UnloadConnection:
    """Remove a peer from the IKE daemon's configuration."""

    side: ClassVar = Side.IKE
    name: str

    @property
    def subject(self) -> Subject:
        """Return the peer's configuration, as for ``LoadConnection``."""
        return Subject(Kind.CONNECTION, self.name)

    @property
    def label(self) -> Label:
        """Return the words for plans and logs."""
        return Label("unload-connection", self.name)

    @property
    def why(self) -> str:
        """Return the reason."""
        return f"{self.name} is not trusted"


@dataclass(frozen=True, slots=True)
class Initiate:
    """Negotiate the peer's CHILD_SAs, and the IKE_SA when there is none."""

    side: ClassVar = Side.IKE
    why: ClassVar = ""
    """The channel's life cycle says why."""
    peer: str
    children: tuple[str, ...]
    timeout: float
    """Seconds after which the attempt counts as failed."""

    @property
    def subject(self) -> Subject:
        """Return the negotiation with the peer."""
        return Subject(Kind.INITIATE, self.peer)

    @property
    def label(self) -> Label:
        """Return the words for plans and logs."""
        return Label("initiate", self.peer, ", ".join(self.children))


@dataclass(frozen=True, slots=True)
class Terminate:
    """Close one IKE_SA with its CHILD_SAs."""

    side: ClassVar = Side.IKE
    unique_id: str
    peer: str
    why: str
    patient: bool = False
    """Repeat the DELETE until the peer confirms it, and keep the SA until then. Otherwise the SA is gone at once, and
    the peer may not hear of it."""

    @property
    def subject(self) -> Subject:
        """Return the IKE_SA."""
        return Subject(Kind.TERMINATE, self.peer, self.unique_id)

    @property
    def label(self) -> Label:
        """Return the words for plans and logs."""
        return Label("terminate", self.peer, f"IKE_SA {self.unique_id}")


@dataclass(frozen=True, slots=True)
class Permit:
    """Tell the overlay's node with which addresses to exchange user data: these and no others."""

    side: ClassVar = Side.OVERLAY
    subject: ClassVar = Subject(Kind.PERMIT)
    why: ClassVar = "overlayd does not know yet who is trusted"
    addresses: frozenset[IPv6Address]

    @property
    def label(self) -> Label:
        """Return the words for plans and logs."""
        return Label("permit", None, f"{len(self.addresses)} addresses")


@dataclass(frozen=True, slots=True)
class Keep:
    """Tell the overlay's node to which addresses to keep sessions up: these and no others."""

    side: ClassVar = Side.OVERLAY
    subject: ClassVar = Subject(Kind.KEEP)
    why: ClassVar = "overlayd does not know yet to whom sessions are wanted"
    addresses: frozenset[IPv6Address]

    @property
    def label(self) -> Label:
        """Return the words for plans and logs."""
        return Label("keep", None, _listed(self.addresses))


@dataclass(frozen=True, slots=True)
class RouteOverlay:
    """Route user data to these addresses into the overlay's device, and to no others."""

    side: ClassVar = Side.OVERLAY
    subject: ClassVar = Subject(Kind.OVERLAY_ROUTES)
    why: ClassVar = "the routes into the overlay's device are not those that the modes and the sessions ask for"
    addresses: frozenset[IPv6Address]

    @property
    def label(self) -> Label:
        """Return the words for plans and logs."""
        return Label("route-overlay", None, _listed(self.addresses))


@dataclass(frozen=True, slots=True)
class RouteNetworks:
    """Route packets to these destinations into the tunnel to their peer, and no others."""

    side: ClassVar = Side.NETWORKS
    subject: ClassVar = Subject(Kind.TUNNEL)
    why: ClassVar = "the routes to networks behind peers are not those that the announcements and the channels ask for"
    routes: frozenset[TunnelRoute]

    @property
    def label(self) -> Label:
        """Return the words for plans and logs."""
        networks = frozenset(str(one.destination) for one in self.routes if not (one.forwarded or one.mark))
        return Label("route-networks", None, _listed(networks))


OverlayAction = Permit | Keep | RouteOverlay
IpsecAction = LoadKey | LoadConnection | UnloadConnection | Initiate | Terminate
Action = ApplyRules | IpsecAction | OverlayAction | RouteNetworks

_LISTED = 4
"""Addresses or networks that a label names."""


def _listed(named: frozenset[IPv6Address] | frozenset[str]) -> str:
    shown = ", ".join(map(str, sorted(named)[:_LISTED])) or "none"
    return shown if len(named) <= _LISTED else f"{shown} and {len(named) - _LISTED} more"
