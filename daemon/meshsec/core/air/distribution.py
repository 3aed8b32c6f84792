"""Keep the distribution of a time with bounded memory: exact to a microsecond below 1 ms, and to three digits above."""

from array import array
from collections.abc import Mapping
from math import ceil, floor, log10

_EXACT = 1000
"""Counters of the first millisecond, one for each microsecond."""
_DIGITS = 3
_LEAST, _IN_DECADE = 100, 900
"""The least value with three digits, and how many there are: those of each decade."""
_MOST = 1e9
"""Longest time that is counted as it is, in microseconds. A longer one counts as this."""
COUNTERS = _EXACT + 6 * _IN_DECADE + 1
"""Counters at most, of 8 bytes each."""


class Distribution:
    """Times in microseconds, 0 to 1000 s. It has counters up to the greatest time: 37 kB for 10 s, 51 kB at most."""

    def __init__(self) -> None:
        self._counts = array("Q")
        self.n = 0
        self.most = 0.0

    def add(self, value: float) -> None:
        """Count one time."""
        index = _index(value)
        if index >= len(self._counts):
            self._counts.extend(array("Q", bytes(8 * (index + 1 - len(self._counts)))))
        self._counts[index] += 1
        self.n += 1
        self.most = max(self.most, value)

    def quantile(self, share: float) -> float:
        """Return the least time that at least this share (0 to 1) of all does not exceed; 0 when there is none."""
        wanted, seen = max(1, ceil(share * self.n - 1e-9)), 0
        for index, count in enumerate(self._counts):
            seen += count
            if seen >= wanted:
                return _value(index)
        return 0.0

    def document(self) -> Mapping[str, float] | None:
        """Return it for JSON; None: nothing was counted."""
        if not self.n:
            return None
        median, p95 = self.quantile(0.5), self.quantile(0.95)
        return {"n": self.n, "median_us": median, "p95_us": p95, "max_us": round(self.most, 1)}


def _index(value: float) -> int:
    """Return the counter of a time, which may be rounded to the first one of the next decade."""
    if value < _EXACT:
        return max(0, round(value))
    value = min(value, _MOST)
    decade = floor(log10(value))
    digits = round(value / 10.0 ** (decade + 1 - _DIGITS))
    return _EXACT + (decade - _DIGITS) * _IN_DECADE + digits - _LEAST


def _value(index: int) -> float:
    """Return the time of a counter."""
    if index < _EXACT:
        return float(index)
    decade, digits = divmod(index - _EXACT, _IN_DECADE)
    return float((digits + _LEAST) * 10 ** (decade + 1))
