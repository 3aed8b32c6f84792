"""Send ICMP echo requests (RFC 792; RFC 4443, section 4.1) and report who answers.

The kernel's ping sockets (icmp(7)) need no capability, but the process's group has to be within
``net.ipv4.ping_group_range``.
"""

import asyncio
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import IPv6Address, ip_address

from meshsec.core.values.model import Address

_REQUEST = {4: 8, 6: 128}
_ANSWER = {4: 0, 6: 129}
_SOCKET = {4: (socket.AF_INET, socket.IPPROTO_ICMP), 6: (socket.AF_INET6, socket.IPPROTO_ICMPV6)}
_HEADER = struct.Struct("!BBHHH")
"""Type, code, checksum, identifier and sequence number. The kernel fills in checksum and identifier."""
_BURST = 64
"""Answers that are read in one round of the loop."""


class EchoError(OSError):
    """No echo request can be sent; the text says why, and what helps."""


class Echo:
    """Sends requests of one IP version."""

    def __init__(self, version: int, sock: socket.socket, on_answer: Callable[[Address], None]) -> None:
        """``sock``: a non-blocking ping socket."""
        self._version, self._socket, self._on_answer = version, sock, on_answer
        self._sequence = 0

    def send(self, address: Address) -> None:
        """Send one request. A kernel that has no way for it now is like a lost request.

        Raises EchoError if this process may not send there.
        """
        self._sequence = (self._sequence + 1) & 0xFFFF
        request = _HEADER.pack(_REQUEST[self._version], 0, 0, 0, self._sequence)
        try:
            self._socket.sendto(request, (str(address), 0))
        except PermissionError as error:
            raise EchoError(f"this process may not send to {address}: {error.strerror}") from error
        except OSError:
            return

    def read(self) -> None:
        """Report the answers that wait."""
        for _ in range(_BURST):
            try:
                data, sender = self._socket.recvfrom(64)
            except OSError:
                return
            if data and data[0] == _ANSWER[self._version]:
                self._on_answer(ip_address(sender[0].partition("%")[0]))


@contextmanager
def echo(version: int, on_answer: Callable[[Address], None], source: IPv6Address | None = None) -> Iterator[Echo]:
    """Open a socket while the context is open. ``on_answer`` is called in the running loop with who answers.

    ``source`` is the own address that requests come from. Raises EchoError.
    """
    loop = asyncio.get_running_loop()
    with _opened(version, source) as sock:
        made = Echo(version, sock, on_answer)
        loop.add_reader(sock, made.read)
        try:
            yield made
        finally:
            loop.remove_reader(sock)


def _opened(version: int, source: IPv6Address | None) -> socket.socket:
    family, protocol = _SOCKET[version]
    try:
        sock = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, protocol)
    except PermissionError as error:
        hint = "`sysctl --system` sets it as /usr/lib/sysctl.d/60-meshsec.conf says"
        raise EchoError(f"net.ipv4.ping_group_range does not allow echo requests; {hint}") from error
    except OSError as error:
        raise EchoError(f"echo requests: {error.strerror}") from error
    if source is not None:
        try:
            sock.bind((str(source), 0))
        except OSError as error:
            sock.close()
            raise EchoError(f"echo requests from {source}: {error.strerror}") from error
    return sock
