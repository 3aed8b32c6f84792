"""The lines of bench-throughput, one for each way that user data can take.

A line is a - b - c and so on; flows go from a to the node that is so many hops away. A plane is what carries them:
olsrv2d's routes alone, IPsec above them, or an overlay router on every node.
"""

import itertools
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial

from tests.lab.basics import programs
from tests.lab.basics.patience import patient
from tests.lab.basics.processes import Daemon
from tests.lab.basics.programs import find
from tests.lab.basics.shell import run
from tests.lab.foreign import cjdns
from tests.lab.foreign.cjdns import Cjdroute, Overlayd, OverlayRouter, Secret
from tests.lab.lab import Lab
from tests.lab.net import namespaces, topology
from tests.lab.net.links import Cables, Medium
from tests.lab.node.options import Options
from tests.lab.node.routers import Mesh

SUITES = {
    "aes256gcm16": ("aes256gcm16-prfsha256-x25519", "aes256gcm16-x25519"),
    "chacha20poly1305": ("chacha20poly1305-prfsha256-x25519", "chacha20poly1305-x25519"),
    "aes128gcm16": ("aes128gcm16-prfsha256-x25519", "aes128gcm16-x25519"),
}
"""Those of the default policy profile: for IKE, for ESP."""
READY = 60.0
"""Seconds until the farthest node answers."""
RECOVERED = 120.0
"""Seconds after which a neighbour that was restarted is given up; cjdroute takes half of that."""
BETWEEN_ECHOES = 0.005
"""Seconds: how exactly a first answer is timed."""
_IDENTIFIER = os.urandom(8)
"""What echoes carry: an answer to somebody else's is none."""
_ECHO = b"\x80" + bytes(7) + _IDENTIFIER
"""ICMPv6 echo request (RFC 4443, section 4.1); the kernel adds the checksum."""
_ECHO_REPLY = b"\x81\0"


@dataclass(frozen=True)
class Testbed:
    """A test bed for lines of nodes: the medium that joins the nodes, and the numbers of hops that are measured."""

    name: str
    hops: Sequence[int]
    medium: Callable[[], Medium] = Cables
    radio: bool = False
    back: str = ""
    """The name under which flows to the line's first end are measured, too; empty: they are not."""

    @property
    def names(self) -> list[str]:
        """Of a line's nodes."""
        return topology.names(max(self.hops) + 1)

    @property
    def pairs(self) -> list[topology.Pair]:
        """Its links."""
        return list(topology.line(self.names))


@dataclass(frozen=True)
class Place:
    """A node as an end of flows: its namespace, its address in this plane, what runs for it."""

    namespace: str
    address: str
    daemons: Sequence[Daemon]

    def processor_seconds(self) -> float:
        """Return the CPU seconds of its daemons so far."""
        return sum(daemon.cpu_seconds() for daemon in self.daemons)

    def resident_bytes(self) -> int:
        """Return the resident bytes of its daemons now, shared libraries included."""
        return sum(daemon.resident_bytes() for daemon in self.daemons)


@dataclass(frozen=True)
class Line:
    """A line that runs: its nodes in order."""

    places: Sequence[Place]
    started: float | None = None
    """Seconds from the start of the last node's router to the first answer that it got from its neighbour."""
    restart: Callable[[], Mapping[str, float]] | None = None
    """Kills and starts a relay; seconds from there until neighbours get answers again, by who begins."""
    prepare: Callable[[int], None] | None = None
    """Has packets go to the place that is so many hops away, where that is to be chosen."""
    links: Sequence[tuple[str, Sequence[str]]] = ()
    """Namespace and mesh interfaces of each node, where the places are not the nodes."""

    def wait_answer(self, hops: int) -> None:
        """Await that a place answers the first: also what an overload before has left in queues is gone then."""
        if self.prepare:
            self.prepare(hops)
        seconds = patient(READY)
        argv = ["ping", "-n", "-q", "-c", "1", "-i", "0.2", "-w", f"{seconds:.0f}", self.places[hops].address]
        run(["ip", "netns", "exec", self.places[0].namespace, *argv], timeout=seconds + 15)

    def processor_seconds(self) -> float:
        """Return the CPU seconds of all daemons so far."""
        return sum(place.processor_seconds() for place in self.places)


Planes = Mapping[str, Callable[[], AbstractContextManager[Line]]]


def planes(testbed: Testbed, suites: Sequence[str]) -> Planes:
    """Return what makes a running line, by plane; cjdroute's only where it is on PATH and cables are there."""
    found: dict[str, Callable[[], AbstractContextManager[Line]]] = {"plain": partial(plain, testbed)}
    found |= {f"ipsec {suite}": partial(ipsec, testbed, suite) for suite in suites}
    if not testbed.radio:
        found["overlay"] = partial(overlay_by_udp, testbed, Overlayd)
    found["overlay, Ethernet"] = partial(overlay_by_ethernet, testbed)
    if find("cjdroute") and not testbed.radio:
        found["cjdroute"] = partial(overlay_by_udp, testbed, Cjdroute)
    return found


@contextmanager
def plain(testbed: Testbed) -> Iterator[Line]:
    """olsrv2d's routes, and nobody trusts anybody."""
    with Mesh(testbed.pairs, medium=testbed.medium()) as mesh:
        mesh.start()
        mesh.wait_converged(READY)
        yield _ready([Place(one.namespace, one.ipv6, [one.daemon]) for one in mesh.routers.values()])


@contextmanager
def ipsec(testbed: Testbed, suite: str) -> Iterator[Line]:
    """End to end between a and every other node, which trust only a; who lies between forwards."""
    ike, esp = SUITES[suite]
    policy = {"ike_proposals": [ike], "esp_proposals": [esp]}
    with Lab("throughput", testbed.pairs, Options(policy=policy), medium=testbed.medium()) as lab:
        lab.set_up()
        first, *others = lab.nodes.values()
        for other in others:
            lab.trust(first.name, other.name)
        lab.start()
        for other in others:
            first.wait_protected(other, READY)
            other.wait_protected(first, READY)
        yield _ready([Place(one.namespace, one.address, one.daemons.all()) for one in (first, *others)])


@contextmanager
def overlay_by_udp(testbed: Testbed, make: type[Overlayd] | type[Cjdroute]) -> Iterator[Line]:
    """Run a line where each node is an overlay router and calls the one before it."""
    secret = Secret("throughput", "neighbour")
    with cjdns.line([make] * len(testbed.names)) as routers:
        for number, (called, caller) in enumerate(itertools.pairwise(routers), start=1):
            cjdns.connect(number, caller, called, secret, 1)
        yield _overlay(routers)


@contextmanager
def overlay_by_ethernet(testbed: Testbed) -> Iterator[Line]:
    """overlayd on the bare device: neighbours find each other by beacons."""
    with Mesh(testbed.pairs, makes=dict.fromkeys(testbed.names, Overlayd), medium=testbed.medium()) as mesh:
        routers = [router for router in mesh.routers.values() if isinstance(router, OverlayRouter)]
        for router in routers:
            router.plan.ethernet = dict.fromkeys(router.interfaces, 2)
        yield _overlay(routers)


def cjdroute_version() -> str:
    """Its first line about itself, or that it is not there."""
    if not find("cjdroute"):
        return "not on PATH"
    shown = run([programs.cjdroute(), "--version"], check=False)
    return (shown.stdout + shown.stderr).strip().partition("\n")[0].rpartition(" ")[2]


def _overlay(routers: Sequence[OverlayRouter]) -> Line:
    *others, before, last = routers
    cjdns.start([*others, before])
    for called, caller in itertools.pairwise([*others, before]):
        caller.wait_neighbour(called)
    last.configure()
    begin = time.monotonic()
    _launch(last)
    started = _answered(last, before) - begin
    line = _ready([Place(one.namespace, one.address, [one.daemon]) for one in routers])
    return Line(line.places, started, partial(_restart, *routers[:3]))


def _restart(left: OverlayRouter, relay: OverlayRouter, right: OverlayRouter) -> Mapping[str, float]:
    """Kill and start the relay while both neighbours ping it. By UDP it calls the left, and the right calls it."""
    begin = time.monotonic()
    relay.daemon.kill()
    with ThreadPoolExecutor(2) as pool:
        calls, called = (pool.submit(_answered, neighbour, relay) for neighbour in (left, right))
        _launch(relay)
        return {"it calls": calls.result() - begin, "it is called": called.result() - begin}


def _launch(router: OverlayRouter) -> None:
    """Start it and await no more than must be. cjdroute has to be configured, which is part of its start."""
    if isinstance(router, Cjdroute):
        router.start()
    else:
        router.daemon.start()


def _answered(source: OverlayRouter, target: OverlayRouter) -> float:
    """Return when the first of many echoes was answered, on the monotonic clock; raises TimeoutError."""
    kind = partial(socket.socket, socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
    deadline = time.monotonic() + patient(RECOVERED)
    with namespaces.within(source.namespace, kind) as end:
        end.settimeout(BETWEEN_ECHOES)
        while not _answers(end, source.address, target.address):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{target.name} does not answer {source.name} within {patient(RECOVERED):g} s")
    return time.monotonic()


def _answers(end: socket.socket, source: str, target: str) -> bool:
    """Send one echo, once there are an address to send it from and a route; whether one was answered meanwhile."""
    try:
        end.sendmsg([_ECHO], [_from(source)], 0, (target, 0))
        reply = end.recv(1500)
    except TimeoutError:
        return False
    except OSError:
        time.sleep(BETWEEN_ECHOES)
        return False
    return reply.startswith(_ECHO_REPLY) and reply.endswith(_IDENTIFIER)


def _from(address: str) -> tuple[int, int, bytes]:
    """Return the packet's source (RFC 3542, section 6.2), which needs no socket that is bound to it."""
    packed = socket.inet_pton(socket.AF_INET6, address)
    return socket.IPPROTO_IPV6, socket.IPV6_PKTINFO, packed + bytes(4)


def _ready(places: Sequence[Place]) -> Line:
    line = Line(places)
    for hops in range(1, len(places)):
        line.wait_answer(hops)
    return line
