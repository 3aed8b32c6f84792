"""How long the core takes to decide: from cold, and about one change, by the number of peers.

A sample is the CPU time from the event to the actions and the next timer; it keeps the event loop for so long on an
idle machine, and does not scatter on a busy one.
"""

import gc
import sys
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
from meshsec.core.values.model import Card, ChildSa, EspBackend, IkeSa, Observed, Peer, Route
from meshsec.core.values.sa_states import ChildSaState, IkeSaState
from rt.measure.frame import Bench
from rt.measure.plot import boxes
from rt.measure.results import QUICK

SIZES = (10, 1000) if QUICK else (10, 100, 1000)
CHANGES = 20
"""Of each kind, in a round."""
TARGETS_MS = {"cold": 100.0, "one change": 5.0}
"""At 1000 peers."""
BACKEND = EspBackend.LIBIPSEC


def main() -> int:
    """Measure a start and single changes with each number of peers."""
    bench = Bench("reconcile", __doc__, rounds=5 if QUICK else 25, rounds_are="how often a start is measured")
    rounds = bench.parse().rounds
    with bench.measuring():
        for size in SIZES:
            bench.visit(f"{size} peers, cold", partial(_cold, bench, size, rounds))
            bench.visit(f"{size} peers, one change", partial(_changes, bench, size, rounds * CHANGES))
    params = {"rounds": rounds, "sizes": SIZES, "targets_ms_at_1000_peers": TARGETS_MS, "esp": str(BACKEND)}
    targets = ", ".join(f"{what} {limit:g} ms" for what, limit in TARGETS_MS.items())
    title = f"CPU time of one decision (targets at 1000 peers: {targets})"
    return bench.finish(bench.result(params), partial(boxes, title=title, compare="peers"))


def _cold(bench: Bench, size: int, rounds: int) -> None:
    peers = [_peer(number) for number in range(1, size + 1)]
    for what, observed in (("nothing", Observed()), ("everything", _standing(peers))):
        inputs = _inputs(peers, observed)
        times = [_cold_sample(partial(_start, inputs)) for _ in range(rounds)]
        bench.take({"what": f"cold: {what} established", "peers": size}, "ms", times)


def _changes(bench: Bench, size: int, rounds: int) -> None:
    """Handle one event among ``size`` protected peers; each time another peer is drawn."""
    peers = [_peer(number) for number in range(1, size + 1)]
    running = _start(_inputs(peers, _standing(peers)))
    running.finish()
    random = Random(size)
    for round_ in range(rounds):
        peer = random.choice(peers)
        for what, event in _events(peer, round_):
            bench.take({"what": f"one change: {what}", "peers": size}, "ms", [_timed(partial(running.handle, event))])
            running.finish()


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


class _Running:
    """An engine, its clock, and the actions that it asked for."""

    def __init__(self) -> None:
        self.now = 0.0
        self.engine = Engine(_card(0), BACKEND, DEFAULT, Random(1).random)
        self.asked: list[Action] = []

    def handle(self, *events: Event) -> None:
        """Hand events in and take the decision."""
        for event in events:
            self.engine.handle(self.now, event)
        self.asked += self.engine.poll_actions()
        self.engine.poll_timeout()

    def finish(self) -> None:
        """Carry out what was asked for and let time pass; not measured where a change is."""
        while self.asked:
            done, self.asked = self.asked, []
            self.handle(*(ActionDone(action) for action in done))
        self.now += 1.0
        self.engine.handle_timeout(self.now)


def _inputs(peers: list[Peer], observed: Observed) -> list[Event]:
    routes = {route.destination: route for route in map(_route, peers)}
    cards = [PeerSet(peer) for peer in peers]
    return [*cards, RulesObserved(observed.rules), RoutesReset(routes), IkeDaemonUp(observed, daemon_restarted=False)]


def _start(inputs: list[Event]) -> _Running:
    """From an empty engine until everything is asked for but negotiations: rules, key, configurations."""
    running = _Running()
    running.handle(*inputs)
    while not any(isinstance(action, LoadConnection) for action in running.asked):
        done, running.asked = running.asked, []
        running.handle(*(ActionDone(action) for action in done))
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
            BACKEND,
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
    return Route(host(endpoint(peer.card, BACKEND)), IPv6Address("fe80::1"), "mesh0", 2, 200)


def _ike_sa(peer: Peer) -> IkeSa:
    child = ChildSa("mesh", ChildSaState.INSTALLED, "TUNNEL", "c1", "c2", "AES_GCM_16-256", 0.0)
    return IkeSa(
        f"sa-{peer.name}", peer.name, IkeSaState.ESTABLISHED, True, "i1", "r1", 0.0, (child,), peer.card.address
    )


if __name__ == "__main__":
    sys.exit(main())
