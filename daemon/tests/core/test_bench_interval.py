"""The interval of a median: its ranks, and how it is called."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshsec.core.bench.interval import interval, meaning, number_of


@pytest.mark.parametrize(
    ("count", "expected"), [(1, (0, 0)), (5, (0, 4)), (6, (0, 5)), (10, (1, 8)), (20, (5, 14)), (50, (17, 32))]
)
def test_the_interval_of_a_median_is_that_of_the_tables(count: int, expected: tuple[int, int]) -> None:
    assert interval(range(count)[::-1]) == expected


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=60))
def test_an_interval_is_around_the_median_and_within_the_samples(samples: list[float]) -> None:
    low, high = interval(samples)
    ordered = sorted(samples)
    assert ordered[0] <= low <= ordered[(len(ordered) - 1) // 2]
    assert ordered[len(ordered) // 2] <= high <= ordered[-1]


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ([1], ""),
        ([6, 20, 1], "95 % interval"),
        ([1, 2, 5], "the least to the greatest"),
        ([5, 6], "95 % interval, or the least to the greatest of under 6 samples"),
    ],
)
def test_no_range_of_few_samples_is_called_an_interval_of_95_per_cent(counts: list[int], said: str) -> None:
    assert meaning(counts) == said


def test_a_number_of_samples_is_one_number_or_two() -> None:
    assert (number_of([3, 3]), number_of([5, 3])) == ("3", "3 to 5")
