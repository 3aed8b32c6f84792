"""The requests to join that a member keeps for its operator, and whom a new node asks (ADR 0070).

Theory of operation. Requests come from strangers, who may have any number of keys and names. What a stranger cannot
choose is the neighbour through which his datagrams arrive. So places and checks are shared out by neighbour: a flood
takes from those alone who come the same way. Among those a place is lost by chance, not by age, and each node repeats
its request, so that none is pushed out for ever.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv6Address
from itertools import islice

from meshsec.core.trust.joining import NO_COOKIE, Request, Standing
from meshsec.core.values.model import Address, Card

KEPT_MAX = 64
"""Requests that are kept, about 1 kB each: more than an operator approves in one go."""
KEPT_SECONDS = 600.0
"""A request that was not repeated for as long is forgotten. A new node needs it to ask 2400 others."""
REFUSED_MAX = 256
"""Keys that an operator has refused and that are remembered; the oldest is forgotten first."""
CHECKS_RATE, CHECKS_BURST = 4.0, 16.0
"""Signatures per second of new requests through one neighbour. One takes 0.3 ms of a small processor."""
_NEIGHBOURS_MAX = 64

ASK_AGAIN = 30.0
"""Seconds after which the same node is asked again."""
ASK_GAP = 0.25
"""Seconds between two requests: 3 kB/s at most, with the repetitions for cookies, whatever the size of the mesh."""
ASKED_MAX = 4096
"""Nodes that are asked, the nearest first."""
_REPEAT_WITHIN = 5.0
"""Seconds after a request within which its answer may be a cookie."""
_HEARD_SECONDS = 3 * ASK_AGAIN
"""Seconds for which a receipt counts."""


@dataclass(frozen=True, slots=True)
class Kept:
    """One request that was checked."""

    fleet: bytes
    card: Card
    card_text: bytes
    sender: IPv6Address
    cookie: bytes
    """The one that the last repetition brought."""
    via: Address
    """The neighbour through which it came."""
    first_at: float
    last_at: float


Key = tuple[bytes, IPv6Address]
"""A fleet's key and the address from which somebody asks to join it."""


@dataclass(slots=True)
class _Budget:
    left: float
    at: float


class JoinRequests:
    """The requests at a member. Times are monotonic seconds."""

    def __init__(self, random: Callable[[], float]) -> None:
        """``random`` returns a number from 0 to 1, 1 excluded."""
        self._random = random
        self._kept: dict[Key, Kept] = {}
        self._refused: dict[bytes, None] = {}
        self._budgets: dict[Address, _Budget] = {}

    def __iter__(self) -> Iterator[Kept]:
        return iter(self._kept.values())

    def known(self, said: Request, sender: IPv6Address) -> Card | None:
        """Return the card of the same request if it is kept: it needs no second check."""
        kept = self._kept.get((said.fleet, sender))
        return kept.card if kept and kept.card_text == said.card_text else None

    def may_check(self, via: Address, now: float) -> bool:
        """Return whether a new request through this neighbour may be checked now, and count it."""
        budget = self._budgets.pop(via, None) or _Budget(CHECKS_BURST, now)
        budget.left = min(CHECKS_BURST, budget.left + (now - budget.at) * CHECKS_RATE)
        budget.at = now
        self._budgets[via] = budget
        if len(self._budgets) > _NEIGHBOURS_MAX:
            del self._budgets[next(iter(self._budgets))]
        if budget.left < 1:
            return False
        budget.left -= 1
        return True

    def put(self, said: Request, card: Card, sender: IPv6Address, via: Address, now: float) -> None:
        """Keep a checked request, or note that it was repeated."""
        key = said.fleet, sender
        kept = self._kept.get(key)
        first_at = kept.first_at if kept and kept.card_text == said.card_text else now
        self._kept[key] = Kept(said.fleet, card, said.card_text, sender, said.cookie, via, first_at, now)
        self.expire(now)
        if len(self._kept) > KEPT_MAX:
            del self._kept[self._victim()]

    def _victim(self) -> Key:
        """Return a request by chance, of those through the neighbour that has most."""
        by_neighbour: dict[Address, list[Key]] = {}
        for key, one in self._kept.items():
            by_neighbour.setdefault(one.via, []).append(key)
        most = max(by_neighbour.values(), key=len)
        return most[int(self._random() * len(most))]

    def expire(self, now: float) -> None:
        """Forget the requests that are not repeated any more."""
        self._kept = {key: one for key, one in self._kept.items() if now - one.last_at <= KEPT_SECONDS}

    def drop(self, is_settled: Callable[[Kept], bool]) -> None:
        """Forget the requests that wait for nothing any more."""
        self._kept = {key: one for key, one in self._kept.items() if not is_settled(one)}

    def refuse(self, fingerprint: bytes) -> None:
        """Keep no request of this key."""
        self._refused.pop(fingerprint, None)
        self._refused[fingerprint] = None
        self._refused = dict(islice(self._refused.items(), max(0, len(self._refused) - REFUSED_MAX), None))
        self.drop(lambda one: one.card.fingerprint == fingerprint)

    def allow(self, fingerprint: bytes) -> None:
        """Take a refusal back."""
        self._refused.pop(fingerprint, None)

    def is_refused(self, card: Card) -> bool:
        """Return whether the operator has refused this key."""
        return card.fingerprint in self._refused


@dataclass(frozen=True, slots=True)
class _Asked:
    at: float = float("-inf")
    cookie: bytes = NO_COOKIE
    may_repeat: bool = False
    standing: Standing | None = None
    heard_at: float = float("-inf")


@dataclass(slots=True)
class Asking:
    """Whom a new node has asked, and what they said. Answers prove nothing, so everybody in reach is asked."""

    _asked: dict[IPv6Address, _Asked] = field(default_factory=dict)

    def next(self, reachable: Sequence[IPv6Address], now: float) -> tuple[IPv6Address | None, float]:
        """Return whom to ask now, and the time of the next look. ``reachable``: the nearest first."""
        self._asked = {one: self._asked.get(one, _Asked()) for one in reachable[:ASKED_MAX]}
        if not self._asked:
            return None, now + 1.0
        chosen = min(self._asked, key=lambda one: self._asked[one].at)
        due = self._asked[chosen].at + ASK_AGAIN
        if due > now:
            return None, min(due, now + 1.0)
        self._asked[chosen] = replace(self._asked[chosen], at=now, may_repeat=True)
        return chosen, now + ASK_GAP

    def cookie_for(self, address: IPv6Address) -> bytes:
        """Return the last cookie that came from an address."""
        return self._asked.get(address, _Asked()).cookie

    def heard_cookie(self, address: IPv6Address, cookie: bytes, now: float) -> bool:
        """Note a cookie. Return whether to repeat the request with it: once for each time that the node was asked."""
        asked = self._asked.get(address)
        if asked is None or not asked.may_repeat or now - asked.at > _REPEAT_WITHIN:
            return False
        self._asked[address] = replace(asked, cookie=cookie, may_repeat=False)
        return True

    def heard_receipt(self, address: IPv6Address, standing: Standing, now: float) -> None:
        """Note what a member says of the request."""
        self._asked[address] = replace(self._asked[address], standing=standing, heard_at=now)

    def is_answer(self, address: IPv6Address, cookie: bytes) -> bool:
        """Return whether this answers a request: the sender of the cookie saw it, or somebody on the way."""
        asked = self._asked.get(address)
        return asked is not None and cookie == asked.cookie != NO_COOKIE

    def standings(self, now: float) -> Iterable[Standing]:
        """Return what the members say that have answered lately."""
        return [
            one.standing
            for one in self._asked.values()
            if one.standing is not None and now - one.heard_at <= _HEARD_SECONDS
        ]
