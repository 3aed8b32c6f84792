"""What the counters of a radio's stations say about RTS: what was sent, what it cost, and what loss looks like.

A frame that asks first (RTS/CTS, IEEE 802.11-2020, section 10.3.2.9) makes nodes silent that do not hear its sender. It
costs the exchange each time. So it pays where frames are lost to hidden nodes: the longer a frame, the likelier one of
them begins meanwhile, and a lower rate makes it longer. A weak signal loses short frames too, and a lower rate helps.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from meshsec.core.radio.observed import RTS_OFF

_PREAMBLE = 20e-6
"""Seconds before an OFDM frame's data (IEEE 802.11-2020, section 17.3.2.1)."""
_SIFS = 16e-6
_ACK, _CTS, _RTS = 44e-6, 44e-6, 52e-6
"""Seconds of control frames of 14, 14 and 20 octets with 6 Mbit/s."""
_HEADER = 36
"""Octets of a mesh data frame around what the kernel counts: header, LLC and FCS."""
_LEAST_RATE = 1.0
"""Mbit/s, where a driver names none."""
_SUSPICIOUS = 0.1
"""Repetitions for each frame from which RTS could gain anything: its exchange costs as much of a long frame's time."""
_ALIKE = 0.7
"""Short frames, or those of a higher rate, that lose this part of what the others lose: these lose for another reason.
"""
_APART = 1.5
"""Ratio from which two sizes, or two rates, differ enough to be compared."""
_LEAST_FRAMES = 20
"""Frames of an interval below which its loss says nothing."""


@dataclass(frozen=True, slots=True)
class Station:
    """A neighbour's counters as the kernel has them since it was met (nl80211_sta_info)."""

    frames: int = 0
    octets: int = 0
    retries: int = 0
    failed: int = 0
    airtime: float | None = None
    """Seconds of all frames sent to it, repetitions included; None where the driver does not count them."""
    rate: float = 0.0
    """Mbit/s of the last frame; 0: unknown."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What was sent to one neighbour in one interval: differences of its counters, and the rate at the end."""

    frames: int
    octets: int
    retries: int
    failed: int
    airtime: float | None
    rate: float

    @property
    def size(self) -> float:
        """Mean octets of a frame."""
        return self.octets / self.frames if self.frames else 0.0

    @property
    def loss(self) -> float:
        """Repetitions for each frame."""
        return self.retries / self.frames if self.frames else 0.0

    def delivered(self) -> float:
        """Return the octets that arrived."""
        return self.octets * max(0.0, 1 - self.failed / self.frames) if self.frames else 0.0

    def asking(self, threshold: int) -> float:
        """Return how many frames were longer than a threshold at most (Markov's inequality)."""
        if threshold == RTS_OFF:
            return 0.0
        return float(self.frames) if threshold == 0 else min(self.frames, self.octets / threshold)

    def occupied(self, threshold: int) -> float:
        """Return the seconds for which it occupied the channel, at most.

        No counter says which repetitions were of RTS alone. Each counts as a whole frame, to RTS's disadvantage.
        """
        if not self.frames:
            return 0.0
        attempts = self.frames + self.retries
        each = _PREAMBLE + 8 * (self.size + _HEADER) / (1e6 * max(self.rate, _LEAST_RATE))
        sent = attempts * each if self.airtime is None else self.airtime
        exchanges = self.asking(threshold) / self.frames * attempts
        return sent + attempts * (_SIFS + _ACK) + exchanges * (_RTS + _CTS + 2 * _SIFS)


@dataclass(frozen=True, slots=True)
class Sample:
    """What a radio sent in one interval."""

    seconds: float
    sent: tuple[Sent, ...] = ()

    @property
    def frames(self) -> int:
        """All frames of the interval."""
        return sum(one.frames for one in self.sent)


@dataclass(frozen=True, slots=True)
class Leg:
    """What was sent while one threshold was in force."""

    seconds: float = 0.0
    frames: int = 0
    delivered: float = 0.0
    occupied: float = 0.0

    def and_then(self, sample: Sample, threshold: int) -> "Leg":
        """Return it with one more interval."""
        return Leg(
            self.seconds + sample.seconds,
            self.frames + sample.frames,
            self.delivered + sum(one.delivered() for one in sample.sent),
            self.occupied + sum(one.occupied(threshold) for one in sample.sent),
        )

    @property
    def efficiency(self) -> float:
        """Octets delivered for each second on the air."""
        return self.delivered / self.occupied if self.occupied else 0.0


def sample(before: Mapping[str, Station], after: Mapping[str, Station], seconds: float) -> Sample:
    """Return what was sent between two readings of the counters, by neighbour.

    The counters of a neighbour that was met again, or of a driver that reset them, begin at zero.
    """
    return Sample(seconds, tuple(_sent(before.get(name, Station()), one) for name, one in after.items()))


def _sent(before: Station, after: Station) -> Sent:
    if after.frames < before.frames or after.octets < before.octets:
        before = Station()
    airtime = None if after.airtime is None else max(0.0, after.airtime - (before.airtime or 0.0))
    return Sent(
        frames=after.frames - before.frames,
        octets=after.octets - before.octets,
        retries=max(0, after.retries - before.retries),
        failed=max(0, after.failed - before.failed),
        airtime=airtime,
        rate=after.rate,
    )


def loss(sent: Iterable[Sent]) -> float:
    """Return the repetitions for each frame, over all."""
    counted = [(one.retries, one.frames) for one in sent]
    frames = sum(number for _, number in counted)
    return sum(retries for retries, _ in counted) / frames if frames else 0.0


def why_not(sent: Sequence[Sent]) -> str:
    """Return in words why these intervals without RTS do not look like hidden nodes; empty if they may.

    A comparison that traffic did not allow, because all frames are alike, speaks for neither.
    """
    told = [one for one in sent if one.frames >= _LEAST_FRAMES]
    if not told:
        return "too few frames to judge"
    if loss(told) < _SUSPICIOUS:
        return f"fewer than {round(100 * _SUSPICIOUS)} % of the frames are repeated"
    short, long = _halves(told, [one.size for one in told])
    if short and long and loss(short) >= _ALIKE * loss(long):
        return "short frames are repeated as often as long ones, as with a weak signal"
    slow, fast = _halves(told, [one.rate for one in told])
    if slow and fast and loss(slow) < _ALIKE * loss(fast):
        return "a lower rate helps, as with a weak signal"
    return ""


def _halves(told: Sequence[Sent], by: Sequence[float]) -> tuple[list[Sent], list[Sent]]:
    """Return the intervals with small and those with large values; both empty when there is too little between."""
    low, high = min(by), max(by)
    if high < _APART * low or low <= 0:
        return [], []
    middle = (low * high) ** 0.5
    pairs = list(zip(by, told, strict=True))
    return [one for value, one in pairs if value < middle], [one for value, one in pairs if value >= middle]
