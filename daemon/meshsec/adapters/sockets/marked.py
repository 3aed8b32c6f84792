"""Send recognisable user data: datagrams and echo requests that contain a mark."""

import socket
import struct
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

DISCARD = 9
"""The port of the discard protocol (RFC 863), where nobody has to listen."""
_ECHO, _ECHO_REPLY = 128, 129  # RFC 4443, sections 4.1 and 4.2
_HEADER = struct.Struct("!BBHHH")


class MarkedError(Exception):
    """Marked data cannot be sent from here."""


class Marked:
    """Send to peers from this node's own addresses and count the answers."""

    def __init__(self, mark: bytes, own6: str, own4: str | None) -> None:
        self._mark = mark
        self._number = 0
        self.sent: Counter[str] = Counter()
        """Packets sent, by address."""
        self.held: Counter[str] = Counter()
        """Packets that this node's kernel refused, because of the rules or without a route, by address."""
        self.answered: Counter[str] = Counter()
        try:
            self._echo = _bound(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6, own6)
            self._datagrams6 = _bound(socket.AF_INET6, socket.SOCK_DGRAM, 0, own6)
            self._datagrams4 = _bound(socket.AF_INET, socket.SOCK_DGRAM, 0, own4) if own4 else None
        except PermissionError as error:
            raise MarkedError("echo requests with a mark need root (CAP_NET_RAW)") from error
        except OSError as error:
            raise MarkedError(f"nothing can be sent from {own6}: {error.strerror}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for one in (self._echo, self._datagrams6, self._datagrams4):
            if one is not None:
                one.close()

    def send(self, addresses: Sequence[str]) -> None:
        """Send one datagram to each address, and one echo request to each IPv6 address."""
        self._number = (self._number + 1) & 0xFFFF
        for address in addresses:
            if ":" in address:
                self._send(self._datagrams6, address, DISCARD, self._mark)
                request = _HEADER.pack(_ECHO, 0, 0, 0, self._number) + self._mark  # the kernel adds the checksum
                self._send(self._echo, address, 0, request)
            elif self._datagrams4 is not None:
                self._send(self._datagrams4, address, DISCARD, self._mark)

    def _send(self, source: socket.socket, address: str, port: int, payload: bytes) -> None:
        try:
            source.sendto(payload, (address, port))
        except OSError:
            self.held[address] += 1
        else:
            self.sent[address] += 1

    def hear(self) -> None:
        """Count the answers that have come. An error that nobody listens at the datagram's port is an answer too."""
        with suppress(BlockingIOError):
            while True:
                with suppress(ConnectionRefusedError):
                    reply, (address, *_) = self._echo.recvfrom(2048)
                    if reply[:1] == bytes([_ECHO_REPLY]) and reply.endswith(self._mark):
                        self.answered[address] += 1


def _bound(family: socket.AddressFamily, kind: socket.SocketKind, protocol: int, address: str) -> socket.socket:
    opened = socket.socket(family, kind, protocol)
    opened.setblocking(False)
    opened.bind((address, 0))
    return opened
