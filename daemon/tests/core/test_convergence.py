"""The engine leads a strict fake world from any state to the desired one, in any order and with any failures."""

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from core.strategies import NODE, PEERS, observations, spec
from core.world import Driver, card, ike_sa, peer, route
from meshsec.core.channels.actions import (
    Action,
    ApplyRules,
    Initiate,
    LoadConnection,
    LoadKey,
    Terminate,
    UnloadConnection,
)
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
from meshsec.core.values.failures import Cause
from meshsec.core.values.model import IkeSa, Observed, RulesSpec
from meshsec.core.values.sa_states import IkeSaState

TRANSIENT = {state for state in IkeSaState if not state.is_live}


class Solo:
    """One engine with everything around it; peers answer every negotiation."""

    def __init__(self, observed: Observed, overlay: str = "") -> None:
        self.driver = Driver(NODE, structs.replace(DEFAULT, hold_time=20.0), overlay=overlay)
        self.rules: RulesSpec | None = observed.rules
        self.key = observed.key_loaded
        self.connections = dict(observed.connections)
        self.sas: dict[str, tuple[IkeSa, ...]] = dict(observed.ike_sas)
        self.running: list[Action] = []
        self.made = 0

    def tell(self, *events: Event) -> None:
        self._take(self.driver.tell(*events))

    def _take(self, actions: list[Action]) -> None:
        for action in actions:
            assert action not in self.running, "the same is asked for twice"
            self._check(action)
            self.running.append(action)

    def _check(self, action: Action) -> None:
        match action:
            case LoadKey():
                assert self.rules is not None, "the key before the rules"
            case LoadConnection(connection):
                assert self.key, "a configuration before the key"
                assert self.rules is not None, "a configuration before the rules"
                assert connection.remote_id in self.rules.protected, "a configuration before its rules"
            case UnloadConnection(name):
                assert name in self.connections, "unloaded and was not loaded"
            case Initiate(name, children):
                assert self.connections.get(name) == spec(int(name[1:])), "a negotiation without configuration"
                assert children, "a negotiation of nothing"

    def observed(self) -> Observed:
        return Observed(dict(self.sas), dict(self.connections), self.key)

    def fail(self, index: int) -> None:
        self.tell(ActionDone(self.running.pop(index), Cause("failed on purpose")))

    def complete(self, index: int, *, seen_first: bool = True) -> None:
        action = self.running.pop(index)
        name = self.apply(action)
        events: list[Event] = [ActionDone(action)]
        if name is not None:
            events.insert(0 if seen_first else 1, SasObserved(name, self.sas[name]))
        self.tell(*events)

    def apply(self, action: Action) -> str | None:
        """Carry out an action, and return the name of the peer whose SAs changed."""
        match action:
            case ApplyRules(rules):
                self.rules = rules
            case LoadKey():
                self.key = True
            case LoadConnection(connection):
                self.connections[connection.name] = connection
            case UnloadConnection(name):
                del self.connections[name]
            case Initiate(name, children):
                return self._initiate(name, children)
            case Terminate(unique_id, name):
                self.sas[name] = tuple(sa for sa in self.sas[name] if sa.unique_id != unique_id)
                return name
        return None

    def _initiate(self, name: str, children: tuple[str, ...]) -> str:
        self.made += 1
        now = self.driver.now
        sa = ike_sa(name, f"new{self.made}", children=children, established_at=now)
        self.sas[name] = (*self.sas.get(name, ()), replace(sa, remote_id=card(int(name[1:])).address))
        return name

    def pass_time(self, seconds: float) -> None:
        self._take(self.driver.advance(seconds))

    def end_transients(self) -> None:
        """End all transient states, and report them as the IKE daemon does."""
        for name, sas in list(self.sas.items()):
            self.sas[name] = tuple(replace(sa, state=IkeSaState.ESTABLISHED) for sa in sas if sa.state not in TRANSIENT)
            self.tell(SasObserved(name, self.sas[name]))

    def come_to_rest(self) -> None:
        for _ in range(100):
            done: list[Action] = []
            while self.running:
                done.append(self.running[0])
                self.complete(0)
                assert len(done) < 1000, f"this goes on for ever: {done[-4:]}"
            self.pass_time(5.0)
        assert not self.running


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(
    observed=observations(),
    routed=st.sets(st.sampled_from(PEERS)),
    ike_first=st.booleans(),
    daemon_restarted=st.booleans(),
    data=st.data(),
)
def test_from_any_state_in_any_order_with_any_failures_the_desired_state_is_reached(
    observed: Observed, routed: set[int], ike_first: bool, daemon_restarted: bool, data: st.DataObject
) -> None:
    solo = Solo(observed)
    routes = {route(number).destination: route(number) for number in routed}
    trust: list[Event] = [PeerSet(peer(number)) for number in PEERS]
    ike: list[Event] = [IkeDaemonUp(solo.observed(), daemon_restarted)]
    first, second = (ike, trust) if ike_first else (trust, ike)
    solo.tell(RulesObserved(solo.rules), *first, RoutesReset(routes), *second)
    for _ in range(data.draw(st.integers(0, 25))):
        disturb(solo, data, routed)
    solo.end_transients()
    solo.tell(*(RouteSet(route(number)) for number in routed), RulesObserved(solo.rules))
    solo.come_to_rest()
    assert_as_desired(solo, routed)


def disturb(solo: Solo, data: st.DataObject, routed: set[int]) -> None:
    what = data.draw(st.sampled_from(["complete", "complete", "fail", "time", "route", "trust", "rules", "loss"]))
    number = data.draw(st.sampled_from(PEERS))
    match what:
        case "complete" if solo.running:
            solo.complete(data.draw(st.integers(0, len(solo.running) - 1)), seen_first=data.draw(st.booleans()))
        case "fail" if solo.running:
            solo.fail(data.draw(st.integers(0, len(solo.running) - 1)))
        case "time":
            solo.pass_time(data.draw(st.sampled_from([0.01, 0.5, 3.0, 30.0])))
        case "route" if number in routed:
            solo.tell(RouteRemoved(route(number).destination))
            solo.tell(RouteSet(route(number)))
        case "trust":
            solo.tell(PeerRemoved(f"n{number}"))
            solo.tell(PeerSet(peer(number)))
        case "rules":
            solo.rules = None
            solo.tell(RulesObserved(None))
        case "loss":
            solo.sas[f"n{number}"] = ()
            solo.tell(SasObserved(f"n{number}", (), "lost on purpose"))


def assert_as_desired(solo: Solo, routed: set[int]) -> None:
    engine = solo.driver.engine
    assert engine.plan(solo.driver.now) == []
    assert solo.rules == engine.known.rules.wanted()
    assert solo.key
    assert solo.connections == {f"n{number}": spec(number) for number in PEERS}
    for name, sas in solo.sas.items():
        assert len(sas) == (name in {f"n{number}" for number in routed}), name
        assert all(sa.remote_id in {None, card(int(name[1:])).address} for sa in sas)
        assert all("mesh" in {child.name for child in sa.children} for sa in sas)
    for number in PEERS:
        assert solo.driver.state(number) == ("protected" if number in routed else "no-route")
    assert len(list(engine.known.channels())) == len(PEERS)
    assert len(engine.known.by_name) == len(PEERS), "something of a stranger is remembered"
