"""The side of the agent that tells peers what this node offers, and keeps what they offer (ADR 0072).

A node says it to each peer whose channel begins to carry, and asks for the answer, which shows that the peer has heard
it. Who does not answer is asked once more soon, in case that was lost, and then every ``PERIOD``. What a peer offers is
forgotten when its channel no longer carries. A changed configuration takes effect with a restart, which begins again.
By the same port nodes say what their clients are called (client_names.py).
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from ipaddress import IPv6Address
from typing import Any

from meshsec.adapters.sockets.peer_datagrams import PeerDatagrams, PeerDatagramsError, peer_datagrams
from meshsec.agent.sides.client_names import ClientNamesTalk
from meshsec.core.channels.network_events import carries, of_present_key
from meshsec.core.channels.situation import Situation
from meshsec.core.explain.findings import Check, Level
from meshsec.core.names.names import DOMAIN
from meshsec.core.services import services
from meshsec.core.services.protocols import url
from meshsec.core.services.services import PORT, Message, MessageError, Offer, Service
from meshsec.core.values.host_names import ClientName
from meshsec.core.values.model import peer_name

PERIOD = 60.0
GREET_AGAIN = 2.0
AGAIN = 5.0
"""Seconds until the port is tried again."""
WINDOW, IN_WINDOW = 1.0, 12
"""Seconds in which so many messages of one peer are heard. An honest one sends two when its channel begins to carry,
and of its clients' names four in a second."""

_log = logging.getLogger(__name__)


class ServicesSide:
    """What this node and its peers offer."""

    def __init__(
        self,
        own: IPv6Address,
        offered: Sequence[Service],
        known: Situation,
        on_names: Callable[[IPv6Address, tuple[ClientName, ...]], None],
        *,
        serves: bool,
    ) -> None:
        """``on_names`` takes what the clients of a peer are called. ``serves``: this node is an access node."""
        self.client_names = ClientNamesTalk(self._send, on_names, serves=serves)
        self._serves = serves
        self._own, self._offered, self._known = own, tuple(sorted(offered)), known
        self._loop = asyncio.get_running_loop()
        self._socket: PeerDatagrams | None = None
        self._reached: frozenset[IPv6Address] = frozenset()
        self._heard: dict[IPv6Address, tuple[Service, ...]] = {}
        self._counted: dict[IPv6Address, tuple[float, int]] = {}
        """When each peer's present window began, and how many messages it has sent in it."""
        self.problem = ""
        """Why peers are not heard; empty: they are."""

    async def run(self) -> None:
        """Talk with peers until cancelled."""
        while True:
            try:
                await self._talk()
            except PeerDatagramsError as error:
                if not self.problem:
                    _log.warning("services: %s", error)
                self.problem = str(error)
            await asyncio.sleep(AGAIN)

    async def _talk(self) -> None:
        """Talk until cancelled. Raises PeerDatagramsError if the port cannot be had."""
        self._socket = await peer_datagrams(self._own, PORT, self._received)
        self.problem = ""
        self._greet(self._reached)
        try:
            while True:
                await asyncio.sleep(PERIOD)
                self._ask_again(self._reached)
        finally:
            self._socket.close()
            self._socket = None

    def follow(self) -> None:
        """Update which peers are reached, after each of the engine's turns."""
        known = self._known
        reached = frozenset(card.address for channel, card in of_present_key(known) if carries(known, channel))
        if reached == self._reached:
            return
        fresh, self._reached = reached - self._reached, reached
        self._heard = {peer: found for peer, found in self._heard.items() if peer in reached}
        self._counted = {peer: count for peer, count in self._counted.items() if peer in reached}
        self.client_names.follow(reached)
        self._greet(fresh)

    def _greet(self, peers: frozenset[IPv6Address]) -> None:
        if peers:
            self._say(peers, asks=True)
            self._loop.call_later(GREET_AGAIN, self._ask_again, peers)

    def _ask_again(self, peers: frozenset[IPv6Address]) -> None:
        """Ask those who have said nothing yet."""
        self._say((peers & self._reached) - self._heard.keys(), asks=True)

    def _say(self, peers: Iterable[IPv6Address], *, asks: bool) -> None:
        message = services.offer(self._offered, asks=asks, clients=self._serves)
        for peer in peers:
            self._send(peer, message)

    def _send(self, peer: IPv6Address, message: Message) -> None:
        if self._socket is not None:
            self._socket.send(peer, services.encode(message))

    def _received(self, peer: IPv6Address, octets: bytes) -> None:
        if peer not in self._reached or not self._is_in_time(peer):
            return
        try:
            message = services.decode(octets)
        except MessageError:
            return
        if isinstance(message, Offer):
            self._offered_by(peer, message)
        else:
            self.client_names.heard(peer, message)

    def _offered_by(self, peer: IPv6Address, message: Offer) -> None:
        self._heard[peer] = message.services()
        if not message.clients:
            self.client_names.serves_none(peer)
        if message.asks:
            self._say([peer], asks=False)
            self.client_names.asked(peer)

    def _is_in_time(self, peer: IPv6Address) -> bool:
        """Return whether a peer has sent no more than it may, and count its message."""
        now = self._loop.time()
        began, count = self._counted.get(peer, (now, 0))
        if now - began >= WINDOW:
            began, count = now, 0
        self._counted[peer] = began, count + 1
        return count < IN_WINDOW

    def checks(self) -> list[Check]:
        """Return doctor's check where something is wrong."""
        fix = f"end what holds the port: ss -ulnp 'sport = :{PORT}'"
        return [Check("services", Level.WARN, self.problem, fix)] if self.problem else []

    def view(self) -> dict[str, Any]:
        """Return the answer of the method ``services``."""
        names = {channel.card.address: peer_name(channel.title) for channel in self._known.channels() if channel.card}
        theirs = [(names.get(peer, str(peer)), peer, found) for peer, found in self._heard.items()]
        shown = [(self._known.node.name, self._own, self._offered), *sorted(theirs)]
        return {
            "schema": "meshsec-services-1",
            "services": [_shown(name, address, one) for name, address, found in shown for one in found],
            "problem": self.problem,
        }


def _shown(node: str, address: IPv6Address, one: Service) -> dict[str, Any]:
    return {
        "node": node,
        "address": str(address),
        "name": one.name,
        "protocol": str(one.protocol),
        "port": one.port,
        "description": one.description,
        "url": url(one, f"{node}.{DOMAIN}"),
    }
