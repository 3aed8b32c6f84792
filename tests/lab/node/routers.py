"""Routers in network namespaces without the rest of the product: olsrv2d or olsrd2.

Their addresses are on ``lo``, and veth pairs join them.
"""

import json
import socket
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import jsonschema

from tests.lab.basics import programs
from tests.lab.basics.places import REPOSITORY
from tests.lab.basics.processes import Daemon
from tests.lab.basics.shell import run
from tests.lab.basics.waiting import wait_until
from tests.lab.net import namespaces
from tests.lab.net.instance import Instance
from tests.lab.net.links import Cables, End, Link, Medium
from tests.lab.net.topology import Pair
from tests.lab.observe.kernel_events import PacketEvents, RouteEvents

T = TypeVar("T")
SCHEMA = REPOSITORY / "docs" / "reference" / "schema" / "olsrv2d-changes-1.json"
TELNET = ("127.0.0.1", 2009)
_KEYS: Mapping[str, Sequence[str]] = {
    "neighbour": ("originator", "addresses"),
    "link": ("interface", "address"),
    "node": ("originator",),
    "edge": ("from", "to"),
    "attached": ("prefix", "originator"),
    "route": ("destination",),
}


@cache
def schema() -> jsonschema.Draft202012Validator:
    """Return the schema of the change stream's lines."""
    return jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


class ChangeStream:
    """A reader of the change stream: it checks each line against the schema and keeps the resulting tables."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(60)
        self._socket.connect(str(path))
        self._rest = b""
        self.hello: dict[str, Any] = {}
        self.snapshot: dict[str, Any] = {}
        self.lines: list[dict[str, Any]] = []
        self.tables: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in _KEYS}
        self.ended = False
        while not self.snapshot and self.drain():
            pass

    def fileno(self) -> int:
        """Return the socket's descriptor, for select."""
        return self._socket.fileno()

    def drain(self) -> bool:
        """Read what is available; return False at the end of the stream."""
        data = self._socket.recv(1 << 16)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take(json.loads(line))
        self.ended = not data
        return bool(data)

    def close(self) -> None:
        """End the subscription; what was received stays."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def routes(self) -> dict[str, dict[str, Any]]:
        """Return the routes that the kernel has, by destination."""
        return {key: route for key, route in self.tables["route"].items() if route["installed"]}

    def _take(self, line: dict[str, Any]) -> None:
        schema().validate(line)
        self.lines.append(line)
        if line["type"] == "hello":
            self.hello = line
        elif line["type"] == "snapshot":
            self.snapshot = line
            for name, table in self.tables.items():
                entries = line[f"{name}s" if name != "attached" else name]
                table.update({_key(name, entry): entry for entry in entries})
        elif line["type"] == "change" and line["op"] == "set":
            self.tables[line["object"]][_key(line["object"], line)] = line
        elif line["type"] == "change":
            self.tables[line["object"]].pop(_key(line["object"], line), None)


class Router:
    """A node with olsrv2d."""

    make = "olsrv2d"

    def __init__(self, name: str, number: int, namespace: str, directory: Path) -> None:
        self.name = name
        self.number = number
        self.namespace = namespace
        self.directory = directory
        self.ipv4, self.ipv6 = f"10.77.0.{number}", f"fd77::{number:x}"
        self.interfaces: list[str] = []
        self.config = directory / f"{self.make}.conf"
        self.socket = directory / "changes.sock"
        self.query = directory / "query.sock"
        self.daemon = self._daemon()

    @property
    def destinations(self) -> set[str]:
        """Return its addresses as other nodes route to them."""
        return {f"{self.ipv4}/32", f"{self.ipv6}/128"}

    def configure(self, settings: str = "", interfaces: Iterable[str] | None = None, each: str = "") -> None:
        """Write the configuration: ``settings`` precede the interfaces, ``each`` is in every interface's section."""
        names = self.interfaces if interfaces is None else interfaces
        self.config.write_text(self._configuration(settings, names, each), encoding="utf-8")

    def start(self) -> None:
        """Start it, and wait until it reports that it is ready (olsrd2 does not report it)."""
        self.daemon.start()
        self.daemon.wait_ready()

    def ip(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run ``ip`` in the node's namespace."""
        return run(["ip", "-n", self.namespace, *arguments], check=check)

    def run(self, *argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a program in the node's namespace."""
        return run(["ip", "netns", "exec", self.namespace, *argv], check=check)

    def kernel_routes(self, *selector: str) -> list[dict[str, Any]]:
        """Return unicast routes of both families: those of the selector, by default those of the router's protocol."""
        found: list[dict[str, Any]] = []
        for family in ("-4", "-6"):
            # A table that was never used does not exist: this family has no routes.
            shown = self.ip("-j", family, "route", "show", *(selector or ("proto", "100")), check=False)
            found += json.loads(shown.stdout or "[]") if shown.returncode == 0 else []
        return found

    def next_hops(self) -> dict[str, str]:
        """Return the next hop of each of the router's routes in the kernel, by destination with its prefix length."""
        gateways = ((route["dst"], route.get("gateway", "")) for route in self.kernel_routes())
        return {_with_length(destination, gateway): gateway for destination, gateway in gateways}

    def kernel_destinations(self) -> set[str]:
        """Return the destinations of the router's routes in the kernel, each with its prefix length."""
        return set(self.next_hops())

    def stream(self) -> ChangeStream:
        """Subscribe to the change stream."""
        return ChangeStream(self.socket)

    def told(self) -> ChangeStream:
        """Return the state at the beginning of a new subscription."""
        with self.stream() as stream:
            return stream

    def counter(self, name: str) -> int:
        """Return one of the daemon's counters."""
        return int(self.told().snapshot["counters"][name])

    def ask(self, line: str) -> str:
        """Return the text interface's answer to one line."""
        with self.connect() as connection:
            connection.sendall(f"{line}\n".encode())
            return b"".join(iter(lambda: connection.recv(1 << 16), b"")).decode()

    def connect(self) -> socket.socket:
        """Connect to the text interface."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(60)
        connection.connect(str(self.query))
        return connection

    def connect_port(self) -> socket.socket:
        """Connect to the text interface's TCP port, as any account of the node can."""
        return namespaces.within(self.namespace, lambda: socket.create_connection(TELNET, 60))

    def reaches(self, other: "Router") -> bool:
        """Return whether packets get through and back in both families. It is False at once if a relay has no route."""
        return all(
            self.run("ping", "-c", "1", "-w", "30", address, check=False).returncode == 0
            for address in (other.ipv4, other.ipv6)
        )

    def wait_for(self, what: str, condition: Callable[[], T | None], seconds: float) -> T:
        """Wait for a condition; check it when the kernel's routes change or the daemon reports a change."""
        who = f"{self.name} ({self.make})"
        with closing(RouteEvents(self.namespace)) as routes, closing(self._word()) as word:
            return wait_until(f"{who}: {what}", condition, [routes, word], seconds, last=self.kernel_routes)

    def wait_routes(self, destinations: set[str], seconds: float) -> None:
        """Wait until the router's destinations in the kernel are exactly these."""
        self.wait_for(f"routes to {sorted(destinations)}", lambda: self.kernel_destinations() == destinations, seconds)

    def wait_reachable(self, destinations: set[str], seconds: float) -> None:
        """Wait until the router's destinations in the kernel include these."""
        self.wait_for(
            f"routes to {sorted(destinations)} at least", lambda: destinations <= self.kernel_destinations(), seconds
        )

    def _word(self) -> ChangeStream | PacketEvents:
        """Return a source that is readable when the daemon may have something new to report."""
        return self.stream()

    def _configuration(self, settings: str, interfaces: Iterable[str], each: str) -> str:
        tables = "".join(f'[[interface]]\nname = "{name}"\n{each}\n' for name in interfaces)
        return f'management.socket = "{self.socket}"\n{settings}\n{tables}'

    def _daemon(self) -> Daemon:
        argv = [programs.olsrv2d(), "--config", str(self.config), "--log-level", "debug"]
        return Daemon(f"olsrv2d-{self.name}", self.namespace, argv, logs=self.directory, sockets=self.directory)


class Mesh:
    """Routers and their links. Leaving the block ends everything."""

    def __init__(
        self,
        pairs: Sequence[Pair],
        settings: Mapping[str, str] | None = None,
        makes: Mapping[str, type[Router]] | None = None,
        medium: Medium | None = None,
    ) -> None:
        """``settings`` and ``makes`` are by node; the default make is olsrv2d. The default medium is veth pairs."""
        self._pairs = pairs
        self._medium = medium or Cables()
        self._settings = settings or {}
        self._makes = makes or {}
        self.routers: dict[str, Router] = {}
        self.links: dict[frozenset[str], Link] = {}

    def __enter__(self) -> Self:
        self._instance = Instance()
        try:
            for name in dict.fromkeys(name for pair in self._pairs for name in pair):
                self._add_router(name)
            for first, second in self._pairs:
                self._add_link(first, second)
            for router in self.routers.values():
                router.configure(self._settings.get(router.name, ""))
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            for router in self.routers.values():
                if router.daemon.log.exists():
                    print(f"--- {router.name}\n{router.daemon.tail(40)}")
        self._end()

    def __getitem__(self, name: str) -> Router:
        return self.routers[name]

    def start(self) -> None:
        """Start all routers."""
        for router in self.routers.values():
            router.daemon.start()
        for router in self.routers.values():
            router.daemon.wait_ready()

    def end(self, node: str, other: str) -> End:
        """Return a node's end of its link with another."""
        link = self.links[frozenset((node, other))]
        return next(end for end in link.ends if end.namespace == self[node].namespace)

    def others(self, name: str) -> set[str]:
        """Return the destinations that a node has when it has routes to all others."""
        return set().union(*(router.destinations for router in self.routers.values() if router.name != name))

    def wait_converged(self, seconds: float) -> None:
        """Wait until every router has routes to all others."""
        for router in self.routers.values():
            router.wait_reachable(self.others(router.name), seconds)

    def _add_router(self, name: str) -> None:
        namespace = self._instance.namespace(name)
        namespaces.create(namespace)
        directory = self._instance.run / name
        directory.mkdir()
        router = self._makes.get(name, Router)(name, len(self.routers) + 1, namespace, directory)
        router.ip("address", "add", f"{router.ipv4}/32", "dev", "lo")
        router.ip("address", "add", f"{router.ipv6}/128", "dev", "lo")
        self.routers[name] = router
        self._medium.equip(router)

    def _add_link(self, first: str, second: str) -> None:
        self.links[frozenset((first, second))] = self._medium.join(self[first], self[second])

    def _end(self) -> None:
        for router in self.routers.values():
            router.daemon.kill()
        self._medium.end()
        self._instance.end()


@contextmanager
def running(pairs: Sequence[Pair], settings: Mapping[str, str] | None = None) -> Iterator[Mesh]:
    """Start all routers of a mesh."""
    with Mesh(pairs, settings) as mesh:
        mesh.start()
        yield mesh


def accepting(networks: Iterable[tuple[str, "Router"]]) -> str:
    """Return the line of olsrv2d's configuration that accepts these networks from these routers."""
    entries = (
        f'{{ prefix = "{prefix}", from = ["{router.ipv6 if ":" in prefix else router.ipv4}"] }}'
        for prefix, router in networks
    )
    return f"accept.network = [{', '.join(entries)}]\n"


def _key(name: str, entry: Mapping[str, Any]) -> str:
    return json.dumps([entry[field] for field in _KEYS[name]]) if len(_KEYS[name]) > 1 else str(entry[_KEYS[name][0]])


def _with_length(destination: str, gateway: str) -> str:
    """Add the prefix length, which iproute2 omits for single addresses and both families' default route."""
    if destination == "default":
        return "::/0" if ":" in gateway else "0.0.0.0/0"
    return destination if "/" in destination else f"{destination}/{128 if ':' in destination else 32}"
