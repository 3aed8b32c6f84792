"""Which suite this node proposes first: the strongest of the policy's that meets the deadline now.

Theory of operation. Each set-up that this node initiated is a sample of its suite's time. A suite's *recent* time is
the median of its newest samples, its *calm* time the shortest known. Recent over calm of the suite in use is how much
the circumstances slow this node down now; what another suite would take now is its calm time, slowed down as much. The
first sample of a suite was slowed down as the suite before it was. A suite that was not measured yet, or so long ago
that it says nothing, is expected to meet the deadline: that is how it comes to be measured. A stronger suite must meet
the deadline with room to spare, so that the choice does not swing. When none meets it, the one that takes least is
chosen.

All suites of the policy stay proposed, the chosen one first, because the peer may not have it. What is below the
policy's floor is not in ``Policy.suites`` and so cannot be chosen here.
"""

from collections import deque
from dataclasses import dataclass, field
from statistics import median

from meshsec.core.model import IkeSa
from meshsec.core.policy import Policy
from meshsec.core.suites import Suite, negotiated

NEWEST = 3
"""Samples that the recent time is taken from: one that was late by accident changes nothing."""
ENOUGH = 2
"""Samples of the suite in use, since it is, before it may be left."""
ROOM = 0.7
"""Part of the deadline that a stronger suite may be expected to take."""
MEMORY = 600.0
"""Seconds after which a sample says nothing any more: paths and load are others then."""


@dataclass(frozen=True, slots=True)
class Measure:
    """What is known of one suite's time, in seconds."""

    suite: Suite
    samples: int
    recent: float | None
    expected: float | None
    """What a set-up with it would take now; None: not known."""


@dataclass(slots=True)
class _Times:
    """Samples of one suite: when and how long, in seconds."""

    newest: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=NEWEST))
    shortest: tuple[float, float] | None = None
    count: int = 0

    def add(self, now: float, seconds: float, slowdown: float) -> None:
        self.newest.append((now, seconds))
        self.count += 1
        calm = self.calm(now)
        if calm is None or seconds <= calm:
            self.shortest = (now, seconds / slowdown if calm is None else seconds)

    def recent(self, now: float) -> float | None:
        known = [seconds for at, seconds in self.newest if now - at <= MEMORY]
        return median(known) if known else None

    def calm(self, now: float) -> float | None:
        return self.shortest[1] if self.shortest is not None and now - self.shortest[0] <= MEMORY else None


class SuiteChoice:
    """The choice and what it rests on. Without suites in the policy there is none."""

    def __init__(self, policy: Policy) -> None:
        self.why = "the strongest of the policy; nothing was measured yet"
        """Of the choice, in words."""
        self._policy = policy
        self._deadline = policy.deadline_ms / 1000
        self._times = {suite: _Times() for suite in policy.suites}
        self._chosen = 0
        self._slowdown = 1.0
        """How much longer than at its best the suite in use takes now."""
        self._since_chosen = 0

    @property
    def chosen(self) -> Suite | None:
        """The suite that is proposed first; None when the policy has none."""
        return self._policy.suites[self._chosen] if self._policy.suites else None

    def policy(self) -> Policy:
        """The policy with the proposals in the order of the choice."""
        return self._policy.preferring(self.chosen)

    def measured(self, now: float, sa: IkeSa, seconds: float) -> bool:
        """Take in how long the set-up of ``sa`` took that this node initiated; whether the choice has changed."""
        suite = negotiated(self._policy.suites, sa)
        if suite is None:
            return False
        times = self._times[suite]
        times.add(now, seconds, self._slowdown)
        if suite != self.chosen:
            return False
        recent, calm = times.recent(now), times.calm(now)
        self._slowdown = recent / calm if recent and calm else 1.0
        self._since_chosen += 1
        return self._since_chosen >= ENOUGH and self._choose(now)

    def measures(self, now: float) -> list[Measure]:
        """What is known of each suite, the strongest first."""
        return [
            Measure(suite, times.count, times.recent(now), self._expected(now, suite))
            for suite, times in self._times.items()
        ]

    def _choose(self, now: float) -> bool:
        expected = [self._expected(now, suite) for suite in self._policy.suites]
        meeting = (index for index, seconds in enumerate(expected) if self._meets(index, seconds))
        fastest = min(range(len(expected)), key=lambda index: (expected[index] or 0.0, index))
        return self._take(next(meeting, fastest), expected)

    def _meets(self, index: int, seconds: float | None) -> bool:
        limit = self._deadline * (ROOM if index < self._chosen else 1.0)
        return seconds is None or seconds <= limit

    def _take(self, index: int, expected: list[float | None]) -> bool:
        if index == self._chosen:
            return False
        before, after = self._policy.suites[self._chosen], self._policy.suites[index]
        self.why = (
            f"instead of {before.name}, which takes {_ms(expected[self._chosen])} now: {after.name} is expected to "
            f"take {_ms(expected[index])}, the deadline is {self._policy.deadline_ms:g} ms"
        )
        self._chosen, self._since_chosen = index, 0
        return True

    def _expected(self, now: float, suite: Suite) -> float | None:
        times = self._times[suite]
        if suite == self.chosen:
            return times.recent(now)
        calm = times.calm(now)
        return None if calm is None else calm * self._slowdown


def _ms(seconds: float | None) -> str:
    return "an unknown time" if seconds is None else f"{seconds * 1000:.1f} ms"
