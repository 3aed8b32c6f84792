"""What meshsecd says to olsrv2d of other routers: whom to trust, which keys speak for them, and whom to avoid."""

import asyncio
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from meshsec.core.values.model import Address

PORTION = 1024
"""Addresses in one line to olsrv2d, which accepts lines of at most 64 KiB."""
KEY_PORTION = 256
"""Keys in one line."""
SETTLING = 1.0
"""Seconds in which routers that are seen to sign are collected, before all keys are sent again."""
AVOIDED_SECONDS_MAX = 600
"""Longest time that olsrv2d accepts."""

Command = Mapping[str, Any]


class Others:
    """What is known of others; None until it is. What a predecessor sent stays in force until then.

    ``say`` sends commands, if there is a connection; ``commands`` are sent again at each connection.
    """

    def __init__(self, say: Callable[[Iterable[Command]], None]) -> None:
        self._say = say
        self._trusted: frozenset[Address] | None = None
        self._keys: Mapping[Address, bytes] | None = None
        self._signers: Mapping[Address, bytes] = {}
        """The addresses whose router has been seen to sign, each with its key. One is never forgotten before the key
        is, so that nobody speaks unsigned for it."""
        self.on_signers: Callable[[Mapping[Address, bytes]], None] = lambda _: None
        """Called with all of them after each change."""
        self._due: asyncio.TimerHandle | None = None
        self._avoided: Mapping[Address, float] | None = None
        """The relays to avoid, each until a monotonic time."""

    def trust(self, addresses: Collection[Address]) -> None:
        """Set whose entries keep their place when olsrv2d's tables are full."""
        trusted = frozenset(addresses)
        if trusted != self._trusted:
            self._trusted = trusted
            self._say(_trusting(trusted))

    def remember(self, signers: Mapping[Address, bytes]) -> None:
        """Take over who was seen to sign before meshsecd's start. Call this before the keys are set."""
        self._signers = signers

    def believe(self, keys: Mapping[Address, bytes]) -> bool:
        """Set which Ed25519 public key speaks for which address, and return whether that is new.

        A router with another key has signed nothing yet.
        """
        if keys == self._keys:
            return False
        self._keys = dict(keys)
        left = {address: key for address, key in self._signers.items() if keys.get(address) == key}
        if left != self._signers:
            self._signers = left
            self.on_signers(left)
        self._say(self._believing())
        return True

    def signs(self, address: Address) -> None:
        """Note that a router signs; nobody speaks unsigned for it any more if a card has its address."""
        key = (self._keys or {}).get(address)
        if key is not None and address not in self._signers:
            self._signers = {**self._signers, address: key}
            if self._due is None:
                self._due = asyncio.get_running_loop().call_later(SETTLING, self._believe_again)

    def _believe_again(self) -> None:
        self._due = None
        self.on_signers(self._signers)
        self._say(self._believing())

    def avoid(self, relays: Mapping[Address, float]) -> None:
        """Set which neighbours olsrv2d avoids as relays, each until a time of the loop."""
        self._avoided = relays
        self._say([_avoiding(relays)])

    def commands(self) -> list[Command]:
        """Return what has to be said at a new connection."""
        trusted = [] if self._trusted is None else _trusting(self._trusted)
        return [*trusted, *self._believing(), *([] if self._avoided is None else [_avoiding(self._avoided)])]

    def _believing(self) -> Iterator[Command]:
        """Yield the commands that set the keys. The last one puts all in force."""
        if self._keys is None:
            return
        keys = [
            {"address": str(address), "key": key.hex(), "signs": address in self._signers}
            for address, key in self._keys.items()
        ]
        yield from _portions("keys", "keys", keys, KEY_PORTION)


def _trusting(addresses: Collection[Address]) -> Iterator[Command]:
    """Yield the commands that set the trusted addresses. The last one puts all in force."""
    yield from _portions("trust", "addresses", sorted(map(str, addresses)), PORTION)


def _portions(command: str, name: str, entries: Sequence[Any], size: int) -> Iterator[Command]:
    """Yield the lines of a set. Where there are several they have numbers, so that the set comes as a whole or not."""
    starts = range(0, max(len(entries), 1), size)
    for number, start in enumerate(starts):
        line = {"command": command, name: entries[start : start + size], "more": start != starts[-1]}
        yield line | ({"portion": number} if len(starts) > 1 else {})


def _avoiding(relays: Mapping[Address, float]) -> Command:
    now = asyncio.get_running_loop().time()
    left = {relay: math.ceil(until - now) for relay, until in relays.items() if until > now}
    neighbours = [
        {"address": str(relay), "seconds": min(seconds, AVOIDED_SECONDS_MAX)} for relay, seconds in left.items()
    ]
    return {"command": "avoid", "neighbours": neighbours}
