"""The RTS threshold that follows what is measured, on radios whose losses are known."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshsec.core.radio import rts, rts_evidence
from meshsec.core.radio.observed import RTS_OFF
from meshsec.core.radio.rts import State
from meshsec.core.radio.rts_evidence import Sample, Sent, Station

LONG, SHORT = 1400, 200


@dataclass
class Radio:
    """A radio that sends frames of two sizes; ``lost`` is what part of the attempts fails, by size and by RTS."""

    lost: Callable[[int, bool], float]
    frames: int = 400
    sizes: tuple[int, ...] = (LONG, SHORT)
    rate: float = 12.0

    def sends(self, threshold: int, seconds: float) -> Sample:
        """Return what it sends in an interval, to one neighbour for each size."""
        each = max(0, int(self.frames * seconds / len(self.sizes)))
        return Sample(seconds, tuple(self._sent(size, threshold, each) for size in self.sizes))

    def _sent(self, size: int, threshold: int, frames: int) -> Sent:
        lost = self.lost(size, size > threshold)
        return Sent(frames, frames * size, int(frames * lost / (1 - lost)), int(frames * lost**7), None, self.rate)


def hidden(size: int, asked: bool) -> float:
    """Lose long frames to hidden nodes, which keep silent when they are asked."""
    return 0.02 if asked else 0.6 * size / LONG


def weak(_size: int, _asked: bool) -> float:
    """Lose frames of all sizes, whatever is asked."""
    return 0.3


def clear(_size: int, _asked: bool) -> float:
    """Lose hardly anything."""
    return 0.01


@dataclass
class Course:
    """A decision that is followed through time."""

    state: State = field(default_factory=State)
    seconds: float = 0.0
    thresholds: list[tuple[float, int]] = field(default_factory=list)

    def go(self, radio: Radio, seconds: float) -> "Course":
        """Go on for some time."""
        end = self.seconds + seconds
        while self.seconds < end:
            wait, threshold = self.state.wait, self.state.threshold
            self.thresholds.append((wait, threshold))
            self.state = rts.following(self.state, radio.sends(threshold, wait))
            self.seconds += wait
        return self

    def share(self, threshold: int) -> float:
        """Return the part of the time for which a threshold was in force."""
        return sum(wait for wait, one in self.thresholds if one == threshold) / self.seconds


def test_hidden_nodes_are_met_with_rts() -> None:
    course = Course().go(Radio(hidden), 120)
    assert course.state.present == 0
    assert "off delivers" in course.state.reason
    assert "less for its time on the air" in str(course.state)


def test_before_and_during_a_trial_the_reason_is_what_is_suspected() -> None:
    course, found = Course(), []
    while not course.state.tried:
        found.append(course.go(Radio(hidden), 1).state)
    assert found[0].trial is None
    assert found[-2].trial is not None
    suspected = "frames are repeated as if nodes were hidden, and a trial follows"
    assert {state.reason for state in found[:-1]} == {suspected}
    assert "off delivers" in found[-1].reason


def test_where_all_hear_all_nothing_is_ever_tried() -> None:
    course = Course().go(Radio(clear), 3600)
    assert course.share(RTS_OFF) == 1
    assert "fewer than 10 % of the frames are repeated" in course.state.reason


def test_a_weak_signal_is_no_reason_to_try() -> None:
    course = Course().go(Radio(weak), 3600)
    assert (course.share(RTS_OFF), course.state.tried) == (1, 0)
    assert "short frames are repeated as often" in course.state.reason


def test_a_lower_rate_that_helps_is_no_reason_to_try() -> None:
    state = State()
    for rate, lost in ((54.0, 0.4), (6.0, 0.05)) * 10:
        radio = Radio(lambda _size, _asked, lost=lost: lost, sizes=(LONG,), rate=rate)  # type: ignore[misc]
        state = rts.following(state, radio.sends(RTS_OFF, 10))
    assert state.tried == 0
    assert "a lower rate helps" in state.reason


def test_a_loss_that_rts_does_not_heal_leaves_it_off_after_bounded_trials() -> None:
    course = Course().go(Radio(weak, sizes=(LONG,)), 4 * 3600)
    assert course.state.present == RTS_OFF
    assert course.state.changes == 0
    assert course.state.tried > 1
    assert course.share(RTS_OFF) > 0.98
    assert "less for its time on the air" in course.state.reason


def test_short_frames_are_spared_where_that_delivers_more() -> None:
    """Most frames are acknowledgements of TCP, which no hidden node hits."""
    radio = Radio(
        lambda size, asked: 0.6 if size == LONG and not asked else 0.01, sizes=(LONG, 80, 80, 80, 80), rate=54
    )
    course = Course().go(radio, 600)
    assert (course.state.present, course.state.changes) == (500, 1)
    assert course.share(0) > 0


def test_rts_ends_when_the_hidden_node_has_left() -> None:
    course = Course().go(Radio(hidden), 120)
    assert course.state.present == 0
    course.go(Radio(clear), 1800)
    assert course.state.present == RTS_OFF
    assert course.state.changes == 2


def test_once_other_thresholds_are_judged_each_trial_asks_whether_rts_is_still_needed() -> None:
    course = Course().go(Radio(hidden), 120)
    before = len(course.thresholds)
    course.go(Radio(hidden), 3600)
    tried = [one for wait, one in course.thresholds[before:] if wait == rts.LEG_SECONDS and one != 0]
    trials = [one for one, _ in groupby(tried)]
    assert trials == [RTS_OFF, 500, RTS_OFF]
    assert tried.count(RTS_OFF) > tried.count(500) == rts.PAIRS
    assert course.state.changes == 1


def test_a_hidden_node_that_comes_after_a_long_quiet_time_is_met_at_once() -> None:
    course = Course().go(Radio(weak, sizes=(LONG,)), 3600).go(Radio(clear), 1800).go(Radio(hidden), 400)
    assert course.state.present == 0


def test_a_threshold_that_no_frame_exceeds_is_never_tried() -> None:
    radio = Radio(lambda _size, asked: 0.02 if asked else 0.5, sizes=(100,), frames=2000)
    course = Course().go(radio, 3600)
    assert course.state.present == 0
    assert course.share(500) == 0


def test_a_trial_that_does_harm_ends_with_its_first_leg() -> None:
    radio = Radio(lambda _size, asked: 0.9 if asked else 0.5, sizes=(LONG,))
    course = Course().go(radio, 34)
    assert course.state.tried == 1
    assert [one for _, one in course.thresholds].count(0) == 1


def test_too_little_traffic_ends_a_trial_and_says_so() -> None:
    course = Course().go(Radio(hidden), 30)
    assert course.state.threshold == RTS_OFF
    assert course.state.wait == rts.LEG_SECONDS
    course.go(Radio(hidden, frames=2), 8)
    assert (course.state.wait, course.state.present) == (rts.WATCH_SECONDS, RTS_OFF)
    assert "too little was sent to compare it with 0" in course.state.reason


@given(st.lists(st.floats(0.0, 0.9), min_size=1, max_size=40), st.integers(50, 5000))
def test_it_never_flaps(losses: list[float], frames: int) -> None:
    """However losses change from interval to interval, changes are at most as many as pauses allow."""
    state, seconds, index = State(), 0.0, 0
    tried_at: list[float] = []
    while seconds < 3600:
        lost = losses[index % len(losses)]
        radio = Radio(lambda _size, asked, lost=lost: 0.05 if asked else lost, frames=frames)  # type: ignore[misc]
        before, wait = state.tried, state.wait
        state = rts.following(state, radio.sends(state.threshold, wait))
        seconds, index = seconds + wait, index + 1
        tried_at += [seconds] * (state.tried - before)
    assert state.changes <= state.tried
    assert all(later - earlier >= rts.FIRST_PAUSE for earlier, later in pairwise(tried_at))
    assert len(tried_at) <= 3600 / rts.FIRST_PAUSE


numbers = st.integers(0, 2**32 - 1)
counters = st.builds(
    Station, numbers, st.integers(0, 2**64 - 1), numbers, numbers, st.none() | st.floats(0, 1e12), st.floats(0, 1e4)
)


@given(st.lists(st.dictionaries(st.sampled_from("ab"), counters), min_size=2, max_size=30))
def test_any_counters_lead_to_a_threshold_that_exists(readings: list[dict[str, Station]]) -> None:
    state = State()
    for before, after in pairwise(readings):
        state = rts.following(state, rts_evidence.sample(before, after, state.wait))
        assert state.threshold in (RTS_OFF, *rts.CANDIDATES)
        assert state.reason


def test_counters_are_compared_by_neighbour_and_may_begin_again() -> None:
    before = {"a": Station(10, 1000, 5, 1, 0.5, 6.0), "gone": Station(9, 900)}
    after = {"a": Station(30, 3000, 6, 1, 0.75, 12.0), "new": Station(1, 100, 0, 0, None, 1.0)}
    assert rts_evidence.sample(before, after, 2.0).sent == (
        Sent(20, 2000, 1, 0, 0.25, 12.0),
        Sent(1, 100, 0, 0, None, 1.0),
    )
    (again,) = rts_evidence.sample({"a": after["a"]}, {"a": before["a"]}, 2.0).sent
    assert again == Sent(10, 1000, 5, 1, 0.5, 6.0)


def test_the_cost_of_a_frame_is_counted_from_the_standard() -> None:
    one = Sent(frames=1, octets=1464, retries=1, failed=0, airtime=None, rate=6.0)
    data = 20e-6 + 8 * 1500 / 6e6
    assert one.occupied(RTS_OFF) == pytest.approx(2 * (data + 60e-6))
    assert one.occupied(500) == pytest.approx(2 * (data + 60e-6 + 128e-6))
    assert replace(one, airtime=0.5).occupied(RTS_OFF) == pytest.approx(0.5 + 120e-6)


def sizes(*pairs: tuple[int, int]) -> Iterable[Sent]:
    return (Sent(100, 100 * size, retries, 0, None, 6.0) for size, retries in pairs)


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        ((), "too few frames"),
        (sizes((1400, 5)), "fewer than 10 % of the frames are repeated"),
        (sizes((1400, 50), (200, 45)), "short frames are repeated as often"),
        (sizes((1400, 50), (200, 10)), ""),
        (sizes((1400, 50)), ""),
    ],
)
def test_loss_is_told_apart_by_what_grows_with_the_size(sent: Iterable[Sent], why: str) -> None:
    found = rts_evidence.why_not(list(sent))
    assert found.startswith(why) if why else found == ""
