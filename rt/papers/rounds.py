"""Cells whose rounds disagree: something else than what is measured changed between them.

Set-ups of one visit follow one another within seconds. If two rounds disagree by more than chance, the median of both
describes neither, and its interval says nothing of a third round.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from statistics import median
from typing import Any, NamedTuple

from rt.papers.kept import interval

FEWEST = 5
"""Samples of a round from which on its interval says something: of two rounds of one kind with five samples each, the
ranges are apart once in 126 times."""


TWOFOLD = 2.0
"""How many times the other a round's median is from which on the page's last section names the cell."""


class Disagreement(NamedTuple):
    """A cell two of whose rounds have intervals that do not overlap."""

    key: Mapping[str, object]
    unit: str
    medians: tuple[float, ...]
    """By round."""

    @property
    def times(self) -> float:
        """How many times the least of the rounds' medians the greatest is."""
        least = min(self.medians)
        return max(self.medians) / least if least > 0 else float("inf")

    @property
    def circumstances(self) -> tuple[tuple[str, object], ...]:
        """Return the key without which part of a visit it is: all parts disagree for the same reason."""
        return tuple((name, value) for name, value in self.key.items() if name not in ("what", "source"))

    def __str__(self) -> str:
        rounds = ", ".join(f"{each:,.3g}" if each < 1000 else f"{each:,.0f}" for each in self.medians)
        about = ", ".join(f"{name} {value}" for name, value in self.key.items())
        return f"{about}: medians of the rounds {rounds} {self.unit}"


def divided(params: Mapping[str, Any], cell: Mapping[str, Any]) -> list[Sequence[float]]:
    """Return a cell's samples by round, or none where a round has too few, or the result does not say which are whose.

    Results from before cells said it had the same number of samples in each round.
    """
    samples = cell["samples"]
    counts = cell.get("rounds") or [params.get("samples", 0)] * params.get("rounds", 0)
    if sum(counts) != len(samples):
        return []
    ends = [sum(counts[:number]) for number in range(len(counts) + 1)]
    rounds = [samples[begin:end] for begin, end in pairwise(ends) if end > begin]
    return [] if any(len(one) < FEWEST for one in rounds) else rounds


def disagreement(params: Mapping[str, Any], cell: Mapping[str, Any]) -> Disagreement | None:
    """Return how the rounds of a cell disagree, or None if they do not or cannot be told apart."""
    rounds = divided(params, cell)
    intervals = [interval(one) for one in rounds]
    if any(first.high < second.low or second.high < first.low for first, second in combinations(intervals, 2)):
        return Disagreement(cell["key"], cell["unit"], tuple(median(one) for one in rounds))
    return None


def disagreeing(result: Mapping[str, Any], cells: Iterable[Mapping[str, Any]]) -> Iterator[Disagreement]:
    """Yield the cells of a result whose rounds disagree, those that differ most first."""
    found = (disagreement(result["params"], cell) for cell in cells)
    yield from sorted((one for one in found if one), key=lambda one: -one.times)


def named(found: Iterable[Disagreement]) -> list[Disagreement]:
    """Return those whose rounds differ at least twofold, of each visit the part that differs most."""
    worst: dict[tuple[tuple[str, object], ...], Disagreement] = {}
    for one in found:
        if one.times >= TWOFOLD:
            worst.setdefault(one.circumstances, one)
    return list(worst.values())
