"""Send and hear requests to join a fleet, and their answers (core/trust/joining.py).

They pass in the clear also between two peers: the member that approves a new node trusts it first. So the socket has
XFRM policies of its own that let everything pass, as the IKE daemon's sockets have (xfrm_user of linux/xfrm.h). The
fail-closed rules say what may pass.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable
from ipaddress import IPv6Address
from typing import Any

from meshsec.core.trust.joining import PORT, SIZE_MAX

_IPV6_XFRM_POLICY = 35
_XFRM_POLICY_IN, _XFRM_POLICY_OUT = 0, 1
_FAMILY_AT, _DIRECTION_AT = 40, 160
_POLICY_OCTETS = 168
"""struct xfrm_userpolicy_info: all selectors, no limits of life, and zero for XFRM_POLICY_ALLOW."""


class JoinDatagrams:
    """The open socket."""

    def __init__(self, transport: asyncio.DatagramTransport) -> None:
        self._transport = transport

    def send(self, address: IPv6Address, octets: bytes) -> None:
        """Send a datagram. One that the kernel or the rules drop is like a lost one."""
        self._transport.sendto(octets, (str(address), PORT))

    def close(self) -> None:
        """Close the socket."""
        self._transport.close()


class _Protocol(asyncio.DatagramProtocol):
    def __init__(self, on_datagram: Callable[[IPv6Address, bytes], None]) -> None:
        self._on_datagram = on_datagram

    def datagram_received(self, data: bytes, addr: tuple[Any, ...]) -> None:
        """Take a datagram. One from another port than meshsecd's is somebody else's."""
        if addr[1] == PORT and len(data) <= SIZE_MAX:
            self._on_datagram(IPv6Address(addr[0].partition("%")[0]), data)

    def error_received(self, exc: Exception) -> None:
        """Ignore what the network says of an earlier datagram: requests are repeated."""


async def join_datagrams(own: IPv6Address, on_datagram: Callable[[IPv6Address, bytes], None]) -> JoinDatagrams:
    """Open the socket at an address of this node's. Raises OSError if that is not possible (yet)."""
    opened = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    try:
        opened.setblocking(False)
        for direction in (_XFRM_POLICY_IN, _XFRM_POLICY_OUT):
            with contextlib.suppress(OSError):  # a kernel without XFRM, which then transforms nothing
                opened.setsockopt(socket.IPPROTO_IPV6, _IPV6_XFRM_POLICY, _pass_all(direction))
        opened.bind((str(own), PORT))
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(lambda: _Protocol(on_datagram), sock=opened)
    except OSError:
        opened.close()
        raise
    return JoinDatagrams(transport)


def _pass_all(direction: int) -> bytes:
    policy = bytearray(_POLICY_OCTETS)
    struct.pack_into("=H", policy, _FAMILY_AT, socket.AF_INET6)
    policy[_DIRECTION_AT] = direction
    return bytes(policy)
