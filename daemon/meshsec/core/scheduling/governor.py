"""The scheduling governor: the least privilege with which the IKE daemon keeps its deadline, and no more.

Theory of operation. Privilege comes in levels: 0 is the base class of the IKE daemon, each further one is stronger (by
the profile: nice, then a real-time class). A negotiation with a trusted peer, running or expected because a route to
the peer appeared, is the only thing that raises the level. It begins with the level that was needed lately (the floor),
or with the first one when the IKE threads are seen to wait for a CPU; if it stalls while they wait, it gets the next.
Where a profile has a real-time class to give, it begins with that one at least (``start``), whatever is measured: the
threads of the IKE daemon wait for one another, too, which no measurement foretells, and a negotiation is soon over.
After the last negotiation the level is kept for a moment (LINGERING), since set-ups come in groups, and then taken
back. What a negotiation showed at its end moves the floor: up when the CPU was what made it late, down with time.

A peer may begin unannounced, and nobody would be there to raise anything before it is too late. So while others keep
the processors of the IKE daemon busy a level is in force (GUARDING): the first one, or the floor, and the next whenever
its threads are seen to wait all the same. An IKE daemon that has nothing to do takes nothing from anybody with it.

The budget makes it safe. Every CPU second that the IKE daemon spends above level 0 is charged; when nothing is left,
the level is 0 (SPENT) until half of it has flowed in again. So whatever is asked of the IKE daemon, and by whomever,
its privileged time in any span of t seconds is at most ``burst + share * t``, beside what it spends between a time that
``poll_timeout`` gave and the look that came later. A clock that cannot be read is charged as if all processors had
worked. A protected stream that loses frames while there is privileged work halves the share, down to ``share_min``;
healthy reports bring it back by and by.

Strangers raise nothing: an IKE_SA of theirs has no peer's name before it is authenticated, and the governor hears of
peers alone. What they can do is to spend the budget that negotiations would need; then those are as fast as without a
governor.

Its parts own their data: ``load`` holds what was measured, ``ladder`` the levels, ``budget`` the CPU time, and
``negotiating`` and ``streams`` what is followed. Time and measurements come in as arguments, and decisions go out as
values. Call ``advance`` before each event.
"""

from collections import deque
from dataclasses import dataclass

from meshsec.core.scheduling.budget import Budget
from meshsec.core.scheduling.governor_events import (
    Contention,
    Crowding,
    DaemonGone,
    DaemonUp,
    Event,
    LevelRefused,
    NegotiationBegan,
    NegotiationEnded,
    StreamReported,
)
from meshsec.core.scheduling.governor_modes import PRIVILEGED, TABLE, Mode, Trigger
from meshsec.core.scheduling.governor_settings import GovernorSettings
from meshsec.core.scheduling.ladder import Ladder
from meshsec.core.scheduling.load import Load
from meshsec.core.scheduling.negotiations import Negotiations
from meshsec.core.scheduling.streams import Streams

HISTORY = 32
"""Decisions that are kept for the explanation."""

PROBE = 0.25
"""Seconds between two looks while it is not known whether the level in force is enough."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The level changed, and why. Carried out at once."""

    at: float
    before: int
    level: int
    mode: Mode
    reason: str


@dataclass(frozen=True, slots=True)
class Setup:
    """What a negotiation that succeeded showed."""

    at: float
    event: NegotiationEnded
    level: int
    """Level with which it began."""
    late_by_cpu: bool


class Governor:
    """One IKE daemon's. ``top``: the strongest level that the profile has."""

    def __init__(self, settings: GovernorSettings, top: int, start: int = 0) -> None:
        """``start``: the level with which each negotiation begins at least; 0: as little as is needed."""
        self.settings = settings
        self.mode = Mode.ABSENT
        self.level = 0
        self.reason = "no IKE daemon was seen yet"
        self.history: deque[Decision] = deque(maxlen=HISTORY)
        self.last_setup: Setup | None = None
        self.budget = Budget(settings)
        self.load = Load(settings)
        self.ladder = Ladder(settings, self.load, top, start)
        self.negotiating = Negotiations(settings)
        self.streams = Streams(settings, self.budget)
        self._now = 0.0
        self._linger_until = 0.0
        self._probe_at: float | None = None
        """Time at which to look whether the present level is enough; None while that is known."""
        self._decisions: list[Decision] = []

    # --- what the agent calls ---

    def advance(self, now: float, cpu: float | None, contention: Contention | None = None) -> None:
        """Time passes. ``cpu``: the IKE daemon's CPU clock in seconds, all threads together; None when unreadable.

        ``contention``: what was measured at the same moment, where it was, so that it counts for what is due now.
        """
        self._now = max(now, self._now)
        self.budget.advance(now, cpu, is_privileged=self.level > 0)
        if contention is not None:
            self._measured(contention)
        self._settle()

    def handle(self, event: Event) -> None:
        """Take in one event of the time that ``advance`` was given."""
        match event:
            case DaemonUp():
                self._daemon_up(event)
            case DaemonGone():
                self.budget.daemon_gone()
                self.negotiating.clear()
                self._fire(Trigger.DAEMON_GONE, "the IKE daemon is gone")
            case NegotiationBegan(peer):
                self._began(peer)
            case NegotiationEnded():
                self._ended(event)
            case Contention():
                self._measured(event)
            case Crowding(busy):
                self.load.crowding(busy)
            case StreamReported():
                self.streams.report(event)
            case LevelRefused():
                self._refused(event)
        self._settle()

    def poll_decisions(self) -> list[Decision]:
        """Return what to carry out now, in this order."""
        decisions, self._decisions = self._decisions, []
        return decisions

    def poll_timeout(self) -> float | None:
        """Return when to call ``advance`` although nothing happens; None: not before the next event."""
        times = self.negotiating.due(is_watched=self.mode is Mode.NEGOTIATING and self.level < self.ladder.ceiling)
        if self.level:
            times.append(self.budget.spent_at)
        if self.mode is Mode.SPENT:
            times.append(self.budget.recovered_at)
        if self.mode is Mode.LINGERING:
            times.append(self._linger_until)
        if self.mode is Mode.GUARDING and self.load.crowded is None:
            times.append(self.ladder.relaxes_at)
        if self.mode is Mode.GUARDING and self._probe_at is not None:
            times.append(self._probe_at)
        return min(times, default=None)

    @property
    def probing(self) -> bool:
        """Whether it is asked how the IKE threads fare with the level in force: they should be given some work."""
        return self.mode is Mode.GUARDING and self._probe_at is not None

    # --- events ---

    def _daemon_up(self, event: DaemonUp) -> None:
        self.negotiating.clear()
        self._fire(Trigger.DAEMON_GONE, "the IKE daemon is another one")
        self.budget.daemon_up(event.processors)
        self.load.forget()
        self.ladder.forget_refusals()
        self._fire(Trigger.DAEMON_UP, "no negotiation runs or is expected")

    def _began(self, peer: str) -> None:
        if self.mode is Mode.ABSENT or not self.negotiating.can_begin(peer):
            return
        self._fire(Trigger.DEMAND, f"a negotiation with {peer}")
        if self.mode is Mode.NEGOTIATING:
            self._raise_to(*self.ladder.first(), peer)
        self.negotiating.begin(peer, self._now, self.level)

    def _ended(self, event: NegotiationEnded) -> None:
        negotiation = self.negotiating.end(event.peer)
        if negotiation is None or not event.protected:
            return
        by_cpu = self.load.made_late(event)
        self.last_setup = Setup(self._now, event, negotiation.level, by_cpu)
        if by_cpu:
            level = max(negotiation.level + 1, self.ladder.floor)
            self.ladder.needed(level, self._now, lateness(event, self.settings.deadline))

    def _measured(self, event: Contention) -> None:
        """Note how the IKE threads fare. A guarding level that is not enough is raised before a set-up is late."""
        waits = self.load.measured(event)
        if self.mode is not Mode.GUARDING or waits is None:
            return
        if not waits or self.level >= self.ladder.ceiling or not self.load.crowded:
            self._probe_at = None
            return
        self.ladder.needed(self.level + 1, self._now, f"with level {self.level} {self.load.text}")

    def _refused(self, event: LevelRefused) -> None:
        self.ladder.refuse(event.level, event.reason)
        if self.level > self.ladder.ceiling:
            self._go_to(self.ladder.ceiling, f"the host refuses more: {event.reason}")

    # --- settling ---

    def _settle(self) -> None:
        """Draw every conclusion that time and events ask for."""
        self.ladder.relax(self._now)
        self.negotiating.lapse(self._now)
        self._escalate()
        if self.mode in PRIVILEGED and self.level and self.budget.is_spent:
            self._fire(Trigger.BUDGET_SPENT, "the budget of privileged CPU time is used up")
        if self.mode is Mode.SPENT and self.budget.has_recovered:
            self._fire(Trigger.BUDGET_BACK, "half of the budget has recovered")
        if self.mode is Mode.NEGOTIATING and not self.negotiating:
            self._linger_until = self._now + self.settings.linger
            self._fire(Trigger.QUIET, "the last negotiation ended")
        if self.mode is Mode.LINGERING and self._now >= self._linger_until:
            if self.ladder.must_guard(self.level):
                self._fire(Trigger.CROWDED, self.load.crowd_text)
            else:
                self._fire(Trigger.LINGER_OVER, "no negotiation runs or is expected any more")
        if self.mode is Mode.REST and self.negotiating:
            peer = next(iter(self.negotiating))
            self._fire(Trigger.DEMAND, f"a negotiation with {peer}")
            self._raise_to(*self.ladder.first(), peer)
        self._guard()

    def _guard(self) -> None:
        """Keep the level that a peer's unannounced negotiation needs, no longer than it may need it."""
        must_guard = self.ladder.must_guard(self.level)
        if self.mode is Mode.REST and self.load.crowded and must_guard and not self.budget.is_spent:
            self._fire(Trigger.CROWDED, self.load.crowd_text)
        if self.mode is not Mode.GUARDING:
            self._probe_at = None
        elif not must_guard:
            self._fire(Trigger.CALM, "its processors have room again")
        elif self.level != self.ladder.guarding(self.level):
            why = f"it was needed lately: {self.ladder.floor_reason}" if self.ladder.floor else self.load.crowd_text
            self._go_to(self.ladder.guarding(self.level), why)
            self._probe_at = self._now + PROBE
        elif self._probe_at is not None and self._probe_at <= self._now:
            self._probe_at = self._now + PROBE

    def _escalate(self) -> None:
        for peer, one in self.negotiating.stalled(self._now):
            if self.mode is Mode.NEGOTIATING and self.level < self.ladder.ceiling and self.load.contended is not False:
                after = (self._now - one.began) * 1000
                self._raise_to(self.level + 1, f"it stalls after {after:.0f} ms, {self.load.text}", peer)

    # --- changes ---

    def _fire(self, trigger: Trigger, reason: str) -> bool:
        after = TABLE[self.mode].get(trigger)
        if after is None:
            return False
        self.mode, self.reason = after, reason
        if after not in PRIVILEGED:
            self._go_to(0, reason)
        return True

    def _raise_to(self, level: int, why: str, peer: str) -> None:
        """Never lower while a negotiation runs: another one may need the level in force."""
        if level > self.level and not self.budget.is_spent:
            self._go_to(min(level, self.ladder.ceiling), f"negotiation with {peer}: {why}")

    def _go_to(self, level: int, reason: str) -> None:
        if level == self.level:
            return
        decision = Decision(self._now, self.level, level, self.mode, reason)
        self.level, self.reason = level, reason
        self.history.append(decision)
        self._decisions.append(decision)


def lateness(event: NegotiationEnded, deadline: float) -> str:
    """Return what a set-up showed, in words."""
    took = "" if event.took is None else f" took {event.took * 1000:.0f} ms and"
    waited = "an unknown time" if event.waited is None else f"{event.waited * 1000:.0f} ms"
    return f"the set-up with {event.peer}{took} waited {waited} for a CPU (deadline {deadline * 1000:.0f} ms)"
