"""Decode capture files as their bytes come: pcap (draft of the IETF's opsawg, as libpcap writes it) and pcapng.

``CaptureDecoder.feed`` takes any number of bytes and returns the packets that are whole. No bytes raise anything but
CaptureFileError, and no more is kept than one record of a bounded length.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

RADIOTAP = 127
"""LINKTYPE_IEEE802_11_RADIOTAP."""
MOST_PACKET = 262_144
"""Bytes of a packet: libpcap's greatest."""
MOST_BLOCK = 1 << 20
"""Bytes of a block of pcapng: a packet with many options, or many names."""
_MOST_INTERFACES = 1024
_LINKTYPES = {
    0: "BSD loopback",
    1: "Ethernet",
    105: "802.11 without radiotap",
    113: "Linux cooked capture",
    119: "802.11 with Prism headers",
    163: "802.11 with AVS headers",
    192: "PPI",
    276: "Linux cooked capture v2",
}
_PCAP = {
    b"\xd4\xc3\xb2\xa1": ("<", 1_000),
    b"\xa1\xb2\xc3\xd4": (">", 1_000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
"""Byte order, and nanoseconds of the fraction's unit."""
_PCAPNG = b"\x0a\x0d\x0d\x0a"
_ORDERS = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
_COMPRESSED = {
    b"\x1f\x8b": ("gzip", "zcat"),
    b"\x28\xb5\x2f\xfd": ("zstd", "zstdcat"),
    b"\xfd7zX": ("xz", "xzcat"),
    b"BZh": ("bzip2", "bzcat"),
    b"\x04\x22\x4d\x18": ("lz4", "lz4cat"),
}
"""Magic bytes of compressed files, with the program that unpacks each."""
_INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _PACKET = 1, 2, 3, 6
_TSRESOL, _TSOFFSET = 9, 14
"""Options of an interface: its clock's resolution, and its offset in seconds."""


class CaptureFileError(Exception):
    """A capture file cannot be used from some byte on. The message names the file, the place, and what is allowed."""


class CutError(CaptureFileError):
    """A capture file ends within a packet; all before it is whole."""


@dataclass(frozen=True, slots=True)
class Packet:
    """One packet of a monitor interface."""

    number: int
    """From 1, as other programs count: those of other interfaces too."""
    clock_ns: int
    """Nanoseconds since 1970."""
    octets: int
    """Before the capture cut it."""
    content: bytes


@dataclass(frozen=True, slots=True)
class _Interface:
    linktype: int
    snaplen: int
    ticks: int = 1_000_000
    """Of the clock in a second."""
    offset: int = 0
    """Seconds."""


class CaptureDecoder:
    """One capture file. ``name`` is the file's, for messages."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._buffer = bytearray()
        self._offset = 0
        """Of the buffer's beginning in the file."""
        self._number = 0
        self._order = ""
        """As struct has it; empty before the header."""
        self._fraction = 0
        """Nanoseconds of the unit of pcap's fractions; 0: the file is pcapng."""
        self._interfaces: list[_Interface] = []
        self.others = 0
        """Packets of interfaces of another link type, which are passed over."""

    def feed(self, content: bytes) -> Iterator[Packet]:
        """Take the file's next bytes, and yield the packets that are now whole. Raises CaptureFileError."""
        self._buffer += content
        while (taken := self._step()) is not None:
            length, packet = taken
            del self._buffer[:length]
            self._offset += length
            if packet is not None:
                yield packet

    def finish(self) -> None:
        """Say that the file has ended. Raises CutError within a packet, CaptureFileError when nothing was usable."""
        if not self._order:
            if not self._buffer:
                raise CaptureFileError(f"{self._name}: is empty (0 bytes); a capture file of pcap or pcapng is needed")
            self._header(bytes(self._buffer))
            raise CutError(f"{self._name}: ends at byte {len(self._buffer)}, within the header of the file")
        if self._buffer:
            end = self._offset + len(self._buffer)
            where = f"the record after packet {self._number}, which begins at byte {self._offset}"
            raise CutError(f"{self._name}: is cut: it ends at byte {end}, within {where}")
        if self.others and self.others == self._number:
            raise self._wrong_type(self._interfaces[0].linktype)

    def _step(self) -> tuple[int, Packet | None] | None:
        """Decode one record: its length, and its packet if it has one. None: more bytes are needed."""
        if not self._order:
            return self._begin()
        return self._pcap_record() if self._fraction else self._block()

    def _begin(self) -> tuple[int, None] | None:
        if len(self._buffer) < 4:
            return None
        magic = bytes(self._buffer[:4])
        self._header(magic)
        if magic == _PCAPNG:
            return self._section()
        if len(self._buffer) < 24:
            return None
        self._order, self._fraction = _PCAP[magic]
        snaplen, linktype = self._unpack("II", 16)
        self._interfaces = [_Interface(linktype & 0xFFFF, snaplen)]
        if linktype & 0xFFFF != RADIOTAP:
            raise self._wrong_type(linktype & 0xFFFF)
        return 24, None

    def _header(self, magic: bytes) -> None:
        """Refuse what is no capture file."""
        for begin, (name, program) in _COMPRESSED.items():
            if magic.startswith(begin):
                raise CaptureFileError(
                    f"{self._name}: is compressed with {name}; unpack it: {program} {self._name} | meshsec air --read -"
                )
        if not any(known.startswith(magic[:4]) for known in (*_PCAP, _PCAPNG)):
            raise CaptureFileError(
                f"{self._name}: is no capture file: it begins with the bytes {magic[:4].hex(' ')}; pcap and pcapng "
                "are read, which tcpdump and Wireshark write"
            )

    def _wrong_type(self, linktype: int) -> CaptureFileError:
        return CaptureFileError(
            f"{self._name}: was captured with link type {linktype} ({_LINKTYPES.get(linktype, 'another')}); only "
            f"{RADIOTAP} (802.11 with radiotap) says when and how frames were sent. Capture on a monitor interface: "
            "tcpdump -i mon0 -w FILE"
        )

    def _pcap_record(self) -> tuple[int, Packet | None] | None:
        if len(self._buffer) < 16:
            return None
        seconds, fraction, length, octets = self._unpack("IIII", 0)
        if length > MOST_PACKET:
            raise self._damaged(f"packet {self._number + 1} says that it has {length} bytes", MOST_PACKET)
        if len(self._buffer) < 16 + length:
            return None
        self._number += 1
        clock = seconds * 1_000_000_000 + fraction * self._fraction
        return 16 + length, Packet(self._number, clock, octets, bytes(self._buffer[16 : 16 + length]))

    def _section(self) -> tuple[int, None] | None:
        """Decode a header of a section, from which on another byte order may hold."""
        if len(self._buffer) < 28:
            return None
        order = _ORDERS.get(bytes(self._buffer[8:12]))
        if order is None:
            found = self._buffer[8:12].hex(" ")
            raise CaptureFileError(
                f"{self._name}: the section at byte {self._offset} has the byte order {found}; 1a 2b 3c 4d and "
                "4d 3c 2b 1a exist"
            )
        length, major = struct.unpack_from(f"{order}I4xH", self._buffer, 4)
        if major != 1:
            raise CaptureFileError(f"{self._name}: is pcapng of version {major}; only version 1 is known")
        self._check_block(length, 28)
        if len(self._buffer) < length:
            return None
        self._order, self._interfaces = order, []
        return length, None

    def _block(self) -> tuple[int, Packet | None] | None:
        if len(self._buffer) < 12:
            return None
        if self._buffer[:4] == _PCAPNG:
            return self._section()
        kind, length = self._unpack("II", 0)
        self._check_block(length, 12)
        if len(self._buffer) < length:
            return None
        packet = None
        body = bytes(self._buffer[8 : length - 4])
        if kind == _INTERFACE:
            self._add_interface(body)
        elif kind in (_PACKET, _OLD_PACKET, _SIMPLE_PACKET):
            packet = self._block_packet(kind, body)
        return length, packet

    def _check_block(self, length: int, least: int) -> None:
        if not least <= length <= MOST_BLOCK or length % 4:
            raise self._damaged(f"the block after packet {self._number} says that it has {length} bytes", MOST_BLOCK)

    def _add_interface(self, body: bytes) -> None:
        if len(body) < 8 or len(self._interfaces) >= _MOST_INTERFACES:
            what = f"the block after packet {self._number} describes interface {len(self._interfaces)}"
            raise self._damaged(f"{what} in {len(body)} bytes", _MOST_INTERFACES)
        linktype, snaplen = struct.unpack_from(f"{self._order}HxxI", body)
        ticks, offset = self._clock(body[8:])
        self._interfaces.append(_Interface(linktype, snaplen, ticks, offset))

    def _clock(self, options: bytes) -> tuple[int, int]:
        """Return the ticks in a second and the offset in seconds that the options of an interface say."""
        ticks, offset = 1_000_000, 0
        while len(options) >= 4:
            code, length = struct.unpack_from(f"{self._order}HH", options)
            value, options = options[4 : 4 + length], options[4 + -(-length // 4) * 4 :]
            if code == _TSRESOL and len(value) == 1:
                ticks = 2 ** (value[0] & 0x7F) if value[0] & 0x80 else 10 ** value[0]
            elif code == _TSOFFSET and len(value) == 8:
                (offset,) = struct.unpack(f"{self._order}q", value)
            if not code:
                break
        return ticks, offset

    def _block_packet(self, kind: int, body: bytes) -> Packet | None:
        self._number += 1
        what = f"packet {self._number} has a block of {len(body)} bytes"
        head = 4 if kind == _SIMPLE_PACKET else 20
        if len(body) < head:
            raise self._damaged(what, MOST_BLOCK)
        number, high, low, length, octets = 0, 0, 0, 0, 0
        if kind == _SIMPLE_PACKET:
            (octets,) = struct.unpack_from(f"{self._order}I", body)
        else:
            first = "I" if kind == _PACKET else "HH"
            number, *_, high, low, length, octets = struct.unpack_from(f"{self._order}{first}IIII", body)
        if number >= len(self._interfaces):
            raise self._damaged(f"packet {self._number} is of interface {number}", len(self._interfaces) - 1)
        interface = self._interfaces[number]
        if kind == _SIMPLE_PACKET:
            length = min(octets, interface.snaplen or octets)
        if head + length > len(body):
            raise self._damaged(f"packet {self._number} says that it has {length} bytes", len(body) - head)
        if interface.linktype != RADIOTAP:
            self.others += 1
            return None
        clock = interface.offset * 1_000_000_000 + (high << 32 | low) * 1_000_000_000 // interface.ticks
        return Packet(self._number, clock, octets, body[head : head + length])

    def _unpack(self, form: str, place: int) -> tuple[int, ...]:
        return struct.unpack_from(f"{self._order}{form}", self._buffer, place)

    def _damaged(self, what: str, most: int) -> CaptureFileError:
        return CaptureFileError(
            f"{self._name}: is damaged at byte {self._offset}: {what}; at most {most} are allowed there"
        )
