"""A capture that costs the guest next to nothing: packets stay in the kernel until all is over.

A program that takes each packet as it comes would compete for the one processor with what is measured.
"""

import socket
import struct
from types import TracebackType
from typing import Self

from tests.lab.net import namespaces

_ETH_P_ALL = 0x0003
_SOL_PACKET, _PACKET_STATISTICS = 263, 6  # linux/if_packet.h
_SO_TIMESTAMPNS = 35
_SO_RCVBUFFORCE = 33
_ROOM = 64 << 20
"""Octets; a set-up is four packets, and user data beside it a hundred."""


class LateCapture:
    """What crosses an interface while the context is open; ``pcap`` has it afterwards, with the kernel's times."""

    def __init__(self, namespace: str, interface: str) -> None:
        self.pcap = struct.pack("=IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)  # nanoseconds, Ethernet
        self._socket = namespaces.within(namespace, lambda: _open(interface))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._socket:
            if error is None:
                self._take()

    def _take(self) -> None:
        lost = struct.unpack("=II", self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))[1]
        if lost:
            raise RuntimeError(f"the capture lost {lost} packets")
        records = [self.pcap]
        while True:
            try:
                frame, ancillary, _, _ = self._socket.recvmsg(2048, 64)
            except BlockingIOError:
                break
            seconds, nanoseconds = struct.unpack("=qq", ancillary[0][2][:16])
            records.append(struct.pack("=IIII", seconds, nanoseconds, len(frame), len(frame)) + frame)
        self.pcap = b"".join(records)


def _open(interface: str) -> socket.socket:
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)  # protocol 0: nothing is received before bind
    opened.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _ROOM)
    opened.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    opened.setblocking(False)
    opened.bind((interface, _ETH_P_ALL))
    return opened
