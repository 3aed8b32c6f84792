"""The side of the agent that joins a fleet over the mesh: as a new node that asks, and as a member that is asked.

A new node has the fleet's key from its operator and no signed card (ADR 0070). It asks all nodes in reach until it is
signed and has a protected channel. A member keeps the requests for its operator, and answers those whose card the fleet
has signed by now.
"""

import asyncio
import logging
import random
import secrets
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network

from meshsec.adapters.files import key_store
from meshsec.adapters.files.key_store import KeyStoreError
from meshsec.adapters.files.trust_store import TrustStoreError
from meshsec.agent.sides.clear_port import ClearPort
from meshsec.agent.sides.keys import Keys
from meshsec.agent.sides.trust import Trust
from meshsec.core.channels.channel import Channel
from meshsec.core.channels.desired import host
from meshsec.core.channels.lifecycle import State
from meshsec.core.trust import fleets, joining
from meshsec.core.trust.fingerprint_words import first_octets
from meshsec.core.trust.fleets import Fleet, FleetError, SignedCard
from meshsec.core.trust.join_requests import ASK_AGAIN, ASK_GAP, Asking, JoinRequests, Kept
from meshsec.core.trust.joining import Approval, Cookie, Cookies, Found, JoinError, Receipt, Request, Search, Standing
from meshsec.core.trust.membership import Joined, Membership
from meshsec.core.values.model import Address, Card
from meshsec.core.values.routes import RouteTable

NODES = IPv6Network("fc00::/7")
"""Where the addresses and locators of nodes lie."""
_ROUND = int(ASK_AGAIN / ASK_GAP)
"""Nodes that can be asked before the first of them is asked again."""
_ADMIT_GAP = 0.5
"""Seconds after an approval that proved nothing before the sender's next one is looked at. Others are not kept waiting:
somebody whom this node has asked, or somebody on the way, makes them up."""
_ADMITTING_MAX = 64
"""Senders whose answers are looked at at a time: two signatures each in 0.5 s cost 8 % of a small processor."""
_PUSHES = (0.0, 1.0, 3.0)
"""Seconds after an approval at which this node tells the new node of it. After that it asks again by itself."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the side needs to know of the node."""

    own: Card
    offered: Callable[[], Card]
    """Returns the same with the networks that this node asks to speak for now: `meshsec gateway on` adds a way out."""
    here: IPv6Address
    """This node's address that the router announces: where its IKE runs, too."""
    keys: Keys
    routes: RouteTable
    port: ClearPort
    spawn: Callable[[Coroutine[None, None, None]], object]


class JoiningSide:
    """Ask and answer. Without a fleet this does nothing and does not listen."""

    def __init__(self, around: Surroundings, trust: Trust) -> None:
        self._around, self.trust = around, trust
        self.own, self.offered = around.own, around.offered
        self._loop = asyncio.get_running_loop()
        self._cookies = Cookies(secrets.token_bytes(32))
        self.requests = JoinRequests(random.random)
        self.asking = Asking()
        self._reachable: list[IPv6Address] = []
        self._look_at = 0.0
        """When the routes are looked through again."""
        self._signed: dict[tuple[bytes, IPv6Address], bytes] = {}
        """The signed cards of members by fleet and address."""
        self._is_lonely = True
        """No channel is protected."""
        self._admitting: set[IPv6Address] = set()
        """Whose answers are looked at now, or were worth nothing just before."""
        self._refused_for = b""
        """The words for which it was said that their fleet cannot be joined."""
        self._fleets = asyncio.Event()
        """Set once there is, or was, a fleet."""
        around.port.take(joining.KINDS, self.heard)
        trust.on_fleets.append(self._follow_store)

    # --- what changes around it ---

    def _follow_store(self, joined: Joined) -> None:
        self._signed = {
            (one.fleet, address): one.octets
            for one in joined.current().values()
            for address in (one.card.address, one.card.locator)
        }
        revoked = joined.revoked()
        self.requests.drop(lambda one: self._is_settled(one, revoked))
        if joined.talks:
            self._fleets.set()
            self._around.port.want()

    def _is_settled(self, kept: Kept, revoked: Iterable[str]) -> bool:
        signed = (kept.fleet, kept.sender) in self._signed
        return signed or kept.fleet not in self.trust.joined.memberships or kept.card.fingerprint.hex() in revoked

    def follow(self, channels: Iterable[Channel]) -> None:
        """Update whether any peer is in reach, after each of the engine's turns."""
        self._is_lonely = not any(channel.state is State.PROTECTED for channel in channels)

    async def run(self) -> None:
        """Run until cancelled."""
        await self._fleets.wait()
        await self._around.port.open.wait()
        while True:
            due = self._ask()
            await asyncio.sleep(due - self._loop.time())

    # --- as a new node ---

    def waiting(self) -> list[Membership]:
        """Return the fleets whose operator has to approve this node."""
        return [one for one in self.trust.joined.memberships.values() if one.of(self.own) is None]

    def _asked_fleets(self) -> Sequence[Membership]:
        """Return the fleets to ask for: all, where a member has nobody to learn from."""
        return [*self.trust.joined.memberships.values()] if self._is_lonely else self.waiting()

    def _ask(self) -> float:
        """Ask the next node, if there is something to ask for. Return the time of the next look."""
        now = self._loop.time()
        asked = self._asked_fleets()
        if not asked and not self.trust.joined.sought:
            return now + 1.0
        if now >= self._look_at:
            self._look(now)
        address, due = self.asking.next(self._reachable, now)
        if address is not None:
            self._send_requests(address)
        return due

    def _look(self, now: float) -> None:
        """Find the addresses of nodes to which there is a route, the nearest first.

        A walk through ten thousands of routes, which strangers can announce, takes 0.1 s of the loop. So where there
        are more than can be asked in ``ASK_AGAIN``, they are looked through once in that time.
        """
        routes = list(self._around.routes)
        found = {
            address: route.hops
            for route in routes
            if isinstance(address := route.destination.network_address, IPv6Address)
            and route.destination.prefixlen == address.max_prefixlen
            and route.originator in {None, address}
            and address in NODES
        }
        self._reachable = sorted(found, key=lambda address: (found[address], address.packed))
        self._look_at = now + ASK_AGAIN if len(routes) > _ROUND else now

    def _send_requests(self, address: IPv6Address) -> None:
        cookie = self.asking.cookie_for(address)
        if sought := self.trust.joined.sought:
            self._around.port.send(address, joining.encode(Search(sought, cookie)))
        try:
            for one in self._asked_fleets():
                key = key_store.load(self._around.keys.path).private
                request = joining.request(key, self.offered(), one.fleet.public_key, cookie)
                self._around.port.send(address, request)
        except KeyStoreError as error:
            _log.debug("requests to join: %s", error)

    # --- what comes ---

    def heard(self, sender: IPv6Address, octets: bytes) -> None:
        """Take a datagram of anybody, trusted or not."""
        try:
            message = joining.decode(octets)
            now = self._loop.time()
            is_free = sender not in self._admitting and len(self._admitting) < _ADMITTING_MAX
            match message:
                case Request():
                    self._take_request(sender, message, now)
                case Cookie():
                    if self.asking.heard_cookie(sender, message.cookie, now):
                        self._send_requests(sender)
                case Receipt() if self.asking.is_answer(sender, message.cookie):
                    self.asking.heard_receipt(sender, message.standing, now)
                case Search():
                    self._take_search(sender, message, now)
                case Found() if is_free and self.asking.is_answer(sender, message.cookie):
                    self._take_found(sender, fleets.read_fleet(message.fleet))
                case Approval() if is_free and self.asking.is_answer(sender, message.cookie):
                    self._admitting.add(sender)
                    self._around.spawn(self._admit(sender, message))
        except (JoinError, FleetError) as error:
            _log.debug("requests to join: from %s: %s", sender, error)

    async def _admit(self, sender: IPv6Address, said: Approval) -> None:
        """Take what a fleet that the operator named has signed. The sender proves nothing."""
        try:
            for octets in (said.own, said.member):  # before any thread or lock of the store is taken for it
                fleets.read_card(octets, self.trust.joined.keys)
            if not await self.trust.admit(said.own, [said.member]):
                await asyncio.sleep(_ADMIT_GAP)
        except (FleetError, TrustStoreError) as error:
            _log.debug("requests to join: an approval is refused: %s", error)
            await asyncio.sleep(_ADMIT_GAP)
        finally:
            self._admitting.discard(sender)

    def _take_found(self, sender: IPv6Address, fleet: Fleet) -> None:
        """Join the fleet if its key is the one that the words mean, and ask the sender to join it."""
        if first_octets(fleet.fingerprint) == self.trust.joined.sought:
            self._admitting.add(sender)
            self._around.spawn(self._join(sender, fleet))

    async def _join(self, sender: IPv6Address, fleet: Fleet) -> None:
        try:
            if await self.trust.join_sought(fleet):
                _log.info("the fleet %s has the words that this node was given", fleet.name)
                self._send_requests(sender)
        except TrustStoreError as error:
            words = first_octets(fleet.fingerprint)
            level = logging.DEBUG if words == self._refused_for else logging.WARNING  # strangers can repeat it
            self._refused_for = words
            _log.log(level, "the fleet %s, which has the words that this node was given: %s", fleet.name, error)
            await asyncio.sleep(_ADMIT_GAP)
        finally:
            self._admitting.discard(sender)

    # --- as a member ---

    def _take_search(self, sender: IPv6Address, said: Search, now: float) -> None:
        """Answer a node that looks for a fleet of this node's by its words."""
        known = self.trust.joined.memberships
        found = next((one.fleet for one in known.values() if first_octets(one.fleet.fingerprint) == said.sought), None)
        if found is None or self._own_signed(found.public_key) is None:
            return
        if self._cookies.hold(said.cookie, sender, now):
            self._around.port.send(sender, joining.encode(Found(said.cookie, fleets.fleet_octets(found))))
        else:
            self._around.port.send(sender, joining.encode(Cookie(self._cookies.of(sender, now))))

    def _take_request(self, sender: IPv6Address, said: Request, now: float) -> None:
        via = self._around.routes.next_hop(host(sender))
        if via is None or self._own_signed(said.fleet) is None or sender == self._around.here:
            return
        if not self._cookies.hold(said.cookie, sender, now):
            self._around.port.send(sender, joining.encode(Cookie(self._cookies.of(sender, now))))
        elif (said.fleet, sender) in self._signed:
            self._send_approval(said.fleet, sender, said.cookie)
        else:
            self._keep(sender, said, via, now)

    def _own_signed(self, fleet: bytes) -> bytes | None:
        """Return this node's own signed card; None unless it is a member in good standing."""
        joined = self.trust.joined
        membership = joined.memberships.get(fleet)
        signed = membership.of(self.own) if membership and not membership.damaged else None
        if signed is None or joined.late(signed) or self.own.fingerprint.hex() in joined.revoked():
            return None
        return signed.octets

    def _keep(self, sender: IPv6Address, said: Request, via: Address, now: float) -> None:
        card = self.requests.known(said, sender)
        if card is None:
            if not self.requests.may_check(via, now):
                return
            card = joining.checked_card(said, sender)
            if card.fingerprint.hex() in self.trust.joined.revoked():
                return
        if self.requests.is_refused(card):
            self._around.port.send(sender, joining.encode(Receipt(said.cookie, Standing.REFUSED)))
        else:
            self.requests.put(said, card, sender, via, now)
            self._around.port.send(sender, joining.encode(Receipt(said.cookie, Standing.WAITING)))

    def _send_approval(self, fleet: bytes, address: IPv6Address, cookie: bytes) -> None:
        own, signed = self._own_signed(fleet), self._signed.get((fleet, address))
        if own is not None and signed is not None:
            self._around.port.send(address, joining.encode(Approval(cookie, signed, own)))

    async def approve(self, signed: SignedCard) -> None:
        """Take a signed card and tell its node at once. Raises TrustStoreError if the card cannot be saved."""
        self.requests.allow(signed.card.fingerprint)
        if signed.card.public_key == self.own.public_key:
            await self.trust.admit(signed.octets, [])
            return
        waiting = list(self.requests)
        await self.trust.take([], [signed.octets])
        for one in waiting:
            if self._signed.get((one.fleet, one.sender)) == signed.octets:
                for seconds in _PUSHES:
                    self._loop.call_later(seconds, self._send_approval, one.fleet, one.sender, one.cookie)
