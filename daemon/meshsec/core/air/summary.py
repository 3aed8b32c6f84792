"""Sum up exchanges by neighbour and by pattern, with bounded memory: a monitor may run for days."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from meshsec.core.air.assembler import Assembler, Counts
from meshsec.core.air.distribution import Distribution
from meshsec.core.air.exchange import Exchange, Protection

MOST_NEIGHBOURS = 1024
"""Stations with figures of their own: phones change their addresses all the time, and anybody can invent some."""
MOST_TIMED = 64
"""Stations of which times are kept, those that send most: 0.3 MB each at most (distribution.py)."""
_MOST_RATES, _MOST_PATTERNS = 64, 128
OTHERS = "others"
"""Neighbours, rates and patterns that came when the table was full."""
PARTS = ("access", "backoff", "rts_cts", "data", "ack", "retries")

Names = Mapping[str, str]
"""Names of stations by address."""


@dataclass(slots=True, eq=False)
class Neighbour:
    """What one station has sent."""

    exchanges: int = 0
    frames: int = 0
    octets: int = 0
    mpdus: int = 0
    """To one receiver."""
    retried: int = 0
    asked: int = 0
    """Exchanges that want an answer, in a capture that has answers."""
    unanswered: int = 0
    airtime: float = 0.0
    parts: Mapping[str, Distribution] = field(default_factory=dict)
    """Times of exchanges with one receiver, by ``PARTS``; empty: none are kept of this station."""
    rates: Counter[str] = field(default_factory=Counter)

    def take(self, one: Exchange) -> None:
        """Count one exchange."""
        self.exchanges += 1
        self.frames += one.frames
        self.octets += one.octets
        self.airtime += one.airtime
        self.asked += one.answered is not None
        self.unanswered += one.answered is False
        if one.rate:
            label = one.rate.label
            self.rates[label if label in self.rates or len(self.rates) < _MOST_RATES else OTHERS] += 1
        if not one.to_group:
            self.mpdus += one.mpdus
            self.retried += one.retried

    def take_parts(self, one: Exchange) -> None:
        """Take the times of one exchange with one receiver."""
        values = {
            "access": one.access,
            "backoff": None if one.idle else one.access,
            "rts_cts": one.rts_cts if one.protection is not Protection.NONE else None,
            "data": one.data if one.units else None,
            "ack": one.ack if one.answer else None,
            "retries": one.retries or None,
        }
        for part, value in values.items():
            if value is not None:
                self.parts[part].add(value)


@dataclass(slots=True)
class _Pattern:
    delay: Distribution = field(default_factory=Distribution)
    total: Distribution = field(default_factory=Distribution)
    """Of exchanges that had not waited for something to send."""
    units: int = 0
    protected: bool = False


class Summary:
    """All exchanges of one capture."""

    def __init__(self) -> None:
        self.neighbours: dict[str, Neighbour] = {}
        self.patterns: dict[str, _Pattern] = {}
        self.rough = 0
        """Exchanges with a time that is not the radio's."""
        self.untimed = False
        """There are stations of which no times are kept, or not from the beginning."""
        self._timed: list[Neighbour] = []

    def take(self, exchanges: Iterable[Exchange]) -> None:
        """Count exchanges."""
        for one in exchanges:
            self.rough += not one.exact
            neighbour = self._neighbour(one.transmitter)
            neighbour.take(one)
            if not one.to_group and self._is_timed(neighbour):
                neighbour.take_parts(one)
            pattern = self._pattern(one.pattern)
            pattern.units, pattern.protected = one.units, one.protection is Protection.RTS_CTS
            pattern.delay.add(one.delay)
            if one.access is not None and not one.idle:
                pattern.total.add(one.total)

    def _neighbour(self, address: str) -> Neighbour:
        known = address in self.neighbours or len(self.neighbours) < MOST_NEIGHBOURS
        return self.neighbours.setdefault(address if known else OTHERS, Neighbour())

    def _is_timed(self, neighbour: Neighbour) -> bool:
        """Return whether times of a station are kept: it may replace one with less than half its exchanges."""
        if neighbour.parts:
            return True
        if len(self._timed) >= MOST_TIMED:
            self.untimed = True
            least = min(self._timed, key=lambda one: one.exchanges)
            if neighbour.exchanges <= 2 * least.exchanges:
                return False
            least.parts = {}
            self._timed.remove(least)
        neighbour.parts = {part: Distribution() for part in PARTS}
        self._timed.append(neighbour)
        return True

    def _pattern(self, text: str) -> _Pattern:
        known = text in self.patterns or len(self.patterns) < _MOST_PATTERNS
        return self.patterns.setdefault(text if known else OTHERS, _Pattern())

    def documents(self, microseconds: float, names: Names) -> Mapping[str, Any]:
        """Return neighbours and patterns for JSON, those with the most airtime or exchanges first."""
        by_airtime = sorted(self.neighbours.items(), key=lambda item: (-item[1].airtime, item[0]))
        by_number = sorted(self.patterns.items(), key=lambda item: (-item[1].delay.n, item[0]))
        return {
            "neighbours": [_neighbour(address, one, microseconds, names) for address, one in by_airtime],
            "patterns": [
                {
                    "pattern": text,
                    "exchanges": one.delay.n,
                    "delay": one.delay.document(),
                    "total": one.total.document(),
                }
                for text, one in by_number
            ],
        }


def _neighbour(address: str, one: Neighbour, microseconds: float, names: Names) -> Mapping[str, Any]:
    return {
        "address": address,
        "name": names.get(address),
        "exchanges": one.exchanges,
        "frames": one.frames,
        "octets": one.octets,
        "mpdus": one.mpdus,
        "retried": one.retried,
        "retry_share": _share(one.retried, one.mpdus),
        "unanswered": one.unanswered if one.asked else None,
        "airtime_us": round(one.airtime),
        "airtime_share": _share(one.airtime, microseconds),
        "parts": {name: one.parts[name].document() if one.parts else None for name in PARTS},
        "rates": [{"rate": rate, "exchanges": count} for rate, count in one.rates.most_common()],
    }


def _share(part: float, whole: float) -> float | None:
    return round(part / whole, 4) if whole > 0 else None


def warnings(counts: Counts, assembler: Assembler, summary: Summary) -> list[str]:
    """Return what limits the figures, in sentences."""
    found = []
    if counts.without_tsft == counts.frames:
        found.append(
            "No frame has the radio's time (radiotap's TSFT): all times are this machine's clock, whose delay of some "
            "10 to 1000 microseconds is in every gap."
        )
    elif counts.without_tsft:
        found.append(
            f"{counts.without_tsft} of {counts.frames} frames lack the radio's time (TSFT), as those that a radio "
            f"sends itself do: {summary.rough} exchanges have times of the machine's clock."
        )
    if counts.without_rate:
        found.append(
            f"{counts.without_rate} of {counts.frames} frames lack a rate that is known, and count as 0 microseconds."
        )
    if not counts.answers and summary.neighbours:
        found.append(
            "The capture has neither CTS nor acknowledgements: this radio's driver does not show them, or the "
            "monitor interface lacks the flag `control`. What was not answered cannot be known."
        )
    if counts.damaged:
        found.append(f"{counts.damaged} of {counts.frames} frames were received with errors; they count for nobody.")
    if counts.overlaps > counts.frames / 20:
        found.append(
            f"{counts.overlaps} of {counts.frames} frames began before the one before had ended: stations do not hear "
            "each other, or this is a simulated radio whose frames take no time."
        )
    if summary.untimed:
        found.append(f"Times are kept of the {MOST_TIMED} stations that send most; the others have counts alone.")
    if assembler.timeline.resets:
        found.append(f"The radio's timer was set {assembler.timeline.resets} times meanwhile.")
    return found
