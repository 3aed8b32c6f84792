"""The typed content of ``meshsec.toml``: decoded once, with all of its problems at once.

See docs/reference/meshsec.toml.md.
"""

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Address
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from meshsec.core.config import overlay_settings, scheduling_settings
from meshsec.core.config.access_settings import AccessSettings
from meshsec.core.config.gateway_settings import GatewaySettings
from meshsec.core.config.island_settings import LINKS_MAX, Beside, IslandLink, link_problems, resolved, with_paths
from meshsec.core.config.kinds import FilePath, NodeName, SocketPath
from meshsec.core.config.networks import (
    NOT_IN_THE_CLEAR,
    accepted_in_the_clear,
    access_problems,
    in_the_mesh,
    wrong_selectors,
)
from meshsec.core.config.overlay_settings import OverlaySettings
from meshsec.core.config.page_settings import PageSettings, page_problems
from meshsec.core.config.position_settings import PositionSettings
from meshsec.core.config.radio_settings import Radios
from meshsec.core.config.routing_settings import RoutingDaemon, RoutingSettings
from meshsec.core.config.scheduling_settings import Profiles, SchedulingSettings, SchedulingTable, only_stock
from meshsec.core.config.service_settings import ServiceTable
from meshsec.core.config.time_settings import TimeSettings
from meshsec.core.config.zeroize_settings import ZeroizeSettings
from meshsec.core.policy.policy import Policy, PolicyError, decode_policy
from meshsec.core.services.services import SERVICES_MAX, Service
from meshsec.core.trust.identity import IPV4_RULE, IdentityError, checked_ipv4
from meshsec.core.values import tables
from meshsec.core.values.definition import Once, PathRule, Reading, Rule, Wrong
from meshsec.core.values.ike_daemon import IkeDaemon
from meshsec.core.values.islands import InternetLink
from meshsec.core.values.model import DataPlane, EspBackend
from meshsec.core.values.tables import Problem, RefusedError


class EspChoice(StrEnum):
    """Where ESP shall run; ``auto`` asks the kernel."""

    AUTO = "auto"
    KERNEL = "kernel"
    LIBIPSEC = "libipsec"


def _ipv4(value: object) -> IPv4Address:
    if not isinstance(value, str):
        raise ValueError  # noqa: TRY004  # the rule says what is allowed
    address = IPv4Address(value)
    try:
        return checked_ipv4(address)
    except IdentityError:
        raise RefusedError(IPV4_RULE) from None


def _table(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise ValueError  # noqa: TRY004  # the rule says what is allowed
    return value


class NodeSettings(Struct, frozen=True):
    """``[node]``: what this node's card says beside its key."""

    name: Annotated[
        NodeName,
        Meta(
            description="the name on this node's card: 1 to 32 characters of `a-z`, `0-9` and `-`, the first and the "
            "last not `-`"
        ),
    ]
    ipv4: Annotated[
        IPv4Address | None,
        Rule("an IPv4 address such as 10.77.0.1", _ipv4, {"type": "string", "format": "ipv4"}),
        Meta(
            description="this node's IPv4 mesh address, on its card too: unicast, outside 0/8, 127/8, 169.254/16 and "
            "240/4",
            extra={"default": "none"},
        ),
    ] = None


class IkeSettings(Struct, frozen=True):
    """``[ike]``."""

    daemon: Annotated[
        IkeDaemon,
        Meta(
            description="the IKE daemon. The card of a node with `libreswan` says that it authenticates by the pair's "
            "secret: after a change peers add the new card"
        ),
    ] = IkeDaemon.STRONGSWAN
    vici: Annotated[
        SocketPath,
        Meta(
            description="charon's VICI socket: a path of at most 107 octets",
            extra={"default": "`charon.vici` in the directory `run`"},
        ),
    ] = "/run/meshsec/charon.vici"
    pluto: Annotated[
        SocketPath,
        Meta(
            description="the socket of libreswan's pluto: a path of at most 107 octets; meshsecd's files for pluto are "
            "beside it",
            extra={"default": "`pluto/pluto.ctl` in the directory `run`"},
        ),
    ] = "/run/meshsec/pluto/pluto.ctl"
    esp: Annotated[
        EspChoice,
        Meta(
            description="where ESP runs: in the kernel, in user space (`libipsec`), or `auto`: in the kernel if it can"
        ),
    ] = EspChoice.AUTO

    def wrong(self, _given: object) -> Wrong:
        """Yield ESP in user space with an IKE daemon that has none."""
        if not self.daemon.traits.has_libipsec and self.esp is EspChoice.LIBIPSEC:
            yield ("esp",), f"'auto' or 'kernel': {self.daemon.traits.title} has ESP in the kernel alone"

    @property
    def by_secret(self) -> bool:
        """Whether this node's card says that it authenticates by the pair's secret, for want of Ed25519."""
        return not self.daemon.traits.has_ed25519

    @property
    def backend(self) -> EspBackend | None:
        """Where ESP runs, as far as that is settled by the configuration. None: the kernel is asked."""
        if not self.daemon.traits.has_libipsec:
            return EspBackend.KERNEL
        return None if self.esp is EspChoice.AUTO else EspBackend(self.esp)


class Paths(Struct, frozen=True):
    """``[paths]``: absolute directories."""

    peers: Annotated[
        FilePath,
        Meta(description="the trust store: a file `NAME.card` for each trusted peer ([card.md](card.md))"),
    ] = "/etc/meshsec/peers"
    state: Annotated[
        FilePath,
        Meta(
            description="the node's private key `node.key` (mode 0600), its public half `node.pub`, `lives`, by "
            "which a copy of the key is found out, and `second-secret` (mode 0600), where levels of authentication ask "
            "for it. `meshsec key seal` seals them only where this is the default"
        ),
    ] = "/var/lib/meshsec"
    run: Annotated[
        str,
        PathRule(tables.SOCKET_PATH_MAX - len("/control.sock")),
        Meta(description="`control.sock`, on which meshsecd answers; at most 94 octets"),
    ] = "/run/meshsec"

    @property
    def key(self) -> str:
        """The node's private key."""
        return posixpath.join(self.state, "node.key")

    @property
    def control_socket(self) -> str:
        """Where meshsecd answers."""
        return posixpath.join(self.run, "control.sock")

    @property
    def view_socket(self) -> str:
        """Where meshsecd answers those who only look."""
        return posixpath.join(self.run, "view.sock")

    @property
    def page_socket(self) -> str:
        """Where the page's process gives meshsecd its listening sockets to hold."""
        return posixpath.join(self.run, "page.sock")

    @property
    def modes(self) -> str:
        """Which data plane the operator chose."""
        return posixpath.join(self.state, "modes.json")

    @property
    def gateway(self) -> str:
        """By which uplink the operator chose that this node is a gateway."""
        return posixpath.join(self.state, "gateway.json")

    @property
    def signers(self) -> str:
        """Which peers' routers have been seen to sign (ADR 0094)."""
        return posixpath.join(self.state, "signers.json")

    @property
    def sightings_socket(self) -> str:
        """Where meshsecd learns who is here."""
        return posixpath.join(self.run, "sightings.sock")

    @property
    def names(self) -> str:
        """The names of this node and its peers, in a directory of their own (ADR 0071)."""
        return posixpath.join(self.run, "names", "nodes")

    @property
    def services(self) -> str:
        """What this node and its peers offer, in a directory of its own (ADR 0072)."""
        return posixpath.join(self.run, "services", "offered")

    @property
    def hostapd_control(self) -> str:
        """The directory where hostapd, whose unit makes it, can be told who has left."""
        return f"{self.run}-hostapd"

    @property
    def scheduling_journal(self) -> str:
        """The scheduling classes before they were changed."""
        return posixpath.join(self.run, "scheduling.json")


class Document(Struct, frozen=True):
    """The tables of ``meshsec.toml`` as they are written."""

    node: Annotated[NodeSettings, Meta(description="this node")]
    routing: Annotated[RoutingSettings, Meta(description="the router")]
    ike: Annotated[IkeSettings, Meta(description="the IKE daemon")] = IkeSettings()
    policy: Annotated[
        Mapping[str, object],
        Rule("a table", _table, {"type": "object"}),
        Meta(description="the profile's name, and what differs from it"),
    ] = {}  # msgspec copies it
    overlay: Annotated[OverlaySettings, Meta(description="the other data plane")] = OverlaySettings()
    scheduling: Annotated[SchedulingTable, Meta(description="scheduling classes")] = SchedulingTable()
    gateway: Annotated[GatewaySettings, Meta(description="the way out through this node")] = GatewaySettings()
    access: Annotated[AccessSettings, Meta(description="clients of this node")] = AccessSettings()
    link: Annotated[
        tuple[IslandLink, ...],
        Once("each peer once", "peer"),
        Meta(
            max_length=LINKS_MAX,
            description="links over the internet to trusted nodes, at most 8",
            extra={"allowed": "at most 8 tables [[link]], each with a peer of its own"},
        ),
    ] = ()
    service: Annotated[
        tuple[ServiceTable, ...],
        Once("each name once", "name"),
        Meta(
            max_length=SERVICES_MAX,
            description="what this node offers to its peers, at most 8",
            extra={"allowed": "at most 8 tables [[service]], each with a name of its own"},
        ),
    ] = ()
    radio: Annotated[Radios | None, Meta(description="the wireless mesh")] = None
    time: Annotated[TimeSettings | None, Meta(description="the mesh's own time")] = None
    page: Annotated[PageSettings, Meta(description="the page in the browser")] = PageSettings()
    position: Annotated[PositionSettings, Meta(description="where this node is")] = PositionSettings()
    zeroize: Annotated[ZeroizeSettings, Meta(description="how a lost node becomes harmless")] = ZeroizeSettings()
    paths: Annotated[Paths, Meta(description="directories")] = Paths()


@dataclass(frozen=True, slots=True)
class Settings:
    """All of ``meshsec.toml``, with the profiles that it names."""

    node: NodeSettings
    routing: RoutingSettings
    ike: IkeSettings = field(default_factory=IkeSettings)
    paths: Paths = field(default_factory=Paths)
    scheduling: SchedulingSettings = field(default_factory=SchedulingSettings)
    policy: Policy = field(default_factory=Policy)
    """The profile with the overrides of ``[policy]``."""
    profile: str = "default"
    gateway: GatewaySettings = field(default_factory=GatewaySettings)
    access: AccessSettings = field(default_factory=AccessSettings)
    radios: Radios | None = None
    """``[radio]``, for the interfaces that meshsec-radio brings into the mesh."""
    overlay: OverlaySettings = field(default_factory=OverlaySettings)
    time: TimeSettings | None = None
    """``[time]``, where the mesh keeps its own."""
    page: PageSettings = field(default_factory=PageSettings)
    position: PositionSettings = field(default_factory=PositionSettings)
    zeroize: ZeroizeSettings = field(default_factory=ZeroizeSettings)
    links: tuple[InternetLink, ...] = ()
    """The links over the internet; ``routing`` has the interfaces of their paths."""
    services: tuple[Service, ...] = ()
    """What this node offers to its peers."""


class SettingsError(ValueError):
    """Content that is refused: all of its problems."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = tuple(problems)


def decode(
    table: Mapping[str, object],
    base: str,
    profile: Callable[[str], Policy],
    schedules: Profiles = only_stock,
    *,
    pacing: bool = False,
) -> Settings:
    """Return the settings in a decoded TOML document. Raises SettingsError.

    ``base`` is the directory that relative paths start from. ``profile`` gives the policy profile of a name, or raises
    ValueError with what is allowed; ``schedules`` does the same for scheduling profiles. ``pacing`` is for a lab.
    """
    reading = Reading(base)
    found = reading.table(Document, table)
    scheduling = SchedulingSettings()
    try:
        scheduling = scheduling_settings.resolve(found.scheduling, schedules)
    except ValueError as error:
        reading.refuse(("scheduling", "profile"), found.scheduling.profile, str(error))
    name, policy = _policy(reading, found.policy, profile, pacing=pacing)
    if policy.data_plane is DataPlane.OVERLAY and not found.overlay.enabled:
        reading.note(("policy", "data_plane"), overlay_settings.NOT_ENABLED)
    if found.gateway.uplink and found.gateway.uplink in found.routing.interfaces:
        reading.refuse(("gateway", "uplink"), found.gateway.uplink, "an interface that is none of routing.interfaces")
    for key, index, prefix in in_the_mesh(found.routing, policy):
        value = getattr(found.routing, key)[index].prefix
        rule = f"a network that does not overlap {prefix}, where the nodes have their own addresses (mesh_prefixes)"
        reading.refuse(("routing", key, index, "prefix"), str(value), rule)
    for index, rule in wrong_selectors(found.routing, policy, found.ike.backend):
        reading.refuse(("routing", "accept", index, "by"), str(found.routing.accept[index].by), rule)
    if found.routing.daemon is RoutingDaemon.OLSRD2:
        for index, prefix in accepted_in_the_clear(found.routing, policy):
            reading.refuse(("routing", "accept", index, "prefix"), str(prefix), NOT_IN_THE_CLEAR)
    for where, value, rule in access_problems(found.node.name, found.routing, found.access, policy):
        reading.refuse(("access", *where), value, rule)
    _page(reading, found)
    _links(reading, found, policy)
    if reading.problems:
        raise SettingsError(reading.problems)
    ike = _sockets(found.ike, table.get("ike", {}), found.paths.run)
    return Settings(
        node=found.node,
        routing=with_paths(found.routing, found.link),
        ike=ike,
        paths=found.paths,
        scheduling=scheduling,
        policy=policy,
        profile=name,
        gateway=found.gateway,
        access=found.access,
        radios=found.radio,
        overlay=found.overlay,
        time=found.time,
        page=found.page,
        position=found.position,
        zeroize=found.zeroize,
        links=resolved(found.link, found.gateway.uplink),
        services=tuple(one.service for one in found.service),
    )


def _page(reading: Reading, found: Document) -> None:
    for where, value, rule in page_problems(found.page, found.access):
        reading.refuse(("page", *where), value, rule)


def _links(reading: Reading, found: Document, policy: Policy) -> None:
    beside = Beside(found.node.name, found.routing, found.ike.daemon, found.gateway.uplink, policy)
    for where, value, rule in link_problems(found.link, beside):
        reading.refuse(("link", *where), value, rule)


def _sockets(ike: IkeSettings, given: object, run: str) -> IkeSettings:
    """Return the same with the sockets that are not given where the directory ``run`` is."""
    usual = {"vici": posixpath.join(run, "charon.vici"), "pluto": posixpath.join(run, "pluto/pluto.ctl")}
    named = given if isinstance(given, Mapping) else {}
    return msgspec.structs.replace(ike, **{key: path for key, path in usual.items() if key not in named})


def _policy(
    reading: Reading, given: Mapping[str, object], profile: Callable[[str], Policy], *, pacing: bool
) -> tuple[str, Policy]:
    name, base = given.get("profile", "default"), Policy()
    if not isinstance(name, str) or not name:
        reading.refuse(("policy", "profile"), name, "a text in quotes, not empty")
        name = ""
    try:
        base = profile(name) if name else base
    except ValueError as error:
        reading.refuse(("policy", "profile"), name, str(error))
    overrides = {key: value for key, value in given.items() if key != "profile"}
    try:
        return name, decode_policy(overrides, base, pacing=pacing)
    except PolicyError as error:
        for problem in error.problems:
            reading.note(("policy", *problem.path), problem.message)
        return name, base
