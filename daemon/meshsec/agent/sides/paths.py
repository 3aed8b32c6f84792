"""The side of the agent that asks peers whether user data gets through, and has the router avoid relays that drop it.

Peers are watched while there is another neighbour that could relay. The counters of the SAs are read each ``LOOK``, or
less often where that takes long, so that it takes a twentieth of the time at most. ADR 0095 says what is concluded.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from ipaddress import IPv6Address
from typing import NamedTuple

from meshsec.agent.sides.peer_talk import Peers, PeerTalk
from meshsec.core.channels.network_events import of_present_key
from meshsec.core.channels.situation import Situation
from meshsec.core.channels.ways import counted, ways
from meshsec.core.explain import relays_view
from meshsec.core.explain.findings import Check
from meshsec.core.ike.port import IkeError
from meshsec.core.networks.networks import originators
from meshsec.core.paths import word
from meshsec.core.paths.avoidance import Avoidance
from meshsec.core.paths.watch import GAP, LOOK, Watch
from meshsec.core.values.model import Address, IkeSa, Neighbour, peer_name

SHARE = 20
"""Reciprocal of the share of time that reading the counters may take."""

_log = logging.getLogger(__name__)


class Uses(NamedTuple):
    """What the side takes from others."""

    sas: Callable[[], Awaitable[Mapping[str, Iterable[IkeSa]]]]
    """Returns the SAs with their counters. Raises IkeError."""
    neighbours: Callable[[], Iterable[Neighbour]]
    """Returns the neighbours of the router."""
    avoid: Callable[[Mapping[Address, float]], None]
    """Has the router avoid these neighbours until the given monotonic seconds, and no others."""
    unheard: str
    """Why the router avoids nobody; empty: it does."""


class PathsSide:
    """Ways that swallow user data."""

    def __init__(self, known: Situation, talk: PeerTalk, uses: Uses) -> None:
        self._known, self._talk, self._uses = known, talk, uses
        self._loop = asyncio.get_running_loop()
        self._watch, self._avoidance = Watch(), Avoidance()
        self._said: dict[Address, float] = {}
        """What the router was told last."""
        talk.add(self)

    async def run(self) -> None:
        """Watch until cancelled, where the router listens."""
        if self._uses.unheard:
            return
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._count())
            while True:
                self.poll()
                await asyncio.sleep(GAP)

    def poll(self) -> None:
        """Follow the ways, ask whom it is time to ask, and decide."""
        now = self._loop.time()
        found = ways(self._known) if self._has_choice() else {}
        self._watch.follow(now, found, self._avoidance.doubted(now))
        for ask in self._watch.poll(now):
            self._talk.send(ask.peer, word.question(ask.unanswered, ask.size, ask.number))
        for decision in self._avoidance.decide(now, self._watch.standings()):
            _log.warning("%s", relays_view.decided(decision, self._name))
        marks = {relay: mark.until for relay, mark in self._avoidance.marks.items()}
        if marks != self._said:
            self._said = marks
            self._uses.avoid(marks)

    async def _count(self) -> None:
        while True:
            began = self._loop.time()
            if self._watch.standings():
                await self.count()
            await asyncio.sleep(max(LOOK, SHARE * (self._loop.time() - began)))

    async def count(self) -> None:
        """Read the counters of the SAs."""
        try:
            sas = await self._uses.sas()
        except IkeError as error:
            _log.debug("counters of SAs: %s", error)
            return
        self._watch.count(self._loop.time(), dict(counted(self._known, sas.items())))

    def _has_choice(self) -> bool:
        """Return whether another neighbour could relay instead."""
        symmetric = [one for one in self._uses.neighbours() if one.symmetric]
        return max(sum(one.originator.version == version for one in symmetric) for version in (4, 6)) > 1

    def message(self, *, asks: bool) -> bytes:
        """Return a question, or an answer."""
        return word.question(0, 0) if asks else word.answer()

    def is_heard(self, peer: IPv6Address) -> bool:  # noqa: ARG002 - the protocol of topics
        """Return that nobody is asked again: the watch asks when there is a reason."""
        return True

    def take(self, peer: IPv6Address, octets: bytes) -> bool:
        """Take a message, unless it is of another topic. It is answered here, with the number of its round."""
        try:
            said = word.decode(octets)
        except word.MessageError:
            return False
        now = self._loop.time()
        if said.asks:
            self._watch.asked_by(now, peer, said.unanswered)
            self._talk.send(peer, word.answer(said.round))
        else:
            self._watch.answered(now, peer, said.round)
        return False

    def keep(self, reached: Peers) -> None:
        """Do nothing: ``poll`` follows who is reached."""

    def returned(self, peers: Peers) -> None:
        """Do nothing: a way that has changed is followed by ``poll``."""

    def sentences(self, title: str) -> list[str]:
        """Return what ``explain`` says of a peer."""
        channel = self._known.shown_as(title)
        if channel is None or channel.card is None:
            return []
        return [*relays_view.sentences(self._relays(), channel.card.address)]

    def problems(self) -> list[str]:
        """Return what ``status`` reports."""
        return relays_view.problems(self._relays())

    def checks(self) -> list[Check]:
        """Return doctor's checks."""
        return relays_view.checks(self._relays(), self._uses.unheard)

    def _relays(self) -> relays_view.Relays:
        return relays_view.Relays(self._loop.time(), self._watch.standings(), self._avoidance, self._name)

    def _name(self, address: Address) -> str:
        """Return the name of the peer whose address or locator it is, or the address of a stranger."""
        for channel, card in of_present_key(self._known):
            if address in {card.address, *originators(card)}:
                return peer_name(channel.title)
        return str(address)
