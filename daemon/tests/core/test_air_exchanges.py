"""Exchanges: frames with times computed by hand, split into the parts of Agosto-Padilla's Table 3."""

import tracemalloc
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.air_frames import GROUP, HT20_MCS7, TABLE_3, A, B, C, ack, block_ack, cts, data, radiotap, rts
from meshsec.core.air.assembler import Assembler
from meshsec.core.air.capture import Packet
from meshsec.core.air.exchange import Exchange, Protection
from meshsec.core.air.report import Air

_24, _6 = 48, 12
"""Rates in 500 kbit/s. At 24 Mbit/s an ack takes 28 microseconds, and 100 octets 20 + 9 * 4 = 56."""


def packets(contents: Sequence[bytes]) -> list[Packet]:
    return [Packet(number, number * 1_000_000, len(one), one) for number, one in enumerate(contents, 1)]


def exchanges(contents: Sequence[bytes]) -> list[Exchange]:
    air = Air()
    return sorted([*air.take(packets(contents)), *air.finish()], key=lambda one: one.start)


def sent(start: int, frame: bytes, rate: int = _24) -> bytes:
    """Return a frame that begins at a microsecond; OFDM's preamble has 20."""
    return radiotap(start + 20, rate=rate) + frame


def test_an_exchange_of_table_3_is_split_into_its_parts() -> None:
    (one,) = exchanges(TABLE_3)
    assert (one.transmitter, one.receiver, one.pattern) == (A, B, "RTS/CTS, 2 data, BA")
    assert (one.access, one.rts_cts, one.data, one.ack, one.retries) == (124, 88, 424, 48, 0)
    assert one.total == 124 + 88 + 424 + 48
    assert one.airtime == 28 + 28 + 424 + 32
    assert (one.idle, one.answered, one.attempts, one.frames, one.mpdus, one.octets) == (False, True, 1, 5, 2, 3128)
    assert one.rate is not None
    assert one.rate.label == "HT20 MCS 7"
    assert one.exact


def test_frames_of_an_ampdu_without_reference_have_one_time() -> None:
    """Some drivers report no A-MPDU status: the time is the same to the microsecond. One frame alone is none."""
    contents = [radiotap(1124, mcs=HT20_MCS7) + data(A, B, 1564, number) for number in (1, 2)]
    contents.append(radiotap(1548, rate=48) + block_ack(B, A))
    (one,) = exchanges(contents)
    assert (one.pattern, one.data, one.ack, one.airtime) == ("2 data, BA", 424, 48, 424 + 32)
    (one,) = exchanges(contents[:1])
    assert one.data == 36 + 4 * 49


def test_two_ampdus_of_one_contention_are_one_exchange() -> None:
    """Each has two frames in 424, and the second one follows after a SIFS; a third comes too late for that."""
    times = {1: 36, 2: 36 + 424 + 16, 3: 36 + 2 * 424 + 2 * 16 + 20}
    contents = [
        radiotap(at, mcs=HT20_MCS7, burst=burst) + data(A, B, 1564, 2 * burst + number)
        for burst, at in times.items()
        for number in (0, 1)
    ]
    first, last = exchanges(contents)
    assert (first.units, first.data, first.airtime) == (4, 2 * 424 + 16, 2 * 424)
    assert (last.units, last.start, last.access) == (2, 2 * 424 + 2 * 16 + 20, 36)


def test_one_frame_of_an_ampdu_may_know_its_time() -> None:
    """As the last one does with some drivers; by the machine's clock the first one ended when the burst had ended."""
    burst = [data(A, B, 1564, number) for number in (1, 2)]
    contents = [
        radiotap(900, rate=_24) + ack(C),
        radiotap(mcs=HT20_MCS7, burst=3) + burst[0],
        radiotap(1124, mcs=HT20_MCS7, burst=3) + burst[1],
        radiotap(1548, rate=_24) + block_ack(B, A),
    ]
    clocks = (908, 1512, 1513, 1560)
    air = Air()
    times = [Packet(1, at * 1000, len(one), one) for at, one in zip(clocks, contents, strict=True)]
    (one,) = [*air.take(times), *air.finish()]
    assert (one.units, one.access, one.data, one.ack, one.exact) == (2, 180, 424, 48, True)


def test_a_single_frame_has_an_ack() -> None:
    first, second = exchanges([
        sent(0, data(A, B, 100, 1)), sent(56 + 16, ack(A)),
        sent(100 + 70, data(B, A, 100, 1)), sent(170 + 56 + 16, ack(B)),
    ])  # fmt: skip
    assert (first.access, first.data, first.ack, first.pattern) == (None, 56, 44, "data, ack")
    assert (second.access, second.data, second.ack, second.transmitter) == (70, 56, 44, B)


def test_an_access_that_no_backoff_explains_is_idle() -> None:
    """16 + (7 + 15) * 9 = 214 with OFDM; 16 + (7 + 31) * 20 = 776 with DSSS."""
    for rate, limit, start in ((_24, 214, 20), (2, 776, 192)):
        for wait, idle in ((limit, False), (limit + 1, True)):
            frames = [sent(0, ack(C)), radiotap(28 + wait + start, rate=rate) + data(A, B, 100)]
            (one,) = exchanges(frames)
            assert (one.access, one.idle) == (wait, idle)


def test_attempts_are_one_exchange_whose_retries_are_the_time_until_the_last() -> None:
    (one,) = exchanges([
        sent(0, ack(C)),
        sent(100, data(A, B, 100, 5)),
        sent(400, data(A, B, 100, 5, retry=True)),
        sent(900, data(A, B, 100, 5, retry=True)), sent(972, ack(A)),
    ])  # fmt: skip
    assert (one.attempts, one.retries, one.mpdus, one.retried, one.answered) == (3, 800, 3, 2, True)
    assert (one.access, one.data, one.ack, one.total) == (72, 56, 44, 72 + 800 + 56 + 44)
    assert one.airtime == 3 * 56 + 28


def test_others_between_two_attempts_do_not_part_them() -> None:
    found = exchanges([
        sent(100, data(A, B, 100, 5)),
        sent(400, data(B, C, 100, 9)), sent(472, ack(B)),
        sent(600, data(A, B, 100, 5, retry=True)), sent(672, ack(A)),
    ])  # fmt: skip
    assert [(one.transmitter, one.attempts) for one in found] == [(A, 2), (B, 1)]


def _after_a_failure(frames: Sequence[bytes], *, receiver: str = B) -> list[tuple[str, int]]:
    """Return transmitters and attempts of what follows when A has sent 5 to a receiver in vain."""
    return [(one.transmitter, one.attempts) for one in exchanges([sent(0, data(A, receiver, 100, 5)), *frames])]


def test_only_the_same_frame_of_the_same_station_is_another_attempt() -> None:
    assert _after_a_failure([sent(400, data(A, B, 100, 5, retry=True))]) == [(A, 2)]
    assert _after_a_failure([sent(400, data(A, B, 100, 6, retry=True))]) == [(A, 1), (A, 1)]
    assert _after_a_failure([sent(400, data(A, B, 100, 5))]) == [(A, 1), (A, 1)], "the number comes again in time"
    assert _after_a_failure([sent(400, data(B, C, 100, 5, retry=True))], receiver=C) == [(A, 1), (B, 1)]
    assert _after_a_failure([sent(1_000_055, data(A, B, 100, 5, retry=True))]) == [(A, 2)]
    assert _after_a_failure([sent(1_000_057, data(A, B, 100, 5, retry=True))]) == [(A, 1), (A, 1)], "after a second"


def test_an_ampdu_that_sends_some_frames_again_is_another_attempt() -> None:
    again = [radiotap(436, mcs=HT20_MCS7, burst=1) + data(A, B, 1564, n, retry=n == 5) for n in (5, 6)]
    assert _after_a_failure(again) == [(A, 2)]


def test_at_once_to_another_station_is_another_exchange() -> None:
    found = exchanges([sent(0, data(A, B, 100, 1)), sent(72, data(A, C, 100, 2)), sent(144, data(A, GROUP, 100, 3))])
    assert [one.receiver for one in found] == [B, C, GROUP]
    found = exchanges([sent(0, data(A, GROUP, 100, 1)), sent(72, data(A, GROUP, 100, 2))])
    assert [one.units for one in found] == [1, 1], "groups answer nothing, so each frame is contended for"


def test_a_cts_to_another_station_does_not_answer_an_rts() -> None:
    (one,) = exchanges([sent(0, rts(A, B)), sent(44, cts(C))])
    assert one.protection is Protection.RTS


def test_clocks_may_drift_apart() -> None:
    """By 0.1 s in each of 40 steps of 10 s: four seconds in all, which would be a jump at once."""
    air = Air()
    content = [radiotap(20 + step * 10_100_000, rate=_24) + data(A, GROUP, 100, step) for step in range(40)]
    times = [Packet(step, step * 10**10, len(one), one) for step, one in enumerate(content)]
    found = [*air.take(times), *air.finish()]
    assert air.assembler.timeline.resets == 0
    assert found[-1].start == 39 * 10_100_000


def test_an_rts_that_nobody_answers_is_an_attempt() -> None:
    (one,) = exchanges([
        sent(100, rts(A, B)),
        sent(500, rts(A, B)), sent(544, cts(A)), sent(588, data(A, B, 100, 5)), sent(660, ack(A)),
    ])  # fmt: skip
    assert (one.attempts, one.retries, one.rts_cts, one.data, one.mpdus) == (2, 400, 88, 56, 1)
    assert one.protection is Protection.RTS_CTS


def test_what_is_given_up_is_unanswered_once_answers_are_heard() -> None:
    found = exchanges([
        sent(0, data(B, A, 100, 1)), sent(72, ack(B)),
        sent(200, data(A, B, 100, 5)), sent(500, data(A, B, 100, 5, retry=True)),
        sent(900, data(A, B, 100, 6)), sent(972, ack(A)),
        sent(1100, rts(A, C)),
    ])  # fmt: skip
    assert [(one.answered, one.attempts, one.pattern) for one in found] == [
        (True, 1, "data, ack"),
        (False, 2, "data, no ack"),
        (True, 1, "data, ack"),
        (False, 1, "RTS (no CTS)"),
    ]


def test_without_any_answer_in_the_capture_nothing_is_missed() -> None:
    air = Air()
    found = [*air.take(packets([sent(0, data(A, B, 100, 5)), sent(300, data(A, B, 100, 6))])), *air.finish()]
    assert [(one.answered, one.pattern) for one in found] == [(None, "data"), (None, "data")]
    assert any("neither CTS nor acknowledgements" in one for one in air.warnings())


def test_an_answer_to_somebody_else_or_too_late_is_none() -> None:
    for answer in (sent(72, ack(C)), sent(57 + 101, ack(A))):
        (one,) = exchanges([sent(0, data(A, B, 100)), answer])
        assert (one.answered, one.ack) == (False, 0)
    (one,) = exchanges([sent(0, data(A, B, 100)), sent(56 + 100, ack(A))])
    assert one.answered


def test_frames_to_groups_ask_for_no_answer() -> None:
    found = exchanges([sent(0, data(A, GROUP, 100)), sent(72, ack(A)), sent(200, b"\x80" + data(A, GROUP, 100)[1:])])
    assert [(one.pattern, one.answered) for one in found] == [("data to a group", None), ("beacon", None)]


def test_a_cts_to_oneself_opens_an_exchange_and_one_to_somebody_unheard_none() -> None:
    (one,) = exchanges([sent(0, cts(A)), sent(44, data(A, B, 100)), sent(116, ack(A))])
    assert (one.protection, one.rts_cts, one.pattern) == (Protection.CTS, 44, "CTS, data, ack")
    air = Air()
    assert not [*air.take(packets([sent(0, cts(C)), sent(300, ack(C))])), *air.finish()]
    assert air.assembler.counts.stray == 2
    (one,) = exchanges([sent(0, cts(A)), sent(44, cts(A)), sent(88, data(A, B, 100)), sent(160, ack(A))])
    assert (one.rts_cts, one.frames) == (44, 3), "a second CTS begins another exchange"


def test_a_burst_without_reference_follows_within_a_sifs() -> None:
    (one,) = exchanges([sent(0, data(A, B, 100, 1)), sent(72, data(A, B, 100, 2)), sent(144, ack(A))])
    assert (one.units, one.data, one.ack) == (2, 128, 44)
    apart = exchanges([sent(0, data(A, B, 100, 1)), sent(75, data(A, B, 100, 2)), sent(147, ack(A))])
    assert [one.units for one in apart] == [1, 1]


def test_a_radio_knows_the_fate_of_what_it_sends() -> None:
    (one,) = exchanges([radiotap(rate=_24, tx_flags=0, retries=2) + data(A, B, 100)])
    assert (one.answered, one.attempts, one.mpdus, one.retried, one.exact) == (True, 3, 3, 2, False)
    (one,) = exchanges([radiotap(rate=_24, tx_flags=1, retries=6) + data(A, B, 100)])
    assert (one.answered, one.attempts) == (False, 7)
    (one,) = exchanges([radiotap(rate=_24, tx_flags=0, retries=1) + data(A, GROUP, 100)])
    assert (one.attempts, one.retried) == (1, 0), "nobody acknowledges frames to groups"


def test_the_clock_of_the_machine_is_the_end_of_a_frame() -> None:
    contents = [radiotap(rate=_24) + data(A, B, 100), radiotap(rate=_24) + ack(A), radiotap(rate=_24) + data(B, A, 100)]
    found = exchanges(contents)
    assert [(one.access, one.data, one.ack, one.exact) for one in found] == [
        (None, 56, 1000, False),
        (944, 56, 0, False),
    ]


def test_frames_without_a_timer_are_placed_by_the_last_that_has_one() -> None:
    """The radio's timer says 500 when the machine's clock says 1 ms, with a frame that takes 56."""
    contents = [radiotap(520, rate=_24) + data(A, B, 100), radiotap(rate=_24) + ack(A)]
    air = Air()
    times = [Packet(1, 1_000_000, len(contents[0]), contents[0]), Packet(2, 1_044_000, len(contents[1]), contents[1])]
    (one,) = [*air.take(times), *air.finish()]
    assert (one.data, one.ack, one.exact) == (56, 44, False)
    (warning, *_) = air.warnings()
    assert warning.startswith("1 of 2 frames lack the radio's time (TSFT)")
    assert warning.endswith(": 1 exchanges have times of the machine's clock.")


@pytest.mark.parametrize(("microseconds", "answered"), [(5_000, True), (10_056, True), (10_057, False)])
def test_an_answer_by_the_machines_clock_may_be_late(microseconds: int, answered: bool) -> None:
    contents = [sent(0, data(A, B, 100)), radiotap() + ack(A)]
    times = [Packet(1, 56_000, len(contents[0]), contents[0])]
    times.append(Packet(2, microseconds * 1000, len(contents[1]), contents[1]))
    air = Air()
    (one,) = [*air.take(times), *air.finish()]
    assert one.answered is answered


def test_frames_that_overlap_are_counted() -> None:
    air = Air()
    assert [*air.take(packets([*TABLE_3, *TABLE_3])), *air.finish()]
    assert air.assembler.counts.overlaps == 2, "the second ack and RTS begin before the first block ack ends"
    assert any("2 of 12 frames began before" in one for one in air.warnings())


def test_one_time_of_the_machines_clock_makes_an_exchange_inexact() -> None:
    (one,) = exchanges([sent(0, rts(A, B)), sent(44, cts(A)), sent(88, data(A, B, 100)), radiotap(rate=_24) + ack(A)])
    assert (one.pattern, one.exact) == ("RTS/CTS, data, ack", False)


def test_frames_of_no_exchange_open_none() -> None:
    """A PS-Poll names its transmitter, and is answered, but is not known here."""
    air = Air()
    assert not [*air.take(packets([sent(0, b"\xa4" + rts(A, B)[1:]), sent(44, ack(A))])), *air.finish()]
    assert air.assembler.counts.stray == 2


def test_a_timer_or_a_clock_that_is_set_ends_what_is_open() -> None:
    air = Air()
    contents = [sent(10**9, data(A, B, 100, 1)), sent(0, ack(A)), sent(300, data(A, B, 100, 2))]
    found = [*air.take(packets(contents)), *air.finish()]
    assert [one.answered for one in found] == [False, False]
    assert air.assembler.timeline.resets == 1
    back = [Packet(1, 10**13, len(contents[0]), contents[0]), Packet(2, 0, len(contents[2]), contents[2])]
    assert len([*Air().take(back)]) == 1


def test_a_damaged_frame_belongs_to_nobody_and_takes_its_time() -> None:
    bad = radiotap(92, rate=_24, flags=0x50) + ack(A)
    (one, other) = exchanges([sent(0, data(A, B, 100, 1)), bad, sent(200, data(B, A, 100, 1))])
    assert one.answered is None
    assert other.access == 100


_FRAMES = [rts(A, B), cts(A), ack(A), ack(B), data(A, B, 90), data(A, B, 90, retry=True), b"\xff" * 9]


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 1]),
            st.sampled_from(
                [rts(A, B), cts(A), ack(A), ack(B), data(A, B, 90), data(A, B, 90, retry=True), b"\xff" * 9]
            ),
            st.integers(-(10**7), 10**7),
        ),
        max_size=60,
    )
)
def test_any_order_of_frames_gives_parts_that_are_not_negative_and_loses_none(
    drawn: list[tuple[int, bytes, int]],
) -> None:
    contents = [radiotap(10**8 + at if timed else None, rate=_24) + frame for timed, frame, at in drawn]
    air = Air()
    found = [*air.take(packets(contents)), *air.finish()]
    for one in found:
        assert min(one.access or 0, one.rts_cts, one.data, one.airtime) >= 0
        assert one.total == pytest.approx((one.access or 0) + one.retries + one.rts_cts + one.data + one.ack)
    counts = air.assembler.counts
    assert sum(one.frames for one in found) + counts.stray + air.refused == len(contents)


def test_memory_is_bounded_beside_any_number_of_stations() -> None:
    assembler = Assembler()
    air = Air(assembler)

    def flood(first: int) -> None:
        for number in range(first, first + 2000):
            station = (
                f"02:00:{number >> 24 & 255:02x}:{number >> 16 & 255:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"
            )
            content = sent(number * 100, data(station, B, 100, number % 4096))
            for _ in air.take([Packet(number, number * 100_000, len(content), content)]):
                pass

    flood(0)
    tracemalloc.start()
    flood(2000)
    before = tracemalloc.get_traced_memory()[0]
    flood(4000)
    flood(6000)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 200_000
    assert len(air.summary.neighbours) == 1025
