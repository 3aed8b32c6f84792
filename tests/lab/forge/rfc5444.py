"""Build forged OLSRv2 packets: HELLO and TC messages (RFC 5444, 6130, 7181) in which the forger chooses every field.

``datagram(source, packet(hello(...), tc(...)))`` is an IP packet that :class:`tests.lab.forge.raw.Forger` sends.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from ipaddress import ip_address, ip_interface

from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet

PORT = 269
"""UDP port "manet" (RFC 5498)."""
LONGEST = 0xFF
"""Time code of 45.5 days, the longest there is (RFC 5497, section 5)."""
_HELLO, _TC = 0, 1
_INTERVAL_TIME, _VALIDITY_TIME, _MPR_WILLING, _CONT_SEQ_NUM = 0, 1, 7, 8
_LOCAL_IF, _LINK_STATUS, _OTHER_NEIGHB, _LINK_METRIC, _NBR_ADDR_TYPE, _GATEWAY = 2, 3, 4, 7, 9, 10
_ALL_METRICS, _OUTGOING_NEIGHBOUR = 0xF000, 0x1000


class Status(IntEnum):
    """Value of LINK_STATUS (RFC 7188, section 5.2)."""

    LOST = 0
    SYMMETRIC = 1
    HEARD = 2


@dataclass(frozen=True)
class Tlv:
    """A TLV that belongs to a message or to one address."""

    type: int
    value: bytes = b""
    extension: int = 0

    def __bytes__(self) -> bytes:
        flags = 0x80 * bool(self.extension) | 0x10 * bool(self.value)
        extension = bytes([self.extension]) if self.extension else b""
        length = bytes([len(self.value)]) if self.value else b""
        return bytes([self.type, flags]) + extension + length + self.value


@dataclass(frozen=True)
class Entry:
    """An address or network (``ADDRESS/LENGTH``) in a message, with its TLVs."""

    address: str
    tlvs: tuple[Tlv, ...] = ()

    def __bytes__(self) -> bytes:
        """Encode an address block of its own, uncompressed."""
        prefix = ip_interface(self.address)
        is_host = prefix.network.prefixlen == prefix.max_prefixlen
        length = b"" if is_host else bytes([prefix.network.prefixlen])
        return bytes([1, 0 if is_host else 0x10]) + prefix.ip.packed + length + _block(self.tlvs)


@dataclass(frozen=True)
class Message:
    """An RFC 5444 message. A field that is ``None`` is left out."""

    type: int
    originator: str
    tlvs: tuple[Tlv, ...] = ()
    entries: tuple[Entry, ...] = ()
    hop_limit: int | None = None
    hop_count: int | None = None
    seq: int | None = None

    def __bytes__(self) -> bytes:
        originator = ip_address(self.originator).packed
        optional = ((0x40, self.hop_limit, 1), (0x20, self.hop_count, 1), (0x10, self.seq, 2))
        given = [(flag, value.to_bytes(size, "big")) for flag, value, size in optional if value is not None]
        flags = 0x80 | sum(flag for flag, _ in given) | (len(originator) - 1)
        body = originator + b"".join(field for _, field in given) + _block(self.tlvs)
        body += b"".join(bytes(entry) for entry in self.entries)
        return bytes([self.type, flags]) + (len(body) + 4).to_bytes(2, "big") + body


def hello(
    originator: str,
    own: Sequence[str],
    neighbours: Iterable[Entry] = (),
    *,
    others: Sequence[str] = (),
    interval: int = 0x58,
    validity: int = 0x72,
    willingness: int = 0x77,
) -> Message:
    """Build a HELLO: 2 s and 20 s by default, as olsrd2 sends it.

    ``own`` are the addresses of the sending interface, ``others`` those of the sender's other interfaces.
    """
    tlvs = (*_times(interval, validity), Tlv(_MPR_WILLING, bytes([willingness])))
    local = [Entry(address, (Tlv(_LOCAL_IF, b"\0"),)) for address in own]
    local += [Entry(address, (Tlv(_LOCAL_IF, b"\1"),)) for address in others]
    return Message(_HELLO, originator, tlvs, (*local, *neighbours))


def tc(
    originator: str,
    entries: Iterable[Entry] = (),
    *,
    seq: int,
    ansn: int,
    hop_limit: int = 255,
    hop_count: int = 0,
    interval: int = 0x62,
    validity: int = 0x92,
) -> Message:
    """Build a complete TC: 5 s and 320 s by default, as olsrd2 sends it."""
    tlvs = (*_times(interval, validity), Tlv(_CONT_SEQ_NUM, ansn.to_bytes(2, "big")))
    return Message(_TC, originator, tlvs, tuple(entries), hop_limit, hop_count, seq)


def link(address: str, status: Status = Status.SYMMETRIC, *, metric: int = 1) -> Entry:
    """Claim in a HELLO a link to an interface with this address, with the same metric in all directions."""
    return Entry(address, (Tlv(_LINK_STATUS, bytes([status])), _metric(_ALL_METRICS, metric)))


def neighbour(address: str, *, metric: int = 1) -> Entry:
    """Claim in a HELLO that this address is a symmetric neighbour's, on some other interface."""
    return Entry(address, (Tlv(_OTHER_NEIGHB, b"\1"), _metric(_ALL_METRICS, metric)))


def edge(address: str, *, metric: int = 1) -> Entry:
    """Claim in a TC a neighbour whose originator and routable address this is."""
    return Entry(address, (_metric(_OUTGOING_NEIGHBOUR, metric), Tlv(_NBR_ADDR_TYPE, b"\3")))


def attached(prefix: str) -> Entry:
    """Claim in a TC an attached network, at the least metric and distance."""
    return Entry(prefix, (_metric(_OUTGOING_NEIGHBOUR, 1), Tlv(_GATEWAY, b"\1")))


def packet(*messages: Message) -> bytes:
    """Build an RFC 5444 packet without a sequence number."""
    return b"\0" + b"".join(bytes(message) for message in messages)


def datagram(source: str, payload: bytes) -> Packet:
    """Build the IP packet in which a router with this address sends an RFC 5444 packet to its neighbours."""
    udp = UDP(sport=PORT, dport=PORT) / payload
    if ip_address(source).version == 4:
        return IP(src=source, dst="224.0.0.109", ttl=1, tos=0xC0) / udp
    return IPv6(src=source, dst="ff02::6d", hlim=1, tc=0xC0) / udp


def _block(tlvs: Iterable[Tlv]) -> bytes:
    encoded = b"".join(bytes(tlv) for tlv in tlvs)
    return len(encoded).to_bytes(2, "big") + encoded


def _times(interval: int, validity: int) -> tuple[Tlv, Tlv]:
    return Tlv(_INTERVAL_TIME, bytes([interval])), Tlv(_VALIDITY_TIME, bytes([validity]))


def _metric(kinds: int, value: int) -> Tlv:
    """Encode a metric of 1 to 16776960 for the kinds and directions given by their flags (RFC 7181, section 6.2)."""
    shifted = value + 256
    exponent = max((shifted - 1).bit_length() - 9, 0)
    mantissa = -(-shifted // (1 << exponent)) - 257
    return Tlv(_LINK_METRIC, (kinds | exponent << 8 | mantissa).to_bytes(2, "big"))
