"""The side of the agent that finds out that two nodes have one key (core/trust/twins.py has the theory, ADR 0079)."""

import asyncio
import logging
import secrets
from dataclasses import dataclass
from ipaddress import IPv6Address

from meshsec.adapters.files import key_store, lives
from meshsec.adapters.files.key_store import KeyStoreError, NodeKey
from meshsec.agent.sides.clear_port import ClearPort
from meshsec.agent.sides.keys import Keys
from meshsec.core.channels.channel import Channel
from meshsec.core.channels.desired import endpoint
from meshsec.core.channels.lifecycle import State
from meshsec.core.channels.network_events import of_present_key
from meshsec.core.channels.situation import Situation
from meshsec.core.explain.findings import Check, Level
from meshsec.core.trust import twins
from meshsec.core.trust.twins import NUMBER_LENGTH, Claim, Denial, Message, Question, TwinsError
from meshsec.core.values.model import Card
from meshsec.files import FileError

PATIENCE = 5.0
"""Seconds without an answer to this node's negotiation before its first claim. An answer takes less than one."""
CLAIM_AGAIN = 20.0
ASK_AGAIN = 5.0
"""Seconds between two questions to one peer; a recorded claim can be repeated by anybody."""
ANSWER_WITHIN = 5.0
"""Seconds for which a denial may answer a question, and it may once: a recorded one proves nothing again."""
LIFE = 6 * 3600.0
"""Seconds after which a node claims in a new life. A copy of its disk has the lives until then and denies the next
one. The kept lives (adapters/files/lives.py) so are those of 256 days of claims."""
REMEMBERED = 600.0
"""Seconds for which a proof counts: a copy that goes on asking brings the next one long before."""
RATE, BURST = 20.0, 40.0
"""Signatures that are made and checked in a second: 10 ms of a small processor."""
_POLL = 1.0

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Budget:
    left: float = BURST
    at: float = 0.0

    def take(self, now: float) -> bool:
        self.left = min(BURST, self.left + (now - self.at) * RATE)
        self.at = now
        if self.left < 1:
            return False
        self.left -= 1
        return True


@dataclass(frozen=True, slots=True)
class _Asked:
    nonce: bytes
    """Empty once it has been answered."""
    at: float


class TwinsSide:
    """Claim where this node asks in vain, and ask peers about claims in their names."""

    def __init__(self, port: ClearPort, keys: Keys, known: Situation) -> None:
        self._port, self._keys, self._known = port, keys, known
        self._loop = asyncio.get_running_loop()
        self._life = b""
        """The present life. It is in the file, so that this node may claim."""
        self._life_ends = 0.0
        self._vain: dict[IPv6Address, float] = {}
        """Times of the next claims, by the peer's end point."""
        self._asked: dict[IPv6Address, _Asked] = {}
        """The last question to each peer."""
        self._proven: dict[bytes, float] = {}
        """When it was proved last that two nodes have a key, by its fingerprint."""
        self._budget = _Budget()
        self._woken = asyncio.Event()
        self.problem = ""
        """Why this node cannot know what it claimed; empty if it can."""
        port.take(twins.KINDS, self.heard)

    def follow(self) -> None:
        """Update which peers do not answer, after each of the engine's turns."""
        peers = list(of_present_key(self._known))
        if peers:
            self._port.want()
        vain = {endpoint(card, self._known.backend) for channel, card in peers if _asks_in_vain(channel)}
        first = self._loop.time() + PATIENCE
        self._vain = {address: self._vain.get(address, first) for address in vain}
        if vain:
            self._woken.set()

    async def run(self) -> None:
        """Run until cancelled."""
        await self._port.open.wait()
        while True:
            if not self._vain:
                self._woken.clear()
                await self._woken.wait()
            now = self._loop.time()
            for address in [one for one, due in self._vain.items() if due <= now]:
                self._vain[address] = now + CLAIM_AGAIN
                self._claim(address)
            await asyncio.sleep(_POLL)

    def _claim(self, address: IPv6Address) -> None:
        try:
            if (now := self._loop.time()) >= self._life_ends:
                life = secrets.token_bytes(NUMBER_LENGTH)
                lives.add(self._keys.path, life)
                self._life, self._life_ends, self.problem = life, now + LIFE, ""
            self._port.send(address, twins.claim(self._key().private, address, self._life))
        except (FileError, KeyStoreError) as error:
            self._tell(str(error))

    def _key(self) -> NodeKey:
        """Return the present key. Raises KeyStoreError, also if another one was put into its place."""
        key = key_store.load(self._keys.path)
        if key.public_key != self._known.node.public_key:
            raise KeyStoreError(f"{self._keys.path}: has another key than the one that is in use")
        return key

    def heard(self, sender: IPv6Address, octets: bytes) -> None:
        """Take a datagram of a peer, or of somebody who uses its address."""
        card = self._peer(sender)
        if card is None or not self._budget.take(self._loop.time()):
            return
        try:
            self._take(sender, card, twins.decode(octets))
        except (TwinsError, FileError, KeyStoreError) as error:
            _log.debug("claims: from %s: %s", sender, error)

    def _peer(self, address: IPv6Address) -> Card | None:
        cards = (card for _, card in of_present_key(self._known))
        return next((card for card in cards if endpoint(card, self._known.backend) == address), None)

    def _take(self, sender: IPv6Address, card: Card, message: Message) -> None:
        match message:
            case Claim():
                self._ask(sender, card, message)
            case Question():
                self._answer(sender, message)
            case Denial():
                self._conclude(sender, card, message)

    def _ask(self, sender: IPv6Address, card: Card, said: Claim) -> None:
        """Ask whom this node's packets reach about a claim that was made to it."""
        now, before = self._loop.time(), self._asked.get(sender)
        if said.receiver != endpoint(self._known.node, self._known.backend):
            return
        if before is not None and now - before.at < ASK_AGAIN:
            return
        twins.check(said, card.public_key)
        asked = self._asked[sender] = _Asked(secrets.token_bytes(NUMBER_LENGTH), now)
        self._port.send(sender, twins.question(asked.nonce, said))

    def _answer(self, sender: IPv6Address, asked: Question) -> None:
        """Deny a claim that this node's key has signed and this node has not."""
        if asked.claim.life in lives.read(self._keys.path):
            return
        twins.check(asked.claim, self._known.node.public_key)
        self._prove(self._known.node)
        self._port.send(sender, twins.denial(self._key().private, asked))

    def _conclude(self, sender: IPv6Address, card: Card, said: Denial) -> None:
        asked = self._asked.get(sender)
        if asked is None or asked.nonce != said.nonce or self._loop.time() - asked.at > ANSWER_WITHIN:
            return
        twins.check(said, card.public_key)
        self._asked[sender] = _Asked(b"", asked.at)
        self._prove(card)

    def _prove(self, card: Card) -> None:
        if not self.is_doubled(card):
            _log.warning("two nodes have the key of %s (%s)", card.name, card.address)
        self._proven[card.fingerprint] = self._loop.time()

    def is_doubled(self, card: Card) -> bool:
        """Return whether it was proved lately that two nodes have the key on this card."""
        at = self._proven.get(card.fingerprint)
        return at is not None and self._loop.time() - at <= REMEMBERED

    def _tell(self, problem: str) -> None:
        if problem != self.problem:
            _log.warning("claims: %s", problem)
        self.problem = problem

    def checks(self) -> list[Check]:
        """Return doctor's check where something is wrong."""
        fix = "as it says; until then peers do not learn of a copy of this node's key"
        return [Check("copies of the key", Level.WARN, self.problem, fix)] if self.problem else []


def _asks_in_vain(channel: Channel) -> bool:
    return channel.route is not None and channel.state in {State.NEGOTIATING, State.FAILED}
