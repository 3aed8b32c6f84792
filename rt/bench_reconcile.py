"""How long the core takes to decide: from cold, and about one change, by the number of peers.

A sample is the CPU time from the event to the actions and the next timer; it keeps the event loop for so long on an
idle machine, and does not scatter on a busy one.
"""

import gc
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Address, IPv6Address
from random import Random
from time import thread_time

from meshsec.core.channels.actions import Action, LoadConnection
from meshsec.core.channels.desired import addresses, endpoint, host, rules_spec
from meshsec.core.channels.engine import Engine
from meshsec.core.channels.events import (
    ActionDone,
    Event,
    IkeDaemonUp,
    PeerRemoved,
    PeerSet,
    RouteRemoved,
    RouteSet,
    RoutesReset,
    RulesObserved,
    SasObserved,
)
from meshsec.core.policy.policy import DEFAULT
from meshsec.core.values.model import Card, ChildSa, EspGround, IkeSa, Observed, Peer, Route
from meshsec.core.values.sa_states import ChildSaState, IkeSaState
from rt.measure.results import QUICK, Cell, Result

SIZES = (10, 1000) if QUICK else (10, 100, 1000)
COLD_ROUNDS = 5 if QUICK else 25
CHANGE_ROUNDS = 100 if QUICK else 500
TARGETS_MS = {"cold": 100.0, "one change": 5.0}
"""At 1000 peers."""
GROUND = EspGround.LIBIPSEC


def main() -> None:
    """Measure, write, print."""
    result = Result("reconcile", {"sizes": SIZES, "targets_ms_at_1000_peers": TARGETS_MS, "esp": str(GROUND)})
    for size in SIZES:
        result.cells += [*_cold(size), *_changes(size)]
    path = result.write()
    print("\n".join([*result.lines(), str(path)]))


def _cold(size: int) -> list[Cell]:
    peers = [_peer(number) for number in range(1, size + 1)]
    nothing, standing = _inputs(peers, Observed()), _inputs(peers, _standing(peers))
    return [
        _cell("cold: nothing stands", size, [_cold_sample(partial(_start, nothing)) for _ in range(COLD_ROUNDS)]),
        _cell("cold: everything stands", size, [_cold_sample(partial(_start, standing)) for _ in range(COLD_ROUNDS)]),
    ]


def _changes(size: int) -> list[Cell]:
    """One event among ``size`` protected peers. The peer is drawn anew each time."""
    peers = [_peer(number) for number in range(1, size + 1)]
    running = _start(_inputs(peers, _standing(peers)))
    running.finish()
    random = Random(size)
    samples: dict[str, list[float]] = {}
    for round_ in range(CHANGE_ROUNDS):
        peer = random.choice(peers)
        for what, event in _events(peer, round_):
            samples.setdefault(what, []).append(_timed(partial(running.tell, event)))
            running.finish()
    return [_cell(f"one change: {what}", size, times) for what, times in samples.items()]


def _events(peer: Peer, round_: int) -> list[tuple[str, Event]]:
    """Changes that leave the peer as it was."""
    route, stranger = _route(peer), _route(_peer(10**6 + round_))
    return [
        ("route changed", RouteSet(replace(route, hops=3 + round_ % 5))),
        ("route lost", RouteRemoved(route.destination)),
        ("route found", RouteSet(route)),
        ("SA lost", SasObserved(peer.name, (), "lost")),
        ("SA up", SasObserved(peer.name, (_ike_sa(peer),))),
        ("peer removed", PeerRemoved(peer.name)),
        ("peer added", PeerSet(peer)),
        ("SA of the peer up", SasObserved(peer.name, (_ike_sa(peer),))),
        ("stranger's route", RouteSet(stranger)),
    ]


def _cold_sample(work: Callable[[], object]) -> float:
    gc.collect()  # A start happens once in a process: it does not pay for what the sample before left behind.
    return _timed(work)


def _timed(work: Callable[[], object]) -> float:
    begin = thread_time()
    work()
    return (thread_time() - begin) * 1e3


def _cell(what: str, size: int, samples: list[float]) -> Cell:
    return Cell({"what": what, "peers": size}, "ms", samples)


class _Running:
    """An engine, its clock, and the actions that it asked for."""

    def __init__(self) -> None:
        self.now = 0.0
        self.engine = Engine(_card(0), GROUND, DEFAULT, Random(1).random)
        self.asked: list[Action] = []

    def tell(self, *events: Event) -> None:
        """Hand events in and take the decision."""
        for event in events:
            self.engine.handle(self.now, event)
        self.asked += self.engine.poll_actions()
        self.engine.poll_timeout()

    def finish(self) -> None:
        """Carry out what was asked for and let time pass; not measured where a change is."""
        while self.asked:
            done, self.asked = self.asked, []
            self.tell(*(ActionDone(action) for action in done))
        self.now += 1.0
        self.engine.handle_timeout(self.now)


def _inputs(peers: list[Peer], observed: Observed) -> list[Event]:
    routes = {route.destination: route for route in map(_route, peers)}
    cards = [PeerSet(peer) for peer in peers]
    return [*cards, RulesObserved(observed.rules), RoutesReset(routes), IkeDaemonUp(observed, fresh=False)]


def _start(inputs: list[Event]) -> _Running:
    """From an empty engine until everything is asked for but negotiations: rules, key, configurations."""
    running = _Running()
    running.tell(*inputs)
    while not any(isinstance(action, LoadConnection) for action in running.asked):
        done, running.asked = running.asked, []
        running.tell(*(ActionDone(action) for action in done))
    return running


def _standing(peers: list[Peer]) -> Observed:
    """As after a restart of meshsecd: the contents of configurations are not known, the SAs are there."""
    return Observed(
        ike_sas={peer.name: (_ike_sa(peer),) for peer in peers},
        connections=dict.fromkeys(peer.name for peer in peers),
        key_loaded=True,
        rules=rules_spec(
            _card(0),
            (address for peer in peers for address in addresses(peer.card)),
            (peer.card.locator for peer in peers),
            GROUND,
            DEFAULT,
        ),
    )


def _card(number: int) -> Card:
    return Card(
        name=f"n{number}",
        public_key=number.to_bytes(32, "big"),
        address=IPv6Address((0xFC << 120) + number),
        locator=IPv6Address((0xFD << 120) + number),
        fingerprint=number.to_bytes(32, "big"),
        ipv4=IPv4Address((10 << 24) + number),
    )


def _peer(number: int) -> Peer:
    return Peer(f"n{number}", _card(number))


def _route(peer: Peer) -> Route:
    return Route(host(endpoint(peer.card, GROUND)), IPv6Address("fe80::1"), "mesh0", 2, 200)


def _ike_sa(peer: Peer) -> IkeSa:
    child = ChildSa("mesh", ChildSaState.INSTALLED, "TUNNEL", "c1", "c2", "AES_GCM_16-256", 0.0)
    return IkeSa(
        f"sa-{peer.name}", peer.name, IkeSaState.ESTABLISHED, True, "i1", "r1", 0.0, (child,), peer.card.address
    )


if __name__ == "__main__":
    main()
