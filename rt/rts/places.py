"""The places of bench-rts: who hears whom, and who sends what, for the program ``steps`` of the crate airtime."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

GOOD = 40.0
"""Signal over noise in dB, enough for every rate."""
WEAK = 11.8
"""The same where a tenth of the long frames is lost without any collision, at 24 Mbit/s."""
KBPS = 24_000
LONG, SHORT = 1500, 200
"""Octets of user data as TCP sends it, and of voice."""
VOICE_SECONDS = 0.02
Links = tuple[tuple[int, int, float], ...]


@dataclass(frozen=True)
class Place:
    """Stations, flows, and who hears whom; ``then`` replaces that in the second half of a run."""

    stations: int
    links: Links
    paths: tuple[tuple[int, ...], ...]
    """Of the flows that always have something to send. The first one has a voice flow beside it."""
    then: Links | None = None

    @property
    def flows(self) -> Sequence[Mapping[str, Any]]:
        """Return the flows; the last one is the voice."""
        bulk = [_flow(path, LONG, None) for path in self.paths]
        return [*bulk, _flow(self.paths[0], SHORT, VOICE_SECONDS)]

    @property
    def senders(self) -> list[int]:
        """Return the stations that send or relay user data."""
        return sorted({station for path in self.paths for station in path[:-1]})


def _flow(path: Sequence[int], octets: int, interval: float | None) -> Mapping[str, Any]:
    return {"path": path, "octets": octets, "kbps": KBPS, "interval": interval}


def _links(pairs: Iterable[tuple[int, int]], decibels: float = GOOD) -> Links:
    return tuple((first, second, decibels) for first, second in pairs)


_HIDDEN = _links([(0, 1), (0, 2)])
_ALL_OF_THREE = _links(combinations(range(3), 2))
PLACES: Mapping[str, Place] = {
    "hidden": Place(3, _HIDDEN, ((1, 0), (2, 0))),
    "line of 3": Place(3, _links([(0, 1), (1, 2)]), ((0, 1, 2), (2, 1, 0))),
    "all hear all": Place(4, _links(combinations(range(4), 2)), ((1, 0), (2, 0), (3, 0))),
    "weak signal": Place(4, _links(combinations(range(4), 2), WEAK), ((1, 0), (2, 0), (3, 0))),
    "hidden, then not": Place(3, _HIDDEN, ((1, 0), (2, 0)), then=_ALL_OF_THREE),
}
"""In the line two ends talk through a relay, in both directions, and do not hear each other."""
