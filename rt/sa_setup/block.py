"""What one visit of a cell gives: cold set-ups that two clocks have timed. Pure.

The capture on the initiator's link has the times of the packets; meshsecd has those at which lines of charon's log
came over VICI. Each set-up has the span in which it was asked for and came, and the capture's set-up within that span
is its time. meshsecd has no time of a phase whose two lines came together: so it times fewer set-ups, never others.
What belongs to no span, such as a set-up that came after it was given up, is counted beside them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from rt.loads.stream import Delivered
from rt.sa_setup.times import SetupTimes


@dataclass(frozen=True)
class Sample:
    """A set-up: when it was asked for and when it was there (realtime clock), and what both clocks say."""

    begin: float
    end: float
    phases: Mapping[str, float | None]
    """Milliseconds, from charon's events over VICI."""
    times: SetupTimes | None = None
    """From the capture."""


@dataclass
class Block:
    """What one visit gave."""

    samples: list[Sample] = field(default_factory=list)
    """Set-ups that came in time; ``times`` is None where the capture has not seen one."""
    capture_alone: int = 0
    """Set-ups in the capture that were none of these: one that came after it was given up, or of the other end."""
    overdue: int = 0
    """Set-ups that were given up: they took longer than ``rig.SAMPLE_TIMEOUT``."""
    round_trips: list[float] = field(default_factory=list)
    """Seconds of pings between the ends that are as large as IKE's messages, while nothing is negotiated."""
    delivered: Delivered | None = None

    @property
    def timed(self) -> list[tuple[SetupTimes, Mapping[str, float | None]]]:
        """Return what the capture and meshsecd say of each set-up that the capture has seen."""
        return [(one.times, one.phases) for one in self.samples if one.times]

    @property
    def times(self) -> list[SetupTimes]:
        """Return the times of each set-up, from the capture."""
        return [times for times, _ in self.timed]

    def totals(self, given_up_after: float) -> list[float]:
        """Return seconds of each set-up; at the end are those that were given up, which took at least so long."""
        return [one.total for one in self.times] + [given_up_after] * self.overdue

    @property
    def unseen(self) -> int:
        """Return how many set-ups came in time and are not in the capture."""
        return sum(one.times is None for one in self.samples)

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """Return what ``as_dict`` was made of."""
        samples = [Sample(**{**one, "times": one["times"] and SetupTimes(**one["times"])}) for one in found["samples"]]
        delivered = found["delivered"] and Delivered(**found["delivered"])
        return cls(**{**found, "samples": samples, "delivered": delivered})


def paired(samples: Sequence[Sample], seen: Sequence[SetupTimes]) -> tuple[list[Sample], int]:
    """Give each sample the set-up that the capture saw within its span; return how many belong to none, too.

    The last one counts when there are several: it brought the SA that was waited for.
    """
    found: list[Sample] = []
    taken = 0
    for sample in samples:
        within = [times for times in seen if sample.begin <= times.begin <= sample.end]
        taken += len(within[-1:])
        times = within[-1] if within else None
        found.append(Sample(sample.begin, sample.end, sample.phases, times))
    return found, len(seen) - taken
