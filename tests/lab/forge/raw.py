"""Send forged Ethernet frames from a namespace of the lab."""

import json
import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from scapy.layers.l2 import Ether
from scapy.packet import Packet

from tests.lab.basics.shell import run
from tests.lab.net import namespaces
from tests.lab.net.links import End


def mac_of(end: End) -> str:
    """Return the hardware address of an interface."""
    shown = run(["ip", "-n", end.namespace, "-j", "link", "show", "dev", end.interface]).stdout
    return str(json.loads(shown)[0]["address"])


def checksummed(frame: bytes) -> bytes:
    """Return an Ethernet frame of IPv6 and UDP with its UDP checksum (RFC 8200, section 8.1).

    It is ten times faster than to build the packet again, which floods need.
    """
    udp = frame[54:60] + bytes(2) + frame[62:]
    covered = frame[22:54] + struct.pack("!II", len(udp), socket.IPPROTO_UDP) + udp + bytes(len(udp) % 2)
    total = sum(struct.unpack(f"!{len(covered) // 2}H", covered))
    total = (total & 0xFFFF) + (total >> 16)
    checksum = ~(total + (total >> 16)) & 0xFFFF or 0xFFFF
    return frame[:60] + struct.pack("!H", checksum) + frame[62:]


@dataclass(frozen=True)
class Way:
    """The link over which a stranger reaches a victim, with the hardware addresses of both ends."""

    sender: End
    source_mac: str
    target_mac: str

    @classmethod
    def between(cls, sender: End, target: End) -> "Way":
        """Look up the hardware addresses of two ends of one link."""
        return cls(sender, mac_of(sender), mac_of(target))


class Forger:
    """A raw socket on a stranger's interface. It sends whatever IP packet it is given to the victim's hardware address.

    The rules of the stranger's own node do not see these frames: only the victim's defences are tested.
    """

    def __init__(self, way: Way) -> None:
        self._way = way
        self._socket = namespaces.within(way.sender.namespace, self._opened)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def send(self, *packets: Packet) -> None:
        """Send each IP packet in a frame of its own to the victim."""
        for packet in packets:
            self._socket.send(bytes(Ether(src=self._way.source_mac, dst=self._way.target_mac) / packet))

    def send_frames(self, frames: Iterable[bytes]) -> int:
        """Send complete frames as fast as the interface takes them. Return the number of frames sent."""
        return sum(self._socket.send(frame) > 0 for frame in frames)

    def _opened(self) -> socket.socket:
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        opened.bind((self._way.sender.interface, 0))
        return opened
