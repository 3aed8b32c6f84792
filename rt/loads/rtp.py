"""Counts the frames of an RTP video stream where it arrives."""

import select
import socket
import threading
import time
from types import TracebackType
from typing import Self

from tests.lab.net import namespaces

_HEADER = 12
"""Octets of an RTP header (RFC 3550, section 5.1)."""
_BUFFER = 4 << 20


class RtpSink:
    """The receiving end of a stream while the context is open."""

    per_second = 60.0
    """Frames that the camera gives (``rt.loads.encoder.FRAMES_PER_SECOND``)."""

    def __init__(self, namespace: str, address: str, port: int) -> None:
        self._frames = 0
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

    def count(self) -> float:
        """Return the frames whose last packet has arrived; it carries the marker bit (RFC 6184, section 5.1)."""
        return self._frames

    def wait_frames(self, count: int, seconds: float) -> None:
        """Return when so many frames have arrived. Raises TimeoutError."""
        end = time.monotonic() + seconds
        while self._frames < count:
            if time.monotonic() > end:
                raise TimeoutError(f"{self._frames} of {count} frames arrived within {seconds:g} s")
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
                self._frames += 1
