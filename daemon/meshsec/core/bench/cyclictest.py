"""Read cyclictest's histogram (rt-tests, ``--json``), and judge it by the deadline of a set-up."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

STEPS_OF_A_SET_UP = 8
"""How often a set-up waits for a processor, one after the other: a route's event, four packets of IKE that two daemons
wake up for, and the kernel's answer to the SA and to the rules."""
SHARE = 0.1
"""The share of the deadline that waiting for a processor may take at most; network and cryptography need the rest."""


@dataclass(frozen=True, slots=True)
class Lateness:
    """How late wake-ups were on one processor."""

    histogram: Mapping[int, int]
    """Number of wake-ups by lateness in microseconds."""
    most: int
    """The latest, in microseconds, also where the histogram was too short for it."""
    cycles: int

    def percentile(self, share: float) -> int:
        """Return the lateness that a share of all wake-ups did not exceed, in microseconds."""
        wanted, seen = share * self.cycles, 0
        for late, count in sorted(self.histogram.items()):
            seen += count
            if seen >= wanted:
                return late
        return self.most

    def doubled(self) -> dict[int, int]:
        """Return the wake-ups by the power of two, in microseconds, that they were not later than.

        Those for which the histogram was too short count as as late as the latest.
        """
        found: dict[int, int] = {}
        beyond = self.cycles - sum(self.histogram.values())
        for late, count in (*self.histogram.items(), (self.most, beyond)):
            if count > 0:
                place = 1 << max(0, late - 1).bit_length()
                found[place] = found.get(place, 0) + count
        return dict(sorted(found.items()))


def read(report: Any) -> dict[int, Lateness]:
    """Return the lateness by processor. Raises ValueError if the report is none, or nothing was counted."""
    try:
        found = {int(one["cpu"]): _lateness(one) for one in report["thread"].values()}
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"cyclictest's report makes no sense: {type(error).__name__}: {error}") from error
    if not found or not all(one.cycles for one in found.values()):
        raise ValueError("cyclictest counted no wake-ups")
    return found


def _lateness(thread: Mapping[str, Any]) -> Lateness:
    histogram = {int(late): int(count) for late, count in thread["histogram"].items()}
    if any(late < 0 or count < 0 for late, count in histogram.items()):
        raise ValueError("negative numbers")
    return Lateness(histogram, int(thread["max"]), int(thread["cycles"]))


def merged(all_of_them: Mapping[int, Lateness]) -> Lateness:
    """Return the lateness of all processors together."""
    histogram: dict[int, int] = {}
    for one in all_of_them.values():
        for late, count in one.histogram.items():
            histogram[late] = histogram.get(late, 0) + count
    parts = all_of_them.values()
    return Lateness(histogram, max(one.most for one in parts), sum(one.cycles for one in parts))


def verdict(most: int, deadline_ms: float) -> str:
    """Say whether wake-ups that are so late leave room for the deadline. ``most`` is in microseconds."""
    waiting = STEPS_OF_A_SET_UP * most / 1000
    share = waiting / deadline_ms
    said = (
        f"If all {STEPS_OF_A_SET_UP} wake-ups of a set-up were as late as the latest here, they would take "
        f"{waiting:.3g} ms of the {deadline_ms:g} ms of the policy's deadline"
    )
    if share <= SHARE:
        return f"{said}. That is enough room."
    return f"{said}. That is too much: docs/guide/real-time.md has the kernels and settings that shorten it."
