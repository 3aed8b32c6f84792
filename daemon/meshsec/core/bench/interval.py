"""The confidence interval of a median, and how it is called where few samples allow none."""

from collections.abc import Collection, Sequence
from math import comb

PERCENT = 95
LEAST = 6
"""Samples: of fewer no interval has 95 %, because the median is beyond all of n samples with probability 2 / 2^n."""


def interval(samples: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % confidence interval of the median, by order statistics (Conover, 3rd edition, section 3.2).

    It assumes no distribution, but that the samples are independent of each other. With fewer than LEAST samples it is
    from the least to the greatest.
    """
    ordered = sorted(samples)
    count, outside, rank = len(ordered), 0.0, 0
    for each in range(count // 2):
        outside += 2 * comb(count, each) / 2**count
        if outside > 1 - PERCENT / 100:
            break
        rank = each
    return ordered[rank], ordered[-1 - rank]


def meaning(counts: Collection[int]) -> str:
    """Return what the intervals of medians of so many samples are; empty if each median is of one sample."""
    several = [count for count in counts if count > 1]
    if not several:
        return ""
    if min(several) >= LEAST:
        return f"{PERCENT} % interval"
    span = "the least to the greatest"
    return span if max(several) < LEAST else f"{PERCENT} % interval, or {span} of under {LEAST} samples"


def number_of(counts: Collection[int]) -> str:
    """Return how many samples there are of each thing: one number, or the least and the greatest."""
    least, most = min(counts), max(counts)
    return f"{least}" if least == most else f"{least} to {most}"
