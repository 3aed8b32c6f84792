"""Who answers echo requests, and when a gateway has to be asked.

Theory of operation. A gateway that dies says nothing, and the routing needs seconds to notice. Asking it all the time
would cost a radio mesh much of its air, so it is asked only when packets leave through the tunnel and none come back.
Then it is asked each ``INTERVAL``, and is silent when ``LIMIT`` requests in a row had no answer. A silent gateway is
asked once in a while, until it answers ``AGAIN`` times in a row.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from meshsec.core.values.model import Address

INTERVAL = 0.1
"""Seconds between two looks, and between two requests to a gateway in doubt."""
LIMIT = 5
"""Requests without an answer after which a gateway is silent. A radio loses one of ten: five in a row are no chance."""
AGAIN = 3
REST = 10
"""Looks from one request to a silent gateway to the next."""

A = TypeVar("A", bound=Address)


@dataclass(slots=True)
class Unanswered(Generic[A]):
    """The requests to one address."""

    address: A
    limit: int
    again: int = 1
    """Answers in a row after which it counts as answering again."""
    silent: bool = False
    _missing: int = 0
    _answers: int = 0

    def asked(self) -> None:
        """Note that a request is sent."""
        if self._missing >= self.limit:
            self.silent, self._answers = True, 0
        self._missing += 1

    def answered(self) -> None:
        """Note an answer."""
        self._missing = 0
        self._answers += 1
        if self._answers >= self.again:
            self.silent = False

    @property
    def in_doubt(self) -> bool:
        """Return whether a request has no answer yet."""
        return self._missing > 0


class Traffic(NamedTuple):
    """Packets of the tunnel's device until now."""

    sent: int
    received: int


class Silence(Generic[A]):
    """The gateways that are watched."""

    def __init__(self) -> None:
        self._watched: dict[A, Unanswered[A]] = {}
        self._before: Traffic | None = None
        self._looks = 0

    @property
    def silent(self) -> frozenset[A]:
        """Return the gateways that do not answer."""
        return frozenset(address for address, one in self._watched.items() if one.silent)

    def follow(self, addresses: Iterable[A]) -> None:
        """Watch these gateways and no others."""
        self._watched = {one: self._watched.get(one) or Unanswered(one, LIMIT, AGAIN) for one in addresses}

    def look(self, traffic: Traffic, in_use: Collection[A], *, shared: bool) -> list[A]:
        """Return whom to ask now. Call it each ``INTERVAL``.

        ``in_use`` are the gateways to which packets go. ``shared``: other peers' packets come through the tunnel, too,
        so that what comes says nothing of the gateway.
        """
        before, self._before = self._before or traffic, traffic
        self._looks += 1
        unreturned = traffic.sent > before.sent and (shared or traffic.received == before.received)
        asked = [one for one in self._watched.values() if self._is_due(one, unreturned and one.address in in_use)]
        for one in asked:
            one.asked()
        return [one.address for one in asked]

    def answered(self, address: A) -> None:
        """Note an answer. One from an address that is not watched counts for nothing."""
        if address in self._watched:
            self._watched[address].answered()

    def _is_due(self, one: Unanswered[A], unreturned: bool) -> bool:
        if one.silent:
            return self._looks % REST == 0
        return unreturned or one.in_doubt
