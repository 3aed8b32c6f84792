"""The typed content of ``meshsec.toml`` (docs/meshsec.toml.md): decoded once, with all of its problems at once."""

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Address
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from meshsec.core.config import overlay_settings, scheduling_settings
from meshsec.core.config.accepted_networks import ACCEPTED_MAX, AcceptedNetwork
from meshsec.core.config.kinds import FilePath, InterfaceName, Interval, Metric, NodeName, Prefix, SocketPath, Validity
from meshsec.core.config.link_settings import LinkSettings, LinkTable, Timing, too_short
from meshsec.core.config.overlay_settings import OverlaySettings
from meshsec.core.config.radio_settings import Radios
from meshsec.core.config.scheduling_settings import Profiles, SchedulingSettings, SchedulingTable, only_stock
from meshsec.core.config.time_settings import TimeSettings
from meshsec.core.policy.policy import Policy, PolicyError, decode_policy
from meshsec.core.trust.identity import IPV4_RULE, IdentityError, checked_ipv4
from meshsec.core.values import tables
from meshsec.core.values.definition import Once, PathRule, Reading, Rule, Wrong
from meshsec.core.values.ike_daemon import IkeDaemon
from meshsec.core.values.model import DataPlane, EspGround, Perimeter
from meshsec.core.values.tables import Problem, RefusedError

ATTACHED_MAX = 256
"""As many as olsrv2d takes."""


class RoutingDaemon(StrEnum):
    """Which OLSRv2 router runs beside us."""

    OLSRV2D = "olsrv2d"
    OLSRD2 = "olsrd2"


class EspChoice(StrEnum):
    """Where ESP shall run; ``auto`` asks the kernel."""

    AUTO = "auto"
    KERNEL = "kernel"
    LIBIPSEC = "libipsec"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A TCP port on this machine."""

    host: str = "127.0.0.1"
    port: int = 2009


def _ipv4(value: object) -> IPv4Address:
    if not isinstance(value, str):
        raise ValueError  # noqa: TRY004  # the rule says what is allowed
    address = IPv4Address(value)
    try:
        return checked_ipv4(address)
    except IdentityError:
        raise RefusedError(IPV4_RULE) from None


def _endpoint(value: object) -> Endpoint:
    host, _, port = str(value).rpartition(":")
    if not isinstance(value, str) or host not in ("127.0.0.1", "[::1]", "localhost") or not _is_port(port):
        raise ValueError
    return Endpoint(host.strip("[]"), int(port))


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= 65535


def _table(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise ValueError  # noqa: TRY004  # the rule says what is allowed
    return value


class AttachedNetwork(Struct, frozen=True):
    """A network that this node announces (RFC 7181, section 7.2)."""

    prefix: Annotated[Prefix, Meta(description="the network")]
    distance: Annotated[int, Meta(ge=1, le=255, description="hops that it is away from this node")] = 1
    metric: Annotated[
        Metric | None, Meta(description="what it weighs besides", extra={"default": "the router's, 1"})
    ] = None


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


class RoutingSettings(Struct, frozen=True):
    """``[routing]``."""

    interfaces: Annotated[
        tuple[InterfaceName, ...],
        Once("each interface once"),
        Meta(
            min_length=1,
            max_length=64,
            description="the mesh interfaces: 1 to 64 names; they need not exist yet",
            extra={"allowed": "a list of 1 to 64 interface names, such as ['mesh0']"},
        ),
    ]
    daemon: Annotated[RoutingDaemon, Meta(description="which router runs here")] = RoutingDaemon.OLSRV2D
    socket: Annotated[SocketPath, Meta(description="olsrv2d's change stream: a path of at most 107 octets")] = (
        "/run/olsrv2d/changes.sock"
    )
    telnet: Annotated[
        Endpoint | None,
        Rule("a port of this machine, such as '127.0.0.1:2009' or '[::1]:2009'", _endpoint),
        Meta(
            description="the router's management port on this machine, which every account may use: "
            "`127.0.0.1:PORT`, `[::1]:PORT` or `localhost:PORT`",
            extra={"default": 'olsrv2d: none; olsrd2: `"127.0.0.1:2009"`'},
        ),
    ] = None
    hello_interval: Annotated[
        Interval | None,
        Meta(description="HELLO_INTERVAL (RFC 6130, section 5)", extra={"default": "the router's"}),
    ] = None
    hello_validity: Annotated[
        Validity | None,
        Meta(description="H_HOLD_TIME, at least the interval", extra={"default": "the router's"}),
    ] = None
    tc_interval: Annotated[
        Interval | None,
        Meta(description="TC_INTERVAL (RFC 7181, section 5.4)", extra={"default": "the router's"}),
    ] = None
    tc_validity: Annotated[
        Validity | None,
        Meta(description="T_HOLD_TIME, at least the interval", extra={"default": "the router's"}),
    ] = None
    metric: Annotated[
        Metric | None,
        Meta(
            description="of every link that has no other (RFC 7181, section 6); with olsrv2d only",
            extra={"default": "the router's"},
        ),
    ] = None
    willingness: Annotated[
        int | None,
        Meta(
            ge=0,
            le=15,
            description="to relay for others (RFC 7181, section 5.4.8): 0, never, to 15, always; with olsrv2d only",
            extra={"default": "the router's"},
        ),
    ] = None
    attached: Annotated[
        tuple[AttachedNetwork, ...],
        Once("each prefix once", "prefix"),
        Meta(
            max_length=ATTACHED_MAX,
            description="networks that this node announces (RFC 7181, section 7.2), at most 256, each `{ prefix = "
            '"10.1.0.0/16", distance = 1 }` with a distance of 1 to 255, and a `metric` if it shall weigh more than 1; '
            "a gateway announces `0.0.0.0/0` and `::/0`. Announcing a network lets the mesh reach it through this "
            "node; a default route does not open private networks beside it",
            extra={"allowed": "a list of tables, such as [{ prefix = '10.1.0.0/16', distance = 1 }]"},
        ),
    ] = ()
    accept: Annotated[
        tuple[AcceptedNetwork, ...],
        Once("each prefix once, with all of its routers in 'from'", "prefix"),
        Meta(
            max_length=ACCEPTED_MAX,
            description='networks of other nodes that this node routes to, at most 256, each `{ prefix = "::/0", '
            'from = ["ridge"] }`: exactly this prefix, from these peers (by name, resolved by their cards when it is '
            "exported) or originators of its family ([a way out](guide.md#8-a-way-out)); with olsrv2d only",
            extra={"allowed": "a list of tables, such as [{ prefix = '0.0.0.0/0', from = ['ridge'] }]"},
        ),
    ] = ()
    interface: Annotated[
        dict[str, LinkTable],
        Meta(description="a table `[routing.interface.NAME]` for each of the interfaces that differs"),
    ] = {}  # msgspec copies it

    @property
    def hello(self) -> Timing:
        """What holds for HELLO messages where an interface says nothing else."""
        return Timing(self.hello_interval, self.hello_validity)

    @property
    def tc(self) -> Timing:
        """What holds for TC messages."""
        return Timing(self.tc_interval, self.tc_validity)

    @property
    def links(self) -> Mapping[str, LinkSettings]:
        """Where an interface differs, by its name."""
        return {name: table.over(self.hello) for name, table in self.interface.items()}

    def wrong(self, given: Mapping[str, Any]) -> Wrong:
        """Yield validities below their intervals, tables of no interface, and what only olsrv2d can do."""
        yield from too_short("hello", self.hello_interval, given, self.hello_validity)
        yield from too_short("tc", self.tc_interval, given, self.tc_validity)
        for name, table in self.interface.items():
            if name not in (self.interfaces or ()):
                yield ("interface", name), f"those in routing.interfaces: {', '.join(self.interfaces or ()) or 'none'}"
            own = given["interface"][name]
            interval = table.over(self.hello).hello.interval
            if isinstance(own, Mapping):
                for below, rule in too_short("hello", interval, own, table.hello_validity):
                    yield ("interface", name, *below), rule
        if self.daemon is RoutingDaemon.OLSRD2:
            yield from ((where, "with daemon = 'olsrv2d' only") for where, _ in self.weights())

    @property
    def unweighed(self) -> tuple[str, ...]:
        """Interfaces that are left to olsrv2d's own metric: as measured on radio, and very much elsewhere."""
        if self.daemon is not RoutingDaemon.OLSRV2D or self.metric is not None:
            return ()
        return tuple(name for name in self.interfaces if self.links.get(name, LinkSettings()).metric is None)

    @property
    def perimeter(self) -> Perimeter:
        """Where the mesh ends. A network is opened by announcing it, and reached by accepting it."""
        opened = tuple(one.prefix for one in self.attached)
        return Perimeter(frozenset(self.interfaces), opened, tuple(one.prefix for one in self.accept))

    def weights(self) -> Iterator[tuple[tuple[str | int, ...], int | str]]:
        """What only olsrv2d is told: where it stands below ``[routing]``, and what."""
        told: list[tuple[tuple[str | int, ...], int | str | None]] = [
            (("metric",), self.metric),
            (("willingness",), self.willingness),
            *((("attached", index, "metric"), one.metric) for index, one in enumerate(self.attached)),
            *((("accept", index, "prefix"), str(one.prefix)) for index, one in enumerate(self.accept)),
            *((("interface", name, "metric"), one.metric) for name, one in self.links.items()),
        ]
        for where, found in told:
            if found is not None:
                yield where, str(found) if isinstance(found, str) else found


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
    def ground(self) -> EspGround | None:
        """Where ESP runs, as far as that is settled by the configuration. None: the kernel is asked."""
        if not self.daemon.traits.has_libipsec:
            return EspGround.KERNEL
        return None if self.esp is EspChoice.AUTO else EspGround(self.esp)


class Paths(Struct, frozen=True):
    """``[paths]``: absolute directories."""

    peers: Annotated[
        FilePath,
        Meta(description="the trust store: a file `NAME.card` for each trusted peer ([card.md](card.md))"),
    ] = "/etc/meshsec/peers"
    state: Annotated[
        FilePath,
        Meta(description="the node's private key `node.key` (mode 0600) and its public half `node.pub`"),
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
    def modes(self) -> str:
        """Which data plane the operator chose."""
        return posixpath.join(self.state, "modes.json")

    @property
    def scheduling_journal(self) -> str:
        """What stood before scheduling classes were changed."""
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
    radio: Annotated[Radios | None, Meta(description="the wireless mesh")] = None
    time: Annotated[TimeSettings | None, Meta(description="the mesh's own time")] = None
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
    radios: Radios | None = None
    """``[radio]``, for the interfaces that meshsec-radio brings into the mesh."""
    overlay: OverlaySettings = field(default_factory=OverlaySettings)
    time: TimeSettings | None = None
    """``[time]``, where the mesh keeps its own."""


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
    """The settings in a decoded TOML document. Raises SettingsError.

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
    if reading.problems:
        raise SettingsError(reading.problems)
    ike = _sockets(found.ike, table.get("ike", {}), found.paths.run)
    return Settings(
        found.node, found.routing, ike, found.paths, scheduling, policy, name, found.radio, found.overlay, found.time
    )


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
