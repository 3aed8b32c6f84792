"""User data between two nodes. Each payload is marked, and the result says what arrived."""

import itertools
import re
import select
import socket
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from tests.lab.basics.patience import patient
from tests.lab.basics.shell import run
from tests.lab.basics.waiting import wait_until
from tests.lab.basics.wakeups import Wakeups
from tests.lab.net import namespaces
from tests.lab.net.packets import MARK

PORT = 7000
GRACE = 2.0
"""Longest wait in seconds for datagrams that are still on their way when a flow ends."""
_SEQUENCE = struct.Struct("!Q")
_RECEIVE_BUFFER = 8 << 20
"""Bytes: datagrams that arrive while this program gets no processor time must not be lost."""
_COUNTER = re.compile(r"counter (\w+) \{\s*packets (\d+)")
_STATE = re.compile(r"proto esp (spi \w+)[^\n]*|lifetime current:\s*(\d+\(bytes\), \d+\(packets\))")


def udp_socket(namespace: str, address: str, port: int = 0) -> socket.socket:
    """Open a UDP socket in a namespace, bound to one of its addresses."""

    def opened() -> socket.socket:
        made = socket.socket(_family(address), socket.SOCK_DGRAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((address, port))
        return made

    return namespaces.within(namespace, opened)


@dataclass
class FlowResult:
    """What a flow sent and what arrived; times in seconds."""

    sent: int = 0
    refused: int = 0
    """Datagrams that the sender's own kernel refused, because it had no route or a rule dropped them."""
    arrivals: list[tuple[int, float]] = field(default_factory=list)
    """Sequence number and monotonic time of each datagram that arrived."""
    interval: float = 0.0

    @property
    def lost(self) -> int:
        """Return the number of datagrams that did not arrive."""
        return self.sent + self.refused - len({sequence for sequence, _ in self.arrivals})

    @property
    def longest_gap(self) -> float:
        """Return the longest time between two arrivals that follow each other; infinite when nothing arrived."""
        times = sorted(at for _, at in self.arrivals)
        return max((b - a for a, b in itertools.pairwise(times)), default=0.0) if times else float("inf")


class Flow:
    """A steady flow of marked datagrams from one node's address to another's while the context is open.

    With ``answers`` the target asks first, so that a gateway that translates its address lets the flow pass.
    """

    def __init__(
        self,
        source: tuple[str, str],
        target: tuple[str, str],
        interval: float = 0.02,
        port: int = PORT,
        *,
        answers: bool = False,
    ) -> None:
        self.result = FlowResult(interval=interval)
        self.grace = GRACE
        self._ends = source, target
        self._stop = threading.Event()
        self._sent_all = threading.Event()
        self._target: tuple[Any, ...] = (target[1], port)
        self._out = udp_socket(*source, port if answers else 0)
        self._in = udp_socket(*target, port)
        if answers:
            self._target = wait_until("a question of the target", lambda: self._asked((source[1], port)), [], 30)
        self._in.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_RCVBUFFORCE", 33), _RECEIVE_BUFFER)
        self._wakeups = Wakeups()
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._receive, self._send)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        for opened in (self._out, self._in, self._wakeups):
            opened.close()

    def end(self) -> FlowResult:
        """Stop sending and wait for what is on its way. Only then is known what was lost."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        return self.result

    def fileno(self) -> int:
        """Return the descriptor that is readable when datagrams have arrived."""
        return self._wakeups.fileno()

    def drain(self) -> bool:
        """Take the wake-ups."""
        return self._wakeups.drain()

    def summary(self) -> str:
        """Describe what has arrived, and what each end's kernel dropped: these counters are lost with the lab."""
        counts = [f"{self.result.sent} sent, {self.result.refused} refused, {len(self.result.arrivals)} arrived"]
        return "\n".join(counts + [f"{namespace}: {_drops(namespace)}" for namespace, _ in self._ends])

    def _asked(self, source: tuple[str, int]) -> tuple[Any, ...] | None:
        """Have the target ask, and return from where the source sees it; None if that is lost."""
        self._in.sendto(b"", source)
        return self._out.recvfrom(64)[1] if select.select([self._out], [], [], 0.5)[0] else None

    def _send(self) -> None:
        for sequence in itertools.count():
            try:
                self._out.sendto(MARK + _SEQUENCE.pack(sequence), self._target)
                self.result.sent += 1
            except OSError:
                self.result.refused += 1
            if self._stop.wait(self.result.interval):
                break
        self._sent_all.set()

    def _receive(self) -> None:
        end = float("inf")
        while time.monotonic() < end:
            if self._sent_all.is_set():
                end = min(end, time.monotonic() + patient(self.grace)) if self.result.lost else 0.0
            if not select.select([self._in], [], [], 0.1)[0]:
                continue
            datagram, sender = self._in.recvfrom(2048)
            with suppress(OSError):
                # Answer as applications do: an SA that only sends is suspect (core/channels/one_way_watch.py).
                self._in.sendto(b"", sender)
            if datagram.startswith(MARK):
                self.result.arrivals.append((_SEQUENCE.unpack_from(datagram, len(MARK))[0], time.monotonic()))
                self._wakeups.wake()


def wait_arrivals(running: Flow, count: int = 10, seconds: float = 60.0) -> None:
    """Wait for ``count`` more datagrams of a flow."""
    goal = len(running.result.arrivals) + count
    wait_until(f"{count} arrivals", lambda: len(running.result.arrivals) >= goal, [running], seconds, running.summary)


def _drops(namespace: str) -> str:
    """Return the IPsec and nftables counters of a namespace that are not zero, and the packets of each of its SAs."""
    inside = ["ip", "netns", "exec", namespace]
    ipsec = [line.split() for line in run([*inside, "cat", "/proc/net/xfrm_stat"], check=False).stdout.splitlines()]
    counted = [f"{name} {count}" for name, count in ipsec if count != "0"]
    rules = run([*inside, "nft", "list", "counters"], check=False).stdout
    counted += [f"{name} {count}" for name, count in _COUNTER.findall(rules) if count != "0"]
    states = run([*inside, "ip", "-s", "xfrm", "state"], check=False).stdout
    return ", ".join(counted + ["".join(found) for found in _STATE.findall(states)]) or "nothing"


def send(source: tuple[str, str], target: str, count: int = 5, port: int = PORT) -> int:
    """Send marked datagrams; return how many the sender's kernel accepted (an outbound drop rule refuses them)."""
    to = namespaces.within(source[0], lambda: socket.getaddrinfo(target, port, type=socket.SOCK_DGRAM)[0][4])
    with udp_socket(*source) as out:
        return sum(_sent(out, to, sequence) for sequence in range(count))


def _sent(out: socket.socket, target: tuple[Any, ...], sequence: int) -> bool:
    try:
        out.sendto(MARK + _SEQUENCE.pack(sequence), target)
    except OSError:
        return False
    return True


@dataclass(frozen=True)
class StreamResult:
    """A finished TCP stream."""

    octets: int
    seconds: float

    @property
    def mbit_per_s(self) -> float:
        """Return the payload's rate in Mbit/s."""
        return self.octets * 8 / self.seconds / 1e6


def tcp_stream(source: tuple[str, str], target: tuple[str, str], octets: int, seconds: float = 120.0) -> StreamResult:
    """Send marked data over one TCP connection and read it at the other end. Raises TimeoutError when it is late."""
    return _stream(source, target, octets, seconds, is_download=False)


def tcp_download(client: tuple[str, str], server: tuple[str, str], octets: int, seconds: float = 120.0) -> StreamResult:
    """Connect and read marked data that the other end sends. Raises TimeoutError when it is late."""
    return _stream(client, server, octets, seconds, is_download=True)


def _stream(
    near: tuple[str, str], far: tuple[str, str], octets: int, seconds: float, *, is_download: bool
) -> StreamResult:
    listener = namespaces.within(far[0], lambda: socket.create_server((far[1], PORT), family=_family(far[1])))
    client = namespaces.within(near[0], lambda: socket.socket(_family(near[1]), socket.SOCK_STREAM))
    with listener, client:
        for end in (listener, client):
            end.settimeout(seconds)
        client.bind((near[1], 0))
        begun = time.monotonic()
        client.connect((far[1], PORT))
        accepted, _ = listener.accept()
        with accepted:
            reader, sender = (client, accepted) if is_download else (accepted, client)
            writer = threading.Thread(target=_write, args=(sender, octets), daemon=True)
            writer.start()
            received = _read_all(reader, octets, begun + seconds)
            writer.join()
    return StreamResult(received, time.monotonic() - begun)


def _write(client: socket.socket, octets: int) -> None:
    block = MARK * 4096
    with suppress(OSError):
        for start in range(0, octets, len(block)):
            client.sendall(block[: min(len(block), octets - start)])
        client.shutdown(socket.SHUT_WR)


def _read_all(connection: socket.socket, octets: int, deadline: float) -> int:
    received = 0
    connection.settimeout(1.0)
    while received < octets:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{received} of {octets} octets arrived in time")
        with suppress(TimeoutError):
            if not (data := connection.recv(1 << 16)):
                break
            received += len(data)
    return received


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
