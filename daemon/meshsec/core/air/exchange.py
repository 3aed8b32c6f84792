"""One exchange: what a station sends when it has won the medium, and what comes back."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from meshsec.core.air.frames import Kind
from meshsec.core.air.rates import AGGREGATING, Phy, Rate, aggregated
from meshsec.core.air.timeline import Placed

_SIFS = 16.0
_MOST_AIFSN = 7
"""Slots before the backoff, of the access category that waits longest by default (9.4.2.28)."""
_WINDOW, _SLOT = {True: 31, False: 15}, {True: 20.0, False: 9.0}
"""CWmin, and microseconds of a slot, of stations with DSSS alone and of all others (10.23.2)."""


class Protection(StrEnum):
    """The frames that silenced the others before the data."""

    NONE = ""
    RTS_CTS = "RTS/CTS"
    RTS = "RTS (no CTS)"
    CTS = "CTS"
    """CTS-to-self."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """An exchange that has ended. Times are microseconds; the parts add up to ``total``."""

    number: int
    transmitter: str
    receiver: str
    start: float
    """Of the first attempt's first frame, since the first frame of the capture."""
    access: float | None
    """Time from the end of the frame before, of any sender, to the first frame. None: no frame came before."""
    idle: bool
    """The access took longer than a backoff explains: at first there was nothing to send."""
    retries: float
    """From the first attempt's first frame to that of the last one; 0: there was one attempt."""
    protection: Protection
    rts_cts: float
    """From the first frame to the data."""
    data: float
    ack: float
    """From the end of the data to that of the answer; 0: there was none."""
    attempts: int
    frames: int
    """In all attempts, with the answers."""
    what: Kind
    units: int
    """MPDUs of the last attempt, such as those of an A-MPDU."""
    mpdus: int
    """In all attempts, with those that the radio itself reports to have sent again."""
    retried: int
    """Those of them that were sent again."""
    octets: int
    """Of the last attempt's MPDUs."""
    answer: Kind | None
    answered: bool | None
    """None: the exchange asks for no answer, as those to groups, or the capture has no answers at all."""
    airtime: float
    """Of all frames, without the gaps between them."""
    rate: Rate | None
    """Of the last attempt's data."""
    exact: bool
    """All its times are the radio's."""

    @property
    def delay(self) -> float:
        """Microseconds from the first frame to the end."""
        return self.retries + self.rts_cts + self.data + self.ack

    @property
    def total(self) -> float:
        """Microseconds with the access delay."""
        return (self.access or 0.0) + self.delay

    @property
    def pattern(self) -> str:
        """The exchange in words such as those of Agosto-Padilla's Table 3: ``RTS/CTS, 8 data, BA``."""
        what = f"{self.units} {self.what}" if self.units > 1 else str(self.what)
        sent = what if self.units else ""
        if self.to_group and self.what is not Kind.BEACON:
            sent += " to a group"
        end = self.answer or ("no ack" if self.units and self.answered is False else "")
        return ", ".join(str(part) for part in (self.protection, sent, end) if part)

    @property
    def to_group(self) -> bool:
        """Whether it is for several receivers."""
        return bool(int(self.receiver[:2], 16) & 0x01)


@dataclass(slots=True)
class Attempt:
    """The frames of one attempt so far, in their order on the air."""

    before: float | None
    """When the medium became free before it."""
    opening: list[Placed]
    """RTS and CTS."""
    data: list[Placed]
    answer: Placed | None = None

    @property
    def start(self) -> float:
        """When its first frame began."""
        return self.opening[0].start if self.opening else self.data_start

    @property
    def data_start(self) -> float:
        """When the data began."""
        return min(_beginning(ppdu) for ppdu in ppdus(self.data))

    @property
    def end(self) -> float:
        """When its last frame has ended."""
        if self.answer:
            return self.answer.end
        return self.data_end if self.data else self.opening[-1].end

    @property
    def data_end(self) -> float:
        """When the data has ended."""
        return max(_beginning(ppdu) + ppdu_airtime(ppdu) for ppdu in ppdus(self.data))

    @property
    def exact(self) -> bool:
        """Whether all times are the radio's; one of an A-MPDU suffices."""
        others = [*self.opening, *([self.answer] if self.answer else [])]
        data = (any(one.exact for one in ppdu) for ppdu in ppdus(self.data))
        return all(one.exact for one in others) and all(data)

    @property
    def last(self) -> Placed:
        """The frame that the next one may belong to."""
        return self.answer or (self.data or self.opening)[-1]

    @property
    def wants_answer(self) -> bool:
        """Whether somebody is to answer what was sent last."""
        return any(one.frame.wants_answer for one in self.data) if self.data else True

    @property
    def placed(self) -> Sequence[Placed]:
        """All its frames."""
        return [*self.opening, *self.data, *([self.answer] if self.answer else [])]

    @property
    def answered(self) -> bool | None:
        """Whether it has reached its receiver; None: nobody was asked."""
        if self.answer:
            return True
        if not self.wants_answer:
            return None
        sent = [one.frame for one in self.data if one.frame.sent]
        return bool(sent) and not any(frame.failed for frame in sent)

    @property
    def airtime(self) -> float:
        """Microseconds of all its frames."""
        others = (*self.opening, *([self.answer] if self.answer else []))
        return sum(one.airtime for one in others) + sum(map(ppdu_airtime, ppdus(self.data)))


def ppdus(data: Sequence[Placed]) -> Sequence[Sequence[Placed]]:
    """Return the frames by what was sent at once: the frames of an A-MPDU share a preamble."""
    found: list[list[Placed]] = []
    for one in data:
        if found and one.frame.ppdu is not None and one.frame.ppdu == found[-1][0].frame.ppdu:
            found[-1].append(one)
        else:
            found.append([one])
    return found


def ppdu_airtime(ppdu: Sequence[Placed]) -> float:
    """Return the microseconds of frames that were sent at once; a single one without a reference is no A-MPDU."""
    first = ppdu[0].frame
    if first.rate is None or first.rate.phy not in AGGREGATING or (len(ppdu) == 1 and first.burst is None):
        return max(one.airtime for one in ppdu)
    return first.rate.airtime(sum(aggregated(one.frame.octets) for one in ppdu))


def _beginning(ppdu: Sequence[Placed]) -> float:
    """Return when frames that were sent at once began: some radios know the time of one of them only."""
    exact = [one.start for one in ppdu if one.exact]
    return min(exact or [one.start for one in ppdu])


@dataclass(frozen=True, slots=True)
class Earlier:
    """The sum of the attempts before the last one, to which nobody answered."""

    start: float
    before: float | None
    attempts: int
    frames: int
    mpdus: int
    retried: int
    airtime: float


def earlier(attempt: Attempt, sum_: Earlier | None = None) -> Earlier:
    """Return the sum with one more attempt."""
    return Earlier(
        start=sum_.start if sum_ else attempt.start,
        before=sum_.before if sum_ else attempt.before,
        attempts=(sum_.attempts if sum_ else 0) + 1,
        frames=(sum_.frames if sum_ else 0) + len(attempt.placed),
        mpdus=(sum_.mpdus if sum_ else 0) + len(attempt.data) + _radio_retries(attempt),
        retried=(sum_.retried if sum_ else 0) + sum(one.frame.retry for one in attempt.data) + _radio_retries(attempt),
        airtime=(sum_.airtime if sum_ else 0.0) + attempt.airtime,
    )


def made(number: int, last: Attempt, failed: Earlier | None, *, deaf: bool) -> Exchange:
    """Return the exchange whose last attempt is ``last``. ``deaf``: no answer was ever heard, so none is missed."""
    every = earlier(last, failed)
    first = (last.data or last.opening)[0].frame
    access = None if every.before is None else max(0.0, every.start - every.before)
    data_start = max(last.start, last.data_start if last.data else last.end)
    data_end = max(data_start, last.data_end if last.data else last.end)
    return Exchange(
        number=number,
        transmitter=first.transmitter or first.receiver,
        receiver=first.receiver,
        start=every.start,
        access=access,
        idle=access is not None and access > _longest_backoff(first.rate),
        retries=last.start - every.start,
        protection=_protection(last.opening),
        rts_cts=data_start - last.start,
        data=data_end - data_start,
        ack=max(0.0, last.answer.end - data_end) if last.answer else 0.0,
        attempts=every.attempts + max(map(_again, last.data), default=0),
        frames=every.frames,
        what=first.kind,
        units=len(last.data),
        mpdus=every.mpdus,
        retried=every.retried,
        octets=sum(one.frame.octets for one in last.data),
        answer=last.answer.frame.kind if last.answer else None,
        answered=None if deaf and last.answered is False and not _known(last) else last.answered,
        airtime=every.airtime,
        rate=first.rate if last.data else None,
        exact=last.exact,
    )


def _known(attempt: Attempt) -> bool:
    """Return whether the radio itself has sent the data, and knows what became of it."""
    return any(one.frame.sent for one in attempt.data)


def _longest_backoff(rate: Rate | None) -> float:
    """Return the microseconds after which a first attempt has begun, if there was something to send from the start."""
    old = rate is not None and rate.phy is Phy.DSSS
    return _SIFS + (_MOST_AIFSN + _WINDOW[old]) * _SLOT[old]


def _protection(opening: Sequence[Placed]) -> Protection:
    kinds = [one.frame.kind for one in opening]
    if Kind.RTS in kinds:
        return Protection.RTS_CTS if Kind.CTS in kinds else Protection.RTS
    return Protection.CTS if kinds else Protection.NONE


def _radio_retries(attempt: Attempt) -> int:
    return sum(map(_again, attempt.data))


def _again(one: Placed) -> int:
    """Return how often the radio says that it has sent a frame again; for frames to groups some report nonsense."""
    return one.frame.radio_retries if one.frame.wants_answer else 0
