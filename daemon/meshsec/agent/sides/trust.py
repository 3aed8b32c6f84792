"""The trust store's side of the agent: changes on disk become events, and the last good state stays in force."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ParamSpec, TypeVar

from meshsec.adapters.files import trust_store
from meshsec.adapters.files.trust_store import fleets, lock
from meshsec.core.channels.desired import addresses
from meshsec.core.channels.events import Event, PeerRemoved, PeerSet, TrustStoreRead
from meshsec.core.channels.ipv4_claims import Surroundings, believed
from meshsec.core.trust import roster
from meshsec.core.trust.fleets import Fleet
from meshsec.core.trust.membership import Joined
from meshsec.core.values.model import Card, Peer

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Side:
    """One of this node's keys (ADR 0041)."""

    card: Card | None = None
    """The key's card; None for the node's only key."""
    mark: str = ""
    """Suffix of its channels' names. Their SAs survive a change of the keys."""
    shown: str = ""
    """Suffix of the names that users see."""

    def of(self, peer: Peer) -> Peer:
        """Return the channel between this key and that of a peer."""
        name, channel = peer.name + self.shown, peer.key + self.mark
        return replace(peer, name=name, channel="" if channel == name else channel, own=self.card)


class Trust:
    """The peers in force and the refused cards."""

    def __init__(
        self,
        directory: Path,
        own: Card,
        post: Callable[[Event], None],
        look: Callable[[], Awaitable[Surroundings]],
        sides: Sequence[Side] = (Side(),),
    ) -> None:
        """Prepare it. ``sides`` are this node's keys; each has a channel to each key of a peer. ``look`` returns what
        is around the node, for checking the cards' IPv4 addresses.
        """
        self._look = look
        self._around = Surroundings(())
        self._read: dict[str, Peer] = {}
        """The peers as their cards say, with all IPv4 addresses."""
        self._directory = directory
        self._own = own
        self._sides = sides
        self._post = post
        self._lock = asyncio.Lock()
        self._writing = asyncio.Lock()
        self.peers: dict[str, Peer] = {}
        self.joined = Joined()
        """The fleets of this node at the last reading."""
        self._listed: frozenset[str] = frozenset()
        """Fingerprints that the fleets' lists revoked when all lists were readable last."""
        self.on_fleets: list[Callable[[Joined], None]] = []
        """Called with the fleets after each reading."""
        self.on_peers: Callable[[Iterable[Peer]], None] = lambda _: None
        """Called with the peers in force after each reading, and when what they may claim has changed."""
        self._joins = False
        self.problems: tuple[str, ...] = ()
        """Problems of the trust store, for status and doctor."""

    @property
    def own(self) -> tuple[Card, ...]:
        """The cards of this node's keys, the present one's first."""
        return (self._own, *(side.card for side in self._sides if side.card and side.card != self._own))

    async def reload(self) -> tuple[str, ...]:
        """Read the store, report changes to the engine and return the problems.

        A card that can no longer be read stays in force as it was last. A peer is removed if its file is gone or its
        key is revoked.
        """
        async with self._lock:
            await asyncio.to_thread(lock.prepare, self._directory)
            try:
                found = await asyncio.to_thread(trust_store.read, self._directory, self._own)
            except trust_store.TrustStoreError as error:
                self._tell_problems((str(error),), joins=self._joins)
                return self.problems
            if not found.joined.unclear:
                self._listed = frozenset(found.joined.revoked())
            revoked = self._listed | found.revocations.all().keys()
            kept = roster.kept(self._read, found.refused(), revoked)
            self._around = await self._look()  # before the first event: no rules may be made of a part of them
            self._tell_problems(
                tuple(f"{problem}{_in_force(problem.title in kept)}" for problem in found.problems),
                joins=found.joined.talks,
            )
            self._read = roster.trusted(found.roster.peers, revoked) | kept
            self._apply(believed(self._read, self._own, self._around))
            self.joined = found.joined
            for follow in self.on_fleets:
                follow(found.joined)
            return self.problems

    async def look_around(self) -> None:
        """Check the cards' IPv4 addresses again if the node's own networks have changed."""
        async with self._lock:
            around = await self._look()
            if around != self._around:
                self._around = around
                self._apply(believed(self._read, self._own, around))

    @property
    def ipv4_doubts(self) -> tuple[str, ...]:
        """Return the IPv4 addresses that are not used, with the reason, for status and doctor."""
        return tuple(f"{peer.name}: {peer.ipv4_doubt}" for peer in self.peers.values() if peer.ipv4_doubt)

    def _tell_problems(self, problems: tuple[str, ...], *, joins: bool) -> None:
        for problem in problems:
            if problem not in self.problems:
                _log.warning("trust store: %s", problem)
        if (problems, joins) != (self.problems, self._joins):
            self._post(TrustStoreRead(problems, joins))
        self.problems, self._joins = problems, joins

    def _apply(self, peers: dict[str, Peer]) -> None:
        before = {peer.key: peer for peer in self.peers.values()}
        now = {peer.key: peer for peer in peers.values()}
        for key in before.keys() - now.keys():
            _log.info("%s is trusted no longer: %s", before[key].name, before[key].card.address)
            for side in self._sides:
                self._post(PeerRemoved(side.of(before[key]).key))
        for key, peer in now.items():
            if before.get(key) != peer:
                _log.info("%s is trusted: %s", peer.name, _described(peer))
                if peer.ipv4_doubt:
                    _log.warning("the IPv4 address of %s is not believed: %s", peer.name, peer.ipv4_doubt)
                for side in self._sides:
                    self._post(PeerSet(side.of(peer)))
        self.peers = peers
        self.on_peers(peers.values())

    async def _changed(self, change: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Make one change of the store at a time, so that at most one thread waits for the store's lock.

        Raises ``TrustStoreError``, also if another change has been waiting for too long.
        """
        try:
            await asyncio.wait_for(self._writing.acquire(), lock.SECONDS)
        except TimeoutError:
            raise trust_store.TrustStoreError(
                f"{self._directory / lock.NAME}: another change has been waiting for it for {lock.SECONDS:g} s: end "
                f"what holds it (`fuser {self._directory / lock.NAME}`) and repeat the command; nothing was changed"
            ) from None
        try:
            return await asyncio.to_thread(change, *arguments, **named)
        finally:
            self._writing.release()

    async def add(self, name: str, card: Card) -> None:
        """Trust a card. Raises ``TrustStoreError`` and then changes nothing."""
        await self._changed(trust_store.add, self._directory, name, card, self._own, await self._look())
        await self.reload()

    async def add_next(self, name: str, card: Card) -> None:
        """Trust a peer's next key, too. Raises ``TrustStoreError`` and then changes nothing."""
        await self._changed(trust_store.add_next, self._directory, name, card, self._own, await self._look())
        await self.reload()

    async def end(self, name: str) -> None:
        """Stop trusting a peer's present key. Raises ``TrustStoreError``."""
        await self._changed(trust_store.end, self._directory, name, self._own)
        await self.reload()

    async def remove(self, name: str) -> None:
        """Stop trusting a peer. Raises ``TrustStoreError``."""
        await self._changed(trust_store.remove, self._directory, name)
        await self.reload()

    async def revoke(self, target: str, reason: str) -> tuple[str, ...]:
        """Revoke the keys of a peer, or one key, and return their fingerprints. Raises ``TrustStoreError``."""
        fingerprints = await self._changed(trust_store.revoke, self._directory, target, reason, self._own)
        await self.reload()
        return fingerprints

    async def take(self, lists: Iterable[bytes], members: Iterable[bytes]) -> bool:
        """Save new signed items of fleets and return whether there were any.

        Raises ``TrustStoreError``; what was good before it is kept.
        """
        taken = False
        try:
            for listed in lists:
                taken |= await self._changed(fleets.take_list, self._directory, listed)
            given = list(members)
            taken |= await self._changed(fleets.take_own, self._directory, given, self.own)
            taken |= bool(await self._changed(fleets.take_members, self._directory, given, self._own))
        finally:
            if taken:
                await self.reload()
        return taken

    async def admit(self, own: bytes, members: Sequence[bytes]) -> bool:
        """Save this node's own signed card, and those of members. Return whether any was new.

        Raises ``TrustStoreError`` unless fleets that this node has joined signed them all.
        """
        admitted = await self._changed(fleets.admit, self._directory, own, members, self.own)
        if admitted:
            await self.reload()
        return admitted

    async def join_sought(self, fleet: Fleet) -> bool:
        """Join a fleet if this node looks for it by its words. Return whether it did. Raises ``TrustStoreError``."""
        joined = await self._changed(fleets.join_sought, self._directory, fleet, self.own)
        if joined:
            await self.reload()
        return joined

    async def unrevoke(self, fingerprint: str) -> None:
        """Allow a key to be trusted again. Raises ``TrustStoreError``."""
        await self._changed(trust_store.unrevoke, self._directory, fingerprint)
        await self.reload()


def _described(peer: Peer) -> str:
    announced = " and ".join(map(str, addresses(peer.card)))
    return f"{announced}, signed by the fleet {peer.fleet}" if peer.fleet else announced


def _in_force(is_kept: bool) -> str:
    return "; the last good card stays in force" if is_kept else ""
