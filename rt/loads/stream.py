"""What a load delivers to those who watch it, whatever kind of load it is."""

from dataclasses import dataclass
from typing import Protocol


class Stream(Protocol):
    """A load that runs."""

    per_second: float
    """What is to arrive each second, in the unit of ``count``; 0 when it is as much as can be."""

    def count(self) -> float:
        """Return what has arrived since the beginning: frames of a live stream, octets of videos on demand."""


@dataclass(frozen=True)
class Delivered:
    """A stream over a span of time."""

    seconds: float
    arrived: float
    per_second: float

    @property
    def missing_percent(self) -> float | None:
        """Return what did not arrive of what was to, not below 0; None for as much as can be."""
        expected = self.seconds * self.per_second
        return max(0.0, 100 * (1 - self.arrived / expected)) if expected else None

    @property
    def mbit_per_second(self) -> float | None:
        """Return the rate of a stream of octets that is as fast as it can be; None for others."""
        return None if self.per_second else 8e-6 * self.arrived / self.seconds
