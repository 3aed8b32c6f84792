"""Datagrams between the meshsecds of nodes that trust each other: UDP between ``fc..`` addresses, with one port.

The fail-closed rules let nobody but root send from a node to such a port of a peer, and drop what nothing protects.
"""

import asyncio
from collections.abc import Callable
from ipaddress import IPv6Address
from typing import Any


class PeerDatagramsError(OSError):
    """This node cannot hear the others; the text says why."""


class PeerDatagrams:
    """The open socket."""

    def __init__(self, transport: asyncio.DatagramTransport, port: int) -> None:
        self._transport, self._port = transport, port

    def send(self, peer: IPv6Address, octets: bytes) -> None:
        """Send one datagram. One that the rules drop is like a lost one."""
        self._transport.sendto(octets, (str(peer), self._port))

    def close(self) -> None:
        """Close the socket."""
        self._transport.close()


class _Protocol(asyncio.DatagramProtocol):
    def __init__(self, port: int, on_datagram: Callable[[IPv6Address, bytes], None]) -> None:
        self._port, self._on_datagram = port, on_datagram

    def datagram_received(self, data: bytes, addr: tuple[Any, ...]) -> None:
        """Take a datagram. One from another port than meshsecd's is somebody else's."""
        if addr[1] == self._port:
            self._on_datagram(IPv6Address(addr[0].partition("%")[0]), data)

    def error_received(self, exc: Exception) -> None:
        """Ignore what the network says of an earlier datagram."""


async def peer_datagrams(
    own: IPv6Address, port: int, on_datagram: Callable[[IPv6Address, bytes], None]
) -> PeerDatagrams:
    """Open the socket at this node's address. Raises PeerDatagramsError."""
    loop = asyncio.get_running_loop()
    try:
        transport, _ = await loop.create_datagram_endpoint(
            lambda: _Protocol(port, on_datagram), local_addr=(str(own), port)
        )
    except OSError as error:
        raise PeerDatagramsError(f"UDP {port} at {own}: {error.strerror}") from error
    return PeerDatagrams(transport, port)
