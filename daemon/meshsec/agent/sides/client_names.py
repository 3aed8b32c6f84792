"""The part of the services' side that tells peers the names of this node's clients, and hears of theirs (ADR 0078).

An access node tells a peer when its channel begins to carry, when the peer asks, and after a change, until the peer
answers. It sends the datagrams one by one, and changes at most every ``PACE``, so that clients that come and go cost
the air little. It sends nothing while nothing changes.
"""

import asyncio
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from ipaddress import IPv6Address

from meshsec.core.services.client_names import Heard, Names, Taken, portions
from meshsec.core.services.services import Message
from meshsec.core.values.host_names import ClientName

APART = 0.25
"""Seconds between two datagrams of one telling."""
PACE = 5.0
"""Seconds between two tellings of changes."""
AGAIN_SOON, AGAIN = 2.0, 60.0
"""Seconds until a telling that is not answered is repeated: the first time, and at most; each time twice as long."""
_DOUBLINGS = 5
"""After these it is longer than ``AGAIN``."""


@dataclass(slots=True)
class _Telling:
    due: float
    part: int = 0
    told: int = 0
    """How often all parts have left."""

    @property
    def is_between(self) -> bool:
        """Return whether all parts have left, and the next repetition is waited for."""
        return self.told > 0 and self.part == 0


class ClientNamesTalk:
    """Tell peers the names of this node's clients, and hear the names of theirs."""

    def __init__(
        self,
        send: Callable[[IPv6Address, Message], None],
        on_names: Callable[[IPv6Address, tuple[ClientName, ...]], None],
        *,
        serves: bool,
    ) -> None:
        """``serves``: this node is an access node."""
        self._send, self._on_names, self._serves = send, on_names, serves
        self._loop = asyncio.get_running_loop()
        self._epoch, self._number = random.getrandbits(32), 0
        self._names: tuple[ClientName, ...] = ()
        self._messages = portions((), self._epoch, 0)
        self._told = 0, float("-inf")
        """The number that was told last, and when that began."""
        self._reached: frozenset[IPv6Address] = frozenset()
        self._tellings: dict[IPv6Address, _Telling] = {}
        self._heard: dict[IPv6Address, Heard] = {}
        self._woken = asyncio.Event()

    def tell(self, names: tuple[ClientName, ...]) -> None:
        """Tell all peers in reach what this node's clients are called now."""
        if names == self._names:
            return
        self._names, self._number = names, self._number + 1
        self._messages = portions(names, self._epoch, self._number)
        due = max(self._loop.time(), self._told[1] + PACE)
        self._tellings = {peer: _Telling(due) for peer in self._reached}
        self._woken.set()

    def follow(self, reached: frozenset[IPv6Address]) -> None:
        """Tell peers that have come into reach everything, and forget what those have said that are gone."""
        fresh, self._reached = reached - self._reached, reached
        self._tellings = {peer: one for peer, one in self._tellings.items() if peer in reached}
        self._heard = {peer: one for peer, one in self._heard.items() if peer in reached}
        for peer in fresh:
            self.asked(peer)

    def asked(self, peer: IPv6Address) -> None:
        """Tell a peer everything: it has come into reach, or does not know it any more."""
        present = self._tellings.get(peer)
        if self._serves and peer in self._reached and (present is None or present.is_between):
            self._tellings[peer] = _Telling(self._loop.time())
            self._woken.set()

    def repeat(self, peers: Iterable[IPv6Address]) -> None:
        """Tell those again who have not answered: a route to them has come back."""
        for peer in peers:
            if peer in self._tellings:
                self.asked(peer)

    def serves_none(self, peer: IPv6Address) -> None:
        """Take from a peer that it has no clients."""
        self._heard.pop(peer, None)
        self._on_names(peer, ())

    def heard(self, peer: IPv6Address, message: Names | Taken) -> None:
        """Take a message of a peer in reach."""
        if isinstance(message, Taken):
            if (message.epoch, message.number) == (self._epoch, self._number):
                self._tellings.pop(peer, None)
            return
        kept = self._heard.setdefault(peer, Heard())
        if kept.take(message) and kept.names is not None:
            self._send(peer, Taken(message.epoch, message.number))
            self._on_names(peer, kept.names)

    async def run(self) -> None:
        """Tell what is to be told until cancelled."""
        while True:
            self._woken.clear()
            self._say()
            due = min((one.due for one in self._tellings.values()), default=None)
            try:
                async with asyncio.timeout_at(due):
                    await self._woken.wait()
            except TimeoutError:
                continue

    def _say(self) -> None:
        now = self._loop.time()
        for peer, one in self._tellings.items():
            if one.due > now:
                continue
            if self._told[0] != self._number:
                self._told = self._number, now
            self._send(peer, self._messages[one.part])
            one.part += 1
            one.due = now + APART
            if one.part == len(self._messages):
                one.due = now + min(AGAIN, AGAIN_SOON * 2 ** min(one.told, _DOUBLINGS))
                one.part, one.told = 0, one.told + 1
