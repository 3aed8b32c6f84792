"""Watches for SAs that carry user data out while nothing comes in: the other end may have lost them.

Theory of operation. Both ends of a pair can be sure of an SA that the other does not have. An IKE_AUTH request that its
sender has given up may still reach the peer, whose INITIAL_CONTACT handling then drops the SA in use (RFC 7296, section
2.4). No end asks for the other's liveness, because a partition must not cost an SA, so no IKE message reveals the loss.

What can be seen is that packets go out and none come in. That proves nothing, because a stream may have one direction,
so it must not cost the SA. Instead this node rekeys the CHILD_SA. A peer that has the SA answers. If it has not, the
IKE daemon gives up after its retransmissions, and the SA is negotiated again. An IKE daemon that does neither (possible
after two CREATE_CHILD_SA that crossed, ADR 0044) has failed the proof. Each proof that an SA passes doubles the time
until the next, up to ``LAST``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from meshsec.core.values.model import ChildSa, IkeSa

FIRST, LAST = 10.0, 960.0
"""Seconds of silence before the first proof, and the most before another one; doubled from proof to proof."""
NOTICE = 14.0
"""Seconds of silence after which it is reported: the first proof was asked for and had time for its answer."""
WITHIN = 75.0
"""Seconds for a proof: an IKE daemon repeats a request for 60 at most."""
ENOUGH = 3
"""Packets sent without one received: one or two may have been lost, or need no answer."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A CHILD_SA to be proved."""

    peer: str
    ike_sa: str
    """The unique number of its IKE_SA."""
    child: str
    failed: bool = False
    """A proof was asked for and the same CHILD_SA is still there: its IKE_SA is of no use."""


@dataclass(frozen=True, slots=True)
class Quiet:
    """A peer from which nothing comes although user data goes to it."""

    since: float
    """Monotonic seconds."""
    answers: bool
    """Its IKE daemon answered the last proof: the user data has one direction, or somebody on the way drops ESP."""


@dataclass(frozen=True, slots=True)
class _Seen:
    spi_in: str
    packets_in: int
    packets_out: int
    since: float
    """The last look at which there was nothing to be answered, or a proof; monotonic seconds."""
    patience: float = FIRST
    asked_at: float | None = None
    """Time at which the rekeying of this CHILD_SA was requested as a proof, if nothing has arrived since."""
    quiet_since: float = 0.0
    """The last look at which something had come in, or nothing had gone out since; rekeying does not change it."""
    quiet_out: int = 0
    """Packets sent since then."""
    last_out: int = 0
    """The counter of packets sent at the last look."""


class OneWayWatch:
    """Compares the counters of all CHILD_SAs from one look to the next."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], _Seen] = {}
        self._peers: dict[tuple[str, str], str] = {}

    def quiet(self, now: float) -> dict[str, Quiet]:
        """Return the peers from which nothing has come for ``NOTICE`` seconds at the last look."""
        found = {}
        for key, seen in self._seen.items():
            if seen.quiet_out >= ENOUGH and now - seen.quiet_since >= NOTICE:
                found[self._peers[key]] = Quiet(seen.quiet_since, answers=seen.asked_at is None)
        return found

    def poll(self, now: float, ike_sas: Mapping[str, Iterable[IkeSa]]) -> list[Suspect]:
        """Take in the SAs by peer as the IKE daemon shows them now; those of which a proof is due.

        charon shows a CHILD_SA that was rekeyed for some seconds more, beside the new one of the same name.
        """
        watched = {
            (sa.unique_id, child.name): (peer, child)
            for peer, sas in ike_sas.items()
            for sa in sas
            if sa.is_live
            for child in sa.children
            if child.carries
        }
        self._seen = {
            key: _counted(now, self._seen.get(key), self._follow(now, key, child), child)
            for key, (_, child) in watched.items()
        }
        self._peers = {key: peer for key, (peer, _) in watched.items()}
        failed = [key for key, seen in self._seen.items() if _has_failed(now, seen)]
        due = [key for key, seen in self._seen.items() if _is_due(now, seen)]
        for key in failed:
            self._seen[key] = replace(self._seen[key], asked_at=now)
        for key in due:
            self._seen[key] = _asked(now, self._seen[key], watched[key][1])
        return [Suspect(watched[key][0], *key, failed=key in failed) for key in (*failed, *due)]

    def _follow(self, now: float, key: tuple[str, str], child: ChildSa) -> _Seen:
        """Another SPI is the CHILD_SA rekeyed: its counters begin again, and so does the watch, no less patient."""
        before = self._seen.get(key)
        if before is None:
            return _Seen(child.spi_in, child.packets_in, child.packets_out, now)
        if child.spi_in == before.spi_in and child.packets_in == before.packets_in:
            return before if _unanswered(before, child) else replace(before, since=now)
        heard = child.packets_in > (before.packets_in if child.spi_in == before.spi_in else 0)
        patience = FIRST if heard else before.patience
        return _Seen(child.spi_in, child.packets_in, child.packets_out, now, patience)


def unmoved(before: Iterable[IkeSa], after: Iterable[IkeSa]) -> tuple[Suspect, ...]:
    """Return the CHILD_SAs that are the same and received nothing between two looks at one peer's SAs."""
    known = set(_received(before))
    return tuple(
        Suspect(peer, ike_sa, child)
        for peer, ike_sa, child, *rest in _received(after)
        if (peer, ike_sa, child, *rest) in known
    )


def _received(ike_sas: Iterable[IkeSa]) -> list[tuple[str, str, str, str, int]]:
    return [
        (sa.peer, sa.unique_id, child.name, child.spi_in, child.packets_in)
        for sa in ike_sas
        if sa.is_live
        for child in sa.children
        if child.carries
    ]


def _counted(now: float, before: _Seen | None, seen: _Seen, child: ChildSa) -> _Seen:
    """Count what went out since something came in, across rekeyings."""
    if before is None:
        return replace(seen, quiet_since=now, last_out=child.packets_out)
    is_same = child.spi_in == before.spi_in
    heard = child.packets_in > (before.packets_in if is_same else 0)
    sent = before.quiet_out + child.packets_out - (before.last_out if is_same else 0)
    if heard or sent <= 0:
        return replace(seen, quiet_since=now, quiet_out=0, last_out=child.packets_out)
    return replace(seen, quiet_since=before.quiet_since, quiet_out=sent, last_out=child.packets_out)


def _unanswered(seen: _Seen, child: ChildSa) -> bool:
    return child.packets_out - seen.packets_out >= ENOUGH


def _has_failed(now: float, seen: _Seen) -> bool:
    return seen.asked_at is not None and now - seen.asked_at >= WITHIN


def _is_due(now: float, seen: _Seen) -> bool:
    return seen.asked_at is None and now - seen.since >= seen.patience


def _asked(now: float, seen: _Seen, child: ChildSa) -> _Seen:
    patience = min(2 * seen.patience, LAST)
    return replace(seen, packets_out=child.packets_out, since=now, patience=patience, asked_at=now)
