"""Routers in network namespaces without the rest of the product: olsrv2d or olsrd2.

Their addresses are on ``lo``, and veth pairs join them.
"""

import socket
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from tests.lab.basics import programs
from tests.lab.basics.processes import Daemon
from tests.lab.basics.shell import run
from tests.lab.basics.waiting import wait_until
from tests.lab.net import namespaces
from tests.lab.net.instance import Instance
from tests.lab.net.links import Cables, End, Link, Medium
from tests.lab.net.topology import Pair
from tests.lab.observe.change_stream import ChangeStream
from tests.lab.observe.kernel import Kernel
from tests.lab.observe.kernel_events import PacketEvents, RouteEvents

T = TypeVar("T")
TELNET = ("127.0.0.1", 2009)


class TextInterface:
    """A router's text interface, which both makes have on a TCP port. ``path`` is olsrv2d's socket for it."""

    def __init__(self, namespace: str, path: Path | None) -> None:
        self._namespace = namespace
        self._path = path

    def ask(self, *lines: str) -> str:
        """Return the answers to one line that begins with a slash, or to the lines of a session that ends itself."""
        with self.connect() as connection:
            connection.sendall("".join(f"{line}\n" for line in lines).encode())
            return b"".join(iter(lambda: connection.recv(1 << 16), b"")).decode()

    def connect(self) -> socket.socket:
        """Connect to the socket, or to the port of a router that has none."""
        if self._path is None:
            return self.connect_port()
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(60)
        connection.connect(str(self._path))
        return connection

    def connect_port(self) -> socket.socket:
        """Connect to the TCP port, as any account of the node can."""
        return namespaces.within(self._namespace, lambda: socket.create_connection(TELNET, 60))


class Router:
    """A node with olsrv2d."""

    make = "olsrv2d"
    has_query_socket = True
    """Whether its text interface has a socket besides the TCP port."""

    def __init__(self, name: str, number: int, namespace: str, directory: Path) -> None:
        self.name = name
        self.number = number
        self.namespace = namespace
        self.directory = directory
        self.ipv4, self.ipv6 = f"10.77.0.{number}", f"fd77::{number:x}"
        self.interfaces: list[str] = []
        self.config = directory / f"{self.make}.conf"
        self.socket = directory / "changes.sock"
        self.text = TextInterface(namespace, directory / "query.sock" if self.has_query_socket else None)
        self.kernel = Kernel(namespace)
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

    def end(self) -> None:
        """End what runs on the node."""
        self.daemon.kill()

    def ip(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run ``ip`` in the node's namespace."""
        return run(["ip", "-n", self.namespace, *arguments], check=check)

    def run(self, *argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a program in the node's namespace."""
        return run(["ip", "netns", "exec", self.namespace, *argv], check=check)

    def stream(self) -> ChangeStream:
        """Subscribe to the change stream."""
        return ChangeStream(self.socket)

    def tables(self) -> ChangeStream:
        """Return the state at the beginning of a new subscription."""
        with self.stream() as stream:
            return stream

    def counter(self, name: str) -> int:
        """Return one of the daemon's counters."""
        return int(self.tables().snapshot["counters"][name])

    def reaches(self, other: "Router") -> bool:
        """Return whether packets get through and back in both families. It is False at once if a relay has no route."""
        return all(
            self.run("ping", "-c", "1", "-w", "30", address, check=False).returncode == 0
            for address in (other.ipv4, other.ipv6)
        )

    def wait_for(self, what: str, condition: Callable[[], T | None], seconds: float) -> T:
        """Wait for a condition; check it when the kernel's routes change or the daemon reports a change."""
        who = f"{self.name} ({self.make})"
        with closing(RouteEvents(self.namespace)) as routes, closing(self._changes()) as changes:
            return wait_until(f"{who}: {what}", condition, [routes, changes], seconds, last=self.kernel.routes)

    def wait_routes(self, destinations: set[str], seconds: float) -> None:
        """Wait until the router's destinations in the kernel are exactly these."""
        self.wait_for(f"routes to {sorted(destinations)}", lambda: self.kernel.destinations() == destinations, seconds)

    def wait_reachable(self, destinations: set[str], seconds: float) -> None:
        """Wait until the router's destinations in the kernel include these."""
        self.wait_for(
            f"routes to {sorted(destinations)} at least", lambda: destinations <= self.kernel.destinations(), seconds
        )

    def _changes(self) -> ChangeStream | PacketEvents:
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

    def outsider(self, name: str) -> str:
        """Make a namespace that is no node of the mesh and is deleted with it. Return its name."""
        namespace = self._instance.namespace(name)
        namespaces.create(namespace)
        return namespace

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
            router.end()
        self._medium.end()
        self._instance.end()


@contextmanager
def running(pairs: Sequence[Pair]) -> Iterator[Mesh]:
    """Start all routers of a mesh."""
    with Mesh(pairs) as mesh:
        mesh.start()
        yield mesh


def accepting(networks: Iterable[tuple[str, "Router"]]) -> str:
    """Return the line of olsrv2d's configuration that accepts these networks from these routers."""
    entries = (
        f'{{ prefix = "{prefix}", from = ["{router.ipv6 if ":" in prefix else router.ipv4}"] }}'
        for prefix, router in networks
    )
    return f"accept.network = [{', '.join(entries)}]\n"
