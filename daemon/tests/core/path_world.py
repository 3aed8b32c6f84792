"""Nodes that reach each other over relays of which some drop, in virtual time."""

import random
from dataclasses import dataclass, field
from ipaddress import IPv6Address
from itertools import pairwise

from meshsec.core.paths.avoidance import Avoidance, Decision, What
from meshsec.core.paths.watch import GAP, LOOK, Ask, Counted, Watch, Way
from meshsec.core.values.model import Address

STEP = 0.1
REROUTED = 0.5
"""Seconds from a decision until the way is another."""
NOTICED = 8.0
"""Seconds from the loss of a link until the router takes another way: H_HOLD_TIME, and the next HELLO or TC."""
RATE = 50
"""Packets in a second of a flow."""


def node(number: int) -> IPv6Address:
    return IPv6Address(f"fc00::{number:x}")


@dataclass
class End:
    """A node with meshsec."""

    address: IPv6Address
    relays: dict[IPv6Address, list[IPv6Address]] = field(default_factory=dict)
    """The relays to each peer, in the router's order."""
    is_on: bool = True
    watch: Watch = field(default_factory=Watch)
    avoidance: Avoidance = field(default_factory=Avoidance)
    counted: dict[IPv6Address, list[int]] = field(default_factory=dict)
    used: dict[IPv6Address, IPv6Address] = field(default_factory=dict)
    decisions: list[tuple[float, Decision]] = field(default_factory=list)
    asks: list[tuple[float, Ask]] = field(default_factory=list)

    def best(self, peer: IPv6Address) -> IPv6Address:
        relays = self.relays[peer]
        return next((one for one in relays if one not in self.avoidance.marks), relays[0])

    def made(self, what: What) -> list[tuple[float, Address]]:
        """Return when a decision was made, and about which relay."""
        return [(round(at, 1), one.relay) for at, one in self.decisions if one.what is what]


class World:
    """``drops`` has the ways over which nothing passes: relay, source and target; None is everybody."""

    def __init__(self, loss: float = 0.0) -> None:
        self.now = 0.0
        self.ends: dict[IPv6Address, End] = {}
        self.drops: set[tuple[IPv6Address, IPv6Address | None, IPv6Address | None]] = set()
        self.flows: set[tuple[IPv6Address, IPv6Address]] = set()
        self.arrived: dict[tuple[IPv6Address, IPv6Address], list[float]] = {}
        self._loss, self._random = loss, random.Random(1)
        self._moves: list[tuple[float, End, IPv6Address, IPv6Address]] = []
        self._lost: list[tuple[float, End, IPv6Address, IPv6Address]] = []

    def join(self, one: IPv6Address, other: IPv6Address, *relays: IPv6Address) -> None:
        """Have two nodes reach each other over these relays."""
        for here, there in ((one, other), (other, one)):
            end = self.ends.setdefault(here, End(here))
            end.relays[there] = [*relays]
            end.used[there] = relays[0]
            end.counted[there] = [0, 0, 0]

    def drop(self, relay: IPv6Address, source: IPv6Address | None = None, target: IPv6Address | None = None) -> None:
        """Have a relay drop what is from ``source`` and for ``target``."""
        self.drops.add((relay, source, target))

    def lose(self, relay: IPv6Address, one: IPv6Address, other: IPv6Address) -> None:
        """Have two nodes lose an honest relay between them. Their routers notice after ``NOTICED``."""
        for source, target in ((one, other), (other, one)):
            self.drop(relay, source, target)
            self._lost.append((self.now + NOTICED, self.ends[source], target, relay))

    def find(self, relay: IPv6Address, one: IPv6Address, other: IPv6Address) -> None:
        """Have two nodes find again the relay between them, which is their best."""
        for source, target in ((one, other), (other, one)):
            self.drops.discard((relay, source, target))
            self.ends[source].relays[target].insert(0, relay)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        for _ in range(round(seconds / STEP)):
            self.now = round(self.now + STEP, 1)
            self._move()
            for source, target in sorted(self.flows):
                self._carry(source, target, int(RATE * STEP))
            for end in self.ends.values():
                self._act(end)

    def gap(self, source: IPv6Address, target: IPv6Address) -> float:
        """Return the longest time without an arrival until now."""
        times = [*self.arrived.get((source, target), [0.0]), self.now]
        return max(after - before for before, after in pairwise(times))

    def _act(self, end: End) -> None:
        if self._is_time(GAP):
            self._poll(end)
        if self._is_time(LOOK):
            end.watch.count(self.now, {peer: Counted(*counts) for peer, counts in end.counted.items()})

    def _is_time(self, interval: float) -> bool:
        return round(self.now / STEP) % round(interval / STEP) == 0

    def _poll(self, end: End) -> None:
        ways = {peer: Way(relay) for peer, relay in end.used.items()}
        end.watch.follow(self.now, ways, end.avoidance.doubted(self.now))
        for ask in end.watch.poll(self.now):
            end.asks.append((self.now, ask))
            self._exchange(end, ask)
        end.decisions += [(self.now, one) for one in end.avoidance.decide(self.now, end.watch.standings())]
        for peer in end.relays:
            if (best := end.best(peer)) != end.used[peer]:
                self._moves.append((self.now + REROUTED, end, peer, best))

    def _exchange(self, end: End, ask: Ask) -> None:
        other = self.ends[ask.peer]
        if self._carry(end.address, ask.peer, 1):
            other.watch.asked_by(self.now, end.address, ask.unanswered)
            if self._carry(ask.peer, end.address, 1):
                end.watch.answered(self.now, ask.peer, ask.number)

    def _move(self) -> None:
        for at, end, peer, relay in self._lost:
            if at <= self.now:
                end.relays[peer].remove(relay)
        self._lost = [lost for lost in self._lost if lost[0] > self.now]
        for at, end, peer, relay in self._moves:
            if at <= self.now:
                end.used[peer] = relay
        self._moves = [move for move in self._moves if move[0] > self.now]

    def _carry(self, source: IPv6Address, target: IPv6Address, packets: int) -> bool:
        """Send packets, count them, and return whether any arrives."""
        here, there = self.ends[source], self.ends[target]
        if not here.is_on:
            return False
        here.counted[target][1] += packets
        here.counted[target][2] += 500 * packets
        relay = here.used[target]
        dropped = {(relay, from_, to) for from_ in (source, None) for to in (target, None)} & self.drops
        passed = 0 if dropped or not there.is_on else sum(self._random.random() >= self._loss for _ in range(packets))
        if passed:
            there.counted[source][0] += passed
            self.arrived.setdefault((source, target), []).append(self.now)
        return passed > 0
