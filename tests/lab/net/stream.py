"""A TCP connection that lasts while other things happen. Each byte is checked when it arrives."""

import itertools
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import Self

from tests.lab.basics.patience import patient
from tests.lab.basics.wakeups import Wakeups
from tests.lab.net import namespaces
from tests.lab.net.packets import MARK

PORT = 7100
_NUMBER = struct.Struct("!Q")
_RECORDS = 64
"""Records (a mark and a number) in one write: 1.5 kB."""
_PAUSE = 0.01
"""Seconds between two writes, so that the stream lasts as long as the test needs it."""


class Stream:
    """A stream between two addresses while the context is open; ``verify`` checks that it arrived whole."""

    def __init__(self, source: tuple[str, str], target: tuple[str, str]) -> None:
        def listening() -> socket.socket:
            return socket.create_server((target[1], PORT), family=socket.AF_INET6)

        def connecting() -> socket.socket:
            return socket.socket(socket.AF_INET6, socket.SOCK_STREAM)

        self.sent = 0
        self.received = 0
        self.fault = ""
        self._target = (target[1], PORT)
        self._listener = namespaces.within(target[0], listening)
        self._out = namespaces.within(source[0], connecting)
        self._out.bind((source[1], 0))
        self._stop = threading.Event()
        self._wakeups = Wakeups()
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._read, self._write)]

    def __enter__(self) -> Self:
        self._listener.settimeout(patient(30))
        self._out.settimeout(patient(30))
        self._out.connect(self._target)
        self._in, _ = self._listener.accept()
        for end in (self._out, self._in):
            end.setblocking(False)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        for opened in (self._out, self._in, self._listener, self._wakeups):
            opened.close()

    def fileno(self) -> int:
        """Return the descriptor that is readable when bytes have arrived."""
        return self._wakeups.fileno()

    def drain(self) -> bool:
        """Take the wake-ups."""
        return self._wakeups.drain()

    def summary(self) -> str:
        """Describe in words what has arrived so far."""
        return f"{self.sent} octets sent, {self.received} received{self.fault and f', {self.fault}'}"

    def verify(self) -> None:
        """Check, after the context, that everything that was sent has arrived unchanged."""
        assert not self.fault, self.summary()
        assert self.sent == self.received > 0, self.summary()

    def _write(self) -> None:
        for block in _blocks():
            rest = block
            while rest and not self._stop.is_set():
                if select.select([], [self._out], [], 0.1)[1]:
                    rest = rest[self._sent(rest) :]
            if self._stop.wait(_PAUSE):
                break
        with suppress(OSError):
            self._out.shutdown(socket.SHUT_WR)

    def _sent(self, octets: bytes) -> int:
        try:
            count = self._out.send(octets)
        except BlockingIOError:
            return 0
        except OSError as error:
            self._fail(f"the sender's end broke: {error}")
            return 0
        self.sent += count
        return count

    def _read(self) -> None:
        expected, blocks = b"", _blocks()
        deadline = float("inf")
        while time.monotonic() < deadline:
            if self._stop.is_set():
                deadline = min(deadline, time.monotonic() + patient(30))
            if not select.select([self._in], [], [], 0.1)[0]:
                continue
            try:
                data = self._in.recv(1 << 16)
            except OSError as error:
                return self._fail(f"the receiver's end broke: {error}")
            if not data:
                return None
            while len(expected) < len(data):
                expected += next(blocks)
            if not expected.startswith(data):
                return self._fail(f"something else arrived after octet {self.received}")
            expected = expected[len(data) :]
            self.received += len(data)
            self._wakeups.wake()
        return self._fail("the end did not arrive in time")

    def _fail(self, fault: str) -> None:
        self.fault = self.fault or fault
        self._stop.set()


def _blocks() -> Iterator[bytes]:
    """Yield the bytes of every stream, one write at a time."""
    for first in itertools.count(0, _RECORDS):
        yield b"".join(MARK + _NUMBER.pack(number) for number in range(first, first + _RECORDS))
