"""Which of several peers leads to a network: the nearest that can be reached protected."""

from collections.abc import Iterable
from ipaddress import IPv6Address
from typing import NamedTuple

NEARER = 0.75
"""Another peer takes over only if the way through it weighs at most this part: metrics of radio links vary by a quarter
while nothing moves, and a change of the gateway ends the flows that the old one translates."""


NO_ROUTE = 1 << 32
"""The cost of the way to a peer to which no route leads now: more than any route's (32 bits)."""


class Candidate(NamedTuple):
    """A peer that may speak for a network and announces it."""

    peer: IPv6Address
    carries: bool
    """User data passes to it now, protected."""
    cost: int
    """What the way to the network through it weighs (RFC 7181, section 6)."""


def choose(candidates: Iterable[Candidate], present: IPv6Address | None) -> IPv6Address | None:
    """Return the peer to use; None if there is none. ``present`` is the one in use.

    A peer that carries no user data now is used only if none does: the fail-closed rules then drop what goes there.
    """
    ranked = sorted(candidates, key=lambda one: (not one.carries, one.cost, one.peer))
    if not ranked:
        return None
    best = ranked[0]
    stays = (one for one in ranked if one.peer == present and one.carries == best.carries)
    return next((one.peer for one in stays if best.cost > NEARER * one.cost), best.peer)
