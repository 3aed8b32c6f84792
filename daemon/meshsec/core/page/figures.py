"""Figures over time: what went through the SAs, and how long their set-up took."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

STEP = 10.0
"""Seconds between two samples."""
KEPT = 360
"""Samples: an hour."""
SETUPS = 200


@dataclass
class Figures:
    """The samples of the last hour. Times are seconds of the wall clock, for people."""

    _counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    _at: float | None = None
    _rates: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=KEPT))
    """Time, bits per second in and out."""
    _setups: deque[tuple[int, float, str]] = field(default_factory=lambda: deque(maxlen=SETUPS))
    """Time, milliseconds from the route to the protected channel, peer."""
    _seen: dict[str, tuple[int, float]] = field(default_factory=dict)

    def sample(self, peers: list[Mapping[str, Any]], now: float) -> None:
        """Take what ``status`` says of the peers into account."""
        counts = {peer["name"]: (peer["bytes_in"], peer["bytes_out"]) for peer in peers}
        if self._at is not None and now > self._at:
            passed = [_passed(self._counts.get(name, (0, 0)), counted) for name, counted in counts.items()]
            rates = [round(8 * sum(one[way] for one in passed) / (now - self._at)) for way in (0, 1)]
            self._rates.append((round(now), rates[0], rates[1]))
        self._counts, self._at = counts, now
        for peer in peers:
            self._note_setup(peer, now)
        self._seen = {name: seen for name, seen in self._seen.items() if name in counts}

    def view(self) -> dict[str, Any]:
        """Return columns, as a chart takes them."""
        rates = list(zip(*self._rates, strict=True)) or [(), (), ()]
        setups = list(zip(*self._setups, strict=True)) or [(), (), ()]
        return {
            "rates": dict(zip(("at", "in", "out"), map(list, rates), strict=True)),
            "setups": dict(zip(("at", "ms", "peer"), map(list, setups), strict=True)),
        }

    def _note_setup(self, peer: Mapping[str, Any], now: float) -> None:
        """Note a set-up once: the number of attempts and the time it took tell one from the next."""
        took = peer["route_to_protected_ms"]
        if took is None or self._seen.get(peer["name"]) == (peer["attempts"], took):
            return
        self._seen[peer["name"]] = (peer["attempts"], took)
        since = peer["since"] if peer["state"] == "protected" else 0.0
        self._setups.append((round(now - since), took, peer["name"]))


def _passed(before: tuple[int, int], after: tuple[int, int]) -> tuple[int, int]:
    """Return the bytes since the last sample. Counters of a new SA begin at 0."""
    received, sent = (new - old if new >= old else new for old, new in zip(before, after, strict=True))
    return received, sent
