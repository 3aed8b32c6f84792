"""What a flood of strangers does to overlayd: how many it answers, what that takes, and what a neighbour notices.

a and b are neighbours. From 64 other addresses on b's side of their cable somebody sends to a as fast as one thread
can: octets without sense, HELLOs of a user that does not exist, of one whose password was guessed, and of one who may
connect. Meanwhile one whom a does not know yet connects to it by another cable.
"""

import re
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count

from rt.measure.frame import Bench
from rt.measure.plot import boxes
from rt.measure.results import QUICK
from tests.lab.basics.patience import patient
from tests.lab.basics.waiting import NotInTimeError
from tests.lab.foreign import cjdns
from tests.lab.foreign.cjdns import Neighbour, Overlayd, Secret
from tests.lab.net.traffic import udp_socket
from tests.lab.observe.overlay_control import OverlayControl

SECONDS = 3 if QUICK else 10
SOURCES = 64
SECRET = Secret("open sesame", "ali baba")
KINDS = {
    "none": None,
    "octets": None,
    "HELLO of no user": Secret("guessed"),
    "HELLO, password guessed": Secret("guessed", SECRET.login),
    "HELLO of a user": SECRET,
}
NEWCOMER_SECONDS = 20.0
"""So long is waited for a newcomer; one that takes longer counts as this long."""
UNJUDGED = ("offered, thousands/s", "taken from the kernel, thousands/s", "answers/s")
"""Units of the figures that describe the flood, of which neither less nor more is better."""
INTERVAL = 0.05
"""Seconds between echoes; half a second without answers is several of them."""
_SNIFFER = ("10.78.3.1", 6000)
_TIME = re.compile(r"time=([\d.]+) ms")
_COUNTS = re.compile(r"(\d+) packets transmitted, (\d+) received")


@dataclass
class Flood:
    """Sends one datagram from many addresses, until it is ended."""

    sockets: list[socket.socket]
    octets: bytes
    to: tuple[str, int]
    sent: int = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """While something is measured."""
        over = threading.Event()
        thread = threading.Thread(target=self._send, args=(over,))
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _send(self, over: threading.Event) -> None:
        for number in count():
            if over.is_set():
                return
            self.sockets[number % SOURCES].sendto(self.octets, self.to)
            self.sent += 1

    def answers(self) -> int:
        """Datagrams that came back since the last call."""
        return sum(_drain(source) for source in self.sockets)


def main() -> int:
    """Let each kind of flood meet the same line."""
    bench = Bench("overlay-flood", __doc__, rounds=1 if QUICK else 3)
    rounds = bench.parse().rounds
    with bench.measuring(), cjdns.line([Overlayd] * 4) as found, ExitStack() as stack:
        newcomer, a, b, c = (router for router in found if isinstance(router, Overlayd))
        cjdns.connect(2, b, a, SECRET, 1)
        cjdns.start((a, b))
        hosts = [f"10.78.2.{host}" for host in range(100, 100 + SOURCES)]
        for host in hosts:
            b.ip("address", "add", f"{host}/24", "dev", f"mesh-{a.name}")
        sockets = [stack.enter_context(udp_socket(b.namespace, host)) for host in hosts]
        datagrams = {kind: _hello(c, b, a, secret) if secret else bytes(range(200)) for kind, secret in KINDS.items()}
        b.wait_ping(a)
        for _, (kind, octets) in bench.in_rounds(list(datagrams.items())):
            flood = Flood(sockets, octets, ("10.78.2.1", cjdns.PORT)) if kind != "none" else None
            for unit, values in bench.visit(kind, partial(_measured, a, b, newcomer, flood)).items():
                bench.take({"flood": kind}, unit, values)
    result = bench.result({"rounds": rounds, "seconds": SECONDS, "sources": SOURCES})
    title = "What a flood of strangers does to overlayd and to its neighbour"
    return bench.finish(result, partial(boxes, title=title, compare="flood", unjudged=UNJUDGED))


def _hello(thief: Overlayd, nearby: Overlayd, target: Overlayd, secret: Secret) -> bytes:
    """Return a HELLO for the target that an overlayd makes; it takes the place of capture for the target."""
    with udp_socket(nearby.namespace, *_SNIFFER) as sniffer:
        sniffer.settimeout(patient(30))
        thief.plan.neighbours = [Neighbour("{}:{}".format(*_SNIFFER), target.key, secret)]
        thief.configure()
        thief.start()
        hello = sniffer.recv(2048)
        thief.daemon.kill()
    return hello


def _measured(a: Overlayd, b: Overlayd, newcomer: Overlayd, flood: Flood | None) -> dict[str, list[float]]:
    """Return what happens at a, between both, and to somebody who comes, during a flood, by unit."""
    with OverlayControl(a.socket) as control, ExitStack() as stack:
        before, spent, began = _heard(control), a.daemon.cpu_seconds(), time.monotonic()
        if flood:
            stack.enter_context(flood.running())
        argv = ["ping", "-n", "-i", str(INTERVAL), "-c", str(int(SECONDS / INTERVAL)), "-W", "5", a.address]
        echoes = b.run(*argv, check=False).stdout
        passed, taken, worked = time.monotonic() - began, _heard(control) - before, a.daemon.cpu_seconds() - spent
        offered, answers = (flood.sent, flood.answers()) if flood else (0, 0)
        came = _comes(newcomer, a)
        stack.close()
        sent, received = map(int, _COUNTS.findall(echoes)[0])
        return {
            "offered, thousands/s": [offered / passed / 1000],
            "taken from the kernel, thousands/s": [taken / passed / 1000],
            "answers/s": [answers / passed],
            "per cent of a processor": [100 * worked / passed],
            "MB resident": [a.daemon.resident_bytes() / 1e6],
            "per cent of echoes lost": [100 * (sent - received) / sent],
            "ms, a neighbour's echo": [float(found) for found in _TIME.findall(echoes)],
            "s until a newcomer is a neighbour": [came],
        }


def _comes(newcomer: Overlayd, target: Overlayd) -> float:
    """Seconds from when a node with a new key runs until it and the target are neighbours."""
    fresh = Overlayd(newcomer.name, newcomer.number, newcomer.namespace, newcomer.directory)
    cjdns.connect(1, fresh, target, SECRET, 2)
    fresh.configure()
    fresh.start()
    began = time.monotonic()
    try:
        fresh.wait_neighbour(target, NEWCOMER_SECONDS)
    except NotInTimeError:
        return NEWCOMER_SECONDS
    finally:
        fresh.daemon.kill()
    return min(time.monotonic() - began, NEWCOMER_SECONDS)


def _heard(control: OverlayControl) -> int:
    """Frames that reached the node."""
    return sum(int(interface["frames_in"]) for interface in control.ask()["interfaces"])


def _drain(source: socket.socket) -> int:
    source.setblocking(False)
    received = 0
    try:
        while source.recv(2048):
            received += 1
    except BlockingIOError:
        pass
    finally:
        source.setblocking(True)
    return received


if __name__ == "__main__":
    sys.exit(main())
