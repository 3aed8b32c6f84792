"""Sites of a small mesh, each with a router of either make and a network of its own behind it."""

import itertools
import json
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tests.lab import namespaces, programs
from tests.lab.instance import Instance
from tests.lab.links import End, Link
from tests.lab.observers import RouteEvents
from tests.lab.processes import Daemon
from tests.lab.routers import TELNET, ChangeStream
from tests.lab.shell import run
from tests.lab.waiting import wait_until

T = TypeVar("T")

OLSRV2D, OLSRD2 = "olsrv2d", "olsrd2"
DEFAULTS = ("0.0.0.0/0", "::/0")
HELLO_VALIDITY = 3.0
"""Seconds after which a silent neighbour is lost; the intervals are 0.5 s for HELLOs and 1 s for TCs."""

_ETH_P_ALL = 0x0003  # linux/if_ether.h


class PacketEvents:
    """Readable when a packet passes any interface of a namespace."""

    def __init__(self, namespace: str) -> None:
        self._socket = namespaces.within(namespace, self._open)

    @staticmethod
    def _open() -> socket.socket:
        return socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETH_P_ALL))

    def fileno(self) -> int:
        """For select."""
        return self._socket.fileno()

    def drain(self) -> bool:
        """Take one packet."""
        self._socket.recv(1)
        return True

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()


@dataclass
class Site:
    """A router, its originators (one of each family) and the networks attached to it."""

    name: str
    number: int
    make: str
    namespace: str
    directory: Path
    run_directory: Path
    is_gateway: bool

    def __post_init__(self) -> None:
        self.interfaces: list[str] = []
        self.router = Daemon(self.make, self.namespace, self._argv(), logs=self.directory, sockets=self.run_directory)
        self.originators = (f"10.77.0.{self.number}", f"fd77::{self.number}")
        self.hosts = (f"192.168.{self.number}.1", f"fd00:{self.number}::1")
        """Addresses in the attached networks."""
        self.networks = (f"192.168.{self.number}.0/24", f"fd00:{self.number}::/64")
        self.attached = (*self.networks, *(DEFAULTS if self.is_gateway else ()))

    def create(self) -> None:
        """Make the namespace with its addresses."""
        self.directory.mkdir(parents=True)
        self.run_directory.mkdir(parents=True)
        namespaces.create(self.namespace)
        self._ip("link", "add", "lan", "type", "veth", "peer", "name", "lan-far")
        for interface in ("lan", "lan-far"):
            self._ip("link", "set", interface, "up")
        for address, length in zip(self.originators, (32, 128), strict=True):
            self._ip("address", "add", f"{address}/{length}", "dev", "lo")
        for address, length in zip(self.hosts, (24, 64), strict=True):
            self._ip("address", "add", f"{address}/{length}", "dev", "lan")

    def connect(self, interface: str, ipv4: str) -> None:
        """Take part in the mesh on an interface."""
        self.interfaces.append(interface)
        self._ip("address", "add", ipv4, "dev", interface)

    def start(self) -> None:
        """Write the router's configuration and start it."""
        self._config.write_text(self._olsrd2() if self.make == OLSRD2 else self._olsrv2d(), encoding="ascii")
        self.router.start()

    def routes(self) -> dict[str, str]:
        """Destination to next hop of the router's routes in the kernel; a single address without its length."""
        found: dict[str, str] = {}
        for family, default in zip(("-4", "-6"), DEFAULTS, strict=True):
            shown = json.loads(self._ip("-j", family, "route", "show", "proto", "100") or "[]")
            found |= {route["dst"].replace("default", default): route.get("gateway", "") for route in shown}
        return found

    def ask(self, command: str) -> list[dict[str, Any]]:
        """The rows that the text interface answers a ``... json SUBJECT`` command with; [] when nobody answers."""
        try:
            answer = json.loads(namespaces.within(self.namespace, lambda: _one_shot(command)))
        except ConnectionError:
            return []
        (rows,) = answer.values()
        return list(rows)

    def counters(self) -> dict[str, int]:
        """What an olsrv2d has counted since its start."""
        with ChangeStream(self.run_directory / "changes.sock") as stream:
            counters: dict[str, int] = stream.snapshot["counters"]
        return counters

    def ping(self, address: str, source: str) -> None:
        """One echo from ``source``; raises CommandError when no answer comes."""
        run(["ip", "netns", "exec", self.namespace, "ping", "-n", "-c", "1", "-W", "2", "-I", source, address])

    def wait_for(self, what: str, condition: Callable[[], T | None], seconds: float) -> T:
        """Await a condition, looked at again whenever a packet passes or a route changes."""
        with ExitStack() as stack:
            packets, routes = PacketEvents(self.namespace), RouteEvents(self.namespace)
            stack.callback(packets.close)
            stack.callback(routes.close)
            who = f"{self.name} ({self.make})"
            return wait_until(f"{who}: {what}", condition, [packets, routes], seconds, last=self.routes)

    @property
    def _config(self) -> Path:
        return self.directory / f"{self.make}.conf"

    def _argv(self) -> list[str]:
        if self.make == OLSRD2:
            return [programs.olsrd2(), f"--load={self._config}"]
        return [programs.olsrv2d(), "--config", str(self._config)]

    def _ip(self, *arguments: str) -> str:
        return run(["ip", "-n", self.namespace, *arguments]).stdout

    def _olsrv2d(self) -> str:
        lines = [f"originators = {json.dumps(self.originators)}", "[tc]", "interval = 1.0", "validity = 10.0"]
        lines += ["[management]", f'socket = "{self.run_directory}/changes.sock"']
        for interface in self.interfaces:
            lines += ["[[interface]]", f'name = "{interface}"']
            lines += ["hello_interval = 0.5", f"hello_validity = {HELLO_VALIDITY}"]
        for prefix in self.attached:
            lines += ["[[attached]]", f'prefix = "{prefix}"']
        return "\n".join(lines) + "\n"

    def _olsrd2(self) -> str:
        lines = ["[global]", " lockfile -", " fork no", "[log]", " stderr true", "[telnet]", " port 2009"]
        lines += ["[olsrv2]", " tc_interval 1.0", " tc_validity 10.0"]
        lines += [f" originator {address}" for address in self.originators]
        lines += ["[interface=lo]"]
        for interface in self.interfaces:
            lines += [f"[interface={interface}]", " hello_interval 0.5", f" hello_validity {HELLO_VALIDITY}"]
        for index, prefix in enumerate(self.attached):
            lines += [f"[olsrv2_lan=lan{index}]", f" prefix {prefix}"]
        return "\n".join(lines) + "\n"


@contextmanager
def mesh(makes: Sequence[str], directory: Path) -> Iterator[list[Site]]:
    """A line of sites with routers of these makes, running; the last one is a gateway to everywhere."""
    instance = Instance()
    sites: list[Site] = []
    try:
        for number, make in enumerate(makes, start=1):
            name = f"{chr(ord('a') + number - 1)}"
            namespace = instance.namespace(name)
            is_gateway = number == len(makes)
            site = Site(name, number, make, namespace, directory / name, instance.run / name, is_gateway)
            site.create()
            sites.append(site)
        for left, right in itertools.pairwise(sites):
            _join(left, right)
        for site in sites:
            site.start()
        yield sites
    finally:
        for site in sites:
            site.router.kill()
        instance.end()


def _join(left: Site, right: Site) -> None:
    ends = (End(left.namespace, f"mesh-{right.name}"), End(right.namespace, f"mesh-{left.name}"))
    Link.create(*ends)
    left.connect(ends[0].interface, f"10.78.{left.number}.1/24")
    right.connect(ends[1].interface, f"10.78.{left.number}.2/24")


def _one_shot(command: str) -> str:
    with socket.create_connection(TELNET, timeout=5) as connection:
        connection.sendall(f"/{command}\n".encode())
        return b"".join(iter(lambda: connection.recv(1 << 16), b"")).decode()
