"""The budget of privileged CPU time."""

from meshsec.core.scheduling.governor_settings import GovernorSettings

TICK_MIN = 0.01
"""Seconds between two looks at the CPU clock at least: a look costs some microseconds."""

_RECOVERY = 1.1
"""Factor by which a stream's healthy report lets the share grow again."""

_NOTHING = 1e-9
"""CPU seconds: rounding errors of a budget are not worth a timer."""


class Budget:
    """CPU seconds above the base class: ``share`` flow in each second, at most ``burst`` are kept. Debts are paid."""

    def __init__(self, settings: GovernorSettings) -> None:
        self._settings = settings
        self.share = settings.share
        self.left = settings.burst
        self.spent = 0.0
        """CPU seconds above the base class, in all."""
        self._at = 0.0
        self._cpu: float | None = None
        self._processors = 1

    def daemon_up(self, processors: int) -> None:
        """Count with the number of processors on which the IKE daemon may run."""
        self._processors = max(1, processors)

    def daemon_gone(self) -> None:
        """Expect another CPU clock."""
        self._cpu = None

    def advance(self, now: float, cpu: float | None, *, is_privileged: bool) -> None:
        """Charge the time until ``now``; what flowed in before the limit comes first.

        ``cpu`` is the IKE daemon's CPU clock. Where it cannot be read, all processors are taken to have worked.
        """
        elapsed, self._at = max(0.0, now - self._at), max(now, self._at)
        used = elapsed * self._processors
        if cpu is not None and self._cpu is not None and cpu >= self._cpu:
            used = cpu - self._cpu
        self._cpu = cpu
        spent = used if is_privileged else 0.0
        self.spent += spent
        self.left = min(self._settings.burst, self.left + elapsed * self.share) - spent

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left."""
        return self.left <= _NOTHING

    @property
    def has_recovered(self) -> bool:
        """Whether half of it is there, which is enough to begin again."""
        return self.left >= self._enough - _NOTHING

    @property
    def spent_at(self) -> float:
        """When nothing may be left, if all processors work with privilege."""
        return self._at + max(TICK_MIN, self.left / self._processors)

    @property
    def recovered_at(self) -> float:
        """When it will have recovered, if nothing is spent."""
        return self._at + max(TICK_MIN, (self._enough - self.left) / self.share)

    @property
    def _enough(self) -> float:
        return self._settings.burst / 2

    def halve(self) -> None:
        """Let less flow in, since a protected stream suffers."""
        self.share = max(self._settings.share_min, self.share / 2)
        self.left = min(self.left, self._enough)

    def grow(self) -> None:
        """Let more flow in again, since a protected stream is well."""
        self.share = min(self._settings.share, self.share * _RECOVERY)
