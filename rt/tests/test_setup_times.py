"""Set-up times, from a recorded capture and from packets made by hand where none was recorded."""

import struct
from pathlib import Path

import pytest

from rt.sa_setup.times import SetupTimes, setups

CAPTURE = (Path(__file__).parents[2] / "tests/vectors/ike/three-set-ups.pcap").read_bytes()
HEADER = CAPTURE[:24]
A, C = bytes(15) + b"\x0a", bytes(15) + b"\x0c"
INIT, AUTH, INFORMATIONAL = 34, 35, 37


def record(at: float, source: bytes, payload: bytes, protocol: int = 17) -> bytes:
    target = C if source == A else A
    ipv6 = b"\x60\0\0\0" + len(payload).to_bytes(2, "big") + bytes([protocol, 64]) + source + target
    frame = bytes(12) + b"\x86\xdd" + ipv6 + payload
    return struct.pack("=IIII", int(at), round(at % 1 * 1e9), len(frame), len(frame)) + frame


def ike(at: float, source: bytes, exchange: int, *, response: bool = False, spi: bytes = b"initiator") -> bytes:
    message = spi[:8] + bytes(8) + bytes([0, 0x20, exchange, 0x20 if response else 0x08]) + bytes(8)
    return record(at, source, struct.pack("!HHHH", 500, 500, 8 + len(message), 0) + message)


def esp(at: float, source: bytes, spi: bytes) -> bytes:
    return record(at, source, spi + bytes(20), protocol=50)


def test_a_recorded_capture_gives_three_set_ups() -> None:
    found = [
        tuple(round(1e6 * value) for value in (one.ike_sa_init, one.ike_auth, one.total, one.first_esp or 0))
        for one in setups(CAPTURE)
    ]
    assert found == EXPECTED


EXPECTED = [(1313, 2208, 5126, 27190), (7476, 1840, 12631, 12279), (940, 1086, 3838, 14849)]
"""Microseconds, as tcpdump shows them for the packets of each set-up."""


def test_repetitions_count_from_the_first_request_to_the_first_answer() -> None:
    (times,) = setups(
        HEADER
        + ike(1.0, A, INIT)
        + ike(1.5, A, INIT)
        + ike(1.75, C, INIT, response=True)
        + ike(2.0, A, AUTH)
        + ike(2.25, A, AUTH)
        + ike(2.5, C, AUTH, response=True)
        + ike(2.75, C, AUTH, response=True)
        + esp(3.0, C, b"from")
        + esp(3.5, A, b"to c")
    )
    assert times == SetupTimes(1.0, ike_sa_init=0.75, ike_auth=0.5, total=1.5, first_esp=1.0)


def test_a_request_for_another_key_exchange_method_belongs_to_the_first_phase() -> None:
    """INVALID_KE_PAYLOAD (RFC 7296, section 1.3) leads to a second IKE_SA_INIT of the same IKE_SA."""
    (times,) = setups(
        HEADER
        + ike(1.0, A, INIT)
        + ike(1.25, C, INIT, response=True)
        + ike(1.5, A, INIT)
        + ike(2.0, C, INIT, response=True)
        + ike(2.25, A, AUTH)
        + ike(2.5, C, AUTH, response=True)
    )
    assert (times.ike_sa_init, times.total, times.first_esp) == (1.0, 1.5, None)


def test_the_esp_of_an_older_sa_is_not_the_first_of_a_new_one() -> None:
    (times,) = setups(
        HEADER
        + esp(0.5, A, b"old!")
        + ike(1.0, A, INIT)
        + ike(1.25, C, INIT, response=True)
        + ike(1.5, A, AUTH)
        + ike(1.75, C, AUTH, response=True)
        + esp(1.8, A, b"old!")
        + esp(2.0, A, b"new!")
    )
    assert times.first_esp == 0.25


def test_incomplete_set_ups_are_left_out() -> None:
    unanswered = ike(1.0, A, INIT) + ike(1.25, C, INIT, response=True) + ike(1.5, A, AUTH)
    strange = ike(3.0, A, INFORMATIONAL, spi=b"unknown!") + record(4.0, A, b"\x01\xf4\x01\xf4short")
    assert setups(HEADER + unanswered + strange) == []


@pytest.mark.parametrize("length", range(0, 400, 7))
def test_a_capture_that_is_cut_anywhere_is_read_as_far_as_it_goes(length: int) -> None:
    whole = setups(CAPTURE)
    assert len(setups(CAPTURE[: len(HEADER) + length])) <= len(whole)
