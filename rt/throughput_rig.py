"""The lines of bench-throughput, one for each way that user data can take, and what is measured between their ends.

Every line has five nodes a - b - c - d - e; flows go from a to the node that is so many hops away. A plane is what
carries them: olsrv2d's routes alone, IPsec above them, or an overlay router on every node.
"""

import itertools
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import median

from rt.throughput_ends import PATIENCE, STAT, Report, busy_seconds
from tests.lab import cjdns, namespaces, programs, topology
from tests.lab.cjdns import Cjdroute, Overlayd, OverlayRouter, Secret
from tests.lab.ground import find
from tests.lab.lab import Lab
from tests.lab.node import Options
from tests.lab.processes import Daemon
from tests.lab.routers import Mesh
from tests.lab.shell import run

HOPS = (1, 2, 3, 4)
SUITES = {
    "aes256gcm16": ("aes256gcm16-prfsha256-x25519", "aes256gcm16-x25519"),
    "chacha20poly1305": ("chacha20poly1305-prfsha256-x25519", "chacha20poly1305-x25519"),
    "aes128gcm16": ("aes128gcm16-prfsha256-x25519", "aes128gcm16-x25519"),
}
"""Those of the default policy profile: for IKE, for ESP."""
SIZE = 1200
"""Octets in a datagram: one packet in every plane."""
PORT = 7010
PINGS = 50
READY = 60.0
"""Seconds until the farthest node answers."""
_RECEIVE_BUFFER = 8 << 20
"""Octets: the receiver shall not be the one that loses."""
_TIME = re.compile(r"time=([\d.]+) ms")


@dataclass(frozen=True)
class Place:
    """A node as an end of flows: its namespace and its address in this plane."""

    namespace: str
    address: str


@dataclass(frozen=True)
class Line:
    """A line that runs: its nodes in order, and all their daemons."""

    places: Sequence[Place]
    daemons: Sequence[Daemon]

    def wait_answer(self, hops: int) -> None:
        """Await that a node answers a: also what an overload before has left in queues is gone then."""
        argv = ["ping", "-n", "-q", "-c", "1", "-i", "0.2", "-w", f"{READY:.0f}", self.places[hops].address]
        run(["ip", "netns", "exec", self.places[0].namespace, *argv], timeout=READY + 15)

    def processor_seconds(self) -> float:
        """Of all daemons so far."""
        return sum(daemon.cpu_seconds() for daemon in self.daemons)


@dataclass(frozen=True)
class Stream:
    """A TCP stream that is over. Rates in Mbit/s of payload, processor time in seconds per gigabyte (10^9 octets)."""

    rate: float
    machine: float
    """All that the processors did meanwhile, whoever for: meaningful on a machine that does nothing else."""
    processes: float
    """The nodes' daemons and the two ends; without what the kernel did in nobody's name."""


@dataclass(frozen=True)
class Load:
    """UDP at one offered load, in Mbit/s of payload."""

    offered: float
    sent: float
    """What the sender's kernel took: it may hold the sender up."""
    delivered: float
    loss: float
    """Per cent of the datagrams that were sent."""


# --- planes ---


def planes(suites: Sequence[str]) -> dict[str, Callable[[], AbstractContextManager[Line]]]:
    """What makes a running line, by the plane's name; cjdroute's only where that is on PATH."""
    found: dict[str, Callable[[], AbstractContextManager[Line]]] = {"plain": plain}
    found |= {f"ipsec {suite}": partial(ipsec, suite) for suite in suites}
    found["overlay"] = partial(overlay, Overlayd)
    if find("cjdroute"):
        found["cjdroute"] = partial(overlay, Cjdroute)
    return found


@contextmanager
def plain() -> Iterator[Line]:
    """olsrv2d's routes, and nobody trusts anybody."""
    with Mesh(topology.line(_names())) as mesh:
        mesh.start()
        mesh.wait_converged(READY)
        routers = list(mesh.routers.values())
        yield _ready([Place(one.namespace, one.ipv6) for one in routers], [one.daemon for one in routers])


@contextmanager
def ipsec(suite: str) -> Iterator[Line]:
    """End to end between a and every other node, which trust only a; who lies between forwards."""
    ike, esp = SUITES[suite]
    policy = {"ike_proposals": [ike], "esp_proposals": [esp]}
    with Lab("throughput", topology.line(_names()), Options(policy=policy)) as lab:
        lab.set_up()
        first, *others = lab.nodes.values()
        for other in others:
            first.install_card(other)
            other.install_card(first)
        lab.start()
        for other in others:
            first.wait_protected(other, READY)
            other.wait_protected(first, READY)
        nodes = [first, *others]
        yield _ready([Place(one.namespace, one.address) for one in nodes], [d for one in nodes for d in one.daemons])


@contextmanager
def overlay(make: type[OverlayRouter]) -> Iterator[Line]:
    """Each node is an overlay router and connects to the one before it."""
    secret = Secret("throughput", "neighbour")
    with cjdns.line([make] * len(_names())) as routers:
        for number, (called, caller) in enumerate(itertools.pairwise(routers), start=1):
            cjdns.connect(number, caller, called, secret, 1)
        cjdns.start(routers)
        for called, caller in itertools.pairwise(routers):
            caller.wait_neighbour(called)
        yield _ready([Place(one.namespace, one.address) for one in routers], [one.daemon for one in routers])


def cjdroute_version() -> str:
    """Its first line about itself, or that it is not there."""
    if not find("cjdroute"):
        return "not on PATH"
    shown = run([programs.cjdroute(), "--version"], check=False)
    return (shown.stdout + shown.stderr).strip().partition("\n")[0].rpartition(" ")[2]


def _names() -> list[str]:
    return topology.names(max(HOPS) + 1)


def _ready(places: Sequence[Place], daemons: Sequence[Daemon]) -> Line:
    line = Line(places, daemons)
    for hops in HOPS:
        line.wait_answer(hops)
    return line


# --- what is measured ---


def stream(line: Line, hops: int, seconds: float) -> Stream:
    """TCP from a, as fast as it goes, when what came before is over."""
    line.wait_answer(hops)
    source, target = line.places[0], line.places[hops]
    listener = namespaces.within(target.namespace, partial(_listener, target.address))
    client = namespaces.within(source.namespace, partial(_client, socket.SOCK_STREAM, source.address))
    with listener, client:
        client.settimeout(PATIENCE)
        client.connect((target.address, PORT))
        before = line.processor_seconds()
        sender, receiver = _flow("stream", client, listener, seconds)
        after = line.processor_seconds()
    if not receiver["octets"]:
        raise ConnectionError("hardly anything of a stream arrived")
    gigabytes = receiver["octets"] / 1e9
    processes = after - before + sender["process_s"] + receiver["process_s"]
    return Stream(
        rate=8e3 * gigabytes / receiver["seconds"],
        machine=(receiver["busy_s"] - sender["busy_s"]) / gigabytes,
        processes=processes / gigabytes,
    )


def load(line: Line, hops: int, seconds: float, mbit_per_s: float) -> Load:
    """UDP from a at an offered load, when what came before is over."""
    line.wait_answer(hops)
    source, target = line.places[0], line.places[hops]
    inbound = namespaces.within(target.namespace, partial(_inbound, target.address))
    out = namespaces.within(source.namespace, partial(_client, socket.SOCK_DGRAM, source.address))
    with inbound, out:
        out.connect((target.address, PORT))
        sender, receiver = _flow("datagrams", out, inbound, seconds, mbit_per_s, SIZE)
    return told(mbit_per_s, sender, receiver)


def told(offered: float, sender: Report, receiver: Report) -> Load:
    """What both ends' counts say. A queue that is emptied late counts by the time that this takes."""
    mbit, sent, arrived = SIZE * 8 / 1e6, sender["datagrams"], receiver["datagrams"]
    return Load(
        offered=offered,
        sent=sent * mbit / sender["seconds"],
        delivered=arrived * mbit / max(sender["seconds"], receiver["seconds"]),
        loss=100 * (1 - arrived / sent) if sent else 0.0,
    )


def ping(line: Line, hops: int) -> float:
    """The median round trip in milliseconds, with nothing else on the line."""
    argv = ["ping", "-n", "-c", f"{PINGS}", "-i", "0.01", "-W", "2", line.places[hops].address]
    shown = run(["ip", "netns", "exec", line.places[0].namespace, *argv], check=False).stdout
    if not (times := [float(found) for found in _TIME.findall(shown)]):
        raise ConnectionError(f"no answer to {PINGS} echoes")
    return median(times)


def rest(seconds: float = 0.5) -> float:
    """How many processors of the machine are busy while the line stands still: others' work counts as a flow's."""
    before = busy_seconds(STAT.read_text(encoding="ascii"))
    time.sleep(seconds)
    return (busy_seconds(STAT.read_text(encoding="ascii")) - before) / seconds


def _flow(
    kind: str, source: socket.socket, target: socket.socket, seconds: float, *more: float
) -> tuple[Report, Report]:
    """Both ends' reports. The receiver's standard input is closed when the sender is done."""
    with ExitStack() as stack:
        receiver = stack.enter_context(_end(f"receive-{kind}", target))
        sender = stack.enter_context(_end(f"send-{kind}", source, seconds, *more))
        patience = seconds + 2 * PATIENCE
        out, _ = sender.communicate(timeout=patience)
        into, _ = receiver.communicate(timeout=patience)
    if sender.returncode or receiver.returncode:
        raise ConnectionError(f"a flow of {kind} broke off")
    return json.loads(out), json.loads(into)


@contextmanager
def _end(role: str, end: socket.socket, *figures: float) -> Iterator[subprocess.Popen[bytes]]:
    """A running end, which does not outlive the block."""
    argv = [sys.executable, "-m", "rt.throughput_ends", role, f"{end.fileno()}", *map(str, figures)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(argv, cwd=programs.ROOT, stdin=pipe, stdout=pipe, pass_fds=[end.fileno()])
    with process:
        try:
            yield process
        finally:
            process.kill()


def _listener(address: str) -> socket.socket:
    return socket.create_server((address, PORT), family=socket.AF_INET6)


def _client(kind: socket.SocketKind, address: str) -> socket.socket:
    made = socket.socket(socket.AF_INET6, kind)
    made.bind((address, 0))
    return made


def _inbound(address: str) -> socket.socket:
    made = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    # Beyond what net.core.rmem_max allows to programs without privileges.
    made.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER)
    made.bind((address, PORT))
    return made


_SO_RCVBUFFORCE = 33  # asm-generic/socket.h
