"""A run of the benchmark keeps what it has measured, whatever ends it."""

from collections.abc import Callable

from rt.bench_sa_setup import through
from tests.lab.basics.waiting import NotInTimeError


def visits(done: list[int], faults: dict[int, list[BaseException]]) -> list[Callable[[], None]]:
    def visit(number: int) -> None:
        if faults.get(number):
            raise faults[number].pop()
        done.append(number)

    return [lambda number=number: visit(number) for number in range(4)]  # type: ignore[misc]


def run(faults: dict[int, list[BaseException]]) -> tuple[list[int], str, int]:
    """What was measured, why it ended early, and how often progress was shown."""
    done: list[int] = []
    shown: list[None] = []
    return done, through(visits(done, faults), lambda: shown.append(None)), len(shown)


def test_a_visit_that_a_busy_machine_spoils_is_made_once_more() -> None:
    assert run({1: [NotInTimeError("no SA in 60 s")]}) == ([0, 1, 2, 3], "", 4)


def test_a_visit_that_is_spoilt_twice_ends_the_run_and_what_was_measured_stays() -> None:
    assert run({2: [NotInTimeError("again"), NotInTimeError("once")]}) == ([0, 1], "again", 2)


def test_an_interrupted_run_keeps_what_was_measured() -> None:
    assert run({3: [KeyboardInterrupt()]}) == ([0, 1, 2], "interrupted", 3)
