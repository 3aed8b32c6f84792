"""SAs that only send: when a proof is asked for, and when not."""

import itertools
from dataclasses import replace

from core.world import ike_sa
from meshsec.core.model import IkeSa
from meshsec.core.silence import ENOUGH, FIRST, LAST, WITHIN, Silence, Suspect

SUSPECT = Suspect("boat", "1", "mesh")


def counted(packets_in: int, packets_out: int, spi: str = "c1", state: str = "ESTABLISHED") -> dict[str, list[IkeSa]]:
    sa = ike_sa("boat", state=state)
    child = replace(sa.children[0], spi_in=spi, packets_in=packets_in, packets_out=packets_out)
    return {"boat": [replace(sa, children=(child,))]}


def test_packets_that_go_out_while_none_come_in_are_reason_for_a_proof() -> None:
    silence = Silence()
    assert silence.look(0.0, counted(7, 10)) == []
    assert silence.look(FIRST, counted(7, 10 + ENOUGH)) == [SUSPECT]


def test_one_packet_in_is_proof_enough() -> None:
    silence = Silence()
    silence.look(0.0, counted(7, 10))
    assert silence.look(FIRST, counted(8, 500)) == []
    assert silence.look(FIRST + 1, counted(8, 600)) == [], "silence is counted from what came in last"
    assert silence.look(2 * FIRST, counted(8, 700)) == [SUSPECT]


def test_an_idle_sa_is_left_alone() -> None:
    silence = Silence()
    for look in range(100):
        assert silence.look(look * FIRST, counted(0, ENOUGH - 1 if look else 0)) == []


def test_a_stream_of_one_direction_is_proved_less_and_less_often_although_each_proof_rekeys() -> None:
    silence = Silence()
    asked: list[int] = []
    for now in range(0, 4000, 5):
        sent = now - (asked[-1] if asked else 0)
        if silence.look(now, counted(0, sent, spi=f"c{len(asked)}")):
            asked.append(now)
    pauses = [after - before for before, after in itertools.pairwise(asked)]
    assert pauses
    assert all(after >= before for before, after in itertools.pairwise(pauses))
    assert pauses[-1] >= LAST / 2
    assert len(asked) < 15


def _asked() -> Silence:
    silence = Silence()
    silence.look(0.0, counted(0, 0))
    assert silence.look(FIRST, counted(0, ENOUGH)) == [SUSPECT]
    return silence


def test_an_sa_that_is_not_rekeyed_when_it_is_asked_for_has_failed() -> None:
    silence = _asked()
    assert silence.look(FIRST + WITHIN - 1, counted(0, 500)) == []
    assert silence.look(FIRST + WITHIN, counted(0, 500)) == [replace(SUSPECT, failed=True)]
    assert silence.look(FIRST + WITHIN + 1, counted(0, 600)) == [], "it is going"


def test_an_sa_that_is_rekeyed_or_heard_of_in_time_has_not_failed() -> None:
    for told in (counted(0, 1, spi="c2"), counted(1, 500)):
        silence = _asked()
        assert silence.look(FIRST + WITHIN - 1, told) == []
        assert silence.look(FIRST + WITHIN, told) == []


def test_what_came_in_makes_the_next_silence_count_from_the_beginning() -> None:
    silence = Silence()
    silence.look(0.0, counted(0, 0))
    silence.look(10.0, counted(0, 100))
    silence.look(100.0, counted(0, 1000))
    silence.look(110.0, counted(1, 1100))
    assert silence.look(110.0 + FIRST, counted(1, 1200)) == [SUSPECT]


def test_an_sa_that_is_leaving_is_not_proved_and_one_that_is_gone_is_forgotten() -> None:
    silence = Silence()
    silence.look(0.0, counted(0, 0))
    assert silence.look(100.0, counted(0, 100, state="DELETING")) == []
    assert silence.look(101.0, counted(0, 200)) == [], "the watch begins anew"
    assert silence.look(102.0, {}) == []


def test_silence_is_counted_from_what_is_not_answered_and_not_from_a_long_rest() -> None:
    silence = Silence()
    silence.look(0.0, counted(0, 0))
    assert silence.look(10 * FIRST, counted(0, 0)) == []
    assert silence.look(10 * FIRST + 5, counted(0, 50)) == []
    assert silence.look(11 * FIRST, counted(0, 250)) == [SUSPECT]
