"""What access nodes say to each other: a claim is repeated until it is answered, and no longer than it makes sense."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import NamedTuple

from meshsec.adapters.sockets.peer_datagrams import PeerDatagrams, peer_datagrams
from meshsec.core.access import messages
from meshsec.core.access.clients import Client
from meshsec.core.access.messages import Answer, Claim, Flow, Flows, Hello, Message, MessageError

FIRST = 0.03
"""Seconds to the first repetition; each next one takes twice as long."""
TRIES = 9
"""After these, 15 s later, the peer gets the claim with the next one of all."""
GREET_AGAIN = 2.0
ANSWERING_MAX = 16
"""Claims to which an answer is being prepared."""


class Listeners(NamedTuple):
    """Who takes what comes."""

    greeted: Callable[[IPv6Address], None]
    claimed: Callable[[Client, IPv6Address], None]
    flows: Callable[[str, IPv6Address], Awaitable[list[Flow]]]
    """Returns the flows of a client that has moved to a peer."""
    moved: Callable[[str, int, list[Flow]], None]
    """Takes flows of a client."""
    answered: Callable[[str, int, IPv6Address], None]


@dataclass(slots=True)
class _Said:
    claim: Claim
    due: float
    tries: int = 0


class AccessTalk:
    """The claims to peers that are not answered yet."""

    def __init__(
        self, own: IPv6Address, listeners: Listeners, spawn: Callable[[Coroutine[None, None, None]], None]
    ) -> None:
        self._own, self._listeners, self._spawn = own, listeners, spawn
        self._loop = asyncio.get_running_loop()
        self._said: dict[tuple[IPv6Address, str], _Said] = {}
        self._woken = asyncio.Event()
        self._socket: PeerDatagrams | None = None
        self._answering: set[tuple[IPv6Address, str, int]] = set()
        """The claims to which an answer is being prepared. A repetition, which comes meanwhile, begins no other."""
        self.peers: frozenset[IPv6Address] = frozenset()
        """Who may speak of clients, and is in reach."""

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Repeat what is not answered until cancelled. Raises PeerDatagramsError if the port cannot be had."""
        self._socket = await peer_datagrams(self._own, messages.PORT, self._heard)
        on_ready()
        try:
            while True:
                self._woken.clear()
                self._repeat()
                due = min((one.due for one in self._said.values()), default=None)
                try:
                    async with asyncio.timeout_at(due):
                        await self._woken.wait()
                except TimeoutError:
                    continue
        finally:
            self._socket.close()
            self._socket = None

    def say(self, client: Client, peers: Iterable[IPv6Address]) -> None:
        """Tell peers of a client until they answer."""
        for peer in peers:
            self._said[peer, client.mac] = _Said(messages.claim(client, asks=True), self._loop.time())
        self._repeat()
        self._woken.set()

    def greet(self, peers: Iterable[IPv6Address]) -> None:
        """Ask peers which clients they know of, and once more in case that is lost."""
        asked = tuple(peers)
        for seconds in (0.0, GREET_AGAIN):
            self._loop.call_later(seconds, self._greet, asked)

    def _greet(self, peers: Iterable[IPv6Address]) -> None:
        for peer in peers:
            self._send(peer, Hello())

    def mention(self, client: Client, peers: Iterable[IPv6Address]) -> None:
        """Tell peers of a client once."""
        for peer in peers:
            self._send(peer, messages.claim(client, asks=False))

    def _repeat(self) -> None:
        now = self._loop.time()
        for key, one in list(self._said.items()):
            if one.due > now:
                continue
            if one.tries >= TRIES or key[0] not in self.peers:
                del self._said[key]
                continue
            self._send(key[0], one.claim)
            one.due = now + FIRST * 2**one.tries
            one.tries += 1

    def _send(self, peer: IPv6Address, message: Message) -> None:
        if self._socket is not None:
            self._socket.send(peer, messages.encode(message))

    def _heard(self, peer: IPv6Address, octets: bytes) -> None:
        if peer not in self.peers:
            return
        try:
            self._take(peer, messages.decode(octets))
        except MessageError:
            return

    def _take(self, peer: IPv6Address, message: Message) -> None:
        match message:
            case Hello():
                self._listeners.greeted(peer)
            case Claim():
                self._listeners.claimed(message.client(), peer)
                asked = peer, message.mac, message.number
                if message.asks and asked not in self._answering and len(self._answering) < ANSWERING_MAX:
                    self._answering.add(asked)
                    self._spawn(self._answer(peer, message))
            case Flows():
                self._listeners.moved(message.mac, message.number, message.flows())
            case Answer():
                said = self._said.get((peer, message.mac))
                if said is not None and said.claim.number == message.number:
                    del self._said[peer, message.mac]
                self._listeners.answered(message.mac, message.number, peer)

    async def _answer(self, peer: IPv6Address, claim: Claim) -> None:
        try:
            flows = await self._listeners.flows(claim.mac, peer)
            for portion in messages.portions(claim.mac, claim.number, flows):
                self._send(peer, portion)
            self._send(peer, Answer(claim.mac, claim.number))
        finally:
            self._answering.discard((peer, claim.mac, claim.number))
