"""The side of the agent that tells peers where this node is, and keeps where they are (ADR 0076).

A position that the operator wrote down is said once to each peer. One of gpsd's is said again when the node has moved
far enough, at most every ``MOVED_SECONDS``, and every ``REST_SECONDS``, so that peers know that it is still so.
"""

import asyncio
import logging
import math
from ipaddress import IPv6Address
from typing import Any, NamedTuple

from meshsec.adapters.gps.gpsd import GpsdError, positions
from meshsec.agent.sides.peer_talk import Peers, PeerTalk
from meshsec.core.channels.situation import Situation
from meshsec.core.config.position_settings import PositionSettings
from meshsec.core.explain.findings import Check, Level
from meshsec.core.positions.positions import (
    AGE_MAX,
    MessageError,
    Position,
    decode,
    distance,
    encode,
    whereabouts,
)
from meshsec.core.values.model import peer_name

MOVED_METRES = 10.0
"""Distance from which a movement is said; a receiver at rest wanders by some metres."""
MOVED_SECONDS = 5.0
"""Time between two messages of a node that moves."""
REST_SECONDS = 120.0
"""Time after which a node that does not move says so; a message about a movement may have been lost."""
GPSD_AGAIN = 5.0
"""Seconds until gpsd is tried again."""
GPSD_SILENT = 60.0
"""Seconds without a position after which ``doctor`` says so. A receiver that was just started needs about as long."""

_log = logging.getLogger(__name__)


class Place(NamedTuple):
    """Where a node was, and when."""

    position: Position
    at: float
    """Monotonic seconds of this node."""


class PositionsSide:
    """Where this node and its peers are."""

    def __init__(self, own: IPv6Address, settings: PositionSettings, known: Situation, talk: PeerTalk) -> None:
        self._own, self._settings, self._known, self._talk = own, settings, known, talk
        self._loop = asyncio.get_running_loop()
        self._place = None if settings.fixed is None else Place(settings.fixed, self._loop.time())
        self._said = Place(Position(math.inf, 0.0), -math.inf)
        """What this node has said last to all peers."""
        self._heard: set[IPv6Address] = set()
        """The peers that have answered since they are reached."""
        self._places: dict[IPv6Address, Place] = {}
        self._present: Peers = frozenset()
        """The peers that are in reach. A channel that is held without a route still counts as reached for messages."""
        self._started = self._loop.time()
        self._gpsd_problem = ""
        talk.add(self)

    async def run(self) -> None:
        """Follow gpsd until cancelled, where the operator wants it."""
        while self._settings.gpsd:
            try:
                async for position in positions(self._settings.port):
                    self._gpsd_problem = ""
                    self.move(position)
            except GpsdError as error:
                if not self._gpsd_problem:
                    _log.warning("position: %s", error)
                self._gpsd_problem = str(error)
            await asyncio.sleep(GPSD_AGAIN)

    def move(self, position: Position) -> None:
        """Note where this node is, and tell peers if that is worth a message."""
        now = self._loop.time()
        self._place = Place(position, now)
        since = now - self._said.at
        if since >= REST_SECONDS or (since >= MOVED_SECONDS and self._is_elsewhere(position)):
            self._said = self._place
            self._talk.say(self, self._talk.reached, asks=False)

    def _is_elsewhere(self, position: Position) -> bool:
        return distance(self._said.position, position) >= MOVED_METRES

    def message(self, *, asks: bool) -> bytes:
        """Return where this node is."""
        if self._place is None:
            return encode(whereabouts(None, 0.0, asks=asks))
        return encode(whereabouts(self._place.position, self._age(self._place), asks=asks))

    def own(self, age: float) -> Position | None:
        """Return where this node is; None if it does not know, or was there more than ``age`` seconds ago."""
        place = self._place
        return place.position if place is not None and self._age(place) <= age else None

    def _age(self, place: Place) -> float:
        """Return the seconds since a node was there; what an operator wrote down holds now."""
        return 0.0 if place.position.fixed else self._loop.time() - place.at

    def is_heard(self, peer: IPv6Address) -> bool:
        """Return whether a peer has said where it is, or that it does not know."""
        return peer in self._heard

    def take(self, peer: IPv6Address, octets: bytes) -> bool:
        """Take a message, unless it is of another topic. Return whether the peer asks."""
        try:
            message = decode(octets)
        except MessageError:
            return False
        self._heard.add(peer)
        if message.position is None:
            self._places.pop(peer, None)
        else:
            self._places[peer] = Place(message.position, self._loop.time() - message.age)
            self._present |= {peer}
        return message.asks

    def keep(self, reached: Peers) -> None:
        """Forget where those are who are no longer trusted. Of others the last position stays, with its age."""
        self._heard &= reached
        if self._places:
            now = self._loop.time()
            ways = {channel.card.address: channel.route for channel in self._known.channels() if channel.card}
            present = frozenset(peer for peer in reached if ways.get(peer) is not None)
            for peer in self._present - present:
                if (place := self._places.get(peer)) is not None and place.position.fixed:
                    self._places[peer] = Place(place.position, now)
            self._present = present
            kept = ((peer, one) for peer, one in self._places.items() if peer in ways and now - one.at <= AGE_MAX)
            self._places = dict(kept)

    def returned(self, peers: Peers) -> None:
        """Do nothing: who has not answered is asked, and the question says where this node is."""

    def checks(self) -> list[Check]:
        """Return doctor's check where gpsd is wanted and does not say where the node is."""
        if not self._settings.gpsd:
            return []
        since = self._loop.time() - (self._place.at if self._place else self._started)
        if not self._gpsd_problem and since < GPSD_SILENT:
            return []
        found = self._gpsd_problem or f"gpsd has reported no position for {since:.0f} s"
        fix = "see what the receiver says: gpspipe -w -n 10; systemctl status gpsd"
        return [Check("position", Level.WARN, found, fix)]

    def view(self) -> dict[str, Any]:
        """Return the answer of the method ``positions``."""
        names = {channel.card.address: peer_name(channel.title) for channel in self._known.channels() if channel.card}
        shown = [] if self._place is None else [self._shown(self._known.node.name, self._own, self._place)]
        theirs = ((names[peer], peer, place) for peer, place in self._places.items() if peer in names)
        return {
            "schema": "meshsec-positions-1",
            "positions": [*shown, *(self._shown(*one) for one in sorted(theirs))],
            "problem": self._gpsd_problem or self._talk.problem,
        }

    def _shown(self, node: str, address: IPv6Address, place: Place) -> dict[str, Any]:
        is_reached = address == self._own or address in self._present
        holds = place.position.fixed and is_reached
        return {
            "node": node,
            "address": str(address),
            **place.position._asdict(),
            "age": 0.0 if holds else round(self._loop.time() - place.at, 1),
            "reached": is_reached,
        }
