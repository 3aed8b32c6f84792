"""Choosing a suite by the deadline: a weaker one under load, a stronger one after it, none below the floor."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from core.world import Driver, ike_sa, peer, route
from meshsec.core.channels.actions import Action, Initiate, LoadConnection
from meshsec.core.channels.events import ActionDone, Event, IkeDaemonUp, PeerSet, RoutesReset, SasObserved
from meshsec.core.explain import views
from meshsec.core.policy.policy import Policy, decode_policy
from meshsec.core.policy.suite_choice import ENOUGH, PAUSE_MAX, SuiteChoice
from meshsec.core.policy.suites import Suite
from meshsec.core.values.model import IkeSa, Observed

COST = {"strong": 0.040, "middle": 0.010, "weak": 0.005}
"""Seconds that a set-up takes on a calm node."""
IKE = {
    "strong": "aes256gcm16-prfsha384-modp4096",
    "middle": "aes256gcm16-prfsha384-ecp384",
    "weak": "aes128-sha256-x25519",
}
POLICY = decode_policy(
    {
        "deadline_ms": 100,
        "floor": "weak",
        "suites": [{"name": name, "ike": ike, "esp": "aes256gcm16-x25519"} for name, ike in IKE.items()],
    }
)


def sa_of(suite: Suite) -> IkeSa:
    assert suite.algorithms
    encryption, key_exchange = suite.algorithms
    return replace(ike_sa("n5"), encryption=encryption, key_exchange=key_exchange)


def run(choice: SuiteChoice, load: float, times: int, *, now: float = 0.0) -> list[str]:
    """Set up SAs a second apart, each ``load`` times slower than on a calm node, and return the suites chosen."""
    names = []
    for number in range(times):
        suite = choice.chosen
        assert suite is not None
        names.append(suite.name)
        choice.measured(now + number, sa_of(suite), COST[suite.name] * load)
    return names


def chosen(choice: SuiteChoice) -> str:
    assert choice.chosen is not None
    return choice.chosen.name


def test_without_suites_nothing_is_chosen() -> None:
    choice = SuiteChoice(Policy())
    assert choice.chosen is None
    assert not choice.measured(1.0, ike_sa("n5"), 5.0)
    assert choice.policy() == Policy()


def test_a_calm_node_stays_with_the_strongest() -> None:
    choice = SuiteChoice(POLICY)
    assert set(run(choice, 1.0, 50)) == {"strong"}


def test_under_load_a_weaker_suite_is_chosen_and_afterwards_the_stronger_one_again() -> None:
    choice = SuiteChoice(POLICY)
    run(choice, 1.0, 3)
    assert run(choice, 5.0, 4, now=10)[-1] == "middle"
    assert choice.why == "strong takes 200.0 ms now, the deadline is 100 ms"
    run(choice, 1.0, 15, now=20)
    assert chosen(choice) == "strong"


def test_a_single_late_set_up_changes_nothing() -> None:
    choice = SuiteChoice(POLICY)
    for start in range(0, 50, 5):
        run(choice, 1.0, 4, now=start)
        run(choice, 30.0, 1, now=start + 4)
        assert chosen(choice) == "strong"


def test_when_none_meets_the_deadline_the_weakest_allowed_suite_is_chosen() -> None:
    choice = SuiteChoice(POLICY)
    run(choice, 1.0, 3)
    names = run(choice, 1000.0, 200, now=10)
    assert names[-100:] == ["weak"] * 100


def test_a_pause_in_the_load_brings_the_stronger_suite_back() -> None:
    choice = SuiteChoice(POLICY)
    run(choice, 30.0, 2)
    assert chosen(choice) == "middle"
    run(choice, 1.0, 1, now=2)
    run(choice, 30.0, 3, now=3)
    run(choice, 1.0, 60, now=10)
    assert chosen(choice) == "strong"


def test_steady_load_costs_ever_fewer_late_set_ups() -> None:
    choice = SuiteChoice(POLICY)
    names = run(choice, 3.0, 7200)
    late = [number for number, name in enumerate(names) if name == "strong"]
    assert len([number for number in late if number >= 3600]) <= ENOUGH * 3600 / PAUSE_MAX
    assert set(names) == {"strong", "middle"}


def test_a_suite_that_takes_most_of_the_deadline_is_kept_and_nothing_stronger_is_tried() -> None:
    choice = SuiteChoice(POLICY)
    assert run(choice, 8.0, 100)[-90:] == ["middle"] * 90


def test_a_suite_that_the_peer_chose_among_ours_is_no_sample_of_the_choice() -> None:
    choice = SuiteChoice(POLICY)
    for number in range(10):
        assert not choice.measured(float(number), sa_of(POLICY.suites[-1]), 5.0)
        assert not choice.measured(float(number), ike_sa("n5"), 5.0)
    assert chosen(choice) == "strong"


@given(st.lists(st.tuples(st.floats(0, 1000), st.sampled_from(POLICY.suites), st.floats(0, 100))))
def test_all_allowed_suites_stay_proposed_and_nothing_else_ever_is(
    samples: list[tuple[float, Suite, float]],
) -> None:
    choice, now = SuiteChoice(POLICY), 0.0
    for later, suite, seconds in samples:
        now += later
        choice.measured(now, sa_of(suite), seconds)
        proposed = choice.policy().ike_proposals
        assert choice.chosen is not None
        assert proposed[0] == choice.chosen.ike
        assert sorted(proposed) == sorted(IKE.values())


def test_the_engine_measures_its_own_attempts_and_gives_all_peers_the_new_order() -> None:
    made = Driver(1, POLICY)
    routes = {peer_route.destination: peer_route for peer_route in (route(5), route(6))}
    actions = made.tell(
        PeerSet(peer(5)), PeerSet(peer(6)), RoutesReset(routes), IkeDaemonUp(Observed(), daemon_restarted=False)
    )
    proposed: dict[str, str] = {}
    for _ in range(200):
        proposed |= {act.spec.name: act.spec.ike_proposals[0] for act in actions if isinstance(act, LoadConnection)}
        made.now += 0.5  # Every set-up is late: it takes 0.5 s, and up to 1 s more until the world here goes on.
        actions = made.tell(*(event for action in actions for event in outcome(made, action)))
        actions += made.advance(1.0)
        if not actions:
            actions = made.tell(SasObserved("n5", ()), SasObserved("n6", ())) + made.advance(1.0)
    assert proposed == {"n5": IKE["weak"], "n6": IKE["weak"]}
    shown = views.status(made.engine, made.now)["suites"]
    assert (shown["chosen"], shown["floor"], shown["deadline_ms"]) == ("weak", "weak", 100.0)
    assert all(500 <= entry["recent_ms"] <= 1500 and entry["samples"] >= 2 for entry in shown["measured"])


def outcome(made: Driver, action: Action) -> list[Event]:
    """Return the events of an action that succeeds."""
    if isinstance(action, Initiate):
        return [SasObserved(action.peer, (established(made, action),)), ActionDone(action)]
    return [ActionDone(action)]


def established(made: Driver, action: Initiate) -> IkeSa:
    """Return the SA that a peer makes of the first proposal."""
    channel = made.engine.known.channel(action.peer)
    assert channel is not None
    assert channel.loaded_connection is not None
    ike = channel.loaded_connection.ike_proposals[0]
    suite = next(suite for suite in POLICY.suites if suite.ike == ike)
    return replace(sa_of(suite), peer=action.peer, unique_id=str(made.now), established_at=made.now)
