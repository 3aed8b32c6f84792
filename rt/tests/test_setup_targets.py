"""Each target is judged on its own cells, and never on a cell that was not measured."""

from dataclasses import replace

from rt.measure.results import Cell, Result
from rt.sa_setup.targets import judged


def result(*cells: Cell) -> Result:
    return Result("sa-setup", {}, list(cells))


def priority(profile: str, place: str, nice: int | None, *samples: float) -> Cell:
    key = {"part": "priority", "profile": profile, "place": place, "nice": nice, "what": "total", "source": "capture"}
    key |= {"suite": "ours", "load": None if place == "none" else "saturating"}
    key["apart"] = "receiver" if place == "none" else None
    return Cell({name: value for name, value in key.items() if value is not None}, "ms", samples)


def stream(rate: int, missing: float) -> Cell:
    key = {"part": "stream", "profile": "governor", "load": "keeping", "what": "frames missing", "rate": rate}
    return Cell(key, "% of frames", [missing])


def test_a_target_that_was_not_measured_is_not_judged() -> None:
    assert judged(result()) == []


def test_the_governor_is_judged_by_the_tail_over_its_own_idle_median() -> None:
    idle, slow = priority("governor", "none", None, 5.0, 5.0), priority("governor", "receiver", -20, 5.0, 9.0)
    first, *_ = judged(result(idle, slow))
    assert first.startswith("MISSED (at most 1.5): governor, receiver loaded at nice -20: p99 1.79 times")
    first, *_ = judged(result(idle, priority("governor", "receiver", -20, 5.0, 6.0)))
    assert first.startswith("reached (at most 1.5)")


def test_frames_are_compared_with_the_same_stream_without_set_ups() -> None:
    assert judged(result(stream(0, 2.0), stream(5, 2.5)))[0].startswith("reached (at most 1)")
    assert judged(result(stream(0, 2.0), stream(5, 3.5)))[0].startswith("MISSED (at most 1)")


def test_only_an_encoder_that_keeps_its_frames_is_judged_and_another_is_named() -> None:
    cells = [Cell({**stream(rate, 0).key, "load": "saturating"}, "% of frames", [70.0 + rate]) for rate in (0, 5)]
    assert judged(result(*cells)) == [
        "governor, saturating encoder, 5 set-ups a second: +5.00 points of frames missing"
    ]


def test_the_time_of_the_path_is_subtracted_from_the_idle_set_up() -> None:
    key = {**priority("stock", "none", None).key, "what": "total beyond two round trips"}
    assert judged(result(Cell(key, "ms", [3.0, 3.5, 9.0])))[0].startswith(
        "reached (at most 4): stock, no load: median 3.5"
    )
    assert judged(result(Cell({**key, "apart": "relay"}, "ms", [3.0]))) == []


def test_set_ups_that_were_given_up_are_named_and_no_clock_has_timed_them() -> None:
    cell = replace(priority("paper-2007", "receiver", -20, 5.0, 3e4, 3e4), given_up=2)
    clocks, line = judged(result(cell))
    assert clocks.startswith("two clocks: the capture timed 1 set-ups")
    assert line == "paper-2007, ours, receiver, saturating, -20: 2 set-ups were given up, and count as 30 s"


def test_the_governors_tail_has_the_set_ups_that_were_given_up() -> None:
    idle, slow = priority("governor", "none", None, 5.0), priority("governor", "receiver", -20, 5.0, 3e4)
    first, *_ = judged(result(idle, replace(slow, given_up=1)))
    assert first.startswith("MISSED (at most 1.5)")
