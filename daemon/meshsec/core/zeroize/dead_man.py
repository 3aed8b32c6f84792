"""For how long nobody has touched a node: the time for which it ran, whatever its clock says (ADR 0101)."""

from dataclasses import dataclass

SAVED_EVERY = 600.0
"""Seconds. Each start of the machine costs as much, because it may have run for that long without writing it down."""


@dataclass(frozen=True, slots=True)
class Untouched:
    """What is kept on the disk."""

    used: float
    """Seconds of running time up to ``mark``."""
    boot: str
    """The kernel's name for this boot."""
    mark: float
    """Seconds since the boot, asleep or awake (CLOCK_BOOTTIME)."""

    def seconds(self, now: float) -> float:
        """Return the running time without a touch."""
        return self.used + max(0.0, now - self.mark)

    def marked(self, now: float) -> "Untouched":
        """Return the same time, to be kept."""
        return Untouched(self.seconds(now), self.boot, now)


def touched(boot: str, now: float) -> Untouched:
    """Return what is kept when somebody has touched the node."""
    return Untouched(0.0, boot, now)


def resumed(kept: Untouched | None, boot: str, now: float) -> Untouched:
    """Return how it goes on after a start of this program or of the machine; without a record it begins."""
    if kept is None:
        return touched(boot, now)
    return kept if kept.boot == boot else Untouched(kept.used + SAVED_EVERY, boot, 0.0)
