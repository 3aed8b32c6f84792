"""SAs that carry user data out and nothing in: the other end may not have them any more.

Theory of operation. Two ends can come to hold different SAs, each whole by its own account: an IKE_AUTH request that
its sender has given up may still reach the peer, and its INITIAL_CONTACT makes the peer drop what stood (RFC 7296,
section 2.4). Nothing tells, since no end asks for the other's liveness: a partition must not cost an SA. What remains
to be seen is that packets go out and none come in. That is no proof, because a stream may have one direction, so it
costs the SA nothing: its CHILD_SA is rekeyed, which an end that has the SA answers, and for one that does not the IKE
daemon gives up and the SA is made anew. Of an SA that passed, the next proof is asked later and later.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from meshsec.core.model import ChildSa, IkeSa
from meshsec.core.reconcile import LIVE

FIRST, LAST = 30.0, 960.0
"""Seconds of silence before the first proof, and the most before another one; doubled from proof to proof."""
ENOUGH = 3
"""Packets sent without one received: one or two may have been lost, or need no answer."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A CHILD_SA to be proved."""

    peer: str
    ike_sa: str
    """The unique number of its IKE_SA."""
    child: str


@dataclass(frozen=True, slots=True)
class _Seen:
    spi_in: str
    packets_in: int
    packets_out: int
    since: float
    """The last look at which there was nothing to be answered, or a proof; monotonic seconds."""
    patience: float = FIRST


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
        due = [key for key, seen in self._seen.items() if _is_due(now, seen, standing[key][1])]
        for key in due:
            self._seen[key] = _asked(now, self._seen[key], standing[key][1])
        return [Suspect(standing[key][0], *key) for key in due]

    def _follow(self, now: float, key: tuple[str, str], child: ChildSa) -> _Seen:
        """Another SPI is the CHILD_SA rekeyed: its counters begin anew, and so does the watch, no less patient."""
        before = self._seen.get(key)
        if before is None:
            return _Seen(child.spi_in, child.packets_in, child.packets_out, now)
        if child.spi_in == before.spi_in and child.packets_in == before.packets_in:
            return before if _unanswered(before, child) else replace(before, since=now)
        heard = child.packets_in > (before.packets_in if child.spi_in == before.spi_in else 0)
        patience = FIRST if heard else before.patience
        return _Seen(child.spi_in, child.packets_in, child.packets_out, now, patience)


def _unanswered(seen: _Seen, child: ChildSa) -> bool:
    return child.packets_out - seen.packets_out >= ENOUGH


def _is_due(now: float, seen: _Seen, child: ChildSa) -> bool:
    return _unanswered(seen, child) and now - seen.since >= seen.patience


def _asked(now: float, seen: _Seen, child: ChildSa) -> _Seen:
    return replace(seen, packets_out=child.packets_out, since=now, patience=min(2 * seen.patience, LAST))
