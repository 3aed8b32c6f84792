"""Datagrams offered at a rate, and how much of each flow arrives: for links whose throughput is the question.

One loop sends and receives, so it is meant for some thousand datagrams a second.
"""

import select
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.lab.net.traffic import udp_socket

PORT = 7300
_RECEIVE_BUFFER = 1 << 20
_SEND_BUFFER = 1 << 15
"""Octets of datagrams under way, with what the kernel adds: so many that a radio always has some, and so few that its
queue is never full. A simulated radio has no other limit, and reports what its queue does not hold as lost on the air.
"""
_LONGEST = 1 << 16


@dataclass(frozen=True)
class Offer:
    """A flow from one address to another, each with its namespace, at a rate of payload in Mbit/s."""

    source: tuple[str, str]
    target: tuple[str, str]
    mbit_s: float
    octets: int = 1400


@dataclass
class _Flow:
    offer: Offer
    out: socket.socket
    into: socket.socket
    sent: int = 0
    received: int = 0
    first: float = 0.0
    """Time of the first arrival, which is not counted: what was in queues before is not this flow's."""

    @property
    def interval(self) -> float:
        return self.offer.octets * 8 / (self.offer.mbit_s * 1e6)

    def send(self, elapsed: float) -> None:
        while self.sent * self.interval <= elapsed:
            self.sent += 1
            try:
                self.out.sendto(bytes(self.offer.octets), (self.offer.target[1], self.into.getsockname()[1]))
            except OSError:
                return  # A queue is full, or the relay is unknown for a moment: this one is lost.

    def receive(self) -> None:
        try:
            while octets := len(self.into.recv(_LONGEST)):
                if self.first:
                    self.received += octets
                else:
                    self.first = time.monotonic()
        except BlockingIOError:
            return

    def mbit_s(self, end: float) -> float:
        return self.received * 8 / (end - self.first) / 1e6 if self.received else 0.0


def throughput(offers: Sequence[Offer], seconds: float) -> list[float]:
    """Offer all flows at once for some seconds. Return the payload of each that arrived since its first
    datagram, in Mbit/s."""
    flows = [_opened(number, offer) for number, offer in enumerate(offers)]
    try:
        begin = time.monotonic()
        while (elapsed := time.monotonic() - begin) < seconds:
            for flow in flows:
                flow.send(elapsed)
            due = min(flow.sent * flow.interval for flow in flows)
            select.select([flow.into for flow in flows], [], [], max(0.0, due - elapsed))
            for flow in flows:
                flow.receive()
        return [flow.mbit_s(time.monotonic()) for flow in flows]
    finally:
        for flow in flows:
            flow.out.close()
            flow.into.close()


def _opened(number: int, offer: Offer) -> _Flow:
    flow = _Flow(offer, udp_socket(*offer.source), udp_socket(*offer.target, port=PORT + number))
    flow.into.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
    flow.out.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
    for end in (flow.out, flow.into):
        end.setblocking(False)
    return flow
