"""When the messages of each IKE_SA's set-up crossed the initiator's link, from a capture. Pure: octets in, times out.

IKE headers: RFC 7296, section 3.1; IKE and ESP in UDP: RFC 3948, section 2.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_IPV6, _UDP, _ESP = 0x86DD, 17, 50
_PORT_IKE, _PORT_NAT = 500, 4500
_NON_ESP_MARKER = bytes(4)
_IKE_SA_INIT, _IKE_AUTH = 34, 35
_RESPONSE = 0x20
_PCAP_HEADER, _RECORD = 24, struct.Struct("=IIII")


@dataclass(frozen=True)
class SetupTimes:
    """One set-up, in seconds. ``begin`` is the time of the first request (realtime clock)."""

    begin: float
    ike_sa_init: float
    """From the first request to the answer that IKE_AUTH went on with."""
    ike_auth: float
    """From the first IKE_AUTH request to its answer."""
    total: float
    """From the first request to the answer that brought the CHILD_SA."""
    first_esp: float | None
    """From that answer to the first ESP packet of the new SA; None when there was none."""


@dataclass(frozen=True)
class _Packet:
    at: float
    source: bytes
    ike: tuple[bytes, int, bool] | None
    """Initiator's SPI, exchange type, whether it is a response."""
    esp: bytes | None
    """SPI."""


class _Begun:
    """What was seen of one IKE_SA."""

    def __init__(self, packet: _Packet) -> None:
        self.initiator = packet.source
        self.init_request = packet.at
        self.init_response: float | None = None
        self.auth_request: float | None = None
        self.auth_response: float | None = None
        self.first_esp: float | None = None

    def take(self, at: float, exchange: int, *, response: bool) -> None:
        if exchange == _IKE_SA_INIT and response and self.auth_request is None:
            self.init_response = at
        elif exchange == _IKE_AUTH and not response and self.auth_request is None:
            self.auth_request = at
        elif exchange == _IKE_AUTH and response and self.auth_response is None:
            self.auth_response = at

    def times(self) -> SetupTimes | None:
        if self.init_response is None or self.auth_request is None or self.auth_response is None:
            return None
        return SetupTimes(
            begin=self.init_request,
            ike_sa_init=self.init_response - self.init_request,
            ike_auth=self.auth_response - self.auth_request,
            total=self.auth_response - self.init_request,
            first_esp=None if self.first_esp is None else self.first_esp - self.auth_response,
        )


def setups(pcap: bytes) -> list[SetupTimes]:
    """Return the set-ups that a capture (nanosecond pcap, Ethernet) saw whole, in the order of their beginnings."""
    begun: dict[bytes, _Begun] = {}
    known_esp: set[bytes] = set()
    latest: _Begun | None = None
    for packet in _packets(pcap):
        if packet.ike:
            spi, exchange, response = packet.ike
            if exchange == _IKE_SA_INIT and not response and spi not in begun:
                begun[spi] = _Begun(packet)
            if spi in begun:
                begun[spi].take(packet.at, exchange, response=response)
                latest = begun[spi] if begun[spi].auth_response is not None else latest
        elif packet.esp and packet.esp not in known_esp:
            known_esp.add(packet.esp)
            if latest is not None and latest.first_esp is None and packet.source == latest.initiator:
                latest.first_esp = packet.at
    return [times for one in begun.values() if (times := one.times())]


def _packets(pcap: bytes) -> Iterator[_Packet]:
    at = _PCAP_HEADER
    while at + _RECORD.size <= len(pcap):
        seconds, fraction, kept, _ = _RECORD.unpack_from(pcap, at)
        at += _RECORD.size
        packet = _packet(seconds + fraction / 1e9, pcap[at : at + kept])
        at += kept
        if packet:
            yield packet


def _packet(at: float, frame: bytes) -> _Packet | None:
    """None for all that is not IKE or ESP between IPv6 addresses."""
    if len(frame) < 62 or int.from_bytes(frame[12:14], "big") != _IPV6:
        return None
    source, protocol, payload = frame[22:38], frame[20], frame[54:]
    if protocol == _ESP:
        return _Packet(at, source, None, payload[:4])
    if protocol != _UDP:
        return None
    port, datagram = int.from_bytes(payload[2:4], "big"), payload[8:]
    ports = {int.from_bytes(payload[:2], "big"), port}
    if _PORT_NAT in ports:
        return _encapsulated(at, source, datagram)
    return _Packet(at, source, _ike(datagram), None) if _PORT_IKE in ports else None


def _encapsulated(at: float, source: bytes, datagram: bytes) -> _Packet | None:
    if datagram[:4] == _NON_ESP_MARKER:
        return _Packet(at, source, _ike(datagram[4:]), None)
    return _Packet(at, source, None, datagram[:4]) if len(datagram) >= 8 else None


def _ike(message: bytes) -> tuple[bytes, int, bool] | None:
    return (message[:8], message[18], bool(message[19] & _RESPONSE)) if len(message) >= 28 else None
