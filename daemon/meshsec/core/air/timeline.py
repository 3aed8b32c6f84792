"""Place frames on one line of time: from when to when each of them was on the air.

The radio's timer is the best: radiotap's TSFT is the time at which the first bit of the frame arrived, so the preamble
was before it. A capturing machine's clock shows a frame after its end, and late by as much as interrupts take. Where
only some frames have a TSFT, as with those that the radio itself sends, the others are placed by the difference between
both clocks at the last frame that has both.
"""

from dataclasses import dataclass

from meshsec.core.air.frames import Frame

EXACT, ROUGH = 100.0, 10_000.0
"""Microseconds by which an answer may be late and still belong to its frame, by the radio's timer (a SIFS, and a slot
of the slowest PHY) and by the machine's clock."""
LEAP = 1_000_000
"""Microseconds that a clock may jump: frames are reported late, and out of order. More means that it was set."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A frame with its time, in microseconds since the first frame of the capture."""

    frame: Frame
    start: float
    """When its preamble began."""
    end: float
    exact: bool
    """By the radio's timer."""

    @property
    def airtime(self) -> float:
        """Microseconds; 0 when the radio does not say the rate."""
        return self.end - self.start


class Timeline:
    """The clocks of one capture."""

    def __init__(self) -> None:
        self._base_ns: int | None = None
        self._zero: float | None = None
        self._tsft: int | None = None
        """The timer when the machine's clock had the time of the first frame."""
        self._ahead = 0.0
        """Microseconds by which the timer is ahead of the machine's clock since then, at the last frame with a TSFT."""
        self.resets = 0
        """How often the radio's timer was set."""

    def place(self, frame: Frame) -> Placed:
        """Return when the frame was on the air."""
        if self._base_ns is None:
            self._base_ns = frame.clock_ns
        airtime = frame.rate.airtime(frame.octets) if frame.rate else 0.0
        clock = (frame.clock_ns - self._base_ns) / 1_000
        if frame.tsft is None:
            return self._placed(frame, clock + self._ahead - airtime, airtime, exact=False)
        if self._tsft is not None and abs(frame.tsft - self._tsft - clock - self._ahead) > LEAP:
            self.resets += 1
            self._tsft = None
        if self._tsft is None:
            self._tsft = frame.tsft - round(clock)
        start = frame.tsft - self._tsft - (frame.rate.preamble if frame.rate else 0.0)
        self._ahead = start + airtime - clock
        return self._placed(frame, start, airtime, exact=True)

    def _placed(self, frame: Frame, start: float, airtime: float, *, exact: bool) -> Placed:
        """Let the line begin with the first frame's preamble."""
        if self._zero is None:
            self._zero = start
        return Placed(frame, start - self._zero, start - self._zero + airtime, exact)
