"""Watches whether user data gets through to the peers that are reached over a relay.

Theory of operation. A relay that routes and drops looks sound to the routing: its HELLOs and TCs arrive. Only the two
ends can tell. Where packets have gone into a peer's SA from one look to the next and none has come out of it, this
node asks the peer, inside the SA: a stream may have one direction, and then the answer comes. Without one it asks
again, each ``GAP``, and concludes after ``ASKS`` questions that nothing gets through.

An answer that fails to come may have been lost on either way, and the two ways may lead over different relays. So each
question says how many before it had no answer. A peer that reads this asks back. If its questions have no answer
either, its own way is the broken one, and it concludes that first.

Before a conclusion, others behind the same relay are asked, too: their answers show that it carries. A silent peer is
asked again in rounds, after pauses that grow, while user data goes to it. Each round ends with a conclusion.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import NamedTuple

from meshsec.core.values.model import Address

LOOK = 1.0
"""Seconds between two looks at the counters."""
ENOUGH = 3
"""Packets of user data for which one question is worth its air."""
GAP = 0.3
"""Seconds between two questions: longer than the answer takes over several hops."""
ASKS = 10
"""Questions in a row without an answer, after which nothing gets through. Where one packet in ten is lost on each of
four hops, an answer fails to come once in two times, and all ten once in a thousand."""
ASKED_BACK = ASKS - 4
"""With how many a round begins if the peer says that it gets no answers: it has lost some already, and this node must
conclude before the peer does."""
DEAF = 2
"""Unanswered questions of a peer from which this node asks back: one answer may be lost."""
PAUSE, PAUSE_MAX = 10.0, 320.0
"""Seconds from one round with a silent peer to the next; doubled from round to round."""
WITNESSES = 3
"""Peers behind the same relay that are asked, too, before it is blamed."""
_ATTEMPT = 5.0
"""Seconds for which a negotiation must have gone over a relay, so that its failure says something of it."""
_SLACK = 0.02
"""Seconds by which a timer may be early against another one."""


class Counted(NamedTuple):
    """What the SAs with a peer have counted."""

    packets_in: int
    packets_out: int
    bytes_out: int


class Way(NamedTuple):
    """How a peer is reached."""

    first_hop: Address
    """Originator of the relay to which this node sends what is for the peer."""
    protected: bool = True
    """There is an SA, in which the peer can be asked."""
    failed_at: float | None = None
    """When the last negotiation failed because no answer came; monotonic seconds."""


class Ask(NamedTuple):
    """A question to be sent."""

    peer: IPv6Address
    unanswered: int
    size: int
    """Bytes of a packet of the user data."""
    number: int
    """The round, which the answer repeats."""


class Standing(NamedTuple):
    """What is known of the way to a peer."""

    first_hop: Address
    silent: bool = False
    """Nothing gets through."""
    concluded: bool = False
    """That was found out just now."""
    asked_since: float = 0.0
    """When the last round of questions began."""
    answered_at: float | None = None
    """When the last answer came over this relay."""
    helps: bool = False
    """A question that went over this relay was answered, and not one from before."""
    never: bool = False
    """The peer was asked at once when its way came to lead over this relay, and no answer has ever come."""


@dataclass(slots=True)
class _Seen:
    way: Way
    since: float
    """When the way began to lead over this relay."""
    counted: Counted | None = None
    quiet_since: float = 0.0
    """The last look at which something had come in, or nothing had gone out."""
    sent: int = 0
    """Packets of user data that went out since then."""
    size: int = 0
    asked: int = 0
    """Questions that count in this round; 0: there is no round."""
    unanswered: int = 0
    """Questions of this round that were sent."""
    asked_at: float = 0.0
    asked_since: float = 0.0
    pause: float = PAUSE
    urgent: bool = False
    """The peer is to be asked whatever the counters say."""
    silent: bool = False
    round: int = 0
    helps: bool = False
    was_silent: bool = False
    """It was silent when the last round began."""
    answered_at: float | None = None
    failed_at: float | None = None
    """The last negotiation that ended without an answer."""


class Watch:
    """The peers behind relays. Call ``follow`` and ``poll`` each ``GAP``, and ``count`` each ``LOOK``."""

    def __init__(self) -> None:
        self._seen: dict[IPv6Address, _Seen] = {}
        self._concluded: frozenset[IPv6Address] = frozenset()

    def follow(self, now: float, ways: Mapping[IPv6Address, Way], doubted: Collection[Address]) -> None:
        """Take how the peers are reached. One whose way comes to lead over a relay in ``doubted`` is asked at once."""
        self._seen = {peer: _followed(now, self._seen.get(peer), way, doubted) for peer, way in ways.items()}

    def count(self, now: float, counted: Mapping[IPv6Address, Counted]) -> None:
        """Take what the SAs have counted."""
        for peer, found in counted.items():
            if (seen := self._seen.get(peer)) is not None:
                _count(now, seen, found)

    def poll(self, now: float) -> list[Ask]:
        """Draw conclusions, and return whom to ask now."""
        over = frozenset(peer for peer, seen in self._seen.items() if _is_over(now, seen))
        for peer in over:
            _conclude(now, self._seen[peer])
        self._concluded = over
        witnesses = self._witnesses()
        due = [
            (peer, seen)
            for peer, seen in self._seen.items()
            if peer not in over and (_is_due(now, seen) or peer in witnesses)
        ]
        asks = [(seen, _ask(now, peer, seen)) for peer, seen in due]
        return [ask for seen, ask in asks if seen.way.protected]

    def answered(self, now: float, peer: IPv6Address, number: int) -> None:
        """Take an answer: the way to the peer and the way back carry.

        One of another round is late, and says nothing of the present way. One without a number is of an older meshsec
        and may be late, too, so that it speaks for relays and never against one.
        """
        seen = self._seen.get(peer)
        if seen is not None and number in {0, seen.round}:
            seen.helps |= number != 0
            seen.answered_at = seen.quiet_since = now
            seen.asked, seen.sent, seen.pause, seen.urgent, seen.silent = 0, 0, PAUSE, False, False

    def asked_by(self, now: float, peer: IPv6Address, unanswered: int) -> None:
        """Take a question of a peer. If it gets no answers, the way from here to it may be the broken one."""
        seen = self._seen.get(peer)
        if seen is not None and unanswered >= DEAF and not seen.silent and seen.asked < ASKED_BACK:
            if not seen.asked:
                _begin(now, seen)
                seen.asked_at = now - GAP
            seen.asked = ASKED_BACK

    def standings(self) -> dict[IPv6Address, Standing]:
        """Return what is known of the way to each peer."""
        return {
            peer: Standing(
                seen.way.first_hop,
                seen.silent,
                peer in self._concluded,
                seen.asked_since,
                seen.answered_at,
                seen.helps,
                never=seen.way.protected and seen.answered_at is None and seen.asked_since == seen.since,
            )
            for peer, seen in self._seen.items()
        }

    def _witnesses(self) -> frozenset[IPv6Address]:
        """Return peers whose answers would show that a suspected relay carries. Who was heard last comes first."""
        suspects = [seen for seen in self._seen.values() if seen.asked >= DEAF]
        since = {seen.way.first_hop: seen.asked_since for seen in sorted(suspects, key=lambda seen: seen.asked_since)}
        found: set[IPv6Address] = set()
        for relay, began in since.items():
            others = [(peer, seen) for peer, seen in self._seen.items() if seen.way.first_hop == relay]
            if any(seen.answered_at is not None and seen.answered_at >= began for _, seen in others):
                continue
            room = WITNESSES + 1 - sum(_is_of_round(seen, began) for _, seen in others)
            fresh = [(seen.quiet_since, peer) for peer, seen in others if _may_witness(seen)]
            found.update(peer for _, peer in sorted(fresh, reverse=True)[: max(0, min(room, WITNESSES))])
        return frozenset(found)


def _is_of_round(seen: _Seen, began: float) -> bool:
    """Return whether a peer is asked in vain in a round. One that was silent before is no witness and takes no room."""
    return (seen.silent or seen.asked > 0) and not seen.was_silent and seen.asked_since > began - ASKS * GAP - LOOK


def _may_witness(seen: _Seen) -> bool:
    return seen.way.protected and not seen.silent and not seen.asked


def _followed(now: float, before: _Seen | None, way: Way, doubted: Collection[Address]) -> _Seen:
    if before is not None and before.way.first_hop == way.first_hop:
        before.way = way
        if way.failed_at not in {None, before.failed_at}:
            _fail(before, way.failed_at or 0.0)
        return before
    in_doubt = before is not None and (before.silent or before.asked > 0)
    urgent = in_doubt or way.first_hop in doubted
    if before is None:
        return _Seen(way, now, quiet_since=now, round=int(now), urgent=urgent)  # a number that was not used before
    return _Seen(way, now, before.counted, now, size=before.size, round=before.round + 1, urgent=urgent)


def _fail(seen: _Seen, failed_at: float) -> None:
    """Take the end of a negotiation without an answer: a round begins in which others are asked."""
    seen.failed_at = failed_at
    seen.urgent |= failed_at - seen.since >= _ATTEMPT


def _count(now: float, seen: _Seen, counted: Counted) -> None:
    """Count what went out since something came in. A rekeyed SA begins again."""
    before, seen.counted = seen.counted or counted, counted
    went, came = counted.packets_out - before.packets_out, counted.packets_in - before.packets_in
    if went > 0:
        seen.size = max(0, counted.bytes_out - before.bytes_out) // went
    seen.sent += went
    if came != 0 or (seen.sent <= 0 and not seen.asked):
        seen.quiet_since, seen.sent = now, 0


def _begin(now: float, seen: _Seen) -> None:
    seen.asked_since, seen.unanswered, seen.was_silent, seen.round = now, 0, seen.silent, seen.round + 1


def _ask(now: float, peer: IPv6Address, seen: _Seen) -> Ask:
    if not seen.asked:
        _begin(now, seen)
    asked = Ask(peer, seen.unanswered, seen.size, seen.round)
    seen.asked, seen.unanswered, seen.asked_at, seen.urgent = seen.asked + 1, seen.unanswered + 1, now, False
    seen.sent -= 1  # the SA counts the question, and it is no user data
    return asked


def _is_due(now: float, seen: _Seen) -> bool:
    if seen.asked:
        return now - seen.asked_at >= GAP - _SLACK
    if seen.silent and now - seen.asked_at < seen.pause:
        return False
    return seen.urgent or seen.sent >= ENOUGH


def _is_over(now: float, seen: _Seen) -> bool:
    return seen.asked >= ASKS and now - seen.asked_at >= GAP - _SLACK


def _conclude(now: float, seen: _Seen) -> None:
    """Nothing gets through. The next round comes later each time."""
    if seen.silent:
        seen.pause = min(2 * seen.pause, PAUSE_MAX)
    seen.silent, seen.asked, seen.asked_at, seen.sent = True, 0, now, min(seen.sent, 0)
