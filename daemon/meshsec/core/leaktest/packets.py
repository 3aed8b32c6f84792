"""Tells what a captured packet is. Pure: bytes in, kind out. What cannot be read is CLEAR: nothing vouches for it."""

import struct
from enum import StrEnum
from struct import unpack_from

from meshsec.core.trust.joining import PORT as PORT_JOIN
from meshsec.core.trust.joining import VERSION as JOIN_VERSION

SNAPLEN = 512
"""Octets of a frame that are looked at: the headers and the beginning of the payload, where the mark is."""

IPV4, IPV6, ARP = 0x0800, 0x86DD, 0x0806
PROBE = 0x88B5
"""IEEE 802's first local experimental ethertype: olsrv2d's probes of a radio link, which hold zeros only."""
OVERLAY = 0xFC00
"""The ethertype of cjdns: frames of CryptoAuth, which are sealed from the first octet on, and beacons."""
ICMP, IGMP, UDP, ESP, ICMPV6 = 1, 2, 17, 50, 58
HOP_BY_HOP, FRAGMENT, DESTINATION = 0, 44, 60
PORT_MANET, PORT_IKE, PORT_IKE_NAT = 269, 500, 4500
NON_ESP_MARKER = bytes(4)

ICMP_ERRORS = frozenset({3, 4, 5, 11, 12})
"""RFC 792: messages that quote the packet they are about."""
ICMPV6_ERRORS = frozenset({1, 2, 3, 4})
"""RFC 4443, section 2.1: messages that quote the packet they are about."""
ICMPV6_CONTROL = frozenset({130, 131, 132, 133, 134, 135, 136, 137, 143})
"""Multicast listener discovery (RFC 2710, RFC 9777) and neighbour discovery (RFC 4861)."""

_TYPE, _DATA, _NO_DATA, _QOS = 0x000C, 0x0008, 0x0040, 0x0080
_BOTH_DS, _PROTECTED, _ORDER = 0x0300, 0x4000, 0x8000
_MESH_CONTROL = 0x0100
"""IEEE 802.11-2020: the frame control field (9.2.4.1), and of the QoS control field (9.2.4.5) the bit of a mesh."""
_SNAP = bytes.fromhex("aaaa03000000")
"""LLC and SNAP of an ethertype (RFC 1042)."""


class Kind(StrEnum):
    """What a packet on a mesh link is, as a relay sees it."""

    IKE = "ike"
    ESP = "esp"
    OVERLAY = "overlay"
    OLSR = "olsr"
    CONTROL = "control"
    CLEAR = "clear"


class Classifier:
    """Classifies the frames of one capture. It remembers first fragments, so that later ones can be classified."""

    _FRAGMENTS_KEPT = 1024

    def __init__(self, mark: bytes) -> None:
        """``mark`` is what user data is known by, wherever in a frame it can be read."""
        self._mark = mark
        self._fragments: dict[bytes, Kind] = {}

    def frame(self, frame: bytes) -> Kind:
        """Return the kind of an Ethernet frame, whole or cut at SNAPLEN."""
        try:
            (ethertype,) = unpack_from("!H", frame, 12)
        except struct.error:
            return Kind.CLEAR
        return self.content(ethertype, frame[14:])

    def content(self, ethertype: int, payload: bytes) -> Kind:
        """Return the kind of what a frame carries, whole or cut."""
        if self._mark in payload:
            return Kind.CLEAR
        try:
            return self._payload(ethertype, payload)
        except (IndexError, struct.error):
            return Kind.CLEAR

    def air(self, frame: bytes) -> Kind:
        """Return the kind of an IEEE 802.11 frame behind a radiotap header, as a monitor interface shows it."""
        if self._mark in frame:
            return Kind.CLEAR
        try:
            (length,) = unpack_from("<H", frame, 2)
            return self._radio(frame[length:])
        except (IndexError, struct.error):
            return Kind.CLEAR

    def _radio(self, frame: bytes) -> Kind:
        """IEEE 802.11-2020, section 9.2.3 and, for a mesh, 9.2.4.8.3; LLC and SNAP before the ethertype."""
        (control,) = unpack_from("<H", frame)
        if control & _TYPE != _DATA or control & _NO_DATA:
            return Kind.CONTROL
        at = 24 + 6 * (control & _BOTH_DS == _BOTH_DS)
        if control & _QOS:
            (qos,) = unpack_from("<H", frame, at)
            at += 2 + 4 * bool(control & _ORDER)
            at += 6 + 6 * (frame[at] & 3) if qos & _MESH_CONTROL else 0
        if control & _PROTECTED or frame[at : at + 6] != _SNAP:
            return Kind.CLEAR
        (ethertype,) = unpack_from("!H", frame, at + 6)
        return self._payload(ethertype, frame[at + 8 :])

    def _payload(self, ethertype: int, payload: bytes) -> Kind:
        if ethertype == ARP or (ethertype == PROBE and not any(payload)):
            return Kind.CONTROL
        return Kind.OVERLAY if ethertype == OVERLAY else self._packet(ethertype, payload)

    def _packet(self, ethertype: int, packet: bytes) -> Kind:
        if ethertype == IPV4:
            return self._ipv4(packet)
        return self._ipv6(packet) if ethertype == IPV6 else Kind.CLEAR

    def _ipv4(self, packet: bytes) -> Kind:
        payload = packet[(packet[0] & 0xF) * 4 :]
        (flags,) = unpack_from("!H", packet, 6)
        offset, more = flags & 0x1FFF, bool(flags & 0x2000)
        if offset or more:
            return self._fragment(packet[4:6] + packet[12:20], offset, packet[9], payload)
        return self._transport(packet[9], payload)

    def _ipv6(self, packet: bytes) -> Kind:
        protocol, at = packet[6], 40
        while protocol in (HOP_BY_HOP, DESTINATION):
            protocol, at = packet[at], at + 8 * (packet[at + 1] + 1)
        if protocol == FRAGMENT:
            (offset,) = unpack_from("!H", packet, at + 2)
            return self._fragment(packet[at + 4 : at + 8] + packet[8:40], offset >> 3, packet[at], packet[at + 8 :])
        return self._transport(protocol, packet[at:])

    def _fragment(self, key: bytes, offset: int, protocol: int, payload: bytes) -> Kind:
        if offset:
            return self._fragments.get(key, Kind.CLEAR)
        if len(self._fragments) >= self._FRAGMENTS_KEPT:
            self._fragments.pop(next(iter(self._fragments)))
        self._fragments[key] = self._transport(protocol, payload)
        return self._fragments[key]

    def _transport(self, protocol: int, payload: bytes) -> Kind:
        if protocol == UDP:
            return _udp(payload)
        if protocol == ICMPV6:
            return self._icmp(payload, ICMPV6_ERRORS, ICMPV6_CONTROL, IPV6)
        if protocol == ICMP:
            return self._icmp(payload, ICMP_ERRORS, frozenset(), IPV4)
        return {ESP: Kind.ESP, IGMP: Kind.CONTROL}.get(protocol, Kind.CLEAR)

    def _icmp(self, payload: bytes, errors: frozenset[int], control: frozenset[int], ethertype: int) -> Kind:
        """Return the kind of an ICMP packet: an error message is of the kind of the packet that it quotes."""
        if payload[0] in control:
            return Kind.CONTROL
        if payload[0] not in errors:
            return Kind.CLEAR
        return Kind.CLEAR if self._packet(ethertype, payload[8:]) is Kind.CLEAR else Kind.CONTROL


def ends(ethertype: int, payload: bytes) -> tuple[bytes, bytes] | None:
    """Source and destination of an IP packet, as octets; None of anything else."""
    at, length = {IPV4: (12, 4), IPV6: (8, 16)}.get(ethertype, (0, 0))
    if not length or len(payload) < at + 2 * length:
        return None
    return payload[at : at + length], payload[at + length : at + 2 * length]


def _udp(datagram: bytes) -> Kind:
    source, destination = unpack_from("!HH", datagram)
    if source == destination == PORT_MANET:
        return Kind.OLSR
    if source == destination == PORT_IKE:
        return Kind.IKE
    if source == destination == PORT_IKE_NAT:
        return _encapsulated(datagram[8:])
    if source == destination == PORT_JOIN and datagram[8] == JOIN_VERSION:
        return Kind.CONTROL
    return Kind.CLEAR


def _encapsulated(payload: bytes) -> Kind:
    """RFC 3948, section 2: IKE after a zero marker, a keep-alive of one octet, or ESP."""
    if payload[:4] == NON_ESP_MARKER or payload == b"\xff":
        return Kind.IKE
    return Kind.ESP if len(payload) >= 8 else Kind.CLEAR
