"""Radiotap and MAC headers: boundary vectors of each field that is used, and bytes that are neither."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.air_frames import GROUP, A, B, ack, address, block_ack, cts, data, radiotap, rts
from meshsec.core.air import mac
from meshsec.core.air import radiotap as header
from meshsec.core.air.frames import FrameError, Kind
from meshsec.core.air.rates import Phy, Rate

_2GHZ = (2412, 0x00A0)


@pytest.mark.parametrize("tsft", [0, 1, 2**32, 2**64 - 1])
def test_the_timer_has_64_bits(tsft: int) -> None:
    assert header.decode(radiotap(tsft)).tsft == tsft


def test_a_header_without_a_timer_says_so() -> None:
    assert header.decode(radiotap()).tsft is None


@pytest.mark.parametrize(
    ("made", "rate"),
    [
        (radiotap(rate=2, channel=_2GHZ), Rate(Phy.DSSS, 1.0)),
        (radiotap(rate=22, flags=0x02, channel=_2GHZ), Rate(Phy.DSSS, 11.0, short_preamble=True)),
        (radiotap(rate=108, channel=_2GHZ), Rate(Phy.OFDM, 54.0, extended=True)),
        (radiotap(rate=108), Rate(Phy.OFDM, 54.0)),
        (radiotap(rate=54, channel=(5900, 0x4140)), Rate(Phy.OFDM, 27.0, width=10)),
        (radiotap(rate=3, channel=(5900, 0x8140)), Rate(Phy.OFDM, 1.5, width=5)),
        (radiotap(mcs=(0x02, 0xFF, 7)), Rate(Phy.HT, mcs=7)),
        (radiotap(mcs=(0x03, 0x01, 15)), Rate(Phy.HT, mcs=15, streams=2, width=40)),
        (radiotap(mcs=(0x03, 0x02, 7)), Rate(Phy.HT, mcs=7)),
        (radiotap(mcs=(0x06, 0x04, 0)), Rate(Phy.HT, mcs=0, short_gi=True)),
        (radiotap(mcs=(0x2A, 0x28, 0)), Rate(Phy.HT, mcs=0, greenfield=True, stbc=True)),
        (radiotap(mcs=(0x03, 0x01, 32)), Rate(Phy.HT, mcs=32, width=40)),
        (radiotap(mcs=(0x03, 0x01, 33)), None),
        (radiotap(mcs=(0x01, 0x01, 7)), None),
        (radiotap(rate=0), None),
        (radiotap(rate=90, channel=_2GHZ), None),
        (radiotap(), None),
    ],
)
def test_each_way_to_say_a_rate(made: bytes, rate: Rate | None) -> None:
    assert header.decode(made).rate == rate


def _vht(known: int, flags: int, bandwidth: int, user: int) -> bytes:
    field = struct.pack("<HBB4BBBH", known, flags, bandwidth, user, 0, 0, 0, 0, 0, 0)
    return struct.pack("<BBHI", 0, 0, 8 + len(field), 1 << 21) + field


@pytest.mark.parametrize(
    ("made", "rate"),
    [
        (_vht(0x44, 0x04, 4, 0x92), Rate(Phy.VHT, mcs=9, streams=2, width=80, short_gi=True)),
        (_vht(0x41, 0x01, 11, 0x01), Rate(Phy.VHT, width=160, stbc=True)),
        (_vht(0x40, 0x05, 25, 0x88), Rate(Phy.VHT, mcs=8, streams=8)),
        (_vht(0x00, 0x00, 4, 0x01), Rate(Phy.VHT)),
        (_vht(0x40, 0x00, 26, 0x01), None),
        (_vht(0x40, 0x00, 4, 0xA1), None),
        (_vht(0x40, 0x00, 4, 0x90), None),
    ],
)
def test_rates_of_vht(made: bytes, rate: Rate | None) -> None:
    assert header.decode(made).rate == rate


def test_what_a_radio_says_of_its_own_frames() -> None:
    made = header.decode(radiotap(tx_flags=0x0001, retries=3, flags=0))
    assert (made.sent, made.failed, made.retries, made.has_fcs) == (True, True, 3, False)
    assert not header.decode(radiotap(tx_flags=0x8000)).failed
    assert not header.decode(radiotap(1)).sent


def test_the_reference_of_a_burst_is_aligned_behind_the_mcs() -> None:
    made = header.decode(radiotap(5, mcs=(0x02, 0, 7), burst=0xFFFFFFFF))
    assert made.burst == 0xFFFFFFFF


def test_present_flags_of_several_antennas_are_passed_over() -> None:
    words = struct.pack("<III", 1 | 1 << 29 | 1 << 31, 1 << 5 | 1 << 29 | 1 << 31, 1 << 5)
    content = struct.pack("<BBH", 0, 0, 26) + words + struct.pack("<Qbb", 77, -30, -31)
    assert header.decode(content).tsft == 77
    assert header.decode(struct.pack("<BBHII", 0, 0, 12, 1 << 31, 0)).length == 12


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "0 bytes are too few for a radiotap header"),
        (bytes(7), "7 bytes are too few"),
        (b"\x01" + bytes(7), "version 1 was found; only version 0"),
        (struct.pack("<BBHI", 0, 0, 7, 0), "it has 7 bytes; 8 to 8 are allowed"),
        (struct.pack("<BBHI", 0, 0, 9, 0), "it has 9 bytes; 8 to 8 are allowed"),
        (struct.pack("<BBHI", 0, 0, 8, 1), "ends at byte 8, within field 0"),
        (struct.pack("<BBHI", 0, 0, 8, 1 << 31), "within its present flags"),
        (radiotap(1) + bytes(9), "9 bytes after the radiotap header are too few"),
        (radiotap(1) + b"\x01" + bytes(20), "a frame of version 1"),
    ],
)
def test_a_packet_that_is_no_frame_says_what_was_found(content: bytes, message: str) -> None:
    with pytest.raises(FrameError, match=message):
        mac.decode(content, len(content), 0)


def test_control_frames_have_no_sequence_number() -> None:
    packet = radiotap(1) + block_ack(A, B) + bytes(8)
    assert mac.decode(packet, len(packet), 0).sequence is None


@pytest.mark.parametrize(
    ("made", "kind", "transmitter", "wants"),
    [
        (rts(A, B), Kind.RTS, A, True),
        (cts(B), Kind.CTS, None, True),
        (ack(B), Kind.ACK, None, True),
        (block_ack(A, B), Kind.BLOCK_ACK, A, True),
        (data(A, B, 100), Kind.DATA, A, True),
        (data(A, GROUP, 100), Kind.DATA, A, False),
        (b"\xc8" + data(A, B, 100)[1:], Kind.NULL, A, True),
        (b"\x80" + data(A, GROUP, 100)[1:], Kind.BEACON, A, False),
        (b"\xd0" + data(A, B, 100)[1:], Kind.MANAGEMENT, A, True),
        (b"\xe0" + data(A, B, 100)[1:], Kind.MANAGEMENT, A, False),
        (b"\xa4" + rts(A, B)[1:], Kind.OTHER, A, False),
        (b"\x0c" + rts(A, B)[1:], Kind.OTHER, A, False),
    ],
)
def test_kinds_of_frames(made: bytes, kind: Kind, transmitter: str | None, wants: bool) -> None:
    frame = mac.decode(radiotap(1) + made, len(radiotap(1) + made), 0)
    assert (frame.kind, frame.transmitter, frame.wants_answer) == (kind, transmitter, wants)


def test_the_length_is_that_on_the_air_where_the_capture_has_cut_the_frame() -> None:
    made = radiotap(1) + data(A, B, 1564, 0xFFF, retry=True)
    cut = made[: len(radiotap(1)) + 26]
    frame = mac.decode(cut, len(made), 0)
    assert (frame.octets, frame.retry, frame.sequence) == (1564, True, 0xFFF0)
    assert mac.decode(made[: len(radiotap(1)) + 24], len(made), 0).tid is None
    without_fcs = radiotap(1, flags=0) + data(A, B, 1560)
    assert mac.decode(without_fcs, len(without_fcs), 0).octets == 1564


def test_the_ack_policy_is_behind_the_fourth_address() -> None:
    no_ack = data(A, B, 24 + 2)[:24] + b"\x25\x00"
    frame = mac.decode(radiotap(1) + no_ack, 0, 0)
    assert (frame.tid, frame.wants_answer) == (5, False)
    mesh = b"\x88\x03" + no_ack[2:24] + address(A) + b"\x07\x00"
    frame = mac.decode(radiotap(1) + mesh, 0, 0)
    assert (frame.tid, frame.wants_answer) == (7, True)


@given(st.binary(max_size=200), st.integers(0, 2**32), st.integers(0, 2**63))
def test_no_bytes_raise_anything_else(content: bytes, octets: int, clock: int) -> None:
    for packet in (content, b"\0\0" + content, radiotap(1, rate=12) + content):
        try:
            frame = mac.decode(packet, octets, clock)
        except FrameError:
            continue
        assert frame.octets >= 10


@given(st.binary(min_size=4, max_size=120), st.integers(8, 120))
def test_no_present_flags_raise_anything_else(content: bytes, length: int) -> None:
    packet = struct.pack("<BBH", 0, 0, length) + content
    try:
        found = header.decode(packet)
    except FrameError:
        return
    if found.rate:
        assert found.rate.airtime(1500) > found.rate.preamble > 0
