"""Follow olsrv2d's change stream (docs/reference/schema/olsrv2d-changes-1.json): JSON lines over a UNIX socket.

First comes ``hello``, then ``snapshot``, then a ``change`` for each change that the kernel has acknowledged. meshsecd
sends the trusted addresses at each connection and after each change, and asks what was counted and which neighbours
were refused lately.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from meshsec.adapters.routing.mapped import LocalNetwork
from meshsec.adapters.routing.olsrv2d_commands import Others
from meshsec.adapters.routing.olsrv2d_networks import LocalNetworks, RawAttached, RawLocal, announcement
from meshsec.adapters.routing.olsrv2d_networks import event as network_event
from meshsec.core.channels.events import (
    AnnouncementsReset,
    RouterDown,
    RouteRemoved,
    RouterEvent,
    RouteSet,
    RoutesReset,
)
from meshsec.core.values.model import Address, Edge, Neighbour, Network, Route
from meshsec.core.values.refusals import Refusal, Source
from meshsec.core.values.topology import Topology
from meshsec.streams import failure_text, peer_pid

T = TypeVar("T")

SCHEMA = 1
MAX_LINE = 32 * 1024 * 1024
"""Limit of a line in bytes: a snapshot with 10,000 nodes and their edges."""

RECONNECT_FIRST = 0.05
RECONNECT_MAX = 1.0
"""Longest interval in seconds between attempts to reach the daemon; it doubles from the first to this."""

HELLO_TIMEOUT = 10.0
"""Deadline in seconds of hello and snapshot."""

ANSWER_TIMEOUT = 5.0
"""Seconds to wait for an answer. An olsrv2d that does not know the question does not answer."""


class StreamError(Exception):
    """The stream violates its schema."""


class _Route(msgspec.Struct):
    destination: str
    next_hop: str | None = None
    interface: str = ""
    metric: int = 0
    hops: int = 0
    originator: str | None = None
    next_originator: str | None = None
    last_originator: str | None = None
    confirmed: bool = False
    installed: bool = True


class _Neighbour(msgspec.Struct):
    originator: str | None
    symmetric: bool
    mpr_of_us: bool = False
    our_mpr: bool = False
    metric_in: int | None = None
    metric_out: int | None = None
    signs: bool = False


class _Node(msgspec.Struct):
    originator: str
    signs: bool = False


class _Edge(msgspec.Struct):
    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    metric: int = 0
    confirmed: bool = False


class _Hello(msgspec.Struct, tag="hello"):
    schema: int
    software: str = "olsrv2d"
    version: str = ""
    originators: list[str] = []


class _Snapshot(msgspec.Struct, tag="snapshot"):
    routes: list[_Route]
    neighbours: list[_Neighbour] = []
    nodes: list[_Node] = []
    edges: list[_Edge] = []
    attached: list[RawAttached] = []
    local_attached: list[RawLocal] = []


class _Change(msgspec.Struct, tag="change"):
    object: str
    op: Literal["set", "del"]
    time_us: int | None = None


class _Notice(msgspec.Struct, tag="event"):
    name: str


class _Source(msgspec.Struct):
    interface: str
    address: str
    count: int
    originator: str = ""


class _Refusal(msgspec.Struct):
    counter: str
    count: int
    sources: list[_Source] = []
    further_sources: int = 0
    claims: list[_Source] = []


class _Refusals(msgspec.Struct, tag="refusals"):
    refusals: list[_Refusal]


class _Counters(msgspec.Struct, tag="counters"):
    counters: dict[str, int]


class _Refused(msgspec.Struct, tag="refused"):
    reason: str


_line = msgspec.json.Decoder(_Hello | _Snapshot | _Change | _Notice | _Refusals | _Counters | _Refused)
_encoder = msgspec.json.Encoder()
_route = msgspec.json.Decoder(_Route)
_neighbour = msgspec.json.Decoder(_Neighbour)
_node = msgspec.json.Decoder(_Node)
_edge = msgspec.json.Decoder(_Edge)

_MAX_WARNINGS = 8


class Olsrv2d:
    """A client of the change stream; ``topology`` is what olsrv2d reported beside the routes."""

    def __init__(self, path: Path) -> None:
        """Prepare the client of olsrv2d's management socket ``path``."""
        self._path = path
        self._writer: asyncio.StreamWriter | None = None
        self._asked: deque[asyncio.Future[tuple[Refusal, ...]]] = deque()
        self._asked_counters: deque[asyncio.Future[Mapping[str, int]]] = deque()
        self.others = Others(self._say)
        self.local = LocalNetworks()
        self._clear()

    def _clear(self) -> None:
        self._pid = 0
        self._software = ""
        self._originators: tuple[Address, ...] = ()
        self._neighbours: dict[str, Neighbour] = {}
        self._nodes: dict[str, Address] = {}
        self._signing: set[Address] = set()
        self._edges: dict[tuple[str, str], Edge] = {}
        self._warnings: dict[str, None] = {}

    @property
    def pid(self) -> int:
        """PID of olsrv2d; 0 while it is not connected, or if the PID cannot be seen from here."""
        return self._pid

    @property
    def topology(self) -> Topology:
        """Return the current topology."""
        return Topology(
            software=self._software,
            originators=self._originators,
            neighbours=tuple(self._neighbours.values()),
            nodes=tuple(self._nodes.values()),
            signing=frozenset(self._signing),
            edges=tuple(self._edges.values()),
            warnings=tuple(self._warnings),
        )

    def announce(self, networks: Iterable[LocalNetwork]) -> None:
        """Set the networks that olsrv2d announces beside those of its file. They are sent again where they lack."""
        self.local.want(networks)
        self._say(self.local.commands())

    def _say(self, commands: Iterable[Mapping[str, Any]]) -> None:
        """Send commands, if there is a connection."""
        if self._writer:
            # Not writelines: with nothing to write, that of Python 3.13 ends with an AssertionError.
            self._writer.write(b"".join(_encoder.encode(command) + b"\n" for command in commands))

    async def refusals(self) -> tuple[Refusal, ...]:
        """Return what olsrv2d refused lately; empty if it does not answer."""
        return await _ask(self._writer, "refusals", self._asked, ())

    async def counters(self) -> Mapping[str, int]:
        """Return what olsrv2d has counted since its start, by name; empty if it does not answer."""
        return await _ask(self._writer, "counters", self._asked_counters, {})

    async def run(self, on_event: Callable[[RouterEvent], None]) -> None:
        """Stay connected until cancelled. Each connection begins with ``RoutesReset`` and ends with ``RouterDown``."""
        pause = RECONNECT_FIRST
        while True:
            try:
                reader, writer = await asyncio.open_unix_connection(self._path, limit=MAX_LINE)
                try:
                    async with asyncio.timeout(HELLO_TIMEOUT):
                        await self._open(reader, peer_pid(writer), on_event)
                    pause = RECONNECT_FIRST
                    self._writer = writer
                    self._say(self.others.commands())
                    self._say(self.local.commands())
                    await self._follow(reader, on_event)
                finally:
                    self._writer = None
                    _answer(self._asked, ())
                    _answer(self._asked_counters, {})
                    writer.close()
            except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError, ValueError, StreamError) as error:
                self._clear()
                on_event(RouterDown(f"olsrv2d at {self._path}: {failure_text(error, 'no snapshot in time', MAX_LINE)}"))
            await asyncio.sleep(pause)
            pause = min(pause * 2, RECONNECT_MAX)

    async def _open(self, reader: asyncio.StreamReader, pid: int, on_event: Callable[[RouterEvent], None]) -> None:
        hello = _line.decode(await reader.readuntil(b"\n"))
        if not isinstance(hello, _Hello):
            raise StreamError("its first line is no hello")
        if hello.schema != SCHEMA:
            raise StreamError(f"it speaks schema {hello.schema}; {SCHEMA} is needed")
        snapshot = _line.decode(await reader.readuntil(b"\n"))
        if not isinstance(snapshot, _Snapshot):
            raise StreamError("its second line is no snapshot")
        self._clear()
        self._pid = pid
        self._software = f"{hello.software} {hello.version}".strip()
        self._originators = tuple(map(ip_address, hello.originators))
        self._take_snapshot(snapshot)
        routes = (_to_route(route, None) for route in snapshot.routes if route.installed)
        on_event(RoutesReset({route.destination: route for route in routes}))
        on_event(AnnouncementsReset(tuple(map(announcement, snapshot.attached))))

    def _take_snapshot(self, snapshot: _Snapshot) -> None:
        for neighbour in snapshot.neighbours:
            self._put_neighbour(neighbour)
        for node in snapshot.nodes:
            self._put_node(node)
        self._edges = {(edge.source, edge.target): _to_edge(edge) for edge in snapshot.edges}
        self.local.reset(snapshot.local_attached)

    async def _follow(self, reader: asyncio.StreamReader, on_event: Callable[[RouterEvent], None]) -> None:
        while True:
            text = await reader.readuntil(b"\n")
            line = _line.decode(text)
            if isinstance(line, _Change):
                event = self._change(line, text)
                if event:
                    on_event(event)
            elif isinstance(line, _Notice):
                self._warn(line.name)
            elif isinstance(line, _Refusals):
                _answer(self._asked, tuple(map(_to_refusal, line.refusals)))
            elif isinstance(line, _Counters):
                _answer(self._asked_counters, line.counters)
            elif isinstance(line, _Refused):
                self._warn(f"it refuses what meshsecd says: {line.reason}")
            else:
                raise StreamError("a second hello or snapshot")

    def _change(self, change: _Change, text: bytes) -> RouterEvent | None:
        if change.object == "route":
            return _route_event(_route.decode(text), change)
        if change.object == "attached":
            return network_event(text, change.op == "set")
        take = {
            "neighbour": self._on_neighbour,
            "node": self._on_node,
            "edge": self._on_edge,
            "local_attached": self.local.change,
        }.get(change.object)
        if take:
            take(text, change.op == "set")
        return None

    def _on_neighbour(self, text: bytes, is_set: bool) -> None:
        neighbour = _neighbour.decode(text)
        if is_set:
            self._put_neighbour(neighbour)
        elif neighbour.originator:
            self._neighbours.pop(neighbour.originator, None)

    def _put_neighbour(self, neighbour: _Neighbour) -> None:
        if neighbour.originator:
            if neighbour.signs:
                self.others.signs(ip_address(neighbour.originator))
            self._neighbours[neighbour.originator] = Neighbour(
                originator=ip_address(neighbour.originator),
                symmetric=neighbour.symmetric,
                metric_in=neighbour.metric_in,
                metric_out=neighbour.metric_out,
                is_mpr=neighbour.our_mpr,
                selected_us=neighbour.mpr_of_us,
                signs=neighbour.signs,
            )

    def _on_node(self, text: bytes, is_set: bool) -> None:
        node = _node.decode(text)
        if is_set:
            self._put_node(node)
        elif (gone := self._nodes.pop(node.originator, None)) is not None:
            self._signing.discard(gone)

    def _put_node(self, node: _Node) -> None:
        originator = self._nodes[node.originator] = ip_address(node.originator)
        if node.signs:
            self._signing.add(originator)
            self.others.signs(originator)
        else:
            self._signing.discard(originator)

    def _on_edge(self, text: bytes, is_set: bool) -> None:
        edge = _edge.decode(text)
        if is_set:
            self._edges[edge.source, edge.target] = _to_edge(edge)
        else:
            self._edges.pop((edge.source, edge.target), None)

    def _warn(self, name: str) -> None:
        self._warnings.pop(name, None)
        self._warnings[name] = None
        while len(self._warnings) > _MAX_WARNINGS:
            del self._warnings[next(iter(self._warnings))]


async def _ask(writer: asyncio.StreamWriter | None, command: str, asked: deque[asyncio.Future[T]], nothing: T) -> T:
    """Ask, and return the answer; ``nothing`` without a connection, or when no answer comes."""
    if writer is None:
        return nothing
    answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    asked.append(answer)
    writer.write(b'{"command":"%s"}\n' % command.encode())
    done, _ = await asyncio.wait([answer], timeout=ANSWER_TIMEOUT)
    return answer.result() if done else nothing


def _answer(asked: deque[asyncio.Future[T]], answer: T) -> None:
    """Answer all who asked. Answers to later questions are the same and ignored."""
    while asked:
        asked.popleft().set_result(answer)


def _to_refusal(raw: _Refusal) -> Refusal:
    lists = (raw.sources, raw.claims)
    sources, claims = (tuple(Source(*msgspec.structs.astuple(one)) for one in some) for some in lists)
    return Refusal(raw.counter, raw.count, sources, raw.further_sources, claims)


def _route_event(route: _Route, change: _Change) -> RouterEvent:
    """Translate a change of a route. A route that is not in the kernel does not count."""
    if change.op == "del" or not route.installed:
        return RouteRemoved(ip_network(route.destination))
    return RouteSet(_to_route(route, change.time_us))


def _to_route(route: _Route, time_us: int | None) -> Route:
    destination: Network = ip_network(route.destination)
    return Route(
        destination=destination,
        next_hop=ip_address(route.next_hop) if route.next_hop else destination.network_address,
        interface=route.interface,
        hops=route.hops,
        metric=route.metric,
        last_hop=_address(route.last_originator),
        originator=_address(route.originator),
        first_hop=_address(route.next_originator),
        decided_at=time_us / 1e6 if time_us is not None else None,
        confirmed=route.confirmed,
    )


def _to_edge(edge: _Edge) -> Edge:
    return Edge(ip_address(edge.source), ip_address(edge.target), edge.metric, edge.confirmed)


def _address(text: str | None) -> Address | None:
    return ip_address(text) if text else None
