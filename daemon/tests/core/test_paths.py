"""A relay that routes and drops is left; an honest one is kept, whoever looks dead behind it; nothing flaps."""

from ipaddress import IPv6Address
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.path_world import World, node
from meshsec.core.paths import word
from meshsec.core.paths.avoidance import (
    FIRST,
    FORGOTTEN,
    LONGEST,
    MARKS,
    REMEMBERED,
    REST_MAX,
    SETTLE,
    TRIAL,
    TRIES,
    Avoidance,
    What,
    carries_for,
)
from meshsec.core.paths.watch import ASKS, DEAF, GAP, WITNESSES, Counted, Standing, Watch, Way

if TYPE_CHECKING:
    from collections.abc import Iterable

A, B, C, D, E, X, Y = map(node, range(1, 8))
LEFT = 8.0
"""Seconds within which a black hole is left; the router needs the rest of the ten."""
HOUR = 3600.0


def diamond(loss: float = 0.0) -> World:
    """Return a and c, which reach each other over x, or else over b."""
    world = World(loss)
    world.join(A, C, X, B)
    return world


@pytest.mark.parametrize("flows", [[(A, C)], [(C, A)], [(A, C), (C, A)]])
@pytest.mark.parametrize("begins", [10.0, 10.3, 10.5, 10.9])
def test_a_relay_that_begins_to_drop_is_left(flows: list[tuple[IPv6Address, IPv6Address]], begins: float) -> None:
    world = diamond()
    world.flows = set(flows)
    world.run(begins)
    world.drop(X)
    world.run(20)
    for source, target in flows:
        assert world.gap(source, target) <= LEFT
    assert [relay for _, relay in world.ends[flows[0][0]].made(What.LEFT)] == [X]


def test_who_is_told_nothing_stays() -> None:
    """The control: without what is concluded the way stays black."""
    world = diamond()
    world.flows = {(A, C)}
    for end in world.ends.values():
        end.relays = {peer: [X] for peer in end.relays}
    world.run(10)
    world.drop(X)
    world.run(30)
    assert world.gap(A, C) > 29


@pytest.mark.parametrize(("blames", "other"), [(A, C), (C, A)])
def test_of_two_ways_over_different_relays_the_one_that_drops_is_left(blames: IPv6Address, other: IPv6Address) -> None:
    """One end sends over x, which drops, and the other over b, which it keeps."""
    world = diamond()
    honest = world.ends[other]
    honest.relays[blames], honest.used[blames] = [B, X], B
    world.flows = {(A, C), (C, A)}
    world.run(10)
    world.drop(X, blames, other)
    world.run(30)
    assert world.gap(A, C) <= LEFT
    assert world.gap(C, A) <= LEFT
    assert honest.decisions == []


def test_an_honest_relay_is_kept_although_a_peer_behind_it_looks_dead() -> None:
    """c plays dead, or somebody close to c makes it so. x carries what is for d."""
    world = diamond()
    world.join(A, D, X, B)
    world.flows = {(A, C), (A, D), (D, A)}
    world.run(10)
    world.ends[C].is_on = False
    world.run(HOUR)
    assert world.ends[A].decisions == []
    assert world.gap(D, A) < 1


def test_an_idle_peer_behind_the_relay_is_asked_before_the_relay_is_blamed() -> None:
    world = diamond()
    world.join(A, D, X, B)
    world.flows = {(A, C)}
    world.run(10)
    world.ends[C].is_on = False
    world.run(60)
    assert world.ends[A].decisions == []
    assert any(ask.peer == D for _, ask in world.ends[A].asks)


def test_few_others_are_asked_however_many_are_behind_a_relay() -> None:
    watch = Watch()
    others = {node(100 + number): Way(X) for number in range(20)}
    unreached = {node(500 + number): Way(X, protected=False) for number in range(20)}
    watch.follow(0, {C: Way(X), **unreached, **others}, ())
    watch.asked_by(0, C, DEAF)
    asked = {ask.peer for number in range(5 * ASKS) for ask in watch.poll(GAP * number)}
    assert len(asked) == 1 + WITNESSES
    assert asked <= {C, *others}


def test_peers_that_are_silent_for_long_leave_room_for_honest_witnesses() -> None:
    world = diamond()
    world.join(A, D, X, B)
    hostile = [node(100 + number) for number in range(2 * WITNESSES)]
    for peer in hostile:
        world.join(A, peer, X, B)
        world.ends[peer].is_on = False
    world.flows = {(A, peer) for peer in hostile}
    world.run(60)
    assert all(standing.silent for peer, standing in world.ends[A].watch.standings().items() if peer in hostile)
    before = len(world.ends[A].decisions)
    world.flows |= {(A, C)}
    world.ends[C].is_on = False
    world.run(20)
    assert any(ask.peer == D for at, ask in world.ends[A].asks if at > 60)
    assert world.ends[A].decisions[before:] == []


def test_who_answered_before_a_relay_began_to_drop_is_no_witness() -> None:
    world = diamond()
    world.join(A, D, X, B)
    world.flows = {(A, C), (A, D)}
    world.run(10)
    world.drop(X)
    world.run(20)
    assert [relay for _, relay in world.ends[A].made(What.LEFT)] == [X]
    assert world.gap(A, C) <= LEFT
    assert world.gap(A, D) <= LEFT


def test_a_peer_that_is_off_penalises_nobody_for_long() -> None:
    world = diamond()
    world.flows = {(A, C)}
    world.run(10)
    world.ends[C].is_on = False
    world.run(HOUR)
    a = world.ends[A]
    assert a.made(What.LEFT) == a.made(What.PROVED) == []
    trials = a.made(What.ON_TRIAL)
    assert 2 <= len(trials) <= 20
    assert len(a.made(What.ACQUITTED)) == len(trials)
    assert avoided_seconds(world) < HOUR / 50


def test_a_relay_without_an_alternative_is_used_again_at_once() -> None:
    world = World()
    world.join(A, C, X)
    world.flows = {(A, C)}
    world.run(10)
    world.drop(X)
    world.run(20)
    a = world.ends[A]
    assert [what for _, what in a.made(What.ACQUITTED)] == [X]
    assert not a.avoidance.marks


def test_two_relays_that_drop_are_both_left() -> None:
    world = World()
    world.join(A, C, X, Y, B)
    world.flows = {(A, C), (C, A)}
    world.run(10)
    world.drop(X)
    world.drop(Y)
    world.run(30)
    assert {relay for _, relay in world.ends[A].made(What.LEFT)} == {X, Y}
    assert world.ends[A].used[C] == B


def test_not_more_relays_are_tried_than_a_few() -> None:
    world = World()
    relays = [node(number) for number in range(10, 30)]
    world.join(A, C, *relays)
    world.flows = {(A, C)}
    world.run(10)
    world.ends[C].is_on = False
    world.run(50)
    tried, acquitted = (world.ends[A].made(what) for what in (What.ON_TRIAL, What.ACQUITTED))
    assert len(tried) == len(acquitted) == TRIES
    assert acquitted[0][0] - tried[-1][0] < 5
    assert not world.ends[A].avoidance.marks


def test_a_black_hole_is_tried_again_after_times_that_grow() -> None:
    world = diamond()
    world.flows = {(A, C), (C, A)}
    world.run(10)
    world.drop(X)
    world.run(2 * HOUR)
    again = [at for at, _ in world.ends[A].made(What.TRIED_AGAIN)]
    left = [at for what in (What.LEFT, What.PROVED) for at, _ in world.ends[A].made(what)]
    assert len(world.ends[A].made(What.LEFT)) == 1
    pauses = [end - begin for begin, end in zip(left, again, strict=False)]
    grown = [FIRST, *(min(FIRST * 2**time, LONGEST) for time in range(len(pauses) - 1))]
    assert pauses == pytest.approx(grown, abs=1)
    assert pauses[-1] == pytest.approx(LONGEST, abs=1)
    black = 1 - len([at for at in world.arrived[A, C] if at > 10]) * 0.1 / (2 * HOUR)
    assert black < 0.02


def test_times_stay_bounded_however_often_a_relay_drops_or_a_trial_helps_nothing() -> None:
    avoidance, now = Avoidance(), 0.0
    for _ in range(5000):
        now += LONGEST + 1
        avoidance.decide(now, {C: Standing(X, silent=True, concluded=True, never=True)})
        avoidance.decide(now + 1, {C: Standing(B, answered_at=now + 1, helps=True)})
        assert avoidance.marks[X].until <= now + 1 + LONGEST
    for _ in range(5000):
        now += REST_MAX + SETTLE + 1
        avoidance.decide(now, {D: Standing(Y, silent=True, concluded=True)})
        avoidance.decide(now + SETTLE, {D: Standing(Y, silent=True)})
        assert avoidance.is_resting(now + SETTLE, D)
        assert not avoidance.is_resting(now + SETTLE + REST_MAX, D)


def test_the_loss_of_a_link_proves_nothing_against_an_honest_relay() -> None:
    """It is noticed here before the router's hold time, and may happen again."""
    world = diamond()
    world.flows = {(A, C), (C, A)}
    world.run(10)
    for _ in range(3):
        world.lose(X, A, C)
        world.run(40)
        assert world.ends[A].used[C] == B
        assert not world.ends[A].avoidance.marks
        world.find(X, A, C)
        world.run(40)
        assert world.ends[A].used[C] == X
    for end in world.ends.values():
        assert end.made(What.PROVED) == []
    assert len(world.ends[A].made(What.LEFT)) == 3
    assert world.gap(A, C) <= LEFT


def test_a_relay_that_carries_again_is_used_again() -> None:
    world = diamond()
    world.flows = {(A, C)}
    world.run(10)
    world.drop(X)
    world.run(20)
    world.drops.clear()
    world.run(60)
    assert world.ends[A].used[C] == X
    assert not world.ends[A].avoidance.marks


def test_a_relay_that_dropped_before_is_left_sooner() -> None:
    world = diamond()
    world.flows = {(A, C)}
    world.run(10)
    world.drop(X)
    world.run(25)
    begun = len(world.arrived[A, C])
    world.run(60)
    times = world.arrived[A, C][begun:]
    assert max(after - before for before, after in pairwise(times)) < 5


def test_a_stream_of_one_direction_costs_one_question_a_second() -> None:
    world = diamond()
    world.flows = {(A, C)}
    world.run(100)
    asks = world.ends[A].asks
    assert 40 <= len(asks) <= 100
    assert world.ends[A].decisions == []
    assert {ask.size for _, ask in asks} == {500}


def test_nobody_is_asked_without_user_data_or_while_answers_come() -> None:
    world = diamond()
    world.run(100)
    world.flows = {(A, C), (C, A)}
    world.run(100)
    assert world.ends[A].asks == world.ends[C].asks == []


def test_a_silent_peer_is_asked_less_and_less_and_not_without_user_data() -> None:
    world = diamond()
    world.flows = {(A, C)}
    world.run(10)
    world.ends[C].is_on = False
    world.run(HOUR)
    assert len(world.ends[A].asks) < 600
    world.flows.clear()
    world.run(400)
    before = len(world.ends[A].asks)
    world.run(HOUR)
    assert len(world.ends[A].asks) == before


def test_loss_alone_blames_nobody() -> None:
    """One packet in ten is lost between the ends, each way."""
    world = diamond(loss=0.1)
    world.flows = {(A, C)}
    world.run(HOUR)
    assert world.ends[A].made(What.LEFT) == world.ends[A].made(What.PROVED) == []


def test_a_rekeyed_sa_begins_its_counters_again() -> None:
    world = diamond()
    world.flows = {(A, C), (C, A)}
    world.run(10)
    for end in world.ends.values():
        end.counted = {peer: [0, 0, 0] for peer in end.counted}
    world.run(10)
    assert world.ends[A].asks == []


def test_a_peer_that_says_that_it_gets_no_answers_is_asked_and_not_believed() -> None:
    watch = Watch()
    watch.follow(0, {C: Way(X)}, ())
    watch.asked_by(0, C, 5)
    (ask,) = watch.poll(0.1)
    assert ask.peer == C
    watch.answered(0.2, C, ask.number)
    for tenth in range(3, 60):
        assert watch.poll(tenth / 10) == []
    assert not watch.standings()[C].silent


def test_who_is_told_so_concludes_before_the_one_who_says_it() -> None:
    watch = Watch()
    watch.follow(0, {C: Way(X)}, ())
    watch.asked_by(0, C, 2)
    concluded = next(tenth / 10 for tenth in range(100) if watch.poll(tenth / 10) is not None and _is_silent(watch))
    assert concluded + 2 * GAP < ASKS * GAP


@pytest.mark.parametrize(("numbered", "decided"), [(True, [What.LEFT]), (False, [])])
def test_a_late_answer_is_none_and_one_without_a_number_convicts_nobody(numbered: bool, decided: list[What]) -> None:
    watch, avoidance = Watch(), Avoidance()
    watch.follow(0, {C: Way(X)}, {X})
    (late,) = watch.poll(0)
    for number in range(1, ASKS + 1):
        watch.poll(GAP * number)
    assert [one.what for one in avoidance.decide(4, watch.standings())] == [What.ON_TRIAL]
    watch.follow(5, {C: Way(B)}, ())
    watch.answered(5, C, late.number)
    (ask,) = watch.poll(5)
    watch.answered(5.1, C, late.number)
    assert watch.standings()[C].answered_at is None
    assert avoidance.decide(5.1, watch.standings()) == []
    watch.answered(5.2, C, ask.number if numbered else 0)
    assert watch.standings()[C].answered_at == 5.2
    assert [one.what for one in avoidance.decide(5.2, watch.standings())] == decided


def test_negotiations_without_an_answer_accuse_the_relay_that_they_went_over() -> None:
    watch, avoidance = Watch(), Avoidance()

    def at(now: float, way: Way) -> list[What]:
        watch.follow(now, {C: way}, avoidance.doubted(now))
        asked = watch.poll(now)
        assert way.protected or not asked
        for ask in asked:
            watch.answered(now, ask.peer, ask.number)
        return [one.what for one in avoidance.decide(now, watch.standings())]

    assert at(100, Way(X, protected=False)) == []
    assert at(104, Way(X, protected=False, failed_at=104)) == [], "the way changed during the attempt"
    decided = [at(110 + GAP * number, Way(X, protected=False, failed_at=110)) for number in range(20)]
    assert [one for found in decided for one in found] == [What.ON_TRIAL]
    assert at(117, Way(B, protected=False, failed_at=110)) == []
    assert at(120, Way(B)) == [What.LEFT]


def test_a_relay_that_carries_for_others_is_not_accused_by_a_negotiation() -> None:
    watch, avoidance, asked = Watch(), Avoidance(), []
    for number in range(100):
        now = 100 + GAP * number
        failed_at = None if number < 40 else 110.0
        watch.follow(now, {C: Way(X, protected=False, failed_at=failed_at), D: Way(X)}, ())
        for ask in watch.poll(now):
            asked.append(ask.peer)
            watch.answered(now, ask.peer, ask.number)
        assert avoidance.decide(now, watch.standings()) == []
    assert asked == [D]
    assert carries_for(C, watch.standings()) == D


def test_without_an_sa_nothing_is_asked_so_nothing_is_proved() -> None:
    watch = Watch()
    watch.follow(10, {C: Way(X, protected=False)}, {X})
    for number in range(2 * ASKS):
        watch.poll(10 + GAP * number)
        assert not watch.standings()[C].never
    assert _is_silent(watch)


def test_a_trial_without_a_verdict_ends() -> None:
    avoidance = Avoidance()
    avoidance.decide(0, {C: Standing(X, silent=True, concluded=True)})
    assert avoidance.decide(TRIAL - 1, {C: Standing(B)}) == []
    assert [one.what for one in avoidance.decide(TRIAL, {C: Standing(B)})] == [What.ACQUITTED]


def test_questions_are_no_user_data() -> None:
    """A silent peer to which nothing else is sent is not asked again, whenever the SA is looked at."""
    watch = Watch()
    watch.follow(0, {C: Way(X)}, {X})
    watch.count(0, {C: Counted(0, 0, 0)})
    asked = sum(len(watch.poll(GAP * number)) for number in range(20))
    watch.count(10, {C: Counted(0, asked, 500)})
    assert asked == ASKS
    assert not any(watch.poll(10 + GAP * number) for number in range(2000))


def test_what_is_remembered_is_bounded() -> None:
    avoidance = Avoidance()
    for number in range(500):
        relay, peer = node(1000 + number), node(2000 + number)
        now = 100.0 * number
        avoidance.decide(now, {peer: Standing(relay, silent=True, concluded=True, asked_since=now)})
        avoidance.decide(now + 1, {peer: Standing(B, answered_at=now + 1, helps=True)})
        assert len(avoidance.marks) <= MARKS
    assert len(avoidance.doubted(0)) == REMEMBERED


def test_after_an_hour_a_relay_is_not_doubted_any_more() -> None:
    avoidance = Avoidance()
    avoidance.decide(0, {C: Standing(X, silent=True, concluded=True)})
    avoidance.decide(1, {C: Standing(B, answered_at=1, helps=True)})
    assert avoidance.doubted(FIRST + FORGOTTEN) == {X}
    assert avoidance.doubted(1 + FIRST + FORGOTTEN) == frozenset()


def test_a_hostile_peer_has_no_more_than_a_few_relays_avoided_at_a_time() -> None:
    avoidance, relays = Avoidance(), [node(1000 + number) for number in range(10)]
    for second, relay in enumerate(relays):
        # The peer is silent over each relay in turn, and answers over the next one.
        avoidance.decide(second, {C: Standing(relay, answered_at=second, helps=True)})
        avoidance.decide(second, {C: Standing(relay, silent=True, concluded=True)})
    assert [*avoidance.marks] == relays[:TRIES]
    assert all(mark.left for relay, mark in avoidance.marks.items() if relay != relays[TRIES - 1])
    accusing = {B: Standing(relays[-1], silent=True, concluded=True)}
    assert [one.what for one in avoidance.decide(20, accusing)] == [What.ON_TRIAL], "another peer may accuse"


def test_not_everybody_is_avoided_at_a_time() -> None:
    avoidance = Avoidance()
    silent = {
        node(2000 + number): Standing(node(1000 + number), silent=True, concluded=True) for number in range(2 * MARKS)
    }
    assert len(avoidance.decide(0, silent)) == MARKS


@given(st.lists(st.tuples(st.sampled_from([X, B, Y]), st.booleans(), st.booleans(), st.booleans()), max_size=60))
def test_whatever_is_seen_a_peer_cannot_hold_more_than_a_few_relays_and_none_for_ever(
    seen: list[tuple[IPv6Address, bool, bool, bool]],
) -> None:
    avoidance, now = Avoidance(), 0.0
    for relay, silent, concluded, answers in seen:
        now += 1.0
        answered = now if answers and not silent else None
        standing = Standing(relay, silent, silent and concluded, now - 1, answered, answered is not None)
        avoidance.decide(now, {C: standing})
        trials = [mark for mark in avoidance.marks.values() if not mark.left]
        assert len(trials) <= TRIES
        assert all(mark.until - now <= LONGEST for mark in avoidance.marks.values())
    avoidance.decide(now + LONGEST, {})
    assert not avoidance.marks


@pytest.mark.parametrize("size", [0, 60, 96, 97, 500, 1196, 1500, 9000])
def test_a_question_is_as_long_as_user_data_and_fits_into_a_datagram(size: int) -> None:
    octets = word.question(3, size, word.ROUNDS)
    assert len(octets) <= word.SIZE_MAX
    said = word.decode(octets)
    assert (said.asks, said.unanswered, said.round) == (True, 3, word.ROUNDS)
    if 97 < size < 1196:
        assert abs(len(octets) + 48 - size) < 48


def test_bytes_of_a_peer_that_are_no_message_are_refused() -> None:
    assert not word.decode(word.answer()).asks
    assert word.decode(word.question(10**6, 0)).unanswered == 255
    deep = msgspec.msgpack.encode({"type": "path", "later": 0})[:-1] + b"\x91" * 1100 + b"\xc0"
    for octets in (b"", b"\x00", word.answer()[:-1], bytes(word.SIZE_MAX + 1), word.answer() + b"\x00", deep):
        with pytest.raises(word.MessageError):
            word.decode(octets)


def avoided_seconds(world: World) -> float:
    """Return for how long a had any relay avoided."""
    marks: Iterable[tuple[float, What]] = [(at, one.what) for at, one in world.ends[A].decisions]
    held, begun, total = 0, 0.0, 0.0
    for at, what in marks:
        if what is What.ON_TRIAL:
            begun = at if held == 0 else begun
            held += 1
        elif what in {What.ACQUITTED, What.TRIED_AGAIN}:
            held -= 1
            total += at - begun if held == 0 else 0.0
    return total


def _is_silent(watch: Watch) -> bool:
    return watch.standings()[C].silent
