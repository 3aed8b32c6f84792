"""The load of the processors, as the IKE daemon feels it."""

from meshsec.core.scheduling.governor_events import Contention, NegotiationEnded
from meshsec.core.scheduling.governor_settings import GovernorSettings

QUEUED_MAX = 4
"""Jobs in the IKE daemon's queues from which its threads count as too slow: at rest there are none or one."""


class Load:
    """What was measured last, and what follows from it, with hysteresis: a state lasts until it is half as bad."""

    def __init__(self, settings: GovernorSettings) -> None:
        self._settings = settings
        self.forget()

    def forget(self) -> None:
        """Forget what was measured of another process of the IKE daemon."""
        self.contention = Contention()
        self.contended: bool | None = None
        """Whether the IKE threads wait for a CPU; None where it is unknown."""
        self.busy: float | None = None
        self.crowded: bool | None = None
        """Whether others keep the processors busy; None where it is unknown."""

    def measured(self, event: Contention) -> bool | None:
        """Note how the IKE threads fare; return whether they wait now, None if that is not known."""
        self.contention = event
        ratio = self._ratio(event)
        waits = bool(event.starving) or (event.queued or 0) >= QUEUED_MAX or (ratio is not None and ratio >= 1)
        if waits:
            self.contended = True
        elif ratio is not None and (ratio <= 0.5 or self.contended is None):
            self.contended = False
        return waits if waits or ratio is not None else None

    def _ratio(self, event: Contention) -> float | None:
        """Return the wait as a part of what is tolerated. PSI, which counts others' tasks too, is the last resort."""
        if event.delay is not None:
            return event.delay / self._settings.delay_contended
        if event.starving is None and event.pressure is not None:
            return event.pressure / self._settings.pressure_limit
        return None

    def crowding(self, busy: float | None) -> None:
        """Note how busy others keep the processors."""
        self.busy = busy
        if busy is None:
            self.crowded = None
        elif busy > self._settings.busy_limit:
            self.crowded = True
        elif busy <= self._settings.busy_limit / 2 or self.crowded is None:
            self.crowded = False

    def made_late(self, event: NegotiationEnded) -> bool:
        """Return whether the CPU made a set-up late.

        Without schedstats every late one is put down to the CPU if that may be contended: the budget bounds it.
        """
        if event.waited is not None:
            return event.waited > self._settings.cpu_limit
        return event.took is not None and event.took > self._settings.deadline and self.contended is not False

    @property
    def text(self) -> str:
        """What was measured of the IKE threads, in words."""
        if self.contended is None:
            return "it is not known yet whether its threads wait for a CPU"
        parts = []
        if self.contention.starving:
            parts.append(f"{self.contention.starving} of its threads got no CPU")
        if self.contention.delay is not None:
            parts.append(f"its threads waited {self.contention.delay * 1000:.2f} ms for each run")
        elif self.contention.pressure is not None:
            parts.append(f"tasks waited for a CPU {self.contention.pressure:.0%} of the time")
        if self.contention.queued:
            parts.append(f"{self.contention.queued} jobs were queued")
        state = "the CPU is contended" if self.contended else "the CPU is not contended"
        return f"{state} ({', '.join(parts)})" if parts else state

    @property
    def crowd_text(self) -> str:
        """How busy others keep the processors, in words."""
        busy = "" if self.busy is None else f" {self.busy:.0%} of the time"
        return f"others keep its processors busy{busy}, and a peer may begin unannounced"
