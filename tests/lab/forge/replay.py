"""Record the datagrams and ESP packets that leave an interface, as frames that can be sent again."""

import select
import socket
from types import TracebackType
from typing import Self

from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet

from tests.lab.net import namespaces
from tests.lab.net.links import End

_ESP = 50
_ETH_P_ALL = 0x0003
"""A socket for one protocol does not see what goes out."""


class Recorder:
    """Keep the frames with a UDP port that leave an interface while the block runs, and those of ESP if asked for."""

    def __init__(self, end: End, *ports: int, esp: bool = False) -> None:
        self._ports, self._esp = frozenset(ports), esp
        self._socket = namespaces.within(end.namespace, lambda: _opened(end.interface))
        self._frames: list[bytes] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def take(self) -> list[bytes]:
        """Return what was recorded until now."""
        while select.select([self._socket], [], [], 0)[0]:
            frame, address = self._socket.recvfrom(65535)
            packet = Ether(frame)
            if address[2] == socket.PACKET_OUTGOING and self._is_kept(packet):
                self._frames.append(_completed(packet))
        return self._frames

    def _is_kept(self, packet: Packet) -> bool:
        if self._esp and IPv6 in packet and packet[IPv6].nh == _ESP:
            return True
        return UDP in packet and packet[UDP].dport in self._ports


def _completed(packet: Ether) -> bytes:
    """Compute the checksums, which the kernel leaves to an adapter that a cable of the lab does not have."""
    if UDP in packet:
        del packet[UDP].chksum
    if IP in packet:
        del packet[IP].chksum
    else:
        assert IPv6 in packet
    return bytes(packet)


def _opened(interface: str) -> socket.socket:
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    opened.bind((interface, _ETH_P_ALL))
    return opened
