"""Small datagrams beside a stream that saturates a way: how long they take there and back."""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

INTERVAL = 0.05
"""Seconds from one probe to the next: 20 in a second, which are no load."""
_PROBE = struct.Struct("!8sI28x")
"""Mark of the run, number, and filling: 40 bytes, the size of a voice packet's samples and header."""
_LAST = 1.0
"""Seconds that the last answers are waited for."""
_TURN = 0.2
"""Seconds after which a thread looks whether it should end."""


@dataclass
class Trips:
    """What became of the probes."""

    sent: int = 0
    milliseconds: dict[int, float] = field(default_factory=dict)
    """Round trips by the probe's number; a probe that comes twice counts once."""
    began: dict[int, float] = field(default_factory=dict)
    """When each was sent."""

    @property
    def lost(self) -> float:
        """Return the share that did not come back, in per cent."""
        return 100 * (1 - len(self.milliseconds) / self.sent) if self.sent else 100.0


@contextlib.contextmanager
def answering(own: str, peer: str, port: int) -> Iterator[None]:
    """Return the peer's probes to it meanwhile, as they are. Raises OSError."""
    with _opened(own, port) as opened, _beside(lambda ended: _answer(opened, peer, ended)):
        yield


@contextlib.contextmanager
def probing(own: tuple[str, int], peer: tuple[str, int]) -> Iterator[Trips]:
    """Send probes meanwhile, from one address and port to another; the figures are whole when it is over.

    Raises OSError.
    """
    trips, mark = Trips(), time.monotonic_ns().to_bytes(8, "big")
    with _opened(*own) as opened:
        opened.connect(peer)
        with _beside(lambda ended: _listen(opened, mark, trips, ended)):
            with _beside(lambda ended: _send(opened, mark, trips, ended)):
                yield trips
            _await_last(trips)


def _opened(own: str, port: int) -> socket.socket:
    opened = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    try:
        opened.settimeout(_TURN)
        opened.bind((own, port))
    except OSError:
        opened.close()
        raise
    return opened


@contextlib.contextmanager
def _beside(work: Callable[[threading.Event], None]) -> Iterator[None]:
    ended = threading.Event()
    thread = threading.Thread(target=work, args=(ended,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _answer(opened: socket.socket, peer: str, ended: threading.Event) -> None:
    while not ended.is_set():
        try:
            octets, sender = opened.recvfrom(_PROBE.size + 1)
            if sender[0] == peer and len(octets) == _PROBE.size:
                opened.sendto(octets, sender)
        except OSError:  # nothing came, or what the rules drop
            continue


def _send(opened: socket.socket, mark: bytes, trips: Trips, ended: threading.Event) -> None:
    while not ended.wait(INTERVAL):
        trips.began[trips.sent] = time.monotonic()
        with contextlib.suppress(OSError):
            opened.send(_PROBE.pack(mark, trips.sent))
        trips.sent += 1


def _listen(opened: socket.socket, mark: bytes, trips: Trips, ended: threading.Event) -> None:
    while not ended.is_set():
        try:
            octets = opened.recv(_PROBE.size + 1)
        except OSError:
            continue
        if len(octets) == _PROBE.size:
            found, number = _PROBE.unpack(octets)
            if found == mark and number in trips.began:
                trips.milliseconds.setdefault(number, (time.monotonic() - trips.began[number]) * 1000)


def _await_last(trips: Trips) -> None:
    end = time.monotonic() + _LAST
    while len(trips.milliseconds) < trips.sent and time.monotonic() < end:
        time.sleep(INTERVAL)
