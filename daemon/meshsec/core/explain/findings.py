"""What doctor is given, and what it finds: facts of the node, and one check for each thing that is judged."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from meshsec.core.config.access_settings import AccessRadio
from meshsec.core.config.radio_settings import RadioSettings
from meshsec.core.explain.copied_keys import Own
from meshsec.core.radio.observed import Observed, Radio
from meshsec.core.values.ike_daemon import IkeDaemon
from meshsec.core.values.model import EspBackend
from meshsec.core.values.refusals import Refusal


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """One finding."""

    name: str
    level: Level
    found: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class RadioFacts:
    """One wireless mesh interface."""

    wish: RadioSettings | None
    """The settings; None when something else than meshsec-radio brings it up."""
    seen: Observed
    signals: Sequence[int] = ()
    """dBm, of each neighbour."""
    rts_reason: str = ""
    """Why it has its RTS threshold; empty where nothing measures it."""


@dataclass(frozen=True, slots=True)
class AccessPointFacts:
    """The access point that this node is to be."""

    wish: AccessRadio
    mesh: Mapping[str, RadioSettings | None]
    """The mesh interfaces, with their settings if meshsec-radio brings them up."""
    radios: Sequence[Radio]
    """All radios of this machine."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the adapters found. Empty texts and collections mean: nothing wrong."""

    backend: EspBackend
    backend_reason: str
    backend_problem: str
    """Why ESP cannot run where it should."""
    ike_version: str
    """Empty while the IKE daemon does not answer."""
    ike_problem: str
    plugins_missing: Sequence[str]
    router_software: str
    router_problem: str
    router_warnings: Sequence[str]
    routes_missing: Sequence[str]
    """Destinations to which the routing daemon has a route and the kernel has none."""
    rules_in_force: bool
    dropped: Mapping[str, int]
    """Packets that the fail-closed rules dropped, and those that they let pass by the bypass list, by counter."""
    addresses_missing: Sequence[str]
    address_problem: str
    key_problem: str
    forwarding: Mapping[str, bool]
    """Whether forwarding is on, by sysctl."""
    mtus: Mapping[str, int | None]
    """MTU by mesh interface; None when the interface does not exist."""
    trust_problems: Sequence[str]
    closed_by_doubt: bool
    """Unknown nodes are closed because of them."""
    config_problem: str
    strangers: Sequence[str]
    """Nodes without a card that asked for an SA, with the reason and how often."""
    radios: Sequence[RadioFacts] = ()
    access_point: AccessPointFacts | None = None
    unweighed: Sequence[str] = ()
    """Mesh interfaces that have no metric by configuration."""
    overlay: str = ""
    """The overlay's node and its version, as far as it answers; empty where there is no overlay."""
    overlay_mtu: int | None = None
    """MTU of the overlay's device, where what it carries may be networks; else None."""
    overlay_problem: str = ""
    unauthenticated: Sequence[str] = ()
    """Peers with whom the last negotiation failed because one end was not who it said it was, for the other."""
    left_out: int = 0
    """Proposals of the policy that the IKE daemon cannot do."""
    rules_disturbed: int = 0
    """How often another program altered or removed the fail-closed rules since meshsecd started."""
    tables_altered: Sequence[str] = ()
    """How the tables of flows, the uplink and clients differ from what meshsecd applied."""
    one_sided: Sequence[str] = ()
    """Peers whose own end sends by the other data plane."""
    without_ipv4: Sequence[str] = ()
    """Peers with an IPv4 address in mode ``overlay``, which carries none."""
    ports_problem: str = ""
    """Which other process has the ports of IKE, or which of them the IKE daemon lacks (ADR 0056)."""
    ike_daemon: IkeDaemon = IkeDaemon.STRONGSWAN
    next_address: str = ""
    """That of the key which is to take the place of this node's; empty: the key is not being changed."""
    ipv4_doubts: Sequence[str] = ()
    """Peers whose card's IPv4 address is not believed, each with the reason (ADR 0057)."""
    refusals: Sequence[Refusal] = ()
    """What the routing daemon refused lately."""
    bypass: Sequence[str] = ()
    """What the policy lets pass in the clear, each with its reason."""
    unprotected_networks: Sequence[str] = ()
    """Networks whose user data crosses the mesh in the clear, because the policy says so."""
    network_problems: Sequence[str] = ()
    """Protected networks of peers that cannot be reached, each with the reason."""
    limited_networks: str = ""
    """Which networks of peers not everything here can use, and why."""
    past_networks: Sequence[str] = ()
    """Routes of others into networks of peers, past the tunnel: the rules drop what takes them."""
    unannounced: Sequence[str] = ()
    """Networks behind this node that the router does not announce."""
    unheeded_networks: Sequence[str] = ()
    """Networks that peers announce and may not speak for, each with who announces it."""
    uplink: str = ""
    """The uplink by which this node is a gateway; empty: it is none."""
    gateway_problems: Sequence[str] = ()
    """Why it offers no way out, or not for all IP versions."""
    link_problems: Sequence[str] = ()
    """What is wrong with links over the internet, each with its peer."""
    resolvers_lost: Sequence[str] = ()
    """The resolvers by which this node answers its clients' questions for names, if it can ask none of them."""
    links: Sequence[str] = ()
    """The peers to whom links over the internet lead."""
    gateways_unwatched: str = ""
    """Why the gateways of others cannot be asked whether they are alive."""
    networks: int = 0
    """Number of the protected networks of peers."""
    lost: Sequence[str] = ()
    """Peers with an SA through which nothing comes, and whose IKE daemon does not answer."""
    guard_problem: str = ""
    """Why nothing sorts what comes to the IKE daemon's ports; empty when the guard is in force (ADR 0054)."""
    guarded: Mapping[str, int] = field(default_factory=dict)
    """Datagrams to the IKE daemon that the guard dropped, by reason."""
    key_changed: bool = False
    """``key_problem`` is only that another key was put in the place of the one that meshsecd uses."""
    config_changed: bool = False
    """``config_problem`` is only that the file was changed since meshsecd started."""
    announced_instead: Sequence[str] = ()
    """What the routing daemon announces in place of this node's addresses; empty: these are what it announces."""
    failed: Sequence[str] = ()
    """Peers in reach with whom the last attempt failed, each with what that means."""
    down: Sequence[str] = ()
    """Mesh interfaces that are not up."""
    no_carrier: Sequence[str] = ()
    """Mesh interfaces that are up and have no link."""
    neighbours: Mapping[str, bool] | None = None
    """Whether each neighbour and this node hear each other, by the peer's name or, for others, the address. None while
    the routing daemon does not answer."""
    own_copy: Own = Own.NONE
    """What shows that another node has this node's key."""
    doubled: Sequence[str] = ()
    """Peers of which it was proved that two nodes have the key."""
    names_problem: str = ""
    """Why the names of peers cannot be written; empty when they are."""
    own_name: str = ""
    card_names: Collection[tuple[str, str]] = ()
    """The name of each peer here, and the one on its card."""
    contested: Sequence[str] = ()
    """Peers in whose name somebody forges answers to this node's first messages."""
    denied: Sequence[str] = ()
    """Peers in whose name a first message was refused and accepted within the last minute."""


def judged(name: str, problem: str, fine: str, fix: str, level: Level = Level.FAIL) -> list[Check]:
    """Return a check that fails with a problem, or else is fine."""
    return [Check(name, level, problem, fix) if problem else Check(name, Level.OK, fine)]
