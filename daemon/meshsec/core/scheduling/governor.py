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
the processors of the IKE daemon busy a level stands (GUARDING): the first one, or the floor, and the next whenever its
threads are seen to wait all the same. An IKE daemon that has nothing to do takes nothing from anybody with it.

The budget makes it safe. Every CPU second that the IKE daemon spends above level 0 is charged; when nothing is left,
the level is 0 (SPENT) until half of it has flowed in again. So whatever is asked of the IKE daemon, and by whomever,
its privileged time in any span of t seconds is at most ``burst + share * t``, beside what it spends between a time that
``poll_timeout`` gave and the look that came later. A clock that cannot be read is charged as if all processors had
worked. A protected stream that loses frames while there is privileged work halves the share, down to ``share_min``;
healthy reports bring it back by and by.

Strangers raise nothing: an IKE_SA of theirs has no peer's name before it is authenticated, and the governor hears of
peers alone. What they can do is to spend the budget that negotiations would need; then those are as fast as without a
governor.

Time and measurements come in as arguments, decisions go out as values. Call ``advance`` before each event.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from meshsec.core.scheduling.governor_settings import GovernorSettings

NEGOTIATIONS_MAX = 1024
"""Negotiations that are followed at once; the policy's cap on our own is far below."""

STREAMS_MAX = 16
"""Streams that may report."""

HISTORY = 32
"""Decisions that are kept for the explanation."""

QUEUED_MAX = 4
"""Jobs in the IKE daemon's queues from which its threads count as too slow: at rest there are none or one."""

TICK_MIN = 0.01
"""Seconds between two looks at the CPU clock at least: a look costs some microseconds."""

PROBE = 0.25
"""Seconds between two looks while it is not known whether the level that stands is enough."""

_RECOVERY = 1.1
"""Factor by which a stream's healthy report lets the share grow again."""

_NOTHING = 1e-9
"""CPU seconds: rounding errors of a budget are not worth a timer."""


class Mode(StrEnum):
    """In the order of life."""

    ABSENT = "absent"
    """There is no IKE daemon to govern."""
    REST = "rest"
    NEGOTIATING = "negotiating"
    """A negotiation runs or is expected."""
    LINGERING = "lingering"
    """The last negotiation ended a moment ago."""
    GUARDING = "guarding"
    """Others keep the processors busy: a level stands for what a peer may begin."""
    SPENT = "spent"
    """The budget is used up: no privilege until it has recovered."""


class Trigger(StrEnum):
    """What happens to the governor."""

    DAEMON_UP = "daemon-up"
    DAEMON_GONE = "daemon-gone"
    DEMAND = "demand"
    QUIET = "quiet"
    LINGER_OVER = "linger-over"
    CROWDED = "crowded"
    CALM = "calm"
    BUDGET_SPENT = "budget-spent"
    BUDGET_BACK = "budget-back"


TABLE: Mapping[Mode, Mapping[Trigger, Mode]] = {
    Mode.ABSENT: {Trigger.DAEMON_UP: Mode.REST},
    Mode.REST: {
        Trigger.DEMAND: Mode.NEGOTIATING,
        Trigger.CROWDED: Mode.GUARDING,
        Trigger.DAEMON_GONE: Mode.ABSENT,
    },
    Mode.NEGOTIATING: {
        Trigger.QUIET: Mode.LINGERING,
        Trigger.BUDGET_SPENT: Mode.SPENT,
        Trigger.DAEMON_GONE: Mode.ABSENT,
    },
    Mode.LINGERING: {
        Trigger.DEMAND: Mode.NEGOTIATING,
        Trigger.LINGER_OVER: Mode.REST,
        Trigger.CROWDED: Mode.GUARDING,
        Trigger.BUDGET_SPENT: Mode.SPENT,
        Trigger.DAEMON_GONE: Mode.ABSENT,
    },
    Mode.GUARDING: {
        Trigger.DEMAND: Mode.NEGOTIATING,
        Trigger.CALM: Mode.REST,
        Trigger.BUDGET_SPENT: Mode.SPENT,
        Trigger.DAEMON_GONE: Mode.ABSENT,
    },
    Mode.SPENT: {Trigger.BUDGET_BACK: Mode.REST, Trigger.DAEMON_GONE: Mode.ABSENT},
}
"""The catch-all: any other trigger leaves the mode as it is."""

PRIVILEGED = frozenset({Mode.NEGOTIATING, Mode.LINGERING, Mode.GUARDING})
"""Modes in which the level may be above 0."""


@dataclass(frozen=True, slots=True)
class DaemonUp:
    """The IKE daemon is there, with its base class; its CPU clock starts again."""

    processors: int
    """Number of processors on which it may run."""


@dataclass(frozen=True, slots=True)
class DaemonGone:
    """There is no IKE daemon."""


@dataclass(frozen=True, slots=True)
class NegotiationBegan:
    """With a trusted peer: by this node, or expected of the peer. Once more for the same peer changes nothing."""

    peer: str


@dataclass(frozen=True, slots=True)
class NegotiationEnded:
    """The channel stands, or the attempt ended without one."""

    peer: str
    protected: bool
    took: float | None = None
    """Seconds of the set-up as measured; None where it is unknown when the peer began."""
    waited: float | None = None
    """Seconds that IKE threads waited for a CPU since it began, of all together, but no more than it lasted; None where
    that cannot be measured."""


@dataclass(frozen=True, slots=True)
class Contention:
    """How the IKE daemon gets along with the load. None: this host does not say."""

    delay: float | None = None
    """Seconds that an IKE thread waited for a CPU before it ran, in the mean of the runs since the last look; None also
    when none ran."""
    starving: int | None = None
    """IKE threads that want a CPU and got none since the last look."""
    pressure: float | None = None
    """Part of the time since the last look that some task waited for a CPU (PSI), of the IKE daemon's own cgroup where
    it has one; 0 to 1."""
    queued: int | None = None
    """Jobs that the IKE daemon has and no thread of it works on."""


@dataclass(frozen=True, slots=True)
class Crowding:
    """How busy others keep the processors of the IKE daemon. It is known while that one is idle, too."""

    busy: float | None
    """Part of the time since the last look that the least busy one of them worked for others, 0 to 1; None: untold."""


@dataclass(frozen=True, slots=True)
class StreamReported:
    """How a protected stream fares since its last report."""

    stream: str
    loss: float | None = None
    """Part of its frames that it dropped, 0 to 1."""
    delay: float | None = None
    """Seconds that its frames were late, or that its service waited for a CPU each time it ran."""


@dataclass(frozen=True, slots=True)
class LevelRefused:
    """The host does not let the IKE daemon have a level; lower ones are left."""

    level: int
    reason: str


Event = (
    DaemonUp | DaemonGone | NegotiationBegan | NegotiationEnded | Contention | Crowding | StreamReported | LevelRefused
)


@dataclass(frozen=True, slots=True)
class Decision:
    """The level changed, and why. Carried out at once."""

    at: float
    before: int
    level: int
    mode: Mode
    reason: str


@dataclass(frozen=True, slots=True)
class Budget:
    """CPU seconds above the base class: ``share`` flow in each second, at most ``burst`` are kept. Debts are paid."""

    share: float
    burst: float
    left: float
    at: float

    def charged(self, now: float, spent: float) -> "Budget":
        """After a time in which ``spent`` CPU seconds were used; what flowed in before the limit comes first."""
        left = min(self.burst, self.left + max(0.0, now - self.at) * self.share)
        return replace(self, left=left - spent, at=max(now, self.at))

    def ready_at(self, least: float) -> float:
        """Return when there will be ``least``, if nothing is spent."""
        return self.at + max(0.0, least - self.left) / self.share


@dataclass(frozen=True, slots=True)
class Setup:
    """What a negotiation that succeeded showed."""

    at: float
    event: NegotiationEnded
    level: int
    """Level with which it began."""
    late_by_cpu: bool


@dataclass(slots=True)
class _Negotiation:
    began: float
    level: int
    """Level with which it began."""
    check_at: float
    """Time from which it counts as stalled."""
    lapses_at: float
    """Time from which it waits for something else than the CPU."""


@dataclass(slots=True)
class _Stream:
    at: float
    healthy: bool
    text: str
    spent: float
    """CPU seconds above the base class in all, at its last report."""


class Governor:
    """One IKE daemon's. ``top``: the strongest level that the profile has."""

    def __init__(self, settings: GovernorSettings, top: int, start: int = 0) -> None:
        """``start``: the level with which each negotiation begins at least; 0: as little as is needed."""
        self.settings = settings
        self.top = top
        self.start = start
        self.ceiling = top
        """The strongest level that the host lets us have."""
        self.refusal = ""
        self.mode = Mode.ABSENT
        self.level = 0
        self.reason = "no IKE daemon was seen yet"
        self.history: deque[Decision] = deque(maxlen=HISTORY)
        self.spent = 0.0
        """CPU seconds above the base class, in all."""
        self.floor_reason = ""
        self.last_setup: Setup | None = None
        self.contention = Contention()
        self.contended: bool | None = None
        """Whether the IKE threads wait for a CPU; None where it is unknown."""
        self.busy: float | None = None
        self.crowded: bool | None = None
        """Whether others keep the processors busy; None where it is unknown."""
        self._budget = Budget(settings.share, settings.burst, settings.burst, 0.0)
        self._now = 0.0
        self._cpu: float | None = None
        self._processors = 1
        self._floor = 0
        self._floor_until = 0.0
        self._negotiations: dict[str, _Negotiation] = {}
        self._streams: dict[str, _Stream] = {}
        self._linger_until = 0.0
        self._probe_at: float | None = None
        """Time at which to look whether the present level is enough; None while that is known."""
        self._decisions: list[Decision] = []

    # --- what the agent calls ---

    def advance(self, now: float, cpu: float | None, contention: Contention | None = None) -> None:
        """Time passes. ``cpu``: the IKE daemon's CPU clock in seconds, all threads together; None when unreadable.

        ``contention``: what was measured at the same moment, where it was, so that it counts for what is due now.
        """
        elapsed, self._now = max(0.0, now - self._now), max(now, self._now)
        used = elapsed * self._processors
        if cpu is not None and self._cpu is not None and cpu >= self._cpu:
            used = cpu - self._cpu
        self._cpu = cpu
        spent = used if self.level else 0.0
        self.spent += spent
        self._budget = self._budget.charged(self._now, spent)
        if contention is not None:
            self._measured(contention)
        self._settle()

    def handle(self, event: Event) -> None:
        """Take in one event of the time that ``advance`` was given."""
        match event:
            case DaemonUp():
                self._daemon_up(event)
            case DaemonGone():
                self._cpu = None
                self._negotiations.clear()
                self._fire(Trigger.DAEMON_GONE, "the IKE daemon is gone")
            case NegotiationBegan(peer):
                self._began(peer)
            case NegotiationEnded():
                self._ended(event)
            case Contention():
                self._measured(event)
            case Crowding(busy):
                self._crowding(busy)
            case StreamReported():
                self._stream_reported(event)
            case LevelRefused():
                self._refused(event)
        self._settle()

    def poll_decisions(self) -> list[Decision]:
        """Return what to carry out now, in this order."""
        decisions, self._decisions = self._decisions, []
        return decisions

    def poll_timeout(self) -> float | None:
        """Return when to call ``advance`` although nothing happens; None: not before the next event."""
        times = []
        if self.level:
            times.append(self._now + max(TICK_MIN, self._budget.left / self._processors))
        if self.mode is Mode.SPENT:
            times.append(max(self._now + TICK_MIN, self._budget.ready_at(self._enough())))
        if self.mode is Mode.LINGERING:
            times.append(self._linger_until)
        if self.mode is Mode.GUARDING and self.crowded is None:
            times.append(self._floor_until)
        if self.mode is Mode.GUARDING and self._probe_at is not None:
            times.append(self._probe_at)
        times += [self._due(one) for one in self._negotiations.values()]
        return min(times, default=None)

    # --- what the views read ---

    @property
    def floor(self) -> int:
        """The level that a negotiation begins with, as was needed lately."""
        return min(self._floor, self.ceiling)

    @property
    def budget(self) -> Budget:
        """As of the last ``advance``."""
        return self._budget

    @property
    def negotiating(self) -> tuple[str, ...]:
        """The peers with which a negotiation runs or is expected."""
        return tuple(self._negotiations)

    @property
    def probing(self) -> bool:
        """Whether it is asked how the IKE threads fare with the level that stands: they should be given some work."""
        return self.mode is Mode.GUARDING and self._probe_at is not None

    @property
    def streams(self) -> Mapping[str, str]:
        """What each protected stream reported last, in words."""
        return {name: stream.text for name, stream in self._streams.items()}

    # --- events ---

    def _daemon_up(self, event: DaemonUp) -> None:
        self._negotiations.clear()
        self._fire(Trigger.DAEMON_GONE, "the IKE daemon is another one")
        self._processors = max(1, event.processors)
        self.contention, self.contended = Contention(), None
        self.busy, self.crowded = None, None
        self.ceiling, self.refusal = self.top, ""
        self._fire(Trigger.DAEMON_UP, "no negotiation runs or is expected")

    def _began(self, peer: str) -> None:
        if self.mode is Mode.ABSENT or peer in self._negotiations or len(self._negotiations) >= NEGOTIATIONS_MAX:
            return
        self._fire(Trigger.DEMAND, f"a negotiation with {peer}")
        if self.mode is Mode.NEGOTIATING:
            self._raise_to(*self._start_level(), peer)
        self._negotiations[peer] = _Negotiation(
            self._now, self.level, self._now + self.settings.stall, self._now + self.settings.attention
        )

    def _start_level(self) -> tuple[int, str]:
        start, first = min(self.start, self.ceiling), self._first()
        if self.floor and self.floor >= max(start, first):
            return self.floor, f"it was needed lately: {self.floor_reason}"
        if start > first:
            return start, "its threads shall not wait for one another either"
        return first, self._contention_text()

    def _first(self) -> int:
        """Return the first level; threads of which the host does not say whether they wait are taken to wait."""
        return 0 if self.contended is False else min(1, self.ceiling)

    def _ended(self, event: NegotiationEnded) -> None:
        negotiation = self._negotiations.pop(event.peer, None)
        if negotiation is None or not event.protected:
            return
        by_cpu = self._was_late_by_cpu(event)
        self.last_setup = Setup(self._now, event, negotiation.level, by_cpu)
        if by_cpu:
            self._floor = min(max(negotiation.level + 1, self._floor), self.ceiling)
            self._floor_until = self._now + self.settings.relax
            self.floor_reason = lateness(event, self.settings.deadline)

    def _was_late_by_cpu(self, event: NegotiationEnded) -> bool:
        """Without schedstats every late one is put down to the CPU if that may be contended: the budget bounds it."""
        if event.waited is not None:
            return event.waited > self.settings.cpu_limit
        return event.took is not None and event.took > self.settings.deadline and self.contended is not False

    def _measured(self, event: Contention) -> None:
        """With hysteresis: what is contended is so until it is half as bad. Where nothing is known, nothing changes."""
        self.contention = event
        ratio = self._ratio(event)
        waits = bool(event.starving) or (event.queued or 0) >= QUEUED_MAX or (ratio is not None and ratio >= 1)
        if waits:
            self.contended = True
        elif ratio is not None and (ratio <= 0.5 or self.contended is None):
            self.contended = False
        if self.mode is Mode.GUARDING and (waits or ratio is not None):
            self._judge_guard(waits=waits)

    def _judge_guard(self, *, waits: bool) -> None:
        """Raise a guarding level that is not enough, without waiting for a late set-up."""
        if not waits or self.level >= self.ceiling or not self.crowded:
            self._probe_at = None
            return
        self._floor = self.level + 1
        self._floor_until = self._now + self.settings.relax
        self.floor_reason = f"with level {self.level} {self._contention_text()}"

    def _crowding(self, busy: float | None) -> None:
        """With hysteresis, as contention."""
        self.busy = busy
        if busy is None:
            self.crowded = None
        elif busy > self.settings.busy_limit:
            self.crowded = True
        elif busy <= self.settings.busy_limit / 2 or self.crowded is None:
            self.crowded = False

    def _ratio(self, event: Contention) -> float | None:
        """Return the wait as a part of what is tolerated. PSI, which counts others' tasks too, is the last resort."""
        if event.delay is not None:
            return event.delay / self.settings.delay_contended
        if event.starving is None and event.pressure is not None:
            return event.pressure / self.settings.pressure_limit
        return None

    def _stream_reported(self, event: StreamReported) -> None:
        before = self._streams.get(event.stream)
        if before is None and len(self._streams) >= STREAMS_MAX:
            return
        loss, delay = event.loss or 0.0, event.delay or 0.0
        healthy = loss <= self.settings.loss_limit and delay <= self.settings.delay_limit
        text = f"lost {loss:.1%} of its frames, {delay * 1000:.0f} ms late"
        self._streams[event.stream] = _Stream(self._now, healthy, text, self.spent)
        ours = before is not None and self.spent > before.spent
        if healthy:
            self._budget = replace(self._budget, share=min(self.settings.share, self._budget.share * _RECOVERY))
        elif ours:
            share = max(self.settings.share_min, self._budget.share / 2)
            self._budget = replace(self._budget, share=share, left=min(self._budget.left, self.settings.burst / 2))

    def _refused(self, event: LevelRefused) -> None:
        self.ceiling = max(0, min(self.ceiling, event.level - 1))
        self.refusal = event.reason
        if self.level > self.ceiling:
            self._go_to(self.ceiling, f"the host refuses more: {event.reason}")

    # --- settling ---

    def _settle(self) -> None:
        """Draw every conclusion that time and events ask for."""
        self._relax()
        self._lapse()
        self._escalate()
        if self.mode in PRIVILEGED and self.level and self._budget.left <= _NOTHING:
            self._fire(Trigger.BUDGET_SPENT, "the budget of privileged CPU time is used up")
        if self.mode is Mode.SPENT and self._budget.left >= self._enough() - _NOTHING:
            self._fire(Trigger.BUDGET_BACK, "half of the budget has recovered")
        if self.mode is Mode.NEGOTIATING and not self._negotiations:
            self._linger_until = self._now + self.settings.linger
            self._fire(Trigger.QUIET, "the last negotiation ended")
        if self.mode is Mode.LINGERING and self._now >= self._linger_until:
            if self._must_guard():
                self._fire(Trigger.CROWDED, self._crowd_text())
            else:
                self._fire(Trigger.LINGER_OVER, "no negotiation runs or is expected any more")
        if self.mode is Mode.REST and self._negotiations:
            peer = next(iter(self._negotiations))
            self._fire(Trigger.DEMAND, f"a negotiation with {peer}")
            self._raise_to(*self._start_level(), peer)
        self._guard()

    def _guard(self) -> None:
        """Let the level stand that a peer's unannounced negotiation needs, no longer than it may need it."""
        if self.mode is Mode.REST and self.crowded and self._must_guard() and self._budget.left > _NOTHING:
            self._fire(Trigger.CROWDED, self._crowd_text())
        if self.mode is not Mode.GUARDING:
            self._probe_at = None
        elif not self._must_guard():
            self._fire(Trigger.CALM, "its processors have room again")
        elif self.level != self._standing():
            why = f"it was needed lately: {self.floor_reason}" if self.floor else self._crowd_text()
            self._go_to(self._standing(), why)
            self._probe_at = self._now + PROBE
        elif self._probe_at is not None and self._probe_at <= self._now:
            self._probe_at = self._now + PROBE

    def _relax(self) -> None:
        """Forget with time which level was needed, but not while the load lasts that it was needed for."""
        if self.crowded:
            self._floor_until = max(self._floor_until, self._now + self.settings.relax)
        while self._floor and self._now >= self._floor_until:
            self._floor -= 1
            self._floor_until += self.settings.relax

    def _must_guard(self) -> bool:
        """Return whether to guard. Where the host does not say how busy it is, the level lately needed is kept."""
        if self.crowded is None:
            return self.floor > 0 and self.level > 0 and self.contended is not False
        return self.crowded and self.ceiling > 0

    def _standing(self) -> int:
        return min(self.level, self.floor) if self.crowded is None else min(max(self.floor, 1), self.ceiling)

    def _crowd_text(self) -> str:
        busy = "" if self.busy is None else f" {self.busy:.0%} of the time"
        return f"others keep its processors busy{busy}, and a peer may begin unannounced"

    def _lapse(self) -> None:
        for peer in [name for name, one in self._negotiations.items() if one.lapses_at <= self._now]:
            del self._negotiations[peer]

    def _escalate(self) -> None:
        for peer, one in self._negotiations.items():
            if one.check_at > self._now:
                continue
            one.check_at = self._now + self.settings.stall
            if self.mode is Mode.NEGOTIATING and self.level < self.ceiling and self.contended is not False:
                after = (self._now - one.began) * 1000
                self._raise_to(self.level + 1, f"it stalls after {after:.0f} ms, {self._contention_text()}", peer)

    def _due(self, one: _Negotiation) -> float:
        watched = self.mode is Mode.NEGOTIATING and self.level < self.ceiling
        return min(one.lapses_at, one.check_at) if watched else one.lapses_at

    def _enough(self) -> float:
        return self.settings.burst / 2

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
        """Never lower while a negotiation runs: another one may need what stands."""
        if level > self.level and self._budget.left > _NOTHING:
            self._go_to(min(level, self.ceiling), f"negotiation with {peer}: {why}")

    def _go_to(self, level: int, reason: str) -> None:
        if level == self.level:
            return
        decision = Decision(self._now, self.level, level, self.mode, reason)
        self.level, self.reason = level, reason
        self.history.append(decision)
        self._decisions.append(decision)

    def _contention_text(self) -> str:
        return contention_text(self.contention, self.contended)


def contention_text(measured: Contention, contended: bool | None) -> str:
    """Return what was measured, in words."""
    if contended is None:
        return "it is not known yet whether its threads wait for a CPU"
    parts = []
    if measured.starving:
        parts.append(f"{measured.starving} of its threads got no CPU")
    if measured.delay is not None:
        parts.append(f"its threads waited {measured.delay * 1000:.2f} ms for each run")
    elif measured.pressure is not None:
        parts.append(f"tasks waited for a CPU {measured.pressure:.0%} of the time")
    if measured.queued:
        parts.append(f"{measured.queued} jobs were queued")
    state = "the CPU is contended" if contended else "the CPU is not contended"
    return f"{state} ({', '.join(parts)})" if parts else state


def lateness(event: NegotiationEnded, deadline: float) -> str:
    """Return what a set-up showed, in words."""
    took = "" if event.took is None else f" took {event.took * 1000:.0f} ms and"
    waited = "an unknown time" if event.waited is None else f"{event.waited * 1000:.0f} ms"
    return f"the set-up with {event.peer}{took} waited {waited} for a CPU (deadline {deadline * 1000:.0f} ms)"
