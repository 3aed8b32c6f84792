"""``[routing]`` of ``meshsec.toml``: the router, its interfaces and the networks behind it.

See docs/reference/meshsec.toml.md.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct

from meshsec.core.config.accepted_networks import ACCEPTED_MAX, AcceptedNetwork, overlaps
from meshsec.core.config.kinds import InterfaceName, Interval, Metric, Prefix, SocketPath, Validity
from meshsec.core.config.link_settings import LinkSettings, LinkTable, Timing, too_short
from meshsec.core.values.definition import Once, Rule, Wrong

ATTACHED_MAX = 256
"""The most that olsrv2d takes."""


class RoutingDaemon(StrEnum):
    """Which OLSRv2 router runs beside us."""

    OLSRV2D = "olsrv2d"
    OLSRD2 = "olsrd2"


class Signatures(StrEnum):
    """How the router treats messages without a valid signature of their originator (ADR 0092)."""

    OFF = "off"
    PREFER = "prefer"
    REQUIRE = "require"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A TCP port on this machine."""

    host: str = "127.0.0.1"
    port: int = 2009


def _endpoint(value: object) -> Endpoint:
    host, _, port = str(value).rpartition(":")
    if not isinstance(value, str) or host not in ("127.0.0.1", "[::1]", "localhost") or not _is_port(port):
        raise ValueError
    return Endpoint(host.strip("[]"), int(port))


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= 65535


class AttachedNetwork(Struct, frozen=True):
    """A network that this node announces (RFC 7181, section 7.2)."""

    prefix: Annotated[Prefix, Meta(description="the network")]
    distance: Annotated[int, Meta(ge=1, le=255, description="hops that it is away from this node")] = 1
    metric: Annotated[
        Metric | None, Meta(description="what it weighs besides", extra={"default": "the router's, 1"})
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
    signatures: Annotated[
        Signatures | None,
        Meta(
            description="whether routing messages are signed by the key of the node that sends them, and believed: "
            "`prefer` takes links that both ends have signed first, `require` no others. With either, olsrv2-signer "
            "signs what this node sends. olsrd2 neither signs nor verifies",
            extra={"default": 'olsrv2d: `"prefer"`; olsrd2: `"off"`'},
        ),
    ] = None
    signer: Annotated[
        SocketPath, Meta(description="olsrv2-signer's socket, where `signatures` is not `off`: at most 107 octets")
    ] = "/run/olsrv2-signer/sign.sock"
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
            "a gateway announces `0.0.0.0/0` and `::/0`. Peers then reach the network through this node, protected; "
            "a default route does not open private networks beside it",
            extra={"allowed": "a list of tables, such as [{ prefix = '10.1.0.0/16', distance = 1 }]"},
        ),
    ] = ()
    accept: Annotated[
        tuple[AcceptedNetwork, ...],
        Once("each prefix once, with all of its routers in 'from'", "prefix"),
        Meta(
            max_length=ACCEPTED_MAX,
            description='networks of other nodes that this node uses, at most 256, each `{ prefix = "::/0", from = '
            '["ridge"] }`: exactly this prefix, and the peers that may speak for it, by name or address. Its user data '
            "is protected, unless `open_networks` of the policy names it ([a way out](../guide/guide.md#8-a-way-out)). "
            'With `by = "selectors"` a peer without meshsec, strongSwan or libreswan set up by hand, speaks for a '
            "network that never moves ([such a peer](../guide/selectors.md)); the default is `tunnel`. "
            "An open network takes olsrv2d",
            extra={"allowed": "a list of tables, such as [{ prefix = '0.0.0.0/0', from = ['ridge'] }]"},
        ),
    ] = ()
    interface: Annotated[
        dict[str, LinkTable],
        Meta(description="a table `[routing.interface.NAME]` for each of the interfaces that differs"),
    ] = {}  # msgspec copies it

    @property
    def signing(self) -> Signatures:
        """Whether routing messages are signed and believed, chosen or by default."""
        return self.signatures or (Signatures.PREFER if self.daemon is RoutingDaemon.OLSRV2D else Signatures.OFF)

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
        own = [one.prefix for one in self.attached or () if getattr(one.prefix, "prefixlen", 0)]
        yield from ((("accept", index, "prefix"), rule) for index, rule in overlaps(self.accept or (), own))
        if self.daemon is RoutingDaemon.OLSRD2:
            yield from ((where, "with daemon = 'olsrv2d' only") for where in self.weights())
            if self.signing is not Signatures.OFF:
                yield ("signatures",), "off with daemon = 'olsrd2', which neither signs nor verifies"

    @property
    def unweighed(self) -> tuple[str, ...]:
        """Interfaces that are left to olsrv2d's own metric: as measured on radio, and very much elsewhere."""
        if self.daemon is not RoutingDaemon.OLSRV2D or self.metric is not None:
            return ()
        return tuple(name for name in self.interfaces if self.links.get(name, LinkSettings()).metric is None)

    def weights(self) -> Iterator[tuple[str | int, ...]]:
        """Yield the paths below ``[routing]`` of the settings that only olsrv2d has."""
        entries: list[tuple[tuple[str | int, ...], object]] = [
            (("metric",), self.metric),
            (("willingness",), self.willingness),
            *((("interface", name, "metric"), one.metric) for name, one in self.links.items()),
        ]
        yield from (where for where, found in entries if found is not None)
