"""A strict fake of what surrounds engines: virtual time, agents, IKE daemons that talk to each other, routes.

It fails the test for an action that comes too early (before rules, key or configuration), twice, or about something
that does not exist. The IKE daemons follow strongSwan with ``unique = no``: a request with INITIAL_CONTACT (RFC 7296,
section 2.4) clears what the responder still had of the initiator. DELETE counts as reliable, because the IKE daemon
retransmits it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv6Address
from itertools import count
from random import Random

from meshsec.core.channels.actions import (
    Action,
    ApplyRules,
    Initiate,
    LoadConnection,
    LoadKey,
    OverlayAction,
    RouteNetworks,
    Terminate,
    UnloadConnection,
)
from meshsec.core.channels.desired import addresses, endpoint, host
from meshsec.core.channels.engine import Engine
from meshsec.core.channels.events import (
    ActionDone,
    Event,
    IkeDaemonDown,
    IkeDaemonUp,
    PeerRemoved,
    PeerSet,
    RouteRemoved,
    RouteSet,
    RoutesReset,
    RulesObserved,
    SasObserved,
    TunnelObserved,
)
from meshsec.core.policy.policy import Policy
from meshsec.core.values.failures import Cause, FailureKind
from meshsec.core.values.model import Card, ChildSa, ConnectionSpec, EspBackend, IkeSa, Observed, Peer, Route, RulesSpec
from meshsec.core.values.sa_states import ChildSaState, IkeSaState

BACKEND = EspBackend.LIBIPSEC


def card(number: int, *, ipv4: bool = True, key: int | None = None) -> Card:
    """Return the card of node ``number``; lower numbers have lower fingerprints. ``key``: another key for it."""
    seed = number if key is None else key
    return Card(
        name=f"n{number}",
        public_key=seed.to_bytes(32, "big"),
        address=IPv6Address((0xFC << 120) + seed),
        locator=IPv6Address((0xFD << 120) + seed),
        fingerprint=seed.to_bytes(32, "big"),
        ipv4=IPv4Address((10 << 24) + number) if ipv4 else None,
    )


def peer(number: int) -> Peer:
    return Peer(f"n{number}", card(number))


def route(number: int, hops: int = 2, backend: EspBackend = BACKEND) -> Route:
    """Return a route to the IKE end point of node ``number``."""
    return Route(host(endpoint(card(number), backend)), IPv6Address("fe80::1"), "mesh0", hops, 100 * hops)


def stranger(number: int) -> Route:
    """Return a route to an address of no known node."""
    return Route(host(IPv6Address((0xFDFF << 112) + number)), IPv6Address("fe80::1"), "mesh0", 3, 300)


def ike_sa(
    name: str,
    unique_id: str = "1",
    *,
    initiator: bool = True,
    state: IkeSaState = IkeSaState.ESTABLISHED,
    children: tuple[str, ...] = ("mesh",),
    spi: str | None = None,
    established_at: float = 0.0,
    remote_id: IPv6Address | None = None,
) -> IkeSa:
    return IkeSa(
        unique_id=unique_id,
        peer=name,
        state=state,
        initiator=initiator,
        spi_initiator=spi or f"i{unique_id}",
        spi_responder=f"r{spi or unique_id}",
        established_at=established_at,
        children=tuple(
            ChildSa(child, ChildSaState.INSTALLED, "TUNNEL", "c1", "c2", "AES_GCM_16-256", established_at)
            for child in children
        ),
        remote_id=remote_id,
    )


class Driver:
    """An engine with a clock: it takes events and gives actions."""

    def __init__(
        self, number: int = 1, policy: Policy | None = None, *, backend: EspBackend = BACKEND, overlay: str = ""
    ) -> None:
        self.now = 0.0
        self.policy = policy or Policy()
        self.engine = Engine(card(number), backend, self.policy, Random(number).random, overlay)

    def tell(self, *events: Event) -> list[Action]:
        for event in events:
            self.engine.handle(self.now, event)
        return self.engine.poll_actions()

    def succeed(self, *actions: Action) -> list[Action]:
        """Carry out actions. What the tunnel's routes are is read back, as the agent does."""
        routes = [TunnelObserved(action.routes) for action in actions if isinstance(action, RouteNetworks)]
        return self.tell(*routes, *(ActionDone(action) for action in actions))

    def advance(self, seconds: float) -> list[Action]:
        """Let time pass from timer to timer, and return the actions that the engine asks for."""
        end, actions = self.now + seconds, self.engine.poll_actions()
        while (due := self.engine.poll_timeout()) is not None and due <= end:
            assert due > self.now or not actions, "a timer that is due fires without end"
            self.now = max(self.now, due)
            self.engine.handle_timeout(self.now)
            actions += self.engine.poll_actions()
        self.now = end
        return actions

    def ready(self, *numbers: int) -> None:
        """Trust these peers, and answer every action until only negotiations are left."""
        cards = [PeerSet(peer(number)) for number in numbers]
        actions = self.tell(*cards, RoutesReset({}), IkeDaemonUp(Observed(), daemon_restarted=False))
        while actions:
            actions = self.succeed(*actions)

    def state(self, number: int) -> str:
        channel = self.engine.known.channel(f"n{number}")
        assert channel is not None
        return str(channel.state)


@dataclass(eq=False)
class Sa:
    """One end of an IKE_SA of a ``Station``."""

    unique_id: str
    peer: int
    initiator: bool
    spi_initiator: str
    spi_responder: str = ""
    established_at: float | None = None

    def report(self) -> IkeSa:
        shown = ike_sa(f"n{self.peer}", self.unique_id, initiator=self.initiator)
        if self.established_at is None:
            return replace(
                shown, state=IkeSaState.CONNECTING, children=(), spi_initiator=self.spi_initiator, spi_responder=""
            )
        return replace(
            shown,
            spi_initiator=self.spi_initiator,
            spi_responder=self.spi_responder,
            established_at=self.established_at,
            remote_id=card(self.peer).address,
        )


@dataclass(frozen=True)
class Request:
    """IKE_SA_INIT and IKE_AUTH in one."""

    spi: str
    initial_contact: bool


@dataclass(frozen=True)
class Response:
    spi_initiator: str
    spi_responder: str
    error: str = ""


@dataclass(frozen=True)
class Delete:
    spi_initiator: str


Message = Request | Response | Delete


@dataclass(frozen=True, eq=False)
class Attempt:
    """A negotiation that an engine asked for, and the time at which it is given up."""

    action: Initiate
    limit: float
    engine: Engine


@dataclass
class Station:
    """A node: engine, agent and IKE daemon."""

    number: int
    world: "World"
    engine: Engine
    connections: dict[str, ConnectionSpec] = field(default_factory=dict)
    key: bool = False
    rules: RulesSpec | None = None
    sas: list[Sa] = field(default_factory=list)
    attempts: dict[str, Attempt] = field(default_factory=dict)
    """Our own negotiations in progress, by SPI."""
    unobserved: dict[int, str] = field(default_factory=dict)
    """Peers whose SAs have changed but were not reported yet, with the reason."""
    up: bool = False
    todo: list[Action] = field(default_factory=list)
    initiated: int = 0

    def tell(self, event: Event) -> None:
        self.engine.handle(self.world.now, event)

    def take_actions(self) -> None:
        self.todo += self.engine.poll_actions()

    def work(self) -> bool:
        """Report changed SAs and carry out actions; return False when there was nothing to do."""
        self.take_actions()
        busy = bool(self.unobserved or self.todo)
        self.observe()
        for action in list(self.todo):
            self.carry_out(action)
        return busy

    # --- the agent carries out ---

    def carry_out(self, action: Action, failure: str = "") -> None:
        self.todo.remove(action)
        if not self.up and not isinstance(action, ApplyRules):
            failure = "the IKE daemon is away"
        if failure:
            self.tell(ActionDone(action, Cause(failure)))
        elif isinstance(action, Initiate):
            self._initiate(action)
        elif isinstance(action, Terminate):
            self._terminate(action)
        else:
            assert not isinstance(action, OverlayAction | RouteNetworks), "stations have neither overlay nor networks"
            self._apply(action)
            self.tell(ActionDone(action))

    def _apply(self, action: ApplyRules | LoadKey | LoadConnection | UnloadConnection) -> None:
        match action:
            case ApplyRules(rules):
                assert self.rules != rules, "rules that stand are applied again"
                self.rules = rules
            case LoadKey():
                assert not self.key, "the key is loaded twice"
                self.key = True
            case LoadConnection(spec):
                self._load(spec)
            case UnloadConnection(name):
                assert name in self.connections, f"{name} is unloaded and was not loaded"
                del self.connections[name]

    def _load(self, spec: ConnectionSpec) -> None:
        assert self.key, "a configuration is loaded before the key"
        assert self.rules is not None, "a configuration is loaded before the rules"
        assert spec.remote_id in self.rules.protected, "a configuration is loaded before the peer's rules"
        self.connections[spec.name] = spec

    def _initiate(self, action: Initiate) -> None:
        assert action.peer in self.connections, "a negotiation starts without configuration"
        own = [attempt for attempt in self.attempts.values() if attempt.engine is self.engine]
        assert all(attempt.action.peer != action.peer for attempt in own), "two attempts with a peer at once"
        assert len(own) < self.world.policy.concurrency, "more attempts than the cap"
        self.initiated += 1
        other = int(action.peer[1:])
        if self.established(other):
            self.tell(ActionDone(action))
            return
        sa = Sa(self.world.serial(), other, initiator=True, spi_initiator=self.world.serial())
        self.sas.append(sa)
        self.attempts[sa.spi_initiator] = Attempt(action, self.world.now + action.timeout, self.engine)
        self.send(other, Request(sa.spi_initiator, initial_contact=True))

    def _terminate(self, action: Terminate) -> None:
        doomed = [sa for sa in self.sas if sa.unique_id == action.unique_id]
        for sa in doomed:
            self.sas.remove(sa)
            self.changed(sa.peer, "closed by this node")
            self.send(sa.peer, Delete(sa.spi_initiator))
            self._abort(sa, "closed by this node")
        self.tell(ActionDone(action, None if doomed else Cause("no such IKE_SA")))

    def _abort(self, sa: Sa, reason: str) -> None:
        """End the attempt whose IKE_SA is closed."""
        aborted = self.attempts.pop(sa.spi_initiator, None) if sa.initiator else None
        if aborted is not None:
            self.world.recall(sa.spi_initiator)
            self.tell(ActionDone(aborted.action, Cause(reason)))

    # --- the IKE daemon ---

    def established(self, other: int) -> list[Sa]:
        return [sa for sa in self.sas if sa.peer == other and sa.established_at is not None]

    def send(self, other: int, message: Message) -> None:
        self.world.mail.append((self.number, other, message))

    def changed(self, other: int, reason: str) -> None:
        self.unobserved[other] = reason

    def receive(self, other: int, message: Message) -> None:
        if not self.up:
            return
        match message:
            case Request():
                self._on_request(other, message)
            case Response():
                self._on_response(other, message)
            case Delete(spi):
                for sa in [sa for sa in self.sas if sa.spi_initiator == spi]:
                    self.sas.remove(sa)
                    self.changed(other, "the peer closed it")
                    self._abort(sa, "the peer closed it")  # it may overtake the response

    def _on_request(self, other: int, request: Request) -> None:
        if f"n{other}" not in self.connections:
            self.send(other, Response(request.spi, "", "AUTHENTICATION_FAILED"))
            return
        known = [sa for sa in self.sas if sa.spi_initiator == request.spi]
        if not known:
            if request.initial_contact:
                self.sas = [sa for sa in self.sas if sa.peer != other or sa.established_at is None]
            sa = Sa(self.world.serial(), other, False, request.spi, self.world.serial(), self.world.now)
            self.sas.append(sa)
            self.changed(other, "")
            known = [sa]
        self.send(other, Response(request.spi, known[0].spi_responder))

    def _on_response(self, other: int, response: Response) -> None:
        attempt = self.attempts.pop(response.spi_initiator, None)
        if attempt is None:
            return
        sa = next(sa for sa in self.sas if sa.spi_initiator == response.spi_initiator)
        if response.error:
            self.sas.remove(sa)
        else:
            sa.spi_responder, sa.established_at = response.spi_responder, self.world.now
        self.changed(other, response.error)
        self.tell(
            ActionDone(attempt.action, Cause(response.error, FailureKind.NOT_TRUSTED) if response.error else None)
        )

    def retransmit(self) -> None:
        for spi, attempt in self.attempts.items():
            self.send(int(attempt.action.peer[1:]), Request(spi, initial_contact=True))

    def give_up(self) -> None:
        for spi, attempt in list(self.attempts.items()):
            if attempt.limit <= self.world.now:
                del self.attempts[spi]
                self.world.recall(spi)
                self.sas = [sa for sa in self.sas if sa.spi_initiator != spi]
                self.tell(ActionDone(attempt.action, Cause("timeout", FailureKind.NO_ANSWER)))

    def observe(self) -> None:
        for other, reason in self.unobserved.items():
            self.tell(SasObserved(f"n{other}", self.report(other), reason))
        self.unobserved.clear()

    def report(self, other: int) -> tuple[IkeSa, ...]:
        return tuple(sa.report() for sa in self.sas if sa.peer == other)

    # --- what happens to the node ---

    def trust(self, other: int) -> None:
        self.tell(PeerSet(peer(other)))

    def distrust(self, other: int) -> None:
        self.tell(PeerRemoved(f"n{other}"))

    def route(self, other: int, *, exists: bool) -> None:
        self.tell(RouteSet(route(other)) if exists else RouteRemoved(route(other).destination))

    def ike_ends(self) -> None:
        """Stop the IKE daemon regularly: it closes its SAs first."""
        for sa in self.sas:
            self.send(sa.peer, Delete(sa.spi_initiator))
        self.ike_stops()

    def ike_stops(self) -> None:
        """Kill the IKE daemon: it loses everything, informs nobody, and its actions fail."""
        self.up, self.key = False, False
        self.connections, self.sas, self.unobserved = {}, [], {}
        lost, self.attempts = self.attempts, {}
        self.tell(IkeDaemonDown("connection closed"))
        asked = [action for action in self.todo if not isinstance(action, ApplyRules)]
        self.todo = [action for action in self.todo if isinstance(action, ApplyRules)]
        for action in (*asked, *(attempt.action for attempt in lost.values())):
            self.tell(ActionDone(action, Cause("connection closed")))

    def ike_starts(self, *, daemon_restarted: bool = True) -> None:
        self.up = True
        self.tell(IkeDaemonUp(self.observed(), daemon_restarted))

    def observed(self) -> Observed:
        others = {sa.peer for sa in self.sas}
        return Observed(
            ike_sas={f"n{other}": self.report(other) for other in others},
            connections=dict.fromkeys(self.connections),
            key_loaded=self.key,
        )

    def meshsecd_restarts(self) -> None:
        """Start a new engine, which learns everything again; actions of the old one get no answer."""
        trusted = [channel.name for channel in self.engine.known.channels()]
        routes = [known for known in self.engine.known.routes if self.engine.known.routes.owners(known.destination)]
        self.todo.clear()
        self.world.start_engine(self)
        for name in trusted:
            self.trust(int(name[1:]))
        self.tell(RulesObserved(self.rules))
        for known in routes:
            self.tell(RouteSet(known))
        if self.up:
            self.ike_starts(daemon_restarted=False)


class World:
    """Stations, the messages between them, and one clock."""

    def __init__(self, *numbers: int, policy: Policy | None = None, seed: int = 0) -> None:
        self.now = 0.0
        self.mail: list[tuple[int, int, Message]] = []
        self.policy = policy or Policy()
        self._serials = count(1)
        self._seeds = Random(seed)
        self.stations: dict[int, Station] = {}
        for number in numbers:
            self.stations[number] = Station(number, self, self.new_engine(number))

    def serial(self) -> str:
        return f"{next(self._serials):08d}"

    def new_engine(self, number: int) -> Engine:
        return Engine(card(number), BACKEND, self.policy, Random(self._seeds.random()).random)

    def start_engine(self, station: Station) -> None:
        station.engine = self.new_engine(station.number)

    def deliver(self, index: int = 0) -> None:
        sender, receiver, message = self.mail.pop(index)
        self.stations[receiver].receive(sender, message)

    def lose(self, index: int) -> None:
        if not isinstance(self.mail[index][2], Delete):
            self.mail.pop(index)

    def recall(self, spi: str) -> None:
        """Take back a request that was given up, because networks do not keep packets for seconds."""
        self.mail = [entry for entry in self.mail if not (isinstance(entry[2], Request) and entry[2].spi == spi)]

    def rest(self, seconds: float = 300.0, *, until: Callable[[], bool] | None = None) -> None:
        """Stop losing messages, and let time pass until nothing happens any more."""
        end = self.now + seconds
        while True:
            self._work_off()
            if until is not None and until():
                return
            times = [time for station in self.stations.values() for time in self._times(station) if time <= end]
            if not times:
                self.now = end
                return
            self.now = max(self.now, min(times))
            for station in self.stations.values():
                station.give_up()
                station.retransmit()
                station.engine.handle_timeout(self.now)

    def _times(self, station: Station) -> list[float]:
        timeout = station.engine.poll_timeout()
        limits = [attempt.limit for attempt in station.attempts.values()]
        return limits if timeout is None else [timeout, *limits]

    def _work_off(self) -> None:
        for _ in range(10_000):
            worked = [station.work() for station in self.stations.values()]
            if self.mail:
                self.deliver()
            elif not any(worked):
                return
        raise AssertionError("the world does not come to rest: engines act without end")

    def pairs(self, one: int, other: int) -> tuple[list[str], list[str]]:
        """Return the SPIs of the IKE_SAs that each end has with the other."""
        ends = (self.stations[one].established(other), self.stations[other].established(one))
        return sorted(sa.spi_initiator for sa in ends[0]), sorted(sa.spi_initiator for sa in ends[1])


__all__ = ["Driver", "Station", "World", "addresses", "card", "ike_sa", "peer", "route", "stranger"]
