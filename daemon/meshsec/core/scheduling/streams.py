"""The protected streams, whose reports hold the budget down."""

from dataclasses import dataclass

from meshsec.core.scheduling.budget import Budget
from meshsec.core.scheduling.governor_events import StreamReported
from meshsec.core.scheduling.governor_settings import GovernorSettings

STREAMS_MAX = 16
"""Streams that may report."""


@dataclass(frozen=True, slots=True)
class _Report:
    text: str
    spent: float
    """CPU seconds above the base class in all, at this report."""


class Streams:
    """The last report of each stream."""

    def __init__(self, settings: GovernorSettings, budget: Budget) -> None:
        self._settings = settings
        self._budget = budget
        self._last: dict[str, _Report] = {}

    @property
    def texts(self) -> dict[str, str]:
        """What each reported last, in words."""
        return {name: report.text for name, report in self._last.items()}

    def report(self, event: StreamReported) -> None:
        """Halve the budget if there was privileged work since the stream's last report and the stream suffers."""
        before = self._last.get(event.stream)
        if before is None and len(self._last) >= STREAMS_MAX:
            return
        loss, delay = event.loss or 0.0, event.delay or 0.0
        text = f"lost {loss:.1%} of its frames, {delay * 1000:.0f} ms late"
        self._last[event.stream] = _Report(text, self._budget.spent)
        if loss <= self._settings.loss_limit and delay <= self._settings.delay_limit:
            self._budget.grow()
        elif before is not None and self._budget.spent > before.spent:
            self._budget.halve()
