"""Decides on a radio's RTS threshold by what its counters show.

Theory of operation. ``following`` takes the state and what was sent in one interval, and returns the next state: the
threshold that is to be in force, the reason in words, and the seconds until the next interval ends. It begins without
RTS. When frames are lost as hidden nodes make them (``rts_evidence``), it tries a threshold: present and other value
take turns, so that what changes meanwhile meets both. The other value is kept when it delivers more octets for each
second on the air. From then on it tries in the same way whether no RTS, or another threshold, does better.

Hysteresis: RTS begins when it gains 10 %, and ends when it gains less than 5 %. Each trial is bounded in time and ends
at once when it does harm. The pause between trials doubles, so that the threshold cannot flap.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from meshsec.core.radio.observed import RTS_OFF
from meshsec.core.radio.rts_evidence import Leg, Sample, Sent, why_not
from meshsec.core.radio.steps import rts

CANDIDATES = (0, 500)
"""Octets. With the first all frames ask, so that voice is protected, too. The second spares short ones the exchange,
such as the acknowledgements of TCP: the trial says when that is better. Few frames have a size between 500 and 1400.
"""
BEGINS, STAYS = 1.10, 1.05
"""What RTS gains in octets delivered for each second on the air, to begin and to stay."""
PAIRS = 4
"""Legs of each threshold in a trial."""
LEAST_FRAMES = 100
"""Frames of a leg, or it says too little."""
LEG_SECONDS = 1.0
MOST_LEG_SECONDS = 5.0
"""Seconds after which a leg with too few frames ends the trial."""
WATCH_SECONDS = 10.0
FIRST_PAUSE, LONGEST_PAUSE = 60.0, 600.0
"""Seconds between two trials. At the longest, trials take a hundredth of the time."""
_SUSPECTED = "frames are repeated as if nodes were hidden, and a trial follows"
_HARMFUL = 0.5
"""A leg with less than this part of the present threshold's efficiency ends the trial."""
_MOST_GAIN = 10.0
_REMEMBERED, _LEAST_INTERVALS = 12, 3
"""Intervals by which loss is judged, at most and at least: one alone shows neither sizes nor rates."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Two thresholds that take turns: present, other, other, present, ..."""

    other: int
    done: tuple[Leg, ...] = ()
    running: Leg = field(default_factory=Leg)

    @property
    def is_other(self) -> bool:
        """Whether the other threshold has its turn."""
        return len(self.done) % 4 in (1, 2)

    def efficiencies(self) -> tuple[list[float], list[float]]:
        """Return those of the present and of the other threshold's legs."""
        turns = [index % 4 in (1, 2) for index in range(len(self.done))]
        pairs = list(zip(turns, self.done, strict=True))
        return [leg.efficiency for other, leg in pairs if not other], [leg.efficiency for other, leg in pairs if other]


@dataclass(frozen=True, slots=True)
class State:
    """What was decided, and what for."""

    present: int = RTS_OFF
    """Octets; the threshold that is kept."""
    reason: str = "nothing was measured yet"
    """Why it is kept."""
    trial: Trial | None = None
    recent: tuple[Sample, ...] = ()
    """What was sent under the present threshold outside trials, the latest last."""
    since: float = FIRST_PAUSE
    """Seconds since the last trial."""
    pause: float = FIRST_PAUSE
    turn: int = 0
    """Trials since there was last a long time without a reason for one."""
    tried: int = 0
    """All trials so far."""
    changes: int = 0
    """How often another threshold was kept."""

    @property
    def threshold(self) -> int:
        """Octets; what is to be in force now."""
        return self.trial.other if self.trial and self.trial.is_other else self.present

    @property
    def wait(self) -> float:
        """Seconds until the next interval should end."""
        return LEG_SECONDS if self.trial else WATCH_SECONDS

    def __str__(self) -> str:
        return f"RTS threshold {rts(self.present)}: {self.reason}"


def following(state: State, sample: Sample) -> State:
    """Return the state after one more interval, during which ``state.threshold`` was in force."""
    return _judged(state, state.trial, sample) if state.trial else _watched(state, sample)


def _watched(state: State, sample: Sample) -> State:
    recent = (*state.recent, sample)[-_REMEMBERED:] if sample.frames else state.recent
    state = replace(state, recent=recent, since=state.since + sample.seconds)
    if state.since >= 2 * state.pause:  # There was no reason for a trial for long, so the next one is of something new.
        state = replace(state, pause=FIRST_PAUSE, turn=0)
    sent = [one for interval in recent for one in interval.sent]
    if state.present == RTS_OFF:
        why = why_not(sent)
        if not state.tried or state.since >= state.pause:  # Until then the last trial's result is the reason.
            state = replace(state, reason=why or _SUSPECTED)
        if why:
            return state
    other = _next(state, sent)
    if other is None or state.since < state.pause or len(recent) < _LEAST_INTERVALS or sample.frames < LEAST_FRAMES:
        return state
    return replace(state, trial=Trial(other))


def _next(state: State, sent: Sequence[Sent]) -> int | None:
    """Return what to try: a threshold that frames exceed, or no RTS: before the other thresholds, and ever after them.

    Sizes are means. Where they are above half of a threshold, long frames among short ones may exceed it.
    """
    able = [one for one in CANDIDATES if one != state.present and any(2 * each.size > one for each in sent)]
    if state.present != RTS_OFF:
        able.insert(0, RTS_OFF)
        return able[state.turn] if state.turn < len(able) else RTS_OFF
    return able[state.turn % len(able)] if able else None


def _judged(state: State, trial: Trial, sample: Sample) -> State:
    leg = trial.running.and_then(sample, state.threshold)
    if leg.frames < LEAST_FRAMES:
        if leg.seconds < MOST_LEG_SECONDS:
            return replace(state, trial=replace(trial, running=leg))
        return _ended(state, f"too little was sent to compare it with {rts(trial.other)}")
    trial = replace(trial, done=(*trial.done, leg), running=Leg())
    present, other = trial.efficiencies()
    if other and (gain := _gain(other[-1], present[0])) < _HARMFUL:
        return _ended(state, _compared(gain, trial.other))
    if len(trial.done) < 2 * PAIRS:
        return replace(state, trial=trial)
    gains = [_gain(new, old) for old, new in zip(present, other, strict=True)]
    if not _is_better(state.present, trial.other, gains):
        return _ended(state, _compared(median(gains), trial.other))
    kept = _ended(state, _compared(1 / median(gains), state.present))
    return replace(kept, present=trial.other, recent=(), turn=0, changes=state.changes + 1)


def _gain(new: float, old: float) -> float:
    """Return the factor between two efficiencies; one of nothing is as good as the worst."""
    return min(_MOST_GAIN, new / old) if old else (_MOST_GAIN if new else 1.0)


def _is_better(present: int, other: int, gains: list[float]) -> bool:
    """Return whether the other threshold is to be kept; one leg of it may be worse by chance."""
    if other == RTS_OFF:
        return median(gains) > 1 / STAYS
    least = BEGINS if present == RTS_OFF else STAYS
    return median(gains) >= least and sum(gain > 1 for gain in gains) >= PAIRS - 1


def _compared(gain: float, other: int) -> str:
    """Return in words what the other threshold did to the octets delivered for each second on the air."""
    percent = round(100 * (gain - 1))
    much = f"{abs(percent)} % {'more' if percent > 0 else 'less'}" if percent else "as much"
    return f"{rts(other)} delivers {much} for its time on the air"


def _ended(state: State, reason: str) -> State:
    pause = min(2 * state.pause, LONGEST_PAUSE)
    return replace(state, trial=None, since=0.0, pause=pause, turn=state.turn + 1, tried=state.tried + 1, reason=reason)
