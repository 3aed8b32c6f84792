"""Packets of monitor interfaces, made by hand for tests: radiotap header and MAC header, and capture files of them."""

import struct
from collections.abc import Sequence

A, B, C = "02:00:00:00:00:0a", "02:00:00:00:00:0b", "02:00:00:00:00:0c"
GROUP = "ff:ff:ff:ff:ff:ff"
HT20_MCS7 = (0x0F, 0x00, 7)
_FCS_INCLUDED = 0x10


def radiotap(
    tsft: int | None = None,
    *,
    rate: int | None = None,
    mcs: tuple[int, int, int] | None = None,
    burst: int | None = None,
    flags: int = _FCS_INCLUDED,
    tx_flags: int | None = None,
    retries: int | None = None,
    channel: tuple[int, int] = (5180, 0x0140),
) -> bytes:
    """Return a header. ``rate`` is in 500 kbit/s; the channel is a frequency in MHz and flags."""
    fields: list[tuple[int, int, bytes]] = []
    if tsft is not None:
        fields.append((0, 8, struct.pack("<Q", tsft)))
    fields.append((1, 1, bytes([flags])))
    if rate is not None:
        fields.append((2, 1, bytes([rate])))
    fields.append((3, 2, struct.pack("<HH", *channel)))
    if tx_flags is not None:
        fields.append((15, 2, struct.pack("<H", tx_flags)))
    if retries is not None:
        fields.append((17, 1, bytes([retries])))
    if mcs is not None:
        fields.append((19, 1, bytes(mcs)))
    if burst is not None:
        fields.append((20, 4, struct.pack("<IHBB", burst, 0, 0, 0)))
    body, present = b"", 0
    for number, alignment, content in fields:
        present |= 1 << number
        body += bytes(-(8 + len(body)) % alignment) + content
    return struct.pack("<BBHI", 0, 0, 8 + len(body), present) + body


def address(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def rts(transmitter: str, receiver: str) -> bytes:
    return b"\xb4\x00\x00\x00" + address(receiver) + address(transmitter) + bytes(4)


def cts(receiver: str) -> bytes:
    return b"\xc4\x00\x00\x00" + address(receiver) + bytes(4)


def ack(receiver: str) -> bytes:
    return b"\xd4\x00\x00\x00" + address(receiver) + bytes(4)


def block_ack(transmitter: str, receiver: str) -> bytes:
    return b"\x94\x00\x00\x00" + address(receiver) + address(transmitter) + bytes(16)


def data(transmitter: str, receiver: str, octets: int, sequence: int = 1, *, retry: bool = False) -> bytes:
    """Return a QoS data frame of so many octets with its FCS."""
    control = bytes([0x88, 0x02 | (0x08 if retry else 0)])
    header = control + bytes(2) + address(receiver) + address(transmitter) + address(receiver)
    header += struct.pack("<H", sequence << 4) + bytes(2)
    return header + bytes(octets - len(header))


def pcap(packets: Sequence[bytes], *, order: str = "<", nano: bool = False, linktype: int = 127) -> bytes:
    """Return a file in which packet n was captured n milliseconds after the first."""
    magic = 0xA1B23C4D if nano else 0xA1B2C3D4
    unit = 1 if nano else 1000
    content = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 65535, linktype)
    for number, packet in enumerate(packets):
        content += struct.pack(f"{order}IIII", 1_700_000_000, number * 1_000_000 // unit, len(packet), len(packet))
        content += packet
    return content


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    body += bytes(-len(body) % 4)
    length = struct.pack(f"{order}I", 12 + len(body))
    return struct.pack(f"{order}I", kind) + length + body + length


def section(order: str = "<") -> bytes:
    return block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(order: str = "<", linktype: int = 127, options: bytes = b"") -> bytes:
    return block(1, struct.pack(f"{order}HHI", linktype, 0, 65535) + options, order)


def enhanced(packet: bytes, ticks: int, order: str = "<", number: int = 0) -> bytes:
    head = struct.pack(f"{order}IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, len(packet), len(packet))
    return block(6, head + packet, order)


TABLE_3 = [
    radiotap(868, rate=48) + ack(C),
    radiotap(1020, rate=48) + rts(A, B),
    radiotap(1064, rate=48) + cts(A),
    radiotap(1124, mcs=HT20_MCS7, burst=7) + data(A, B, 1564, 1),
    radiotap(1124, mcs=HT20_MCS7, burst=7) + data(A, B, 1564, 2),
    radiotap(1548, rate=48) + block_ack(B, A),
]
"""An exchange as in Agosto-Padilla's Table 3: two frames of 1,564 octets behind RTS/CTS, in 5 GHz.

By hand: at 24 Mbit/s an ack, RTS and CTS take 20 + 2 * 4 = 28, a block ack of 32 octets 20 + 3 * 4 = 32. The A-MPDU has
2 * 1568 octets; 16 + 6 + 25,088 bits are 97 symbols of 260, so 36 + 97 * 4 = 424. The ack to C ends at 868 - 20 + 28 =
876. The RTS begins at 1000, ends at 1028; 16 later comes the CTS, to 1072; the data is from 1088 to 1512; the block ack
from 1528 to 1560.
"""
