"""Keep the distribution of a time with bounded memory: exact to a microsecond below 1 ms, and to three digits above."""

from collections import Counter
from collections.abc import Mapping
from math import ceil, floor, log10

_DIGITS = 3


class Distribution:
    """Times in microseconds; 0 to about 10 s take 4,600 counters at most."""

    def __init__(self) -> None:
        self._counts: Counter[float] = Counter()
        self.n = 0
        self.most = 0.0

    def add(self, value: float) -> None:
        """Count one time."""
        self._counts[_rounded(value)] += 1
        self.n += 1
        self.most = max(self.most, value)

    def quantile(self, share: float) -> float:
        """Return the least time that at least this share (0 to 1) of all does not exceed; 0 when there is none."""
        wanted, seen = max(1, ceil(share * self.n - 1e-9)), 0
        for value, count in sorted(self._counts.items()):
            seen += count
            if seen >= wanted:
                return value
        return 0.0

    def document(self) -> Mapping[str, float] | None:
        """Return it for JSON; None: nothing was counted."""
        if not self.n:
            return None
        median, p95 = self.quantile(0.5), self.quantile(0.95)
        return {"n": self.n, "median_us": median, "p95_us": p95, "max_us": round(self.most, 1)}


def _rounded(value: float) -> float:
    if value < 10**_DIGITS:
        return float(round(value))
    unit = 10.0 ** (floor(log10(value)) + 1 - _DIGITS)
    return round(value / unit) * unit
