"""The fleets' side of the agent: it passes from peer to peer what fleets' keys have signed (ADR 0046).

Nodes exchange with each peer when its channel becomes protected, when this node has news, and every ``PERIOD``. A
failed exchange is repeated after ``RETRY``, then after twice as long each time up to ``PERIOD``, because a peer without
a fleet does not listen. So news takes one exchange for each hop among peers, and a node that was away gets it with its
first channel.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv6Address

from meshsec.adapters.files.trust_store import TrustStoreError
from meshsec.adapters.sockets import exchange
from meshsec.adapters.sockets.exchange import Numbers
from meshsec.agent.sides.trust import Trust
from meshsec.core.channels.channel import Channel
from meshsec.core.channels.lifecycle import State
from meshsec.core.explain.findings import Check, Level
from meshsec.core.trust import fleet_exchange as lines
from meshsec.core.trust.fleet_exchange import ExchangeError, Holdings, News
from meshsec.core.trust.fleets import FLEETS_MAX
from meshsec.core.trust.membership import Joined, Membership
from meshsec.core.trust.revocation_notes import date, exchanged_as
from meshsec.core.values.model import Card, peer_name

PERIOD = 60.0
RETRY = 5.0
PENALTY = 60.0
"""Seconds for which a peer is ignored that sent something unsigned; after too much old news it is ``RETRY``."""
OLD_NEWS = 4
"""How often in ``PERIOD`` a peer may give what this node had: several give the same list when it spreads."""
AT_ONCE = 8
"""Exchanges in progress that this node has begun."""
_LISTEN_AGAIN = 2.0

_log = logging.getLogger(__name__)


def holdings(joined: Joined, own: Sequence[Card]) -> Holdings:
    """Return what this node has to give: each fleet's list, its members' cards, and the signed cards of this node's
    keys. Then the notes on the lists, which exchange as another fleet's list, as far as a line has room for them.
    """
    found = {}
    for key, membership in joined.memberships.items():
        members = (*joined.current().values(), *filter(None, map(membership.of, own)))
        cards = [member.octets for member in members if member.fleet == key and not joined.late(member)]
        number, listed = (membership.list.number, membership.list.octets) if membership.list else (0, b"")
        found[key] = lines.holding(number, listed, cards)
    for key, membership in joined.memberships.items():
        if len(found) < FLEETS_MAX:
            number, octets = (membership.notes.number, membership.notes.octets) if membership.notes else (0, b"")
            found[exchanged_as(key)] = lines.holding(number, octets, ())
    return found


def retry_after(failures: int) -> float:
    """Return the seconds until the next exchange after ``failures`` in a row, at least one."""
    return min(RETRY * 2.0 ** min(failures - 1, 10), PERIOD)


def _by_fleet(numbers: Numbers) -> Mapping[str, int]:
    return {key.hex(): number for key, number in numbers.items() if number}


def checks(trust: Trust) -> list[Check]:
    """Return doctor's checks of the fleets."""
    joined = trust.joined
    return [_checked(one, joined, trust) for one in joined.memberships.values()]


def _checked(one: Membership, joined: Joined, trust: Trust) -> Check:
    name, own = f"fleet {one.fleet.name}", one.of(trust.own[0])
    if own and own.card.fingerprint.hex() in joined.revoked():
        return Check(name, Level.FAIL, "this node's own key is revoked: its peers refuse it", _NEW_KEY)
    if one.damaged:
        return Check(name, Level.WARN, "the trust list cannot be read: no member is in force", _TAKE_LIST)
    if own and joined.late(own):
        return Check(name, Level.WARN, "the time of this node's own signed card has ended", _SIGN)
    if one.owns and any(one.of(card) is None for card in trust.own):
        return Check(name, Level.WARN, "a key of this node is not signed: peers know it by another alone", _SIGN)
    if own and replace(own.card, networks=()) != trust.own[0]:
        return Check(name, Level.WARN, "its card has changed since it was signed: peers go by the old one", _SIGN)
    peers = sum(peer.fleet == one.fleet.name for peer in trust.peers.values())
    listed = f"list of {date(one.list.number)}, {len(one.list.revoked)} keys revoked" if one.list else "no list yet"
    return Check(name, Level.OK, f"{peers} peers by its signature; {listed}; {'member' if own else 'not a member'}")


_NEW_KEY = "ask the fleet's operator why; a new key and its card signed: `meshsec key next`, `meshsec fleet sign`"
_TAKE_LIST = "`meshsec fleet take` with the newest list; a peer gives it, too"
_SIGN = "`meshsec fleet sign` by the fleet's operator, `meshsec fleet join` with the new signed card"


class FleetSide:
    """Exchange with the peers in reach. Without a fleet this does nothing and does not listen."""

    def __init__(self, own: IPv6Address, trust: Trust, spawn: Callable[[Coroutine[None, None, None]], object]) -> None:
        self._own = own
        self._trust = trust
        self._spawn = spawn
        self._holdings: Holdings = {}
        self._peers: frozenset[IPv6Address] = frozenset()
        self._reached: frozenset[IPv6Address] = frozenset()
        self._due: dict[IPv6Address, float] = {}
        """Time of the next exchange with each peer in reach."""
        self._failures: dict[IPv6Address, int] = {}
        """Failures in a row of each peer in reach."""
        self._busy: set[IPv6Address] = set()
        self._penalty: dict[IPv6Address, float] = {}
        self._old: dict[IPv6Address, tuple[int, float]] = {}
        """How often each peer has given old news, and since when that is counted."""
        self._names: dict[IPv6Address, str] = {}
        """Those of the peers in reach."""
        self._numbers: dict[IPv6Address, Numbers] = {}
        """The lists that each peer in reach has said to have."""
        self.problem = ""
        """Why peers cannot reach this node's port; empty if they can or no fleet is joined."""
        self._woken = asyncio.Event()
        self._joined = asyncio.Event()
        """Set once there is, or was, a fleet, so that peers may connect."""
        self._loop = asyncio.get_running_loop()
        self._server = exchange.ExchangeServer(lambda: self._holdings, self._admits, self._hear, self._take)
        trust.on_fleets.append(self._follow_store)

    async def run(self) -> None:
        """Run until cancelled. Exchanges begin even if this node cannot listen, because another program may use its
        port.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._listen())
                while True:
                    self._woken.clear()
                    self._begin()
                    await self._wait()
        finally:
            self._server.close()

    async def _listen(self) -> None:
        await self._joined.wait()
        while True:
            try:
                await self._server.start(self._own)
            except OSError as error:
                problem = f"TCP port {exchange.PORT} of {self._own} cannot be listened at: {error.strerror or error}"
                if problem != self.problem:
                    _log.warning("fleets: %s", problem)
                self.problem = problem
                await asyncio.sleep(_LISTEN_AGAIN)
            else:
                self.problem = ""
                return

    def checks(self) -> list[Check]:
        """Return doctor's check of the port to which peers send news. This node also asks them by itself."""
        if not self.problem:
            return []
        fix = f"`ss -ltnp 'sport = :{exchange.PORT}'` names the program that has it, `kill PID` ends it"
        return [Check("fleet port", Level.WARN, f"{self.problem}; news comes up to {PERIOD:.0f} s later", fix)]

    def follow(self, channels: Iterable[Channel]) -> None:
        """Update who is trusted and in reach, after each of the engine's turns."""
        # A node with two keys has two channels to each peer; exchanges use the present key's (ADR 0041).
        trusted = {
            channel.card.address: channel
            for channel in channels
            if channel.card and (channel.own is None or channel.own.address == self._own)
        }
        self._peers = frozenset(trusted)
        reached = frozenset(
            address
            for address, channel in trusted.items()
            if channel.state is State.PROTECTED or channel.handover.carried_since is not None
        )
        self._names = {address: peer_name(trusted[address].title) for address in reached}
        if reached == self._reached:
            return
        for address in reached - self._reached:
            self._due[address] = self._loop.time()
        for address in self._reached - reached:
            self._due.pop(address, None)
            self._failures.pop(address, None)
            self._numbers.pop(address, None)
        self._reached = reached
        self._woken.set()

    def _follow_store(self, joined: Joined) -> None:
        found = holdings(joined, self._trust.own)
        if found != self._holdings:
            self._holdings = found
            if found:
                self._joined.set()
            self._due = dict.fromkeys(self._reached, self._loop.time())
            self._woken.set()

    def _begin(self) -> None:
        now = self._loop.time()
        if not self._holdings:
            return
        for address in sorted(self._due, key=self._due.__getitem__):
            if len(self._busy) >= AT_ONCE or self._due[address] > now:
                return
            if address not in self._busy:
                self._busy.add(address)
                self._due[address] = now + PERIOD
                self._spawn(self._exchange(address))

    async def _wait(self) -> None:
        free = [at for address, at in self._due.items() if address not in self._busy]
        idle = not self._holdings or not free or len(self._busy) >= AT_ONCE
        try:
            async with asyncio.timeout_at(None if idle else min(free)):
                await self._woken.wait()
        except TimeoutError:
            return

    async def _exchange(self, address: IPv6Address) -> None:
        try:
            numbers, news = await exchange.exchange(self._own, address, self._holdings)
        except (OSError, TimeoutError, ExchangeError) as error:
            _log.debug("fleets: no exchange with %s: %s", address, error)
            if address in self._due:
                failures = self._failures[address] = self._failures.get(address, 0) + 1
                self._due[address] = min(self._due[address], self._loop.time() + retry_after(failures))
        else:
            self._failures.pop(address, None)
            self._hear(address, numbers)
            await self._take(address, news)
        finally:
            self._busy.discard(address)
            self._woken.set()

    def _hear(self, address: IPv6Address, numbers: Numbers) -> None:
        if address in self._reached:
            self._numbers[address] = numbers

    def view(self) -> Mapping[str, object]:
        """Return the answer of the method ``fleets``. A peer says which lists it has when it exchanges, which it does
        at once when it has taken one.
        """
        return {
            "schema": "meshsec-fleets-1",
            "lists": _by_fleet({key: one.number for key, one in self._holdings.items()}),
            "peers": [
                {"peer": name, "lists": _by_fleet(self._numbers.get(address, {}))}
                for address, name in sorted(self._names.items(), key=lambda one: one[1])
            ],
        }

    def _admits(self, address: IPv6Address) -> bool:
        """Return whether an address may exchange. Strangers may connect and get no answer; only a peer can use its
        address.
        """
        known = bool(self._holdings) and address in self._peers
        return known and self._penalty.get(address, 0.0) <= self._loop.time()

    async def _take(self, address: IPv6Address, news: News) -> None:
        known = {octets for one in self._holdings.values() for octets in (one.list, *one.cards.values())}
        lists, cards = ([octets for octets in given if octets not in known] for given in (news.lists, news.cards))
        if not lists and not cards:
            return
        try:
            if not await self._trust.take(lists, cards):
                self._count_old(address)
        except TrustStoreError as error:
            _log.warning("fleets: what %s gave is refused: %s", address, error)
            self._mute(address, PENALTY)

    def _count_old(self, address: IPv6Address) -> None:
        """Ignore a peer for a while that gives old news again and again: reading the store for nothing takes time."""
        now = self._loop.time()
        count, since = self._old.get(address, (0, now))
        count, since = (count + 1, since) if now - since < PERIOD else (1, now)
        self._old = {one: at for one, at in self._old.items() if one in self._peers} | {address: (count, since)}
        if count > OLD_NEWS:
            self._mute(address, RETRY)

    def _mute(self, address: IPv6Address, seconds: float) -> None:
        self._penalty = {one: at for one, at in self._penalty.items() if one in self._peers}
        self._penalty[address] = self._loop.time() + seconds
