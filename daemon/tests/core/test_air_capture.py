"""Capture files: both forms, both byte orders, all resolutions; and files that are cut, damaged or something else."""

import gzip
import struct
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.air_frames import A, block, data, enhanced, interface, pcap, radiotap, section
from meshsec.core.air.capture import MOST_PACKET, CaptureDecoder, CaptureFileError, CutError, Packet

FRAME = radiotap(1) + data(A, A, 60)
SECOND = 1_700_000_000 * 1_000_000_000


def decoded(content: bytes, chunk: int = 1 << 16) -> list[Packet]:
    return [*_decoded(content, chunk)]


def _decoded(content: bytes, chunk: int) -> Iterator[Packet]:
    decoder = CaptureDecoder("x.pcap")
    for start in range(0, len(content), chunk):
        yield from decoder.feed(content[start : start + chunk])
    decoder.finish()


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("nano", [False, True])
@pytest.mark.parametrize("chunk", [1, 7, 1 << 16])
def test_pcap(order: str, nano: bool, chunk: int) -> None:
    found = decoded(pcap([FRAME, FRAME + b"x"], order=order, nano=nano), chunk)
    assert [one.number for one in found] == [1, 2]
    assert [one.clock_ns for one in found] == [SECOND, SECOND + 1_000_000]
    assert [one.content for one in found] == [FRAME, FRAME + b"x"]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("chunk", [1, 7, 1 << 16])
def test_pcapng(order: str, chunk: int) -> None:
    nano = struct.pack(f"{order}HHB3xHH", 9, 1, 9, 0, 0)
    content = section(order) + interface(order) + interface(order, options=nano)
    content += enhanced(FRAME, SECOND // 1000, order) + block(5, bytes(12), order) + enhanced(FRAME, SECOND, order, 1)
    assert [one.clock_ns for one in decoded(content, chunk)] == [SECOND, SECOND]


@pytest.mark.parametrize(
    ("resolution", "ticks", "nanoseconds"),
    [(0, 7, 7_000_000_000), (3, 7, 7_000_000), (6, 7, 7_000), (9, 7, 7), (0x80 | 10, 1024, 1_000_000_000)],
)
def test_resolutions_of_pcapng(resolution: int, ticks: int, nanoseconds: int) -> None:
    options = struct.pack("<HHB3x", 9, 1, resolution) + struct.pack("<HHq", 14, 8, 5)
    (found,) = decoded(section() + interface(options=options) + enhanced(FRAME, ticks))
    assert found.clock_ns == nanoseconds + 5_000_000_000


def test_other_options_of_an_interface_are_passed_over() -> None:
    """if_fcslen has one octet, too, and if_tsresol has no more than one."""
    options = struct.pack("<HHB3xHHH2x", 13, 1, 4, 9, 2, 3)
    (found,) = decoded(section() + interface(options=options) + enhanced(FRAME, 7))
    assert found.clock_ns == 7_000


@pytest.mark.parametrize("more", range(4))
def test_packets_of_any_length_are_whole(more: int) -> None:
    """Blocks are padded to four octets: the packet may fill its block to the end."""
    packet = FRAME + bytes(more)
    (found,) = decoded(section() + interface() + enhanced(packet, 1))
    assert found.content == packet


def test_sections_of_another_byte_order_follow_each_other() -> None:
    parts = [part for order in "<>" for part in (section(order), interface(order), enhanced(FRAME, 1, order))]
    assert [one.number for one in decoded(b"".join(parts))] == [1, 2]


def test_simple_and_old_packets_of_pcapng() -> None:
    old = struct.pack("<HHIIII", 0, 0, 0, 5, len(FRAME), len(FRAME))
    content = section() + interface() + block(3, struct.pack("<I", len(FRAME)) + FRAME) + block(2, old + FRAME)
    assert [(one.clock_ns, one.content) for one in decoded(content)] == [(0, FRAME), (5000, FRAME)]


def test_packets_of_other_interfaces_are_counted_and_passed_over() -> None:
    content = section() + interface(linktype=1) + interface() + enhanced(b"cable", 1) + enhanced(FRAME, 1, number=1)
    (found,) = decoded(content)
    assert found.number == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"x\.pcap: is empty \(0 bytes\)"),
        (b"hello, world", "is no capture file: it begins with the bytes 68 65 6c 6c; pcap and pcapng are read"),
        (b"\x7f", "is no capture file: it begins with the bytes 7f"),
        (
            gzip.compress(pcap([FRAME]), mtime=0),
            r"is compressed with gzip; unpack it: zcat x\.pcap \| meshsec air --read",
        ),
        (b"\x28\xb5\x2f\xfd....", "is compressed with zstd"),
        (pcap([], linktype=1), r"link type 1 \(Ethernet\); only 127 \(802.11 with radiotap\).*tcpdump -i mon0"),
        (pcap([], linktype=105), r"link type 105 \(802.11 without radiotap\)"),
        (pcap([], linktype=999), r"link type 999 \(another\)"),
        (section() + interface(linktype=1) + enhanced(b"cable", 1), r"link type 1 \(Ethernet\)"),
        (section()[:8] + b"abcd" + section()[12:], "has the byte order 61 62 63 64; 1a 2b 3c 4d and 4d 3c 2b 1a"),
        (section()[:12] + b"\x02" + section()[13:], "is pcapng of version 2; only version 1"),
        (pcap([])[:20], "ends at byte 20, within the header"),
        (section()[:20], "ends at byte 20, within the header"),
    ],
)
def test_a_file_that_is_something_else_says_what_it_is(content: bytes, message: str) -> None:
    with pytest.raises(CaptureFileError, match=message):
        decoded(content)


def test_a_cut_file_gives_what_was_whole_and_says_where_it_ends() -> None:
    content = pcap([FRAME, FRAME])
    found: list[Packet] = []
    with pytest.raises(CutError, match=rf"ends at byte {len(content) - 1}, within the record after packet 1, which"):
        found.extend(_decoded(content[:-1], 1 << 16))
    with pytest.raises(CutError, match="within the record after packet 1"):
        decoded(section() + interface() + enhanced(FRAME, 1) + enhanced(FRAME, 1)[:-1])


def test_a_file_that_ends_between_packets_is_whole() -> None:
    content = pcap([FRAME, FRAME])
    assert len(decoded(content[: len(content) - len(FRAME) - 16])) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            pcap([FRAME]) + struct.pack("<IIII", 0, 0, MOST_PACKET + 1, 0),
            rf"damaged at byte {24 + 16 + len(FRAME)}: packet 2 says that it has 262145 bytes; at most 262144",
        ),
        (pcap([FRAME]) + b"\xff" * 16, "packet 2 says that it has 4294967295 bytes"),
        (section() + struct.pack("<II", 6, 0xFFFFFFF0) + bytes(8), "block after packet 0 says that it has 4294967280"),
        (section() + struct.pack("<II", 6, 8) + bytes(8), "says that it has 8 bytes"),
        (section() + struct.pack("<II", 6, 13) + bytes(8), "says that it has 13 bytes"),
        (section() + enhanced(FRAME, 1), "packet 1 is of interface 0; at most -1"),
        (section() + interface() + enhanced(FRAME, 1, number=1), "packet 1 is of interface 1; at most 0"),
        (section() + interface() + block(6, bytes(8)), "packet 1 has a block of 8 bytes"),
        (section() + block(1, bytes(4)), "describes interface 0 in 4 bytes"),
        (
            section() + interface() + block(6, struct.pack("<IIIII", 0, 0, 0, 99, 99) + bytes(40)),
            "packet 1 says that it has 99 bytes; at most 40",
        ),
    ],
)
def test_a_damaged_file_names_the_byte_and_the_packet(content: bytes, message: str) -> None:
    with pytest.raises(CaptureFileError, match=message):
        decoded(content)


@given(st.binary(max_size=300), st.integers(1, 64))
@example(section() + interface(options=struct.pack("<HHB3x", 9, 1, 255)) + enhanced(FRAME, 2**64 - 1), 64)
@example(section() + interface(options=struct.pack("<HHq", 14, 8, -(2**63))) + enhanced(FRAME, 0), 64)
def test_no_bytes_raise_anything_else_or_are_kept_without_bound(content: bytes, chunk: int) -> None:
    starts = (b"", pcap([]), pcap([], order=">", nano=True), section(), section(">") + interface(">"))
    for start in starts:
        whole, decoder = start + content, CaptureDecoder("x")
        with suppress(CaptureFileError):
            for place in range(0, len(whole), chunk):
                for packet in decoder.feed(whole[place : place + chunk]):
                    assert len(packet.content) <= len(whole)
            decoder.finish()
