"""Talk with the other access nodes: datagrams between ``fc..`` addresses (core/access/messages.py)."""

import asyncio
from collections.abc import Callable
from ipaddress import IPv6Address
from typing import Any

from meshsec.core.access.messages import PORT, SIZE_MAX, Message, MessageError, decode, encode


class AccessPeersError(OSError):
    """This node cannot hear the others; the text says why."""


class AccessPeers:
    """The open socket."""

    def __init__(self, transport: asyncio.DatagramTransport) -> None:
        self._transport = transport

    def send(self, peer: IPv6Address, message: Message) -> None:
        """Send one message. The fail-closed rules drop it while nothing protects it, which is like a lost one."""
        self._transport.sendto(encode(message), (str(peer), PORT))

    def close(self) -> None:
        """Close the socket."""
        self._transport.close()


class _Protocol(asyncio.DatagramProtocol):
    def __init__(self, on_message: Callable[[IPv6Address, Message], None]) -> None:
        self._on_message = on_message

    def datagram_received(self, data: bytes, addr: tuple[Any, ...]) -> None:
        """Take a message. One from another port than meshsecd's is somebody else's."""
        if addr[1] != PORT or len(data) > SIZE_MAX:
            return
        try:
            message = decode(data)
        except MessageError:
            return
        self._on_message(IPv6Address(addr[0].partition("%")[0]), message)

    def error_received(self, exc: Exception) -> None:
        """Ignore what the network says of an earlier message: it is sent again."""


async def access_peers(own: IPv6Address, on_message: Callable[[IPv6Address, Message], None]) -> AccessPeers:
    """Open the socket at this node's address. Raises AccessPeersError."""
    loop = asyncio.get_running_loop()
    try:
        transport, _ = await loop.create_datagram_endpoint(lambda: _Protocol(on_message), local_addr=(str(own), PORT))
    except OSError as error:
        raise AccessPeersError(f"UDP {PORT} at {own}: {error.strerror}") from error
    return AccessPeers(transport)
