"""What ping prints, and what it says about a path."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshsec.core.bench import echoes
from meshsec.core.bench.pictures import pictures
from meshsec.core.bench.record import Record, Taken

SEEN = """PING fc00::1(fc00::1) 56 data bytes
64 bytes from fc00::1: icmp_seq=1 ttl=64 time=0.239 ms
64 bytes from fc00::1: icmp_seq=2 ttl=64 time=12 ms
64 bytes from fc00::1: icmp_seq=2 ttl=64 time=13 ms (DUP!)

--- fc00::1 ping statistics ---
4 packets transmitted, 2 received, +1 duplicates, 50% packet loss, time 201ms
rtt min/avg/max/mdev = 0.039/0.139/0.239/0.100 ms
"""


def test_round_trips_and_loss_are_read_and_duplicates_count_once() -> None:
    assert echoes.read(SEEN) == ([0.239, 12.0], 50.0)


def test_a_node_that_never_answers_lost_everything() -> None:
    assert echoes.read("5 packets transmitted, 0 received, 100% packet loss, time 801ms\n") == ([], 100.0)


@pytest.mark.parametrize("text", ["", "64 bytes from ::1: time=1 ms", "0 packets transmitted, 0 received"])
def test_a_text_without_a_summary_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no summary"):
        echoes.read(text)


@given(st.text(max_size=200))
def test_no_text_breaks_the_reader(text: str) -> None:
    trips, lost = echoes.read(f"{text}\n3 packets transmitted, 1 received\n")
    assert 0 <= lost <= 100
    assert all(one >= 0 for one in trips)


def test_hops_are_bars_because_none_was_measured_at_several_numbers() -> None:
    record = Record("path", {})
    for hop, node in ((1, "b"), (2, "c")):
        record.take(Taken({"hop": hop, "node": node}, "ms", [1.0]))
    (picture,) = pictures(record).values()
    assert "<polyline" not in picture
    assert picture.count("<rect") == 3
