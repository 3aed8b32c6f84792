"""Counts the frames of an RTP video stream where it arrives."""

import select
import socket
import threading
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from tests.lab.net import namespaces

_HEADER = 12
"""Octets of an RTP header (RFC 3550, section 5.1)."""
_BUFFER = 4 << 20


@dataclass
class Arrived:
    """Frames by the times of their last packets (monotonic seconds), which carry the marker bit (RFC 6184, 5.1)."""

    frames: list[float] = field(default_factory=list)

    def between(self, begin: float, end: float) -> int:
        """Frames that were complete in this span of time."""
        return sum(begin <= at < end for at in self.frames)


class RtpSink:
    """The receiving end of a stream while the context is open."""

    def __init__(self, namespace: str, address: str, port: int) -> None:
        self.arrived = Arrived()
        self._socket = namespaces.within(namespace, lambda: self._open(address, port))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._socket.close()

    def wait_frames(self, count: int, seconds: float) -> None:
        """Return when so many frames have arrived; TimeoutError when they have not in time."""
        end = time.monotonic() + seconds
        while len(self.arrived.frames) < count:
            if time.monotonic() > end:
                raise TimeoutError(f"{len(self.arrived.frames)} of {count} frames arrived within {seconds:g} s")
            time.sleep(0.02)

    @staticmethod
    def _open(address: str, port: int) -> socket.socket:
        opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        opened.bind((address, port))
        opened.setblocking(False)
        return opened

    def _run(self) -> None:
        while not self._stop.is_set():
            if select.select([self._socket], [], [], 0.1)[0]:
                self._drain()

    def _drain(self) -> None:
        while True:
            try:
                packet = self._socket.recv(2048)
            except BlockingIOError:
                return
            if len(packet) >= _HEADER and packet[1] & 0x80:
                self.arrived.frames.append(time.monotonic())
