"""Floods of forged OLSRv2 messages over a real link, with invented IP and hardware addresses."""

import itertools
import json
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Self

from scapy.layers.l2 import Ether

from tests.lab.basics.waiting import wait_until
from tests.lab.forge import rfc5444
from tests.lab.forge.raw import Forger, Way, checksummed, mac_of
from tests.lab.forge.rfc5444 import Status
from tests.lab.net.links import End
from tests.lab.node.routers import Mesh, Router
from tests.lab.observe.kernel_events import RouteEvents

CONVERGED = 60.0

MARK = 0xDEADBEEF
"""The identity in a template, four bytes that are in every address of the forgery."""


class Paced(ABC):
    """Sends at a rate while the block runs."""

    def __init__(self, rate: int) -> None:
        self.sent = 0
        self._rate = rate
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        start = time.monotonic()
        while not self._stop.wait(0.005):
            due = int((time.monotonic() - start) * self._rate) - self.sent
            self.sent += self._send(min(due, 100))

    @abstractmethod
    def _send(self, count: int) -> int:
        """Send this many frames. Return how many were sent."""


class FrameFlood(Paced):
    """Sends complete frames."""

    def __init__(self, way: Way, rate: int, frames: Iterator[bytes]) -> None:
        super().__init__(rate)
        self._frames = frames
        self._forger = Forger(way)

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._forger.__exit__(None, None, None)

    def _send(self, count: int) -> int:
        return self._forger.send_frames(itertools.islice(self._frames, count))


class Flood(FrameFlood):
    """Sends a frame again and again, with another identity each time."""

    def __init__(self, sender: End, target: End, rate: int, template: bytes, identities: int) -> None:
        """``template``: what a sender with the identity ``MARK`` sends."""
        frames = (stamped(template, number % identities) for number in itertools.count())
        super().__init__(Way(sender, "02:66:de:ad:be:ef", mac_of(target)), rate, frames)


def stamped(template: bytes, identity: int) -> bytes:
    """Return the frame with another identity, and the UDP checksum that belongs to it."""
    return checksummed(template.replace(MARK.to_bytes(4, "big"), identity.to_bytes(4, "big")))


def _template(message: rfc5444.Message) -> bytes:
    frame = Ether(src="02:66:de:ad:be:ef", dst="33:33:00:00:00:6d")
    return bytes(frame / rfc5444.datagram("fe80::66:dead:beef", rfc5444.packet(message)))


def hellos(victim: str) -> bytes:
    """Return HELLOs of invented routers which all claim to hear the victim."""
    neighbours = [rfc5444.link(victim, Status.SYMMETRIC, metric=100)]
    return _template(rfc5444.hello("fd66::dead:beef", ["fe80::66:dead:beef"], neighbours, others=["fd66::dead:beef"]))


def tcs() -> bytes:
    """Return TCs of invented routers with 20 invented neighbours each."""
    entries = [rfc5444.edge(f"fd67::dead:beef:{index:x}") for index in range(1, 21)]
    return _template(rfc5444.tc("fd66::dead:beef", entries, seq=1, ansn=1))


@contextmanager
def flooded(mesh: Mesh, rate: int, template: Callable[[str], bytes], identities: int = 1 << 24) -> Iterator[Flood]:
    """Flood the link between ``a`` and ``b``, as if ``b``'s neighbourhood were full of strangers."""
    sender, target = mesh.end("b", "a"), mesh.end("a", "b")
    with Flood(sender, target, rate, template(target.link_local()), identities) as flood:
        yield flood


def await_full(a: Router, question: str, least: int) -> None:
    """Wait until the flood fills the table and entries give way: the control, without which the test proves nothing."""

    def is_full() -> bool:
        refused = {one["counter"] for one in json.loads(a.text.ask("/refusals"))}
        return "over_limit" in refused and len(a.text.ask(question).splitlines()) >= least

    wait_until(f"at least {least} rows of {question}", is_full, [], CONVERGED)


def await_routes(a: Router, destinations: set[str]) -> None:
    """Wait for routes in the kernel without the change stream, which reports each forgery."""
    with closing(RouteEvents(a.namespace)) as events:
        reached = lambda: destinations <= a.kernel.destinations()  # noqa: E731
        wait_until(f"{a.name}: routes to {sorted(destinations)}", reached, [events], CONVERGED, a.kernel.routes)
