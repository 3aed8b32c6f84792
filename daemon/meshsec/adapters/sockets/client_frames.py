"""Hear which clients are at a bridge: ARP, neighbour discovery, DHCP, and access points' frames (packet(7)).

The kernel passes those frames alone. A flood of them is cheap: at most some are read in a round of the loop, and the
kernel drops what the socket's buffer does not hold.
"""

import asyncio
import ctypes
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

from meshsec.core.access.clients import Sighting
from meshsec.core.access.frames import ARP, IPV6, LLC, called, lease, sighting

_SO_ATTACH_FILTER = 26
_BURST = 64
"""Frames that are read in one round of the loop."""
_LENGTH = 128
"""Octets of a frame that are looked at."""
_BUFFER = 256 * 1024
_OUTGOING = 4
"""PACKET_OUTGOING: this node sent it."""
_DISCOVERY = (
    (0x30, 0, 0, 6),  # the octet that says what follows the IPv6 header
    (0x15, 0, 4, 58),  # ICMPv6, or else nothing
    (0x30, 0, 0, 40),  # its type
    (0x35, 0, 2, 133),  # at least a router solicitation
    (0x25, 1, 0, 136),  # at most a neighbour advertisement
    (0x06, 0, 0, _LENGTH),
    (0x06, 0, 0, 0),
)
"""A program of the classic packet filter: code, jumps if true and false, value."""
_DHCP = (
    (0x28, 0, 0, 0xFFFFF000),  # the protocol of the frame (SKF_AD_PROTOCOL)
    (0x15, 8, 0, 0x86DD),  # IPv6
    (0x15, 0, 12, 0x0800),  # IPv4, or else nothing
    (0x30, 0, 0, 9),
    (0x15, 0, 10, 17),  # UDP
    (0xB1, 0, 0, 0),  # the length of the IPv4 header
    (0x48, 0, 0, 0),
    (0x15, 6, 0, 67),  # from the port of DHCP servers
    (0x48, 0, 0, 2),
    (0x15, 4, 5, 67),  # or to it
    (0x30, 0, 0, 6),  # the octet that says what follows the IPv6 header
    (0x15, 0, 3, 17),  # UDP
    (0x28, 0, 0, 42),
    (0x15, 0, 1, 547),  # to the port of DHCPv6 servers
    (0x06, 0, 0, 1500),
    (0x06, 0, 0, 0),
)
_ALL = 3
"""ETH_P_ALL: what this node sends, too."""
_FILTERS = {IPV6: _DISCOVERY, _ALL: _DHCP}
NAMES_MAX = 256
"""Clients whose names are remembered until they are heard with an address."""


class FramesError(OSError):
    """The frames cannot be heard; the text says why."""


class _Names:
    """What clients call themselves: they say it before they have an address, and in other frames than that."""

    def __init__(self) -> None:
        self._by_mac: dict[str, str] = {}

    def learn(self, mac: str, name: str) -> None:
        """Remember a name; of many the newest."""
        if not name:
            return
        self._by_mac.pop(mac, None)
        self._by_mac[mac] = name
        if len(self._by_mac) > NAMES_MAX:
            del self._by_mac[next(iter(self._by_mac))]

    def named(self, found: Sighting) -> Sighting:
        """Return a sighting with the client's name."""
        return found._replace(name=self._by_mac.get(found.mac, ""))


@contextmanager
def client_frames(device: str, on_sighting: Callable[[Sighting], None]) -> Iterator[None]:
    """Call back in the running loop for each client that is heard. Raises FramesError."""
    loop, names = asyncio.get_running_loop(), _Names()

    def tell(found: Sighting) -> None:
        on_sighting(names.named(found))

    with ExitStack() as stack:
        for protocol in (ARP, IPV6, LLC, _ALL):
            sock = stack.enter_context(_opened(device, protocol))
            read = partial(_read_dhcp, names) if protocol == _ALL else _read
            loop.add_reader(sock, read, sock, tell)
            stack.callback(loop.remove_reader, sock)
        yield


def _opened(device: str, protocol: int) -> socket.socket:
    kind = socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
    try:
        sock = socket.socket(socket.AF_PACKET, kind, 0)  # of no protocol, so that it hears nothing before its filter
    except OSError as error:
        raise FramesError(f"frames of clients: {error.strerror}; it needs CAP_NET_RAW and AF_PACKET") from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        if protocol in _FILTERS:
            _attach(sock, _FILTERS[protocol])
        sock.bind((device, protocol))
    except OSError as error:
        sock.close()
        raise FramesError(f"frames of clients on {device}: {error.strerror}") from error
    return sock


def _attach(sock: socket.socket, steps: Sequence[tuple[int, int, int, int]]) -> None:
    program = b"".join(struct.pack("=HBBI", *one) for one in steps)
    buffer = ctypes.create_string_buffer(program)
    sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("@HP", len(steps), ctypes.addressof(buffer)))


def _read(sock: socket.socket, on_sighting: Callable[[Sighting], None]) -> None:
    for _ in range(_BURST):
        try:
            octets, (_, protocol, kind, _, mac) = sock.recvfrom(_LENGTH)
        except OSError:
            return
        found = sighting(mac.hex(":"), protocol, octets) if kind != _OUTGOING and len(mac) == 6 else None
        if found is not None:
            on_sighting(found)


def _read_dhcp(names: _Names, sock: socket.socket, on_sighting: Callable[[Sighting], None]) -> None:
    for _ in range(_BURST):
        try:
            octets, (_, protocol, kind, _, mac) = sock.recvfrom(1500)
        except OSError:
            return
        if kind != _OUTGOING:
            if len(mac) == 6:
                names.learn(mac.hex(":"), called(mac.hex(":"), protocol, octets))
        elif (found := lease(octets)) is not None:
            on_sighting(found)
