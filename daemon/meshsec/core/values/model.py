"""The values that the core, the adapters and the agent exchange. All are frozen and hashable.

Addresses are ``ipaddress`` objects, times are seconds on the monotonic clock (float), durations are seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from meshsec.core.values.bench import Opening
from meshsec.core.values.bypass import Bypass
from meshsec.core.values.islands import Joint
from meshsec.core.values.networks import BehindNodes
from meshsec.core.values.sa_states import ChildSaState, IkeSaState

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

PEER_NEXT = "~"
OWN_NEXT = "^"
"""After a peer's name: the channel of its next key, and of this node's own next key (ADR 0041)."""


def peer_name(title: str) -> str:
    """Return the name of the peer to which a channel with this title belongs: each of its keys has one."""
    return title.rstrip(PEER_NEXT + OWN_NEXT)


class EspBackend(StrEnum):
    """Where ESP runs: in the kernel (transport mode) or in charon's kernel-libipsec (tunnel mode over a TUN device)."""

    KERNEL = "kernel"
    LIBIPSEC = "libipsec"


class DataPlane(StrEnum):
    """What carries user data between this node and a peer; a peer's mode is one of the first two."""

    IPSEC = "ipsec"
    OVERLAY = "overlay"
    PLAIN = "plain"


class Authentication(StrEnum):
    """What the two ends of a channel prove themselves by (RFC 7296, section 2.15)."""

    SIGNATURE = "signature"
    """Each by its own Ed25519 key (RFC 8420)."""
    SECRET = "secret"  # noqa: S105 - a kind, not a password
    """Both by the secret that they compute from their keys, where an IKE daemon has no Ed25519 (ADR 0042)."""


class CopyDscp(StrEnum):
    """Whether a tunnel carries the DSCP of what is in it outside, too (RFC 4301, section 5.1.2.1)."""

    OUT = "out"
    """The outer header gets that of the packet; what a relay makes of it stays outside."""
    IN = "in"
    """The packet that comes out gets that of the outer header."""
    YES = "yes"
    """Both."""
    NO = "no"
    """Neither: outside nobody sees which packets are urgent."""


class UnknownNodes(StrEnum):
    """What happens to user data from and to mesh addresses that no card speaks for."""

    DROP = "drop"
    ALLOW = "allow"


@dataclass(frozen=True, slots=True)
class Card:
    """The public half of a node: what a person passes on (docs/reference/card.md)."""

    name: str
    public_key: bytes
    """Ed25519 public key, 32 octets (RFC 8032)."""
    address: IPv6Address
    """The self-certifying ``fc..`` address, derived from the key."""
    locator: IPv6Address
    """The same address with the first octet 0xfd: where IKE runs when ESP is in user space."""
    fingerprint: bytes
    """SHA-256 of the public key, 32 octets: orders the ends of a pair (the lower initiates)."""
    ipv4: IPv4Address | None = None
    by_secret: bool = False
    """Its IKE daemon has no Ed25519: it authenticates by the pair's secret (ADR 0042)."""
    networks: tuple[Network, ...] = ()
    """What it asks to speak for (ADR 0062)."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A key of a node that is trusted. ``name`` is the local name, as people are shown it and unique on this node."""

    name: str
    card: Card
    channel: str = ""
    """Key of the channel and name of its SAs, where it is not the peer's name: keys change, SAs stay (ADR 0041)."""
    own: Card | None = None
    """This node's side of the channel; None: its only one."""
    fleet: str = ""
    """Whose key has signed the card (ADR 0046); empty: it was added on this node."""
    ipv4_doubt: str = ""
    """Why the IPv4 address is not believed, and so not on ``card`` (ADR 0057); empty: it is, or there is none."""

    @property
    def key(self) -> str:
        """The channel's name, which stays as long as both keys do."""
        return self.channel or self.name


@dataclass(frozen=True, slots=True)
class Route:
    """One route of the routing daemon that the kernel has."""

    destination: Network
    next_hop: Address
    interface: str
    hops: int
    metric: int
    last_hop: Address | None = None
    originator: Address | None = None
    first_hop: Address | None = None
    """Originator of the neighbour that is the next hop, where the routing daemon says so."""
    decided_at: float | None = None
    """Monotonic time at which the routing daemon decided on it, where it says so."""
    confirmed: bool = False
    """Both ends have signed every link of the path. Without meaning where signatures are not looked at."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A 1-hop neighbour (RFC 6130, section 8)."""

    originator: Address
    symmetric: bool
    metric_in: int | None = None
    metric_out: int | None = None
    is_mpr: bool = False
    """We selected it as a routing or flooding MPR."""
    selected_us: bool = False
    signs: bool = False
    """Its newest HELLO was signed."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A directed link between two routers as the topology set knows it (RFC 7181, section 10)."""

    source: Address
    target: Address
    metric: int
    confirmed: bool = False
    """Both ends have signed it in TCs."""


@dataclass(frozen=True, slots=True)
class ChildSa:
    """A CHILD_SA as the IKE daemon or the kernel reports it."""

    name: str
    state: ChildSaState
    mode: str
    spi_in: str
    spi_out: str
    encryption: str
    installed_at: float
    bytes_in: int = 0
    bytes_out: int = 0
    packets_in: int = 0
    packets_out: int = 0
    integrity: str = ""
    key_exchange: str = ""
    """In IANA's names; empty when it is unknown, or the IKE_SA's own (the first CHILD_SA of an IKE_SA)."""
    local_ts: tuple[str, ...] = ()
    remote_ts: tuple[str, ...] = ()
    """Traffic selectors, as networks; empty when they are unknown."""
    rekey_at: float | None = None
    """Time at which the IKE daemon means to replace it; None when it does not say."""

    @property
    def carries(self) -> bool:
        """Return whether it carries user data."""
        return self.state is ChildSaState.INSTALLED


@dataclass(frozen=True, slots=True)
class IkeSa:
    """An IKE_SA as the IKE daemon reports it. ``peer`` is the connection's name, which is the peer's name."""

    unique_id: str
    peer: str
    state: IkeSaState
    initiator: bool
    """True when this node initiated it."""
    spi_initiator: str
    spi_responder: str
    established_at: float | None = None
    """Monotonic seconds, up to a second too early: IKE daemons count an SA's age in whole seconds."""
    children: tuple[ChildSa, ...] = ()
    remote_id: IPv6Address | None = None
    """The identity that the peer authenticated; None while it has not. It binds the SA to a key.

    See docs/reference/card.md.
    """
    encryption: str = ""
    key_exchange: str = ""
    """What was negotiated for IKE itself, in IANA's names with the key size in bits; empty while it has not been."""
    integrity: str = ""
    prf: str = ""
    """The same; empty too when it is unknown."""
    local_id: IPv6Address | None = None
    rekey_at: float | None = None
    """Time at which the IKE daemon means to replace it; None when it does not say."""
    remote_host: IPv6Address | None = None
    """Address to which the IKE daemon sends for it: it follows the source of what comes (RFC 7296, section 2.23).
    None when it is unknown, or no IPv6 address."""
    remote_end: str = ""
    """The same address of either IP version; empty when it is unknown."""
    behind_nat: bool = False
    """A NAT on the way gives this node another address (RFC 7296, section 2.23)."""
    second_secret: bool = False
    """Both ends have proved that they have the second secret, too, which is mixed into its keys (RFC 8784)."""

    @property
    def is_live(self) -> bool:
        """Return whether it carries CHILD_SAs."""
        return self.state.is_live

    @property
    def is_connecting(self) -> bool:
        """Return whether it is being negotiated."""
        return self.state is IkeSaState.CONNECTING


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """A CHILD_SA to configure (RFC 7296, section 1.3)."""

    name: str
    mode: str
    """``transport`` or ``tunnel``."""
    local_ts: tuple[Network, ...]
    remote_ts: tuple[Network, ...]
    esp_proposals: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SecondSecret:
    """That a pair has a second secret (ADR 0091). The secret itself is read when the IKE daemon is given it."""

    id: str
    """PPK_ID (RFC 8784, section 5.1): the same at both ends if they have the same secret."""
    required: bool
    """No SA without it. Otherwise it is used where the peer has it, too."""


@dataclass(frozen=True, slots=True)
class Outside:
    """Addresses in the internet between which an IKE_SA runs, instead of those of the mesh."""

    local: tuple[str, ...]
    remote: tuple[str, ...]
    """The first one that is no network is where to begin. A host name is looked up by the IKE daemon."""
    dpd_delay: int
    """Seconds without a sign of the peer after which it is asked whether it lives (RFC 7296, section 2.4)."""


@dataclass(frozen=True, slots=True)
class ConnectionSpec:
    """The configuration of one peer in the IKE daemon. Equal specs are the same configuration."""

    name: str
    local_address: IPv6Address
    remote_address: IPv6Address
    local_id: IPv6Address
    remote_id: IPv6Address
    local_public_key: bytes
    remote_public_key: bytes
    ike_proposals: tuple[str, ...]
    children: tuple[ChildSpec, ...]
    encapsulate: bool
    """Force UDP encapsulation (RFC 3948), as kernel-libipsec needs."""
    ike_rekey_time: int
    child_rekey_time: int
    """Seconds."""
    replay_window: int = 256
    """Packets of each CHILD_SA (RFC 4303, section 3.4.3)."""
    authentication: Authentication = Authentication.SIGNATURE
    copy_dscp: CopyDscp = CopyDscp.OUT
    """How DSCP is copied in tunnel mode in the kernel; in transport mode there is one header."""
    outside: Outside | None = None
    """For a link over the internet: between which addresses it runs."""
    second_secret: SecondSecret | None = None


@dataclass(frozen=True, slots=True)
class Perimeter:
    """Where the mesh ends on this node: its mesh interfaces, and the networks that are opened by name."""

    links: frozenset[str] = frozenset()
    """Names of the mesh interfaces. What is behind any other interface is not the mesh."""
    uplinks: frozenset[str] = frozenset()
    """Interfaces to the internet by which links lead to other islands: nothing of the mesh passes there but IKE and
    ESP."""
    opened: tuple[Network, ...] = ()
    """Networks behind this node that the policy opens: anybody in the mesh may reach them through it, in the clear."""
    reached: tuple[Network, ...] = ()
    """Networks that the policy opens and that this node reaches through others, in the clear."""

    @property
    def unprotected(self) -> tuple[Network, ...]:
        """The networks whose user data crosses the mesh in the clear."""
        return tuple(dict.fromkeys((*self.opened, *self.reached)))


@dataclass(frozen=True, slots=True)
class RulesSpec:
    """The fail-closed rules: complete, so that one transaction replaces the rules before."""

    backend: EspBackend
    own: frozenset[Address]
    """This node's addresses that applications use: a relay must distinguish its own user data from what it forwards."""
    protected: frozenset[Address]
    """Addresses of peers that user data may reach only through IPsec."""
    locators: frozenset[IPv6Address]
    """Peers' locators: nothing but IKE and ESP-in-UDP passes."""
    mesh_prefixes: tuple[Network, ...]
    """Prefixes of mesh addresses (fc00::/7 and the configured IPv4 mesh prefix)."""
    unknown_nodes: UnknownNodes
    barred: frozenset[Address] = frozenset()
    """Addresses of nodes that were peers until now: closed inside IPsec too, while their SAs are being closed."""
    overlay_device: str = ""
    """The overlay's TUN device; empty: this node has no overlay."""
    admitted: frozenset[IPv6Address] = frozenset()
    """Addresses of those who are trusted now: with them alone user data passes by the overlay's device."""
    bypass: tuple[Bypass, ...] = ()
    """Mesh addresses of no peer that are reached in the clear."""
    perimeter: Perimeter = Perimeter()
    joints: tuple[Joint, ...] = ()
    """The paths of links over the internet to those who are trusted now."""
    behind: BehindNodes = field(default_factory=BehindNodes)
    joins: bool = False
    """This node has a fleet, so that it asks to join and takes requests to join (ADR 0070)."""
    opening: Opening | None = None
    """What passes in the clear for `meshsec bench throughput`, as long as meshsecd marks it (ADR 0084)."""


@dataclass(frozen=True, slots=True)
class Modes:
    """What the operator chose (``meshsec mode``), over the policy's ``data_plane``."""

    default: DataPlane | None = None
    """Mode for all peers; None: the policy's."""
    peers: Mapping[IPv6Address, DataPlane] = field(default_factory=dict)
    """Mode by the peer's address, which follows from its key: another card under the same name inherits nothing."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What the outside reports: the IKE daemon's connections and SAs, and the rules in force."""

    ike_sas: Mapping[str, tuple[IkeSa, ...]] = field(default_factory=dict)
    """IKE_SAs by peer name."""
    connections: Mapping[str, ConnectionSpec | None] = field(default_factory=dict)
    """Connections by name; None for one with unknown contents (after a restart of meshsecd)."""
    key_loaded: bool = False
    rules: RulesSpec | None = None
