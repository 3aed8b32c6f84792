"""Read oslat's report (rt-tests, ``--json``): for how long something stopped a thread that does nothing but work."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LONG = 10
"""Microseconds from which an interruption counts as a long one."""


@dataclass(frozen=True, slots=True)
class Interruptions:
    """What stopped the thread on one core."""

    longest: int
    """Microseconds."""
    long_ones: int
    """Number of those of ``LONG`` and more."""
    seconds: float
    """How long it was measured."""


def read(report: Any) -> list[Interruptions]:
    """Return the interruptions of each core. Raises ValueError if the report is none."""
    try:
        found = [_of_core(one) for one in report["thread"].values()]
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise ValueError(f"oslat's report makes no sense: {type(error).__name__}: {error}") from error
    if not found:
        raise ValueError("oslat measured no core")
    return found


def _of_core(thread: Mapping[str, Any]) -> Interruptions:
    histogram = {int(micro): int(count) for micro, count in thread["histogram"].items()}
    longest, seconds = int(thread["max"]), float(thread["duration"])
    if longest < 0 or not 0 < seconds < float("inf") or any(count < 0 for count in histogram.values()):
        raise ValueError("numbers out of range")
    return Interruptions(longest, sum(count for micro, count in histogram.items() if micro >= LONG), seconds)
