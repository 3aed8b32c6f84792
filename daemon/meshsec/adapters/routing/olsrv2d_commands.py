"""What meshsecd says to olsrv2d of other routers: whom to trust, and whom to avoid."""

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from meshsec.core.values.model import Address

PORTION = 1024
"""Addresses in one line to olsrv2d, which accepts lines of at most 64 KiB."""
AVOIDED_SECONDS_MAX = 600
"""Longest time that olsrv2d accepts."""

Command = Mapping[str, Any]


class Others:
    """What is known of others; None until it is. What a predecessor sent stays in force until then."""

    def __init__(self) -> None:
        self._trusted: frozenset[Address] | None = None
        self._avoided: Mapping[Address, float] | None = None
        """The relays to avoid, each until a monotonic time."""

    def trust(self, addresses: Collection[Address]) -> list[Command]:
        """Set the trusted addresses, and return what has to be said; nothing, if they are the same."""
        trusted = frozenset(addresses)
        if trusted == self._trusted:
            return []
        self._trusted = trusted
        return [*_trusting(trusted)]

    def avoid(self, now: float, relays: Mapping[Address, float]) -> list[Command]:
        """Set the relays to avoid, and return what has to be said."""
        self._avoided = relays
        return [_avoiding(now, relays)]

    def commands(self, now: float) -> list[Command]:
        """Return what has to be said at a new connection."""
        trusted = [] if self._trusted is None else _trusting(self._trusted)
        return [*trusted, *([] if self._avoided is None else [_avoiding(now, self._avoided)])]


def _trusting(addresses: Collection[Address]) -> Iterator[Command]:
    """Yield the commands that set the trusted addresses. The last one puts all in force."""
    texts = sorted(map(str, addresses))
    starts = range(0, max(len(texts), 1), PORTION)
    for start in starts:
        portion = texts[start : start + PORTION]
        yield {"command": "trust", "addresses": portion, "more": start != starts[-1]}


def _avoiding(now: float, relays: Mapping[Address, float]) -> Command:
    left = {relay: math.ceil(until - now) for relay, until in relays.items() if until > now}
    neighbours = [
        {"address": str(relay), "seconds": min(seconds, AVOIDED_SECONDS_MAX)} for relay, seconds in left.items()
    ]
    return {"command": "avoid", "neighbours": neighbours}
