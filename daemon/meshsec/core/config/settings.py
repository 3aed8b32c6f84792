"""The typed content of ``meshsec.toml`` (docs/meshsec.toml.md): decoded once, with all of its problems at once."""

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from ipaddress import IPv4Address, ip_network

from meshsec.core.config import link_settings, overlay_settings, radio_settings, scheduling_settings, time_settings
from meshsec.core.config.accepted_networks import AcceptedNetwork, read_accepted
from meshsec.core.config.link_settings import LinkSettings, Timing, read_timing
from meshsec.core.config.overlay_settings import OverlaySettings
from meshsec.core.config.radio_settings import Radios
from meshsec.core.config.scheduling_settings import Profiles, SchedulingSettings, only_stock
from meshsec.core.config.time_settings import TimeSettings
from meshsec.core.policy.policy import Policy, PolicyError, decode_policy
from meshsec.core.trust.identity import IPV4_RULE, NAME_RULE, IdentityError, checked_ipv4, checked_name
from meshsec.core.values import tables
from meshsec.core.values.model import DataPlane, EspGround, IkeDaemon, Network, Perimeter
from meshsec.core.values.tables import Problem, RefusedError, Table

INTERFACES_MAX = 64
ATTACHED_MAX = 256
WILLINGNESS = (0, 15)

_SOCKET_PATH_MAX = tables.SOCKET_PATH_MAX
_PATH_MAX = 4095


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


@dataclass(frozen=True, slots=True)
class AttachedNetwork:
    """A network that this node announces (RFC 7181, section 7.2)."""

    prefix: Network
    distance: int = 1
    metric: int | None = None
    """None: the router's."""


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """``[node]``: what this node's card says beside its key."""

    name: str = ""
    ipv4: IPv4Address | None = None


@dataclass(frozen=True, slots=True)
class RoutingSettings:
    """``[routing]``."""

    daemon: RoutingDaemon = RoutingDaemon.OLSRV2D
    socket: str = "/run/olsrv2d/changes.sock"
    telnet: Endpoint | None = None
    """None: olsrv2d has no port, and olsrd2 its usual one."""
    interfaces: tuple[str, ...] = ()
    hello: Timing = field(default_factory=Timing)
    tc: Timing = field(default_factory=Timing)
    metric: int | None = None
    """Of links that have no other; None: the router's."""
    willingness: int | None = None
    """To be an MPR (RFC 7181, section 5.4.8); None: the router's."""
    links: Mapping[str, LinkSettings] = field(default_factory=dict)
    """Where an interface differs, by its name."""
    attached: tuple[AttachedNetwork, ...] = ()
    accept: tuple[AcceptedNetwork, ...] = ()
    """Networks of others that are routed to."""

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


@dataclass(frozen=True, slots=True)
class IkeSettings:
    """``[ike]``."""

    daemon: IkeDaemon = IkeDaemon.STRONGSWAN
    vici: str = "/run/meshsec/charon.vici"
    pluto: str = "/run/meshsec/pluto/pluto.ctl"
    esp: EspChoice = EspChoice.AUTO

    @property
    def by_secret(self) -> bool:
        """Whether this node's card says that it authenticates by the pair's secret: libreswan has no Ed25519."""
        return self.daemon is IkeDaemon.LIBRESWAN

    @property
    def ground(self) -> EspGround | None:
        """Where ESP runs, as far as it is settled: libreswan has it in the kernel alone. None: the kernel is asked."""
        if self.daemon is IkeDaemon.LIBRESWAN:
            return EspGround.KERNEL
        return None if self.esp is EspChoice.AUTO else EspGround(self.esp)


@dataclass(frozen=True, slots=True)
class Paths:
    """``[paths]``: absolute directories."""

    peers: str = "/etc/meshsec/peers"
    state: str = "/var/lib/meshsec"
    run: str = "/run/meshsec"

    @property
    def key(self) -> str:
        """The node's private key."""
        return posixpath.join(self.state, "node.key")

    @property
    def control_socket(self) -> str:
        """Where meshsecd answers."""
        return posixpath.join(self.run, "control.sock")

    @property
    def ciphers(self) -> str:
        """How fast this processor does ESP's ciphers."""
        return posixpath.join(self.state, "ciphers.json")

    @property
    def modes(self) -> str:
        """Which data plane the operator chose."""
        return posixpath.join(self.state, "modes.json")

    @property
    def scheduling_journal(self) -> str:
        """What stood before scheduling classes were changed."""
        return posixpath.join(self.run, "scheduling.json")


@dataclass(frozen=True, slots=True)
class Settings:
    """All of ``meshsec.toml``."""

    node: NodeSettings = NodeSettings()
    routing: RoutingSettings = RoutingSettings()
    ike: IkeSettings = IkeSettings()
    paths: Paths = Paths()
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
    table: Mapping[str, object], base: str, profile: Callable[[str], Policy], schedules: Profiles = only_stock
) -> Settings:
    """The settings in a decoded TOML document. Raises SettingsError.

    ``base`` is the directory that relative paths start from. ``profile`` gives the policy profile of a name, or raises
    ValueError with what is allowed; ``schedules`` does the same for scheduling profiles.
    """
    problems: list[Problem] = []
    root = Table((), table, problems)
    node = _node(root.table("node"))
    routing = _routing(root.table("routing"), base)
    paths = _paths(root.table("paths"), base)
    ike = _ike(root.table("ike"), base, paths.run)
    scheduling = scheduling_settings.read(root.table("scheduling"), schedules)
    name, policy = _policy(root.table("policy"), profile)
    radios = radio_settings.read(root.table("radio"))
    overlay = overlay_settings.read(root.table("overlay"), base)
    time = time_settings.read(root.table("time"), base)
    root.refuse_the_rest()
    if policy.data_plane is DataPlane.OVERLAY and not overlay.enabled:
        problems.append(Problem(("policy", "data_plane"), overlay_settings.NOT_ENABLED))
    if problems:
        raise SettingsError(problems)
    return Settings(node, routing, ike, paths, scheduling, policy, name, radios, overlay, time)


def _node(table: Table) -> NodeSettings:
    node = NodeSettings(
        name=table.take("name", _read_name, "", required=True),
        ipv4=table.take("ipv4", _read_ipv4, None),
    )
    table.refuse_the_rest()
    return node


def _routing(table: Table, base: str) -> RoutingSettings:
    default = RoutingSettings()
    routing = RoutingSettings(
        daemon=table.take("daemon", tables.choice(RoutingDaemon), default.daemon),
        socket=table.take("socket", tables.path(base, _SOCKET_PATH_MAX), default.socket),
        telnet=table.take("telnet", _read_endpoint, default.telnet),
        interfaces=table.take("interfaces", _read_interfaces, (), required=True),
        hello=read_timing(table, "hello"),
        tc=read_timing(table, "tc"),
        metric=table.take("metric", link_settings.read_metric, None),
        willingness=table.take("willingness", tables.integer(*WILLINGNESS), None),
        attached=_attached(table),
        accept=read_accepted(table),
    )
    routing = replace(routing, links=link_settings.read_links(table, routing.interfaces, routing.hello))
    if routing.daemon is RoutingDaemon.OLSRD2:
        for where, found in routing.weights():
            table.refuse(found, RefusedError("with daemon = 'olsrv2d' only"), *where)
    table.refuse_the_rest()
    return routing


def _attached(routing: Table) -> tuple[AttachedNetwork, ...]:
    entries: Sequence[Mapping[str, object]] = routing.take("attached", _read_tables, [])
    networks: dict[Network, AttachedNetwork] = {}
    for index, entry in enumerate(entries):
        table = Table((*routing.path, "attached", index), entry, routing.problems)
        prefix = table.take("prefix", _new_prefix(networks), None, required=True)
        distance = table.take("distance", tables.integer(1, 255), 1)
        metric = table.take("metric", link_settings.read_metric, None)
        if prefix is not None:
            networks[prefix] = AttachedNetwork(prefix, distance, metric)
        table.refuse_the_rest()
    return tuple(networks.values())


def _ike(table: Table, base: str, run: str) -> IkeSettings:
    vici, pluto = posixpath.join(run, "charon.vici"), posixpath.join(run, "pluto/pluto.ctl")
    ike = IkeSettings(
        daemon=table.take("daemon", tables.choice(IkeDaemon), IkeDaemon.STRONGSWAN),
        vici=table.take("vici", tables.path(base, _SOCKET_PATH_MAX), vici),
        pluto=table.take("pluto", tables.path(base, _SOCKET_PATH_MAX), pluto),
        esp=table.take("esp", tables.choice(EspChoice), EspChoice.AUTO),
    )
    if ike.daemon is IkeDaemon.LIBRESWAN and ike.esp is EspChoice.LIBIPSEC:
        table.refuse(str(ike.esp), RefusedError("'auto' or 'kernel': libreswan has ESP in the kernel alone"), "esp")
    table.refuse_the_rest()
    return ike


def _paths(table: Table, base: str) -> Paths:
    room = _SOCKET_PATH_MAX - len("/control.sock")
    paths = Paths(
        peers=table.take("peers", tables.path(base, _PATH_MAX), Paths().peers),
        state=table.take("state", tables.path(base, _PATH_MAX), Paths().state),
        run=table.take("run", tables.path(base, room), Paths().run),
    )
    table.refuse_the_rest()
    return paths


def _policy(table: Table, profile: Callable[[str], Policy]) -> tuple[str, Policy]:
    name = table.take("profile", tables.text, "default")
    base = Policy()
    try:
        base = profile(name)
    except ValueError as error:
        table.refuse(name, error, "profile")
    overrides = {key: value for key, value in table.values.items() if key != "profile"}
    try:
        return name, decode_policy(overrides, base)
    except PolicyError as error:
        for problem in error.problems:
            message = str(problem).removeprefix(f"{problem.field}: ")
            table.problems.append(Problem((*table.path, problem.field), message))
        return name, base


def _read_tables(value: object) -> Sequence[Mapping[str, object]]:
    if not isinstance(value, list) or not all(isinstance(entry, Mapping) for entry in value):
        raise RefusedError("a list of tables, such as [{ prefix = '10.1.0.0/16', distance = 1 }]")
    if len(value) > ATTACHED_MAX:
        raise RefusedError(f"at most {ATTACHED_MAX} entries", ATTACHED_MAX)
    return value


def _read_name(value: object) -> str:
    try:
        return checked_name(value if isinstance(value, str) else "")
    except IdentityError:
        raise RefusedError(NAME_RULE) from None


def _read_ipv4(value: object) -> IPv4Address:
    try:
        return checked_ipv4(IPv4Address(tables.text(value)))
    except IdentityError:
        raise RefusedError(IPV4_RULE) from None
    except ValueError:
        raise RefusedError("an IPv4 address such as 10.77.0.1") from None


def _read_interfaces(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= INTERFACES_MAX:
        raise RefusedError(f"a list of 1 to {INTERFACES_MAX} interface names, such as ['mesh0']")
    for index, name in enumerate(value):
        if not tables.is_interface_name(name):
            raise RefusedError(tables.INTERFACE_RULE, index)
        if name in value[:index]:
            raise RefusedError("each interface once", index)
    return tuple(value)


def _read_endpoint(value: object) -> Endpoint:
    host, _, port = tables.text(value).rpartition(":")
    if host not in ("127.0.0.1", "[::1]", "localhost") or not _is_port(port):
        raise RefusedError("a port of this machine, such as '127.0.0.1:2009' or '[::1]:2009'")
    return Endpoint(host.strip("[]"), int(port))


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= 65535


def _new_prefix(taken: Iterable[Network]) -> Callable[[object], Network | None]:
    def read(value: object) -> Network:
        try:
            prefix = ip_network(tables.text(value))
        except ValueError:
            raise RefusedError("ADDRESS/LENGTH with zeros behind LENGTH, such as '10.1.0.0/16' or '::/0'") from None
        if prefix in taken:
            raise RefusedError("each prefix once")
        return prefix

    return read
