"""Decides which relays are avoided because they route and drop.

Theory of operation. A peer to which nothing gets through accuses the relay to which this node sends first. It may be
wrong: the peer may be off, or somebody further on drops. So

- a relay behind which another peer answers carries, and is not avoided. Whoever makes one peer look dead cannot turn
  this node away from a relay that others need;
- otherwise the relay is on trial: it is avoided, and the peer is asked by the other way. No answer accuses the next
  relay, up to ``TRIES``. If none helps, or there is no other way, all are acquitted, and the peer accuses nobody for a
  while, longer each time. A relay that is left counts, too, so that a hostile peer has few avoided;
- an answer by the other way proves nothing yet: an honest relay may have lost its link to the peer, which the routing
  notices some seconds later. The relay is left for ``FIRST`` seconds, in which the routing notices;
- a relay that carries nothing from the moment at which the routing uses it again is proved to drop. Each such proof
  doubles the time, up to ``LONGEST``.

Only the first hop can be avoided. Whoever drops further on is left as well if another first hop leads around him.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv6Address
from typing import NamedTuple, TypeVar

from meshsec.core.paths.watch import Standing
from meshsec.core.values.model import Address

K = TypeVar("K")

FIRST, LONGEST = 30.0, 600.0
"""Seconds for which a relay is avoided at first, and at most."""
TRIAL = 30.0
"""Seconds for which a relay is on trial at most."""
SETTLE = 3.0
"""Seconds after which the router has found another way, if there is one."""
TRIES = 3
"""Relays that one peer accuses at a time, on trial or left: a hostile one has no more avoided."""
REST, REST_MAX = 60.0, 600.0
"""Seconds for which a peer accuses nobody after a trial that helped nothing; doubled each time, up to the second."""
_DOUBLINGS = 5
"""Doublings of ``FIRST`` and ``REST`` that reach their bounds."""
MARKS = 16
"""Relays that are avoided at a time."""
REMEMBERED, FORGOTTEN = 64, 3600.0
"""How many relays and peers are remembered, and for how many seconds after the last time."""


class What(StrEnum):
    """What was decided about a relay."""

    ON_TRIAL = "on trial"
    LEFT = "left"
    PROVED = "proved"
    ACQUITTED = "acquitted"
    TRIED_AGAIN = "tried again"


class Decision(NamedTuple):
    """A decision about a relay, with the peers that accuse it."""

    what: What
    relay: Address
    peers: tuple[IPv6Address, ...]


@dataclass(slots=True)
class Mark:
    """A relay that is avoided."""

    since: float
    until: float
    accusers: set[IPv6Address] = field(default_factory=set)
    again: bool = False
    """It was left before, and nothing got through from the moment at which it was used again."""
    left: bool = False
    """Another way helps: the trial has ended."""
    proved: bool = False
    """Another way helps again."""
    times: int = 0
    """How often it was proved to drop."""


class _Record(NamedTuple):
    times: int
    until: float


class Avoidance:
    """The relays that are avoided now, and those that were."""

    def __init__(self) -> None:
        self.marks: dict[Address, Mark] = {}
        self._records: dict[Address, _Record] = {}
        """How often each relay that was left was proved to drop, and until when it was avoided."""
        self._rests: dict[IPv6Address, _Record] = {}
        """How often the trials of each peer helped nothing, and until when it accuses nobody."""

    def doubted(self, now: float) -> frozenset[Address]:
        """Return the relays that were left lately: whether they carry again is asked as soon as they are used."""
        return frozenset(relay for relay, record in self._records.items() if now - record.until < FORGOTTEN)

    def is_resting(self, now: float, peer: IPv6Address) -> bool:
        """Return whether a peer accuses nobody, because its trials helped nothing."""
        return peer in self._rests and now < self._rests[peer].until

    def decide(self, now: float, standings: Mapping[IPv6Address, Standing]) -> list[Decision]:
        """Return what has changed."""
        return [
            *self._try_again(now),
            *self._leave(now, standings),
            *self._accuse(now, standings),
            *self._acquit(now, standings),
        ]

    def _try_again(self, now: float) -> Iterator[Decision]:
        for relay in [relay for relay, mark in self.marks.items() if mark.left and mark.until <= now]:
            yield _decision(What.TRIED_AGAIN, relay, self.marks.pop(relay))

    def _leave(self, now: float, standings: Mapping[IPv6Address, Standing]) -> Iterator[Decision]:
        for relay, mark in self.marks.items():
            if not mark.left and any(_is_helped(relay, standings.get(peer)) for peer in mark.accusers):
                mark.left, mark.proved = True, mark.again
                mark.times = self._times(now, self._records.get(relay)) + mark.proved
                mark.until = now + _doubled(FIRST, mark.times, LONGEST)
                _remember(self._records, relay, _Record(mark.times, mark.until))
                yield _decision(What.PROVED if mark.proved else What.LEFT, relay, mark)

    def _accuse(self, now: float, standings: Mapping[IPv6Address, Standing]) -> Iterator[Decision]:
        for peer, standing in standings.items():
            relay = standing.first_hop
            if not standing.concluded or self.is_resting(now, peer):
                continue
            if relay in self.marks:
                self.marks[relay].accusers.add(peer)
            elif self._may_accuse(peer) and carries_for(peer, standings) is None:
                self.marks[relay] = Mark(now, now + TRIAL, {peer}, again=standing.never and relay in self.doubted(now))
                yield _decision(What.ON_TRIAL, relay, self.marks[relay])

    def _acquit(self, now: float, standings: Mapping[IPv6Address, Standing]) -> Iterator[Decision]:
        trials = {relay: mark for relay, mark in self.marks.items() if not mark.left}
        over = {peer for mark in trials.values() for peer in mark.accusers if self._is_over(now, peer, standings)}
        for relay in [relay for relay, mark in trials.items() if mark.accusers <= over]:
            yield _decision(What.ACQUITTED, relay, self.marks.pop(relay))
        for peer in over & standings.keys():
            times = self._times(now, self._rests.get(peer)) + 1
            _remember(self._rests, peer, _Record(times, now + _doubled(REST, times, REST_MAX)))
        for mark in trials.values():
            mark.accusers -= over

    def _is_over(self, now: float, peer: IPv6Address, standings: Mapping[IPv6Address, Standing]) -> bool:
        """Return whether the trials of a peer have ended without help."""
        standing, since = standings.get(peer), max(mark.since for mark in self._trials(peer))
        if standing is None or now - since >= TRIAL:
            return True
        if standing.first_hop in self.marks:
            return now - since >= SETTLE
        return standing.silent

    def _may_accuse(self, peer: IPv6Address) -> bool:
        accused = sum(peer in mark.accusers for mark in self.marks.values())
        return len(self.marks) < MARKS and accused < TRIES

    def _trials(self, peer: IPv6Address) -> Iterator[Mark]:
        return (mark for mark in self.marks.values() if not mark.left and peer in mark.accusers)

    @staticmethod
    def _times(now: float, record: _Record | None) -> int:
        return record.times if record is not None and now - record.until < FORGOTTEN else 0


def carries_for(peer: IPv6Address, standings: Mapping[IPv6Address, Standing]) -> IPv6Address | None:
    """Return another peer that answered over the same relay while this one was asked in vain; None: none did."""
    asked = standings[peer]
    answered = (
        other
        for other, one in standings.items()
        if one.first_hop == asked.first_hop and (one.answered_at or 0.0) > asked.asked_since
    )
    return next(answered, None)


def _is_helped(relay: Address, standing: Standing | None) -> bool:
    """Return whether a peer answers now that it is reached over another relay."""
    return standing is not None and standing.first_hop != relay and standing.helps


def _doubled(first: float, times: int, most: float) -> float:
    """Return the seconds for what has happened so often. Few doublings reach the most, and more would be infinite."""
    return min(first * 2.0 ** min(max(0, times - 1), _DOUBLINGS), most)


def _decision(what: What, relay: Address, mark: Mark) -> Decision:
    return Decision(what, relay, tuple(sorted(mark.accusers)))


def _remember(records: dict[K, _Record], key: K, record: _Record) -> None:
    records.pop(key, None)
    while len(records) >= REMEMBERED:
        del records[next(iter(records))]
    records[key] = record
