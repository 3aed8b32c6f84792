"""SAs that carry user data out and nothing in: the other end may not have them any more.

Theory of operation. Two ends can come to hold different SAs, each whole by its own account: an IKE_AUTH request that
its sender has given up may still reach the peer, and its INITIAL_CONTACT makes the peer drop what stood (RFC 7296,
section 2.4). Nothing tells, since no end asks for the other's liveness: a partition must not cost an SA. What remains
to be seen is that packets go out and none come in. That is no proof, because a stream may have one direction, so it
costs the SA nothing: its CHILD_SA is rekeyed, which an end that has the SA answers, and for one that does not the IKE
daemon gives up and the SA is made anew. An IKE daemon that does neither (libreswan 4.10 after two CREATE_CHILD_SA that
crossed) has failed the proof. Of an SA that passed, the next proof is asked later and later.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from meshsec.core.model import ChildSa, IkeSa
from meshsec.core.reconcile import LIVE

FIRST, LAST = 30.0, 960.0
"""Seconds of silence before the first proof, and the most before another one; doubled from proof to proof."""
WITHIN = 75.0
"""Seconds for a proof: charon repeats a request for 60, pluto for 12."""
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
    """A proof was asked for and the same CHILD_SA still stands: its IKE_SA is of no use."""


@dataclass(frozen=True, slots=True)
class _Seen:
    spi_in: str
    packets_in: int
    packets_out: int
    since: float
    """The last look at which there was nothing to be answered, or a proof; monotonic seconds."""
    patience: float = FIRST
    asked_at: float | None = None
    """When this very CHILD_SA was to be rekeyed for a proof, and nothing has come since."""


class Silence:
    """Compares the counters of all CHILD_SAs from one look to the next."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], _Seen] = {}

    def look(self, now: float, ike_sas: Mapping[str, Iterable[IkeSa]]) -> list[Suspect]:
        """Take in the SAs by peer as the IKE daemon shows them now; those of which a proof is due."""
        standing = {
            (sa.unique_id, child.name): (peer, child)
            for peer, sas in ike_sas.items()
            for sa in sas
            if sa.state in LIVE
            for child in sa.children
        }
        self._seen = {key: self._follow(now, key, child) for key, (_, child) in standing.items()}
        failed = [key for key, seen in self._seen.items() if _has_failed(now, seen)]
        due = [key for key, seen in self._seen.items() if key not in failed and _is_due(now, seen, standing[key][1])]
        for key in failed:
            self._seen[key] = replace(self._seen[key], asked_at=now)
        for key in due:
            self._seen[key] = _asked(now, self._seen[key], standing[key][1])
        return [Suspect(standing[key][0], *key, failed=key in failed) for key in (*failed, *due)]

    def _follow(self, now: float, key: tuple[str, str], child: ChildSa) -> _Seen:
        """Another SPI is the CHILD_SA rekeyed: its counters begin anew, and so does the watch, no less patient."""
        before = self._seen.get(key)
        if before is None:
            return _Seen(child.spi_in, child.packets_in, child.packets_out, now)
        if child.spi_in == before.spi_in and child.packets_in == before.packets_in:
            return before if before.asked_at is not None or _unanswered(before, child) else replace(before, since=now)
        heard = child.packets_in > (before.packets_in if child.spi_in == before.spi_in else 0)
        patience = FIRST if heard else before.patience
        return _Seen(child.spi_in, child.packets_in, child.packets_out, now, patience)


def _unanswered(seen: _Seen, child: ChildSa) -> bool:
    return child.packets_out - seen.packets_out >= ENOUGH


def _has_failed(now: float, seen: _Seen) -> bool:
    return seen.asked_at is not None and now - seen.asked_at >= WITHIN


def _is_due(now: float, seen: _Seen, child: ChildSa) -> bool:
    return seen.asked_at is None and _unanswered(seen, child) and now - seen.since >= seen.patience


def _asked(now: float, seen: _Seen, child: ChildSa) -> _Seen:
    patience = min(2 * seen.patience, LAST)
    return replace(seen, packets_out=child.packets_out, since=now, patience=patience, asked_at=now)
