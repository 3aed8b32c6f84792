"""Which suite this node proposes first: the strongest of the policy's that meets the deadline now.

Theory of operation. Each set-up that this node initiated is a sample of its suite's time. When the suite in use is
late, in more than one set-up, the next weaker one takes its place. When it meets the deadline with room to spare, the
next stronger one is given a trial, after a pause that doubles with each trial that fails and starts again with one that
does not. So a load that stays costs a few late set-ups in ever longer intervals, and one that goes is noticed soon.

All suites of the policy stay proposed, the chosen one first, because the peer may not have it. What is below the
policy's floor is not in ``Policy.suites`` and so cannot be chosen here.
"""

from collections import deque
from dataclasses import dataclass
from statistics import median_low

from meshsec.core.policy.policy import Policy
from meshsec.core.policy.suites import Suite, negotiated
from meshsec.core.values.model import IkeSa

NEWEST = 3
"""Samples whose (lower) median is a suite's time: one that was late by accident changes nothing."""
ENOUGH = 2
"""Samples of the suite in use before it may be left."""
ROOM = 0.7
"""Part of the deadline that the suite in use may take when a stronger one is tried."""
PAUSE_FIRST, PAUSE_MAX = 10.0, 600.0
"""Seconds from a change to the next trial: the first pause and the longest."""


@dataclass(frozen=True, slots=True)
class Measure:
    """What is known of one suite."""

    suite: Suite
    samples: int
    recent: float | None
    """Seconds that a set-up took when it was in use last; None: it was not."""


class SuiteChoice:
    """The choice and what it rests on. Without suites in the policy there is none."""

    def __init__(self, policy: Policy) -> None:
        self.why = "the strongest of the policy; nothing was late yet"
        """Reason of the choice, in words."""
        self._policy = policy
        self._deadline = policy.deadline_ms / 1000
        self._counts = dict.fromkeys(policy.suites, 0)
        self._recent: dict[Suite, float] = {}
        self._chosen = 0
        self._newest: deque[float] = deque(maxlen=NEWEST)
        """Seconds, of the suite in use since it is."""
        self._on_trial = False
        self._pause = PAUSE_FIRST
        self._trial_at = 0.0

    @property
    def chosen(self) -> Suite | None:
        """The suite that is proposed first; None when the policy has none."""
        return self._policy.suites[self._chosen] if self._policy.suites else None

    def policy(self) -> Policy:
        """Return the policy with the proposals in the order of the choice."""
        return self._policy.preferring(self.chosen)

    def measured(self, now: float, sa: IkeSa, seconds: float) -> bool:
        """Take in how long the set-up of ``sa`` took that this node initiated; whether the choice has changed."""
        suite = negotiated(self._policy.suites, sa)
        if suite is None:
            return False
        self._counts[suite] += 1
        if suite != self.chosen:
            return False
        self._newest.append(seconds)
        recent = self._recent[suite] = median_low(self._newest)
        return len(self._newest) >= ENOUGH and self._choose(now, suite, recent)

    def measures(self) -> list[Measure]:
        """Return what is known of each suite, the strongest first."""
        return [Measure(suite, count, self._recent.get(suite)) for suite, count in self._counts.items()]

    def _choose(self, now: float, suite: Suite, recent: float) -> bool:
        took = f"{suite.name} takes {recent * 1000:.1f} ms now, the deadline is {self._policy.deadline_ms:g} ms"
        if recent > self._deadline:
            if self._on_trial:
                self._pause = min(2 * self._pause, PAUSE_MAX)
            return self._move(now, 1, took)
        if len(self._newest) == NEWEST and self._on_trial:
            self._on_trial, self._pause = False, PAUSE_FIRST
        if recent <= ROOM * self._deadline and now >= self._trial_at:
            return self._move(now, -1, f"{took}: there is room for a stronger suite")
        return False

    def _move(self, now: float, step: int, why: str) -> bool:
        index = self._chosen + step
        if not 0 <= index < len(self._policy.suites):
            return False
        self._chosen, self.why = index, why
        self._on_trial = step < 0
        self._newest.clear()
        self._trial_at = now + self._pause
        return True
