"""Read frames from a monitor interface (packet(7)). Reading needs CAP_NET_RAW alone."""

import asyncio
import errno
import fcntl
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Self

from meshsec.adapters.radio.nl80211 import Nl80211Error, opened
from meshsec.core.air.capture import Packet

_ETH_P_ALL = 0x0003
_SOL_PACKET, _PACKET_STATISTICS = 263, 6  # linux/if_packet.h
_SO_TIMESTAMPNS = 35
_RADIOTAP = 803
"""ARPHRD_IEEE80211_RADIOTAP of linux/if_arp.h."""
_RECEIVE_BUFFER = 32 << 20
_MOST = 65_536
"""Bytes of a frame: A-MSDUs have 11,454 at most, and radiotap headers 65,535 in theory."""
_WAIT = 0.2
"""Seconds of silence after which the caller may do something else."""
_TIMESPEC = struct.Struct("@qq")
_SIOCGIFHWADDR = 0x8927
_IFREQ = struct.Struct("=16sH14x8x")
"""struct ifreq: the name of an interface, and the type of its hardware."""


class MonitorError(Exception):
    """Frames cannot be read from this interface. The message says why, and the command that changes it."""


class Monitor:
    """A monitor interface, from the beginning to the end of a ``with`` block."""

    def __init__(self, interface: str) -> None:
        """Raises MonitorError."""
        self._interface = interface
        _check(interface)
        try:
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        except PermissionError as error:
            raise MonitorError(
                f"{interface}: reading frames needs CAP_NET_RAW; run it as root, or let tcpdump read them: "
                f"sudo tcpdump -i {interface} -U -w - | meshsec air --read -"
            ) from error
        except OSError as error:
            raise MonitorError(f"{interface}: frames cannot be read: {error.strerror}") from error
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        with suppress(PermissionError):  # More than net.core.rmem_max needs CAP_NET_ADMIN.
            self._socket.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_RCVBUFFORCE", 33), _RECEIVE_BUFFER)
        self._socket.settimeout(_WAIT)
        try:
            self._socket.bind((interface, _ETH_P_ALL))
        except OSError as error:
            self._socket.close()
            raise MonitorError(f"{interface}: frames cannot be read: {error.strerror}") from error
        self._number = 0
        self._lost = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._socket.close()

    def packets(self) -> Iterator[Packet]:
        """Yield the packets that come, and return after a silence. Raises MonitorError when the interface has gone."""
        end = time.monotonic() + _WAIT
        while time.monotonic() < end:
            try:
                content, ancillary, _, _ = self._socket.recvmsg(_MOST, 64)
            except TimeoutError:
                return
            except OSError as error:
                if error.errno == errno.ENETDOWN:
                    up = f"ip link set {self._interface} up"
                    raise MonitorError(
                        f"{self._interface}: the interface is down or gone; `{up}` brings it up"
                    ) from error
                raise
            yield self._packet(content, ancillary)

    def lost(self) -> int:
        """Return how many packets were lost since the beginning because the buffer was full."""
        _, dropped = struct.unpack("=II", self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))
        self._lost += dropped
        return self._lost

    def _packet(self, content: bytes, ancillary: list[tuple[int, int, bytes]]) -> Packet:
        self._number += 1
        clock = time.time_ns()
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS and len(data) == _TIMESPEC.size:
                seconds, nanoseconds = _TIMESPEC.unpack(data)
                clock = seconds * 1_000_000_000 + nanoseconds
        return Packet(self._number, clock, len(content), content)


def _check(interface: str) -> None:
    """Refuse an interface that is not there, or shows no frames of 802.11. Raises MonitorError."""
    names = [name for _, name in socket.if_nameindex()]
    if interface not in names:
        there = ", ".join(names) or "none"
        raise MonitorError(f"{interface}: there is no such interface; there are: {there}")
    if _hardware(interface) == _RADIOTAP:
        return
    kind = asyncio.run(_wireless()).get(interface)
    if kind is None:
        raise MonitorError(f"{interface}: is no wireless interface; frames are seen on a monitor interface of a radio")
    raise MonitorError(
        f"{interface}: is not in monitor mode ({kind}). Make a monitor interface beside it, and remove it afterwards:\n"
        f"  iw dev {interface} interface add mon0 type monitor flags control otherbss\n"
        "  ip link set mon0 up\n"
        "  meshsec air mon0\n"
        "  iw dev mon0 del"
    )


def _hardware(interface: str) -> int:
    """Return the ARPHRD of an interface, netdevice(7). Raises MonitorError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            answer = fcntl.ioctl(asked, _SIOCGIFHWADDR, _IFREQ.pack(interface.encode(), 0))
        except OSError as error:
            raise MonitorError(f"{interface}: {error.strerror}") from error
    _, found = _IFREQ.unpack(answer)
    return int(found)


async def _wireless() -> Mapping[str, str]:
    """Return the types of all wireless interfaces by name; none where the kernel does not say."""
    try:
        async with opened() as wireless:
            found = await wireless.interfaces() if wireless else ()
    except Nl80211Error:
        return {}
    return {interface.name: interface.type for _, interface in found}
