"""Path MTU discovery as a program sees it (RFC 1191, RFC 8201): datagrams that nobody on the way may fragment."""

import errno
import socket
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

from tests.lab.basics.patience import patient
from tests.lab.basics.waiting import wait_until
from tests.lab.net.packets import MARK
from tests.lab.net.traffic import PORT, udp_socket

_DISCOVER, _KNOWN = {4: 10, 6: 23}, {4: 14, 6: 24}
"""IP_MTU_DISCOVER and IP_MTU by IP version (linux/in.h, linux/in6.h)."""
_DO = 2
"""IP_PMTUDISC_DO: set DF, and refuse what is larger than the path's known MTU."""
_LEVELS = {4: socket.IPPROTO_IP, 6: socket.IPPROTO_IPV6}
_HEADERS = {4: 20 + 8, 6: 40 + 8}
"""Bytes of the IP and UDP headers."""
_AGAIN = 0.3
"""Seconds until the next packet is sent."""


class Unfragmented:
    """A UDP socket that asks for no fragments, and the socket that it sends to. Sizes are those of packets in bytes."""

    def __init__(self, source: tuple[str, str], target: tuple[str, str]) -> None:
        """``source`` and ``target`` are each a namespace and an address in it."""
        self._version = 6 if ":" in target[1] else 4
        self._in = udp_socket(*target, PORT)
        self._out = udp_socket(*source)
        self._out.setsockopt(_LEVELS[self._version], _DISCOVER[self._version], _DO)
        self._out.connect((target[1], PORT))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._in.close()
        self._out.close()

    def fileno(self) -> int:
        """Return the descriptor that is readable when an error has come."""
        return self._out.fileno()

    def drain(self) -> bool:
        """Take the error."""
        self._out.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        return True

    def send(self, size: int) -> bool:
        """Send a packet of this size. Return False when the kernel says that it is too large for the path."""
        try:
            self._out.send(MARK.ljust(size - _HEADERS[self._version], b"."))
        except OSError as error:
            if error.errno != errno.EMSGSIZE:
                raise
            return False
        return True

    def learn(self, size: int, seconds: float = 30) -> int:
        """Send packets of this size until one is too large. Return the MTU that the kernel knows then."""
        wait_until(f"a path MTU below {size}", lambda: not self.send(size), [self], seconds)
        return self._out.getsockopt(_LEVELS[self._version], _KNOWN[self._version])

    def arrives(self, size: int, seconds: float = 5) -> bool:
        """Send packets of this size. Return whether one arrives. A single one may be lost while a client moves."""
        end = time.monotonic() + patient(seconds)
        self._in.settimeout(_AGAIN)
        while time.monotonic() < end:
            if not self.send(size):
                return False
            with suppress(TimeoutError):
                while len(self._in.recv(size)) + _HEADERS[self._version] != size:
                    continue
                return True
        return False
