"""What the agent reports to the engine."""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address

from meshsec.core.channels.actions import Action
from meshsec.core.channels.level import Surroundings
from meshsec.core.channels.one_way_watch import Quiet
from meshsec.core.values.bench import Opening
from meshsec.core.values.failures import Cause
from meshsec.core.values.model import Address, IkeSa, Modes, Network, Observed, Peer, Route, RulesSpec
from meshsec.core.values.networks import Announcement, TunnelRoute


@dataclass(frozen=True, slots=True)
class PeerSet:
    """A peer was added to the trust store, or its card changed."""

    peer: Peer


@dataclass(frozen=True, slots=True)
class PeerRemoved:
    """A peer was removed from the trust store."""

    name: str


@dataclass(frozen=True, slots=True)
class TrustStoreRead:
    """What is wrong with the trust store changed; without problems its peers are all there are."""

    problems: tuple[str, ...]
    joins: bool = False
    """This node has a fleet."""


@dataclass(frozen=True, slots=True)
class SurroundingsSet:
    """Threat, place or second secret: what levels of authentication are chosen by."""

    around: Surroundings


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
class AnnouncementsReset:
    """A snapshot of the networks that other routers announce: at the (re)connection to the routing daemon."""

    announcements: tuple[Announcement, ...]


@dataclass(frozen=True, slots=True)
class AnnouncementSet:
    """A router announces a network, or with another metric."""

    announcement: Announcement


@dataclass(frozen=True, slots=True)
class AnnouncementRemoved:
    """A router announces a network no longer."""

    network: Network
    originator: Address


@dataclass(frozen=True, slots=True)
class TunnelObserved:
    """The routes into the tunnel's device as read back; none while the device or the rules that lead to them lack."""

    routes: frozenset[TunnelRoute]


@dataclass(frozen=True, slots=True)
class OwnNetworksSet:
    """The protected networks behind this node: they change when it becomes a gateway, or is one no longer."""

    networks: tuple[Network, ...]


@dataclass(frozen=True, slots=True)
class ClientsSet:
    """Which node serves each client's address: a peer, or this one."""

    nodes: Mapping[Network, IPv6Address]


@dataclass(frozen=True, slots=True)
class GatewaysSilent:
    """The peers whose gateways do not answer, all of them."""

    peers: frozenset[Address]


@dataclass(frozen=True, slots=True)
class RouterDown:
    """The routing daemon is not reachable. What was known stays in force until the next snapshot."""

    reason: str


@dataclass(frozen=True, slots=True)
class IkeDaemonUp:
    """The IKE daemon answers. ``daemon_restarted``: it is another process than the one before (its SAs are gone)."""

    observed: Observed
    daemon_restarted: bool


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
    """Why an SA ended or failed, where the IKE daemon says."""


@dataclass(frozen=True, slots=True)
class QuietSeen:
    """From these peers nothing comes although user data goes to them; from all others something does, or none goes."""

    peers: Mapping[str, Quiet]


@dataclass(frozen=True, slots=True)
class ActionDone:
    """An action ended. ``cause`` is None when it succeeded."""

    action: Action
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class RulesObserved:
    """The fail-closed rules as read back; None when they are gone or were altered."""

    rules: RulesSpec | None


@dataclass(frozen=True, slots=True)
class NegotiationTimed:
    """How long each phase of a peer's IKE_SA set-up took, in seconds, where the IKE daemon says."""

    peer: str
    ike_sa_init: float | None = None
    ike_auth: float | None = None
    child: float | None = None
    """CREATE_CHILD_SA; None when the only CHILD_SA came with IKE_AUTH (RFC 7296, section 1.2)."""


@dataclass(frozen=True, slots=True)
class RenegotiationAsked:
    """The operator wants a peer's SA to be negotiated again, from the beginning."""

    peer: str


@dataclass(frozen=True, slots=True)
class OpeningSet:
    """What passes in the clear for a benchmark, as the operator says; None: nothing."""

    opening: Opening | None


@dataclass(frozen=True, slots=True)
class ModesSet:
    """Which data plane is wanted, as the operator says."""

    modes: Modes


@dataclass(frozen=True, slots=True)
class OverlayUp:
    """overlayd answers. meshsecd sends it everything again."""


@dataclass(frozen=True, slots=True)
class OverlayDown:
    """The overlay's node does not answer, or is not as it ought to be."""

    reason: str


@dataclass(frozen=True, slots=True)
class OverlayObserved:
    """The overlay's sessions as overlayd reports them."""

    kept: frozenset[IPv6Address]
    """Those of ``Keep`` to whom a way is proved and a session is established: packets pass at once."""
    linked: frozenset[IPv6Address]
    """All with whom there is a session, whoever asked for it."""


@dataclass(frozen=True, slots=True)
class OverlayRoutesObserved:
    """The addresses whose route into the overlay's device is installed, with the rule that leads to it, as read
    back."""

    addresses: frozenset[IPv6Address]


RouterEvent = (
    RoutesReset | RouteSet | RouteRemoved | AnnouncementsReset | AnnouncementSet | AnnouncementRemoved | RouterDown
)
"""What the routing daemon reports."""

Event = (
    PeerSet
    | PeerRemoved
    | TrustStoreRead
    | SurroundingsSet
    | RoutesReset
    | RouteSet
    | RouteRemoved
    | AnnouncementsReset
    | AnnouncementSet
    | AnnouncementRemoved
    | TunnelObserved
    | OwnNetworksSet
    | ClientsSet
    | GatewaysSilent
    | RouterDown
    | IkeDaemonUp
    | IkeDaemonDown
    | SasObserved
    | QuietSeen
    | ActionDone
    | RulesObserved
    | NegotiationTimed
    | RenegotiationAsked
    | OpeningSet
    | ModesSet
    | OverlayUp
    | OverlayDown
    | OverlayObserved
    | OverlayRoutesObserved
)
