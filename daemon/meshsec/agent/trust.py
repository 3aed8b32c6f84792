"""The trust store's side of the agent: what changed on disk becomes events, the last good state stays in force."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from meshsec.adapters import trust_store
from meshsec.core.events import Event, PeerRemoved, PeerSet, TrustStoreRead
from meshsec.core.model import Card, Peer

_log = logging.getLogger(__name__)


class Trust:
    """The peers in force and the cards that are refused."""

    def __init__(self, directory: Path, own: Card, post: Callable[[Event], None]) -> None:
        self._directory = directory
        self._own = own
        self._post = post
        self._lock = asyncio.Lock()
        self.peers: dict[str, Peer] = {}
        self.problems: tuple[str, ...] = ()
        """What is wrong with the trust store, for status and doctor."""

    async def reload(self) -> tuple[str, ...]:
        """Read the store and tell the engine what changed; returns the problems.

        A card that can no longer be read does not take its peer's trust away: the last good one stays in force. One
        whose file is gone does.
        """
        async with self._lock:
            try:
                peers, problems = await asyncio.to_thread(trust_store.load, self._directory, self._own)
            except trust_store.TrustStoreError as error:
                self._tell_problems((str(error),))
                return self.problems
            refused = {problem.path.stem for problem in problems}
            kept = {name: peer for name, peer in self.peers.items() if name in refused}
            self._tell_problems(
                tuple(f"{problem}{_in_force(problem.path.stem in kept)}" for problem in problems),
            )
            self._apply(peers | kept)
            return self.problems

    def _tell_problems(self, problems: tuple[str, ...]) -> None:
        for problem in problems:
            if problem not in self.problems:
                _log.warning("trust store: %s", problem)
        if problems != self.problems:
            self._post(TrustStoreRead(problems))
        self.problems = problems

    def _apply(self, peers: dict[str, Peer]) -> None:
        for name in self.peers.keys() - peers.keys():
            _log.info("%s is trusted no longer", name)
            self._post(PeerRemoved(name))
        for name, peer in peers.items():
            if self.peers.get(name) != peer:
                _log.info("%s is trusted: %s", name, peer.card.address)
                self._post(PeerSet(peer))
        self.peers = peers

    async def add(self, name: str, card: Card) -> None:
        """Trust a card. Raises ``TrustStoreError``; nothing has changed then."""
        await asyncio.to_thread(trust_store.add, self._directory, name, card, self._own)
        await self.reload()

    async def remove(self, name: str) -> None:
        """Trust a peer no longer. Raises ``TrustStoreError``."""
        await asyncio.to_thread(trust_store.remove, self._directory, name)
        await self.reload()


def _in_force(is_kept: bool) -> str:
    return "; the last good card stays in force" if is_kept else ""
