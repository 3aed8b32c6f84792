"""SAs that only send: when a proof is asked for, and when an SA counts as failed."""

import itertools
from dataclasses import replace

from core.world import ike_sa
from meshsec.core.channels.one_way_watch import (
    ENOUGH,
    FIRST,
    LAST,
    NOTICE,
    WITHIN,
    OneWayWatch,
    Quiet,
    Suspect,
    unmoved,
)
from meshsec.core.values.model import IkeSa
from meshsec.core.values.sa_states import ChildSaState, IkeSaState

SUSPECT = Suspect("boat", "1", "mesh")


def counted(
    packets_in: int, packets_out: int, spi: str = "c1", state: IkeSaState = IkeSaState.ESTABLISHED
) -> dict[str, list[IkeSa]]:
    sa = ike_sa("boat", state=state)
    child = replace(sa.children[0], spi_in=spi, packets_in=packets_in, packets_out=packets_out)
    return {"boat": [replace(sa, children=(child,))]}


def test_a_proof_is_asked_for_when_packets_go_out_and_none_come_in() -> None:
    silence = OneWayWatch()
    assert silence.poll(0.0, counted(7, 10)) == []
    assert silence.poll(FIRST, counted(7, 10 + ENOUGH)) == [SUSPECT]


def test_one_packet_in_is_proof_enough() -> None:
    silence = OneWayWatch()
    silence.poll(0.0, counted(7, 10))
    assert silence.poll(FIRST, counted(8, 500)) == []
    assert silence.poll(FIRST + 1, counted(8, 600)) == [], "silence is counted from what came in last"
    assert silence.poll(2 * FIRST, counted(8, 700)) == [SUSPECT]


def test_an_idle_sa_is_left_alone() -> None:
    silence = OneWayWatch()
    for look in range(100):
        assert silence.poll(look * FIRST, counted(0, ENOUGH - 1 if look else 0)) == []


def test_a_stream_of_one_direction_is_probed_less_and_less_often() -> None:
    silence = OneWayWatch()
    asked: list[int] = []
    for now in range(0, 4000, 5):
        sent = now - (asked[-1] if asked else 0)
        if silence.poll(now, counted(0, sent, spi=f"c{len(asked)}")):
            asked.append(now)
    pauses = [after - before for before, after in itertools.pairwise(asked)]
    assert pauses
    assert all(after >= before for before, after in itertools.pairwise(pauses))
    assert pauses[0] <= 2 * FIRST + 5
    assert pauses[1] <= 2 * pauses[0] + 5
    assert LAST <= pauses[-1] <= LAST + 5
    assert len(asked) < 15


def _asked() -> OneWayWatch:
    silence = OneWayWatch()
    silence.poll(0.0, counted(0, 0))
    assert silence.poll(FIRST, counted(0, ENOUGH)) == [SUSPECT]
    return silence


def test_an_sa_that_is_not_rekeyed_when_it_is_asked_for_has_failed() -> None:
    silence = _asked()
    assert silence.poll(FIRST + WITHIN - 1, counted(0, 500)) == []
    assert silence.poll(FIRST + WITHIN, counted(0, 500)) == [replace(SUSPECT, failed=True)]
    assert silence.poll(FIRST + WITHIN + 1, counted(0, 600)) == [], "it is going"
    assert silence.poll(FIRST + 2 * WITHIN, counted(0, 700)) == [replace(SUSPECT, failed=True)], "it did not go"


def test_an_sa_that_is_rekeyed_or_receives_in_time_has_not_failed() -> None:
    for told in (counted(0, 1, spi="c2"), counted(1, 500)):
        silence = _asked()
        assert silence.poll(FIRST + WITHIN - 1, told) == []
        assert silence.poll(FIRST + WITHIN, told) == []


def test_after_a_received_packet_silence_counts_from_the_beginning() -> None:
    silence = OneWayWatch()
    silence.poll(0.0, counted(0, 0))
    silence.poll(10.0, counted(0, 100))
    silence.poll(100.0, counted(0, 1000))
    silence.poll(110.0, counted(1, 1100))
    assert silence.poll(110.0 + FIRST, counted(1, 1200)) == [SUSPECT]


def test_an_sa_at_rest_is_left_alone_however_much_it_sent_before() -> None:
    silence = OneWayWatch()
    for look in range(10):
        assert silence.poll(look * FIRST, counted(7, 100)) == []


def test_a_rekeyed_sa_that_received_something_is_probed_as_soon_as_at_first() -> None:
    for packets_in, pause in ((1, FIRST), (0, 2 * FIRST)):
        silence = OneWayWatch()
        silence.poll(0.0, counted(7, 0))
        assert silence.poll(FIRST, counted(7, ENOUGH)) == [SUSPECT]
        silence.poll(FIRST + 1, counted(packets_in, 0, spi="c2"))
        assert silence.poll(FIRST + pause, counted(packets_in, 50, spi="c2")) == []
        assert silence.poll(FIRST + 1 + pause, counted(packets_in, 50, spi="c2")) == [SUSPECT]


def test_an_sa_that_is_being_closed_is_not_probed_and_one_that_is_gone_is_forgotten() -> None:
    silence = OneWayWatch()
    silence.poll(0.0, counted(0, 0))
    assert silence.poll(100.0, counted(0, 100, state=IkeSaState.DELETING)) == []
    assert silence.poll(101.0, counted(0, 200)) == [], "the watch begins again"
    assert silence.poll(102.0, {}) == []


def test_the_time_to_a_proof_counts_from_the_first_unanswered_packet() -> None:
    silence = OneWayWatch()
    silence.poll(0.0, counted(0, 0))
    assert silence.poll(10 * FIRST, counted(0, 0)) == []
    assert silence.poll(10 * FIRST + 5, counted(0, 50)) == []
    assert silence.poll(11 * FIRST, counted(0, 250)) == [SUSPECT]


def looked(*looks: tuple[float, dict[str, list[IkeSa]]]) -> OneWayWatch:
    silence = OneWayWatch()
    for now, seen in looks:
        silence.poll(now, seen)
    return silence


def test_a_peer_is_reported_silent_when_data_goes_out_and_nothing_comes() -> None:
    silence = looked((0.0, counted(7, 0)), (5.0, counted(7, 50)), (10.0, counted(7, 100)))
    assert silence.quiet(10.0) == {}, "the proof has only just been asked for"
    silence.poll(15.0, counted(7, 150))
    assert silence.quiet(15.0) == {"boat": Quiet(0.0, answers=False)}
    assert silence.quiet(NOTICE - 0.1) == {}
    silence.poll(20.0, counted(8, 200))
    assert silence.quiet(20.0) == {}, "something came in"


def test_a_silent_peer_that_answers_the_proof_is_reported_as_such_across_the_rekeying() -> None:
    silence = looked((0.0, counted(0, 0)), (10.0, counted(0, 100)), (15.0, counted(0, 5, spi="c2")))
    assert silence.quiet(15.0) == {"boat": Quiet(0.0, answers=True)}
    silence.poll(20.0, counted(1, 50, spi="c2"))
    assert silence.quiet(20.0) == {}
    silence.poll(25.0, counted(1, 100, spi="c2"))
    assert silence.quiet(34.0) == {"boat": Quiet(20.0, answers=True)}


def test_an_sa_that_sends_little_is_not_reported_silent() -> None:
    silence = looked((0.0, counted(0, 0)), (50.0, counted(0, ENOUGH - 1)))
    assert silence.quiet(100.0) == {}
    silence.poll(101.0, counted(0, ENOUGH))
    assert silence.quiet(101.0) == {"boat": Quiet(0.0, answers=False)}


def test_sent_packets_count_from_the_last_received_one_and_from_zero_for_a_rekeyed_sa() -> None:
    silence = looked((0.0, counted(0, 0)), (5.0, counted(1, 0)), (50.0, counted(1, ENOUGH - 1)))
    assert silence.quiet(100.0) == {}
    silence = looked((0.0, counted(7, 0)), (5.0, counted(7, 90)), (10.0, counted(1, 50, spi="c2")))
    assert silence.quiet(10.0 + NOTICE) == {}, "the new one received something, if less than the old one had"
    silence = looked((0.0, counted(0, 100)), (5.0, counted(0, 100)), (6.0, counted(0, ENOUGH - 1, spi="c2")))
    assert silence.quiet(100.0) == {}
    silence.poll(7.0, counted(0, ENOUGH, spi="c2"))
    assert silence.quiet(100.0) == {"boat": Quiet(5.0, answers=True)}


def test_the_reported_silence_begins_with_the_first_unanswered_packet() -> None:
    silence = looked((0.0, counted(0, 0)), (500.0, counted(0, 0)), (505.0, counted(0, 50)))
    assert silence.quiet(500.0 + NOTICE - 1) == {}
    assert silence.quiet(500.0 + NOTICE) == {"boat": Quiet(500.0, answers=True)}


def test_an_sa_that_is_gone_is_no_longer_reported_silent() -> None:
    silence = looked((0.0, counted(0, 0)), (10.0, counted(0, 100)), (15.0, {}))
    assert silence.quiet(60.0) == {}


def test_a_rekeyed_child_sa_that_is_still_listed_does_not_count() -> None:
    """charon lists it for some seconds beside the new one, in either order."""
    (new,) = counted(0, 5, spi="c2")["boat"]
    (old,) = counted(0, 100)["boat"]
    gone = replace(old.children[0], state=ChildSaState.REKEYED)
    for children in ((gone, *new.children), (*new.children, gone)):
        both = replace(new, children=children)
        assert unmoved([old], [both]) == ()
        silence = looked((0.0, counted(0, 0)), (10.0, counted(0, 100)))
        silence.poll(15.0, {"boat": [both]})
        assert silence.quiet(15.0)["boat"].answers


def test_an_sa_that_neither_received_nor_was_rekeyed_has_not_answered() -> None:
    (before,) = counted(7, 10)["boat"]
    assert unmoved([before], counted(7, 500)["boat"]) == (SUSPECT,)
    assert unmoved([before], counted(8, 10)["boat"]) == ()
    assert unmoved([before], counted(7, 10, spi="c2")["boat"]) == ()
    assert unmoved([before], counted(7, 10, state=IkeSaState.DELETING)["boat"]) == ()
    assert unmoved([before], [replace(before, unique_id="2")]) == ()
    assert unmoved([], [before]) == ()
