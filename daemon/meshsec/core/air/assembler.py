"""Put frames together to exchanges, one frame after the other, with bounded memory.

A frame belongs to the exchange before it when the standard's sequences say so (IEEE 802.11-2020, annex G) and it came
in time. An exchange that nobody has answered waits for its next attempt, at most ``_HOLD``.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from meshsec.core.air.exchange import Attempt, Earlier, Exchange, earlier, made
from meshsec.core.air.frames import PAYLOADS, Frame, Kind
from meshsec.core.air.timeline import EXACT, LEAP, ROUGH, Placed, Timeline

_HOLD = 1_000_000.0
"""Microseconds in which a station tries again: seven attempts with the greatest backoff take 100 ms."""
_MOST_WAITING = 1024
"""Pairs of stations of which an exchange may wait."""
_MOST_UNITS = 256
"""Frames of one A-MPDU (9.4.2.56, and VHT and HE as well)."""
_SIFS_APART = 18.0
"""Microseconds between frames that a station sends without a new contention: a SIFS, and the timer's resolution."""
_OVERLAP = -2.0
"""Microseconds by which such frames seem to overlap, at most, because of rounding."""
_ANSWERS = frozenset({Kind.ACK, Kind.BLOCK_ACK})


@dataclass(slots=True)
class Counts:
    """What was seen besides exchanges."""

    frames: int = 0
    without_tsft: int = 0
    without_rate: int = 0
    damaged: int = 0
    """With a wrong FCS."""
    stray: int = 0
    """Answers whose question was not heard, and frames that belong to no exchange."""
    answers: int = 0
    """CTS, ack and block ack."""
    overlaps: int = 0
    """Attempts that began before the frame before had ended, by the radio's timer."""
    occupied: float = 0.0
    """Microseconds of frames that belong to no exchange."""


@dataclass(slots=True)
class _Waiting:
    attempt: Attempt
    failed: Earlier | None


class Assembler:
    """One capture."""

    def __init__(self) -> None:
        self.counts = Counts()
        self.timeline = Timeline()
        self.first: float | None = None
        """When the first frame began, in microseconds of the line."""
        self.latest = 0.0
        self._open: Attempt | None = None
        self._free: float | None = None
        """When the last frame ended."""
        self._waiting: dict[tuple[str, str], _Waiting] = {}
        self._made = 0

    def handle(self, frame: Frame) -> Iterator[Exchange]:
        """Take the next frame, and yield the exchanges that have ended."""
        placed = self.timeline.place(frame)
        self._count(placed)
        if self._free is not None and placed.end < self._free - LEAP:
            yield from self.finish()
            self._free = None
        if self._open and not frame.damaged and _joins(self._open, placed):
            _join(self._open, placed)
            end = self._open.end
        else:
            yield from self._close()
            self.counts.overlaps += placed.exact and self._free is not None and placed.start < self._free + _OVERLAP
            self._begin(placed)
            end = placed.end
        self._free = end if self._free is None else max(self._free, end)
        yield from self._expired(placed.start - _HOLD)

    def finish(self) -> Iterator[Exchange]:
        """Yield what has not ended yet."""
        yield from self._close()
        yield from self._expired(None)

    def _count(self, placed: Placed) -> None:
        frame, counts = placed.frame, self.counts
        counts.frames += 1
        counts.without_tsft += not placed.exact
        counts.without_rate += frame.rate is None
        counts.damaged += frame.damaged
        counts.answers += not frame.damaged and (frame.kind in _ANSWERS or frame.kind is Kind.CTS)
        self.first = placed.start if self.first is None else min(self.first, placed.start)
        self.latest = max(self.latest, placed.end)

    def _begin(self, placed: Placed) -> None:
        frame = placed.frame
        if not frame.damaged:
            if frame.kind in {Kind.RTS, Kind.CTS}:
                self._open = Attempt(self._free, [placed], [])
                return
            if frame.kind in PAYLOADS and frame.transmitter:
                self._open = Attempt(self._free, [], [placed])
                return
        self._stray(placed)

    def _stray(self, placed: Placed) -> None:
        self.counts.stray += not placed.frame.damaged
        self.counts.occupied += placed.airtime

    def _close(self) -> Iterator[Exchange]:
        """End the open attempt: it is an exchange, waits for the next attempt, or is a CTS to somebody unheard."""
        attempt, self._open = self._open, None
        if attempt is None:
            return
        first = (attempt.data or attempt.opening)[0].frame
        if first.kind is Kind.CTS:
            self._stray(attempt.opening[0])
            return
        pair = (first.transmitter or "", first.receiver)
        failed = None
        if before := self._waiting.pop(pair, None):
            if _continues(before.attempt, attempt):
                failed = earlier(before.attempt, before.failed)
            else:
                yield self._made_of(before)
        now = _Waiting(attempt, failed)
        if attempt.answered is not False or any(one.frame.failed for one in attempt.data):
            yield self._made_of(now)
            return
        self._waiting[pair] = now
        if len(self._waiting) > _MOST_WAITING:
            yield self._made_of(self._waiting.pop(next(iter(self._waiting))))

    def _expired(self, limit: float | None) -> Iterator[Exchange]:
        """Yield what has waited since before ``limit``, or all: the oldest come first."""
        while self._waiting:
            pair = next(iter(self._waiting))
            if limit is not None and self._waiting[pair].attempt.end > limit:
                return
            yield self._made_of(self._waiting.pop(pair))

    def _made_of(self, waiting: _Waiting) -> Exchange:
        self._made += 1
        return made(self._made, waiting.attempt, waiting.failed, deaf=not self.counts.answers)


def _joins(attempt: Attempt, placed: Placed) -> bool:
    """Return whether a frame belongs to the attempt."""
    frame, last = placed.frame, attempt.last
    if attempt.answer:
        return False
    if attempt.data and frame.ppdu is not None and frame.ppdu == attempt.data[-1].frame.ppdu:
        return _is_of_the_ampdu(attempt, placed)
    gap, exact = placed.start - attempt.end, placed.exact and last.exact
    least, most = (_OVERLAP, EXACT) if exact else (-ROUGH, ROUGH)
    return least <= gap <= most and _belongs(attempt, frame, at_once=exact and gap <= _SIFS_APART)


def _belongs(attempt: Attempt, frame: Frame, *, at_once: bool) -> bool:
    """Return whether a frame that came in time belongs to the attempt; ``at_once``: within a SIFS."""
    last = attempt.last.frame
    if frame.kind is Kind.CTS:
        return not attempt.data and last.kind is Kind.RTS and frame.receiver == last.transmitter
    if frame.kind in _ANSWERS:
        return bool(attempt.data) and attempt.wants_answer and _answers(attempt.data[0].frame, frame)
    if frame.kind not in PAYLOADS:
        return False
    if not attempt.data:
        return _opened(attempt.opening[0].frame, frame)
    return at_once and len(attempt.data) < _MOST_UNITS and _follows(last, frame)


def _answers(asked: Frame, frame: Frame) -> bool:
    return frame.receiver == asked.transmitter and frame.transmitter in (None, asked.receiver)


def _opened(opening: Frame, frame: Frame) -> bool:
    """Return whether the frame is what the medium was reserved for; its CTS may be unheard."""
    if opening.kind is Kind.CTS:
        return frame.transmitter == opening.receiver
    return (frame.transmitter, frame.receiver) == (opening.transmitter, opening.receiver)


def _is_of_the_ampdu(attempt: Attempt, placed: Placed) -> bool:
    """Return whether a frame with the reference of the last one is of the same A-MPDU: its time may be that of all."""
    last, first = attempt.data[-1].frame, attempt.data[0]
    same = (placed.frame.transmitter, placed.frame.receiver) == (last.transmitter, last.receiver)
    early = placed.start - first.start < (_OVERLAP if placed.exact and first.exact else -ROUGH)
    return same and not early and len(attempt.data) < _MOST_UNITS


def _follows(last: Frame, frame: Frame) -> bool:
    """Return whether a frame that came at once is of the same burst."""
    same = (frame.transmitter, frame.receiver) == (last.transmitter, last.receiver)
    return same and last.wants_answer and frame.kind in {Kind.DATA, Kind.NULL, Kind.BLOCK_ACK_REQUEST}


def _join(attempt: Attempt, placed: Placed) -> None:
    if placed.frame.kind in _ANSWERS:
        attempt.answer = placed
    elif placed.frame.kind is Kind.CTS:
        attempt.opening.append(placed)
    else:
        attempt.data.append(placed)


def _continues(before: Attempt, attempt: Attempt) -> bool:
    """Return whether an attempt sends again what the one before did in vain."""
    if not before.start <= attempt.start <= before.end + _HOLD:
        return False
    if not before.data or not attempt.data:
        return True
    sent = {one.frame.sequence for one in before.data}
    return any(one.frame.retry and one.frame.sequence in sent for one in attempt.data)
