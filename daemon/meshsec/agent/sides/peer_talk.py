"""The side of the agent that talks with peers of what nodes say of themselves: what they offer, and where they are.

A node says it to each peer whose channel begins to carry, and asks for the answer, which shows that the peer has heard
it. Who does not answer is asked again soon, in case that was lost, and then every ``PERIOD``. All topics share one
port (ADR 0072), and each leaves alone what is not its message.
"""

import asyncio
import logging
from ipaddress import IPv6Address
from typing import Protocol

from meshsec.adapters.sockets.peer_datagrams import PeerDatagrams, PeerDatagramsError, peer_datagrams
from meshsec.core.channels.network_events import carries, of_present_key
from meshsec.core.channels.situation import Situation
from meshsec.core.explain.findings import Check, Level
from meshsec.core.services.services import PORT

Peers = frozenset[IPv6Address]
PERIOD = 60.0
GREET_AGAIN = 2.0, 6.0, 14.0
"""Seconds after which who has not answered is asked again: the peer may have its SA or its route a little later."""
AGAIN = 5.0
"""Seconds until the port is tried again."""
WINDOW, IN_WINDOW = 1.0, 32
"""Seconds in which so many messages of one peer are heard. An honest one sends two of each topic when its channel
begins to carry, two more where an answer was lost, and of its clients' names four in a second. While nothing gets
through, it asks up to four times in a second, and answers as often (ADR 0095)."""

_log = logging.getLogger(__name__)


class Topic(Protocol):
    """What nodes say to each other of one thing."""

    def message(self, *, asks: bool) -> bytes:
        """Return what this node says."""

    def is_heard(self, peer: IPv6Address) -> bool:
        """Return whether a peer has said something."""

    def take(self, peer: IPv6Address, octets: bytes) -> bool:
        """Take a message of a peer that is reached, unless it is of another topic. Return whether the peer asks."""

    def keep(self, reached: Peers) -> None:
        """Forget what must not be kept of peers that are not reached any more."""

    def returned(self, peers: Peers) -> None:
        """React to routes to peers that have come back."""


class PeerTalk:
    """The port, and the peers that are reached through it."""

    def __init__(self, own: IPv6Address, known: Situation) -> None:
        self._own, self._known = own, known
        self._topics: list[Topic] = []
        self._loop = asyncio.get_running_loop()
        self._socket: PeerDatagrams | None = None
        self.reached: Peers = frozenset()
        self._routed: Peers = frozenset()
        """Those of them to which there is a route. An SA outlives a partition, in which nothing arrives."""
        self._counted: dict[IPv6Address, tuple[float, int]] = {}
        """When each peer's present window began, and how many messages it has sent in it."""
        self.problem = ""
        """Why peers are not heard; empty: they are."""

    def add(self, topic: Topic) -> None:
        """Talk of a topic, too."""
        self._topics.append(topic)

    async def run(self) -> None:
        """Talk with peers until cancelled."""
        while True:
            try:
                await self._talk()
            except PeerDatagramsError as error:
                if not self.problem:
                    _log.warning("peers: %s", error)
                self.problem = str(error)
            await asyncio.sleep(AGAIN)

    async def _talk(self) -> None:
        """Talk until cancelled. Raises PeerDatagramsError if the port cannot be had."""
        self._socket = await peer_datagrams(self._own, PORT, self._received)
        self.problem = ""
        self._greet(self.reached)
        try:
            while True:
                await asyncio.sleep(PERIOD)
                self._ask_again(self.reached)
        finally:
            self._socket.close()
            self._socket = None

    def follow(self) -> None:
        """Update which peers are reached, after each of the engine's turns.

        Who has not answered is asked at once when a route comes back.
        """
        known = self._known
        found = {card.address: channel for channel, card in of_present_key(known) if carries(known, channel)}
        reached = frozenset(found)
        routed = frozenset(address for address, channel in found.items() if channel.route is not None)
        back, self._routed = routed - self._routed, routed
        if reached != self.reached:
            fresh, self.reached = reached - self.reached, reached
            self._counted = {peer: count for peer, count in self._counted.items() if peer in reached}
        else:
            fresh = frozenset()
        for topic in self._topics:
            topic.keep(reached)
        self._greet(fresh)
        self._return(back - fresh)

    def _return(self, back: Peers) -> None:
        if back:
            self._ask_again(back)
            self._ask_later(back)
            for topic in self._topics:
                topic.returned(back)

    def say(self, topic: Topic, peers: Peers, *, asks: bool) -> None:
        """Say what this node has to say of a topic to those of the peers that are reached."""
        message = topic.message(asks=asks)
        for peer in peers & self.reached:
            self.send(peer, message)

    def send(self, peer: IPv6Address, octets: bytes) -> None:
        """Send one datagram, if the port is open."""
        if self._socket is not None:
            self._socket.send(peer, octets)

    def checks(self) -> list[Check]:
        """Return doctor's check where something is wrong."""
        fix = f"end what holds the port: ss -ulnp 'sport = :{PORT}'"
        return [Check("services", Level.WARN, self.problem, fix)] if self.problem else []

    def _greet(self, peers: Peers) -> None:
        if peers:
            for topic in self._topics:
                self.say(topic, peers, asks=True)
            self._ask_later(peers)

    def _ask_later(self, peers: Peers) -> None:
        for seconds in GREET_AGAIN:
            self._loop.call_later(seconds, self._ask_again, peers)

    def _ask_again(self, peers: Peers) -> None:
        """Ask those who have said nothing yet."""
        for topic in self._topics:
            silent = frozenset(peer for peer in peers if not topic.is_heard(peer))
            self.say(topic, silent, asks=True)

    def _received(self, peer: IPv6Address, octets: bytes) -> None:
        if peer not in self.reached or not self._is_in_time(peer):
            return
        for topic in self._topics:
            if topic.take(peer, octets):
                self.say(topic, frozenset({peer}), asks=False)

    def _is_in_time(self, peer: IPv6Address) -> bool:
        """Return whether a peer has sent no more than it may, and count its message."""
        now = self._loop.time()
        began, count = self._counted.get(peer, (now, 0))
        if now - began >= WINDOW:
            began, count = now, 0
        self._counted[peer] = began, count + 1
        return count < IN_WINDOW
