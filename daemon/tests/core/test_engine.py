"""The engine's decisions over time, one claim for each test."""

from dataclasses import replace
from ipaddress import IPv4Address, IPv6Network

import pytest
from msgspec import structs

from core.world import BACKEND, Driver, World, card, ike_sa, peer, route, stranger
from meshsec.core.channels.actions import (
    Action,
    ApplyRules,
    Initiate,
    LoadConnection,
    LoadKey,
    Terminate,
    UnloadConnection,
)
from meshsec.core.channels.desired import connection_spec
from meshsec.core.channels.diagnosis import Fault
from meshsec.core.channels.events import (
    ActionDone,
    IkeDaemonDown,
    IkeDaemonUp,
    NegotiationTimed,
    PeerRemoved,
    PeerSet,
    QuietSeen,
    RenegotiationAsked,
    RouterDown,
    RouteRemoved,
    RouteSet,
    RoutesReset,
    RulesObserved,
    SasObserved,
    TrustStoreRead,
)
from meshsec.core.channels.one_way_watch import Quiet
from meshsec.core.explain import views
from meshsec.core.explain.views import explain
from meshsec.core.policy.policy import DEFAULT, RemovedPeers
from meshsec.core.values.bypass import Bypass
from meshsec.core.values.failures import Cause, FailureKind
from meshsec.core.values.model import Observed, Peer, RulesSpec, UnknownNodes
from meshsec.core.values.routes import MAX_STRANGERS
from meshsec.core.values.sa_states import IkeSaState

NODE = 3
LOWER, HIGHER = 1, 5
"""A peer that initiates to this node, and one to which this node initiates."""
NO_ANSWER = Cause("AUTHENTICATION_FAILED: words decide nothing", FailureKind.NO_ANSWER)
FORGED = Cause("timeout: words decide nothing", FailureKind.FORGED)
DENIED = Cause("NO_PROPOSAL_CHOSEN: words decide nothing", FailureKind.DENIED)
CALM = structs.replace(DEFAULT, initiator_jitter=0.0, backoff_jitter=0.0)
"""A policy without jitter, so that tests can name times."""


def driver(*numbers: int, **changes: object) -> Driver:
    made = Driver(NODE, structs.replace(CALM, **changes))
    made.ready(*numbers)
    return made


def attempts(actions: list[Action]) -> list[str]:
    return [action.peer for action in actions if isinstance(action, Initiate)]


def protect(made: Driver, number: int, unique_id: str = "1") -> None:
    """Give the peer a route and an SA."""
    actions = made.tell(RouteSet(route(number)))
    sa = ike_sa(f"n{number}", unique_id, initiator=number > NODE, established_at=made.now)
    made.tell(SasObserved(f"n{number}", (sa,)), *(ActionDone(action) for action in actions))
    assert made.state(number) == "protected"


def initiate(made: Driver, number: int = HIGHER) -> Initiate:
    """Give the peer a route, and return the attempt of this node that follows."""
    (action,) = made.tell(RouteSet(route(number)))
    assert isinstance(action, Initiate)
    return action


# --- the order of things ---


def test_the_order_is_rules_key_configuration_negotiation() -> None:
    made = Driver(NODE, CALM)
    start = made.tell(
        IkeDaemonUp(Observed(), daemon_restarted=False),
        PeerSet(peer(HIGHER)),
        RoutesReset({route(HIGHER).destination: route(HIGHER)}),
    )
    seen = []
    while start:
        (action,) = start
        seen.append(type(action))
        start = made.succeed(action)
    assert seen == [ApplyRules, LoadKey, LoadConnection, Initiate]


def test_a_burst_of_peers_is_one_transaction_of_rules() -> None:
    made = Driver(NODE, CALM)
    (action,) = made.tell(*(PeerSet(peer(number)) for number in range(10, 40)))
    assert isinstance(action, ApplyRules)
    assert len(action.rules.locators) == 30


def test_rules_are_applied_without_the_ike_daemon_and_without_any_peer() -> None:
    (action,) = Driver(NODE).tell(RouterDown("no socket"))
    assert isinstance(action, ApplyRules)


def test_nothing_is_opened_for_a_new_peer_before_its_rules_are_in_force() -> None:
    made = driver(LOWER)
    (rules,) = made.tell(PeerSet(peer(HIGHER)), RouteSet(route(HIGHER)))
    assert isinstance(rules, ApplyRules)
    assert made.advance(30.0) == []
    (load,) = made.succeed(rules)
    assert isinstance(load, LoadConnection)


def test_rules_that_others_alter_are_restored() -> None:
    made = driver(HIGHER)
    (action,) = made.tell(RulesObserved(None))
    assert action == ApplyRules(made.engine.known.rules.wanted())
    assert made.succeed(action) == []


def test_no_action_is_requested_twice_while_it_is_in_flight() -> None:
    made = Driver(NODE)
    made.tell(PeerSet(peer(HIGHER)))
    assert made.tell(RouteSet(route(HIGHER)), RulesObserved(None)) == []
    assert made.advance(60.0) == []


@pytest.mark.parametrize("kind", [ApplyRules, LoadKey, LoadConnection])
def test_an_action_that_fails_is_tried_again_after_a_growing_delay(kind: type[Action]) -> None:
    made = Driver(NODE, CALM)
    actions = made.tell(PeerSet(peer(HIGHER)), RouteSet(route(HIGHER)), IkeDaemonUp(Observed(), daemon_restarted=False))
    while not isinstance(actions[0], kind):
        actions = made.succeed(*actions)
    times = []
    for _ in range(4):
        assert made.tell(ActionDone(actions[0], Cause("no space left"))) == []
        before = made.now
        while not (actions := made.advance(0.25)):
            pass
        times.append(made.now - before)
    assert times == [1.0, 2.0, 4.0, 8.0]


def test_a_configuration_that_fails_is_shown_as_failed() -> None:
    made = Driver(NODE, CALM)
    actions = made.tell(PeerSet(peer(HIGHER)), RouteSet(route(HIGHER)), IkeDaemonUp(Observed(), daemon_restarted=False))
    while not isinstance(actions[0], LoadConnection):
        actions = made.succeed(*actions)
    made.tell(ActionDone(actions[0], Cause("invalid proposal")))
    assert made.state(HIGHER) == "failed"
    channel = made.engine.known.channel("n5")
    assert channel is not None
    assert "invalid proposal" in channel.reason


# --- who initiates, and when ---


def test_the_lower_fingerprint_initiates_at_once_and_the_other_end_does_not() -> None:
    made = driver(LOWER, HIGHER)
    assert attempts(made.tell(RouteSet(route(HIGHER)), RouteSet(route(LOWER)))) == ["n5"]
    assert made.advance(CALM.takeover_delay - 0.001) == []


def test_the_initiator_waits_within_its_jitter() -> None:
    waits = set()
    made = driver(*range(10, 40), initiator_jitter=0.05)
    for number in range(10, 40):
        assert made.tell(RouteSet(route(number))) == []
        channel = made.engine.known.channel(f"n{number}")
        assert channel is not None
        waits.add(channel.attempt.due)
    assert 0 < min(waits) < max(waits) <= 0.05
    assert len(waits) == 30


def test_the_other_end_takes_over_when_the_initiator_does_nothing() -> None:
    made = driver(LOWER)
    made.tell(RouteSet(route(LOWER)))
    assert made.advance(CALM.takeover_delay - 0.01) == []
    assert attempts(made.advance(0.01)) == ["n1"]


def test_the_other_end_takes_over_sooner_after_a_restart_of_its_own_ike_daemon() -> None:
    made = driver(LOWER)
    protect(made, LOWER)
    made.tell(IkeDaemonDown("connection closed"))
    actions = made.tell(IkeDaemonUp(Observed(), daemon_restarted=True))
    while actions:
        actions = made.succeed(*actions)
    assert attempts(made.advance(CALM.takeover_delay_fresh - 0.01)) == []
    assert attempts(made.advance(0.01)) == ["n1"]


def test_a_negotiation_of_the_peer_is_waited_for_but_not_for_ever() -> None:
    made = driver(LOWER)
    made.tell(RouteSet(route(LOWER)))
    half_open = ike_sa("n1", state=IkeSaState.CONNECTING, initiator=False, children=())
    made.tell(SasObserved("n1", (half_open,)))
    assert made.state(LOWER) == "negotiating"
    assert made.advance(CALM.initiate_timeout - 0.01) == []
    made.advance(0.01)
    assert made.state(LOWER) == "waiting"
    for _ in range(5):
        made.tell(SasObserved("n1", (half_open,)))
    assert attempts(made.advance(CALM.takeover_delay)) == ["n1"]


def test_a_peers_sa_without_a_child_sa_is_waited_for_until_our_turn() -> None:
    """An incomplete SA is waited for less long than a half-open one, because its peer is authenticated."""
    made = driver(LOWER)
    made.tell(RouteSet(route(LOWER)))
    made.tell(SasObserved("n1", (ike_sa("n1", initiator=False, children=()),)))
    assert made.state(LOWER) == "negotiating"
    assert CALM.takeover_delay < CALM.initiate_timeout
    made.advance(CALM.takeover_delay - 0.01)
    assert made.state(LOWER) == "negotiating"
    made.advance(0.01)
    assert made.state(LOWER) == "waiting"


def test_a_half_open_ike_sa_does_not_keep_the_initiator_from_its_turn() -> None:
    made = driver(HIGHER)
    half_open = ike_sa("n5", state=IkeSaState.CONNECTING, initiator=False, children=())
    assert attempts(made.tell(RouteSet(route(HIGHER)), SasObserved("n5", (half_open,)))) == ["n5"]


def test_a_negotiation_of_the_peer_that_ends_without_sa_gives_the_turn_back() -> None:
    made = driver(LOWER)
    half_open = ike_sa("n1", state=IkeSaState.CONNECTING, initiator=False, children=())
    made.tell(RouteSet(route(LOWER)), SasObserved("n1", (half_open,)))
    made.tell(SasObserved("n1", ()))
    assert made.state(LOWER) == "waiting"
    assert attempts(made.advance(CALM.takeover_delay)) == ["n1"]


def test_the_peers_sa_ends_the_wait_without_an_attempt_of_our_own() -> None:
    made = driver(LOWER)
    protect(made, LOWER)
    assert made.advance(3600.0) == []
    channel = made.engine.known.channel("n1")
    assert channel is not None
    assert channel.attempt.count == 0


# --- attempts ---


def test_the_success_of_an_attempt_counts_only_with_the_sa() -> None:
    made = driver(HIGHER)
    made.succeed(initiate(made))
    assert made.state(HIGHER) == "negotiating"
    made.advance(CALM.backoff_first)
    assert made.state(HIGHER) == "failed"
    channel = made.engine.known.channel("n5")
    assert channel is not None
    assert channel.attempt.last_failure is not None
    assert channel.attempt.last_failure.diagnosis.fault == "node"
    assert attempts(made.advance(CALM.backoff_first)) == ["n5"]


@pytest.mark.parametrize("sa_first", [True, False])
def test_success_and_sa_may_come_in_either_order(sa_first: bool) -> None:
    made = driver(HIGHER)
    action = initiate(made)
    seen = SasObserved("n5", (ike_sa("n5", established_at=made.now),))
    done = ActionDone(action)
    assert made.tell(*((seen, done) if sa_first else (done, seen))) == []
    assert made.state(HIGHER) == "protected"
    assert made.advance(3600.0) == []


def test_an_ike_sa_whose_delete_is_not_answered_does_not_count_as_newer() -> None:
    """libreswan 5.2 lists it as established while it repeats the DELETE."""
    made = driver(HIGHER)
    protect(made, HIGHER, "1")
    made.advance(60.0)
    both = (ike_sa("n5", "2", initiator=False), ike_sa("n5", "1"))
    (closing,) = made.tell(SasObserved("n5", both))
    assert isinstance(closing, Terminate)
    assert closing.unique_id == "1"
    made.tell(ActionDone(closing))
    made.advance(20.0)
    again = made.tell(SasObserved("n5", both))
    assert {action.unique_id for action in again if isinstance(action, Terminate)} == {"1"}


def test_a_failed_attempt_is_tried_again_with_growing_delays_up_to_the_maximum() -> None:
    made = driver(HIGHER)
    action: Action = initiate(made)
    delays = []
    for _ in range(8):
        made.tell(ActionDone(action, Cause("AUTHENTICATION_FAILED", FailureKind.NOT_TRUSTED)))
        assert made.state(HIGHER) == "failed"
        before = made.now
        while not (actions := made.advance(0.5)):
            pass
        (action,) = actions
        delays.append(made.now - before)
    assert delays == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]


def test_an_attempt_after_failed_ones_may_take_twice_as_long() -> None:
    made = driver(HIGHER)
    action = initiate(made)
    assert action.timeout == CALM.initiate_timeout
    for _ in range(3):
        made.tell(ActionDone(action, NO_ANSWER))
        (again,) = made.advance(CALM.backoff_max)
        assert isinstance(again, Initiate)
        assert again.timeout == 2 * CALM.initiate_timeout
        action = again
    made.tell(SasObserved("n5", (ike_sa("n5", established_at=made.now),)), ActionDone(action))
    made.advance(CALM.backoff_max)
    (first, *_) = made.tell(SasObserved("n5", ()))
    assert isinstance(first, Initiate)
    assert first.timeout == CALM.initiate_timeout, "what failed before counts no more"


def test_an_sa_whose_remote_address_was_rewritten_is_closed_and_negotiated_again() -> None:
    made = driver(HIGHER)
    action = initiate(made)
    own, other = card(HIGHER).locator, card(LOWER).locator
    made.tell(SasObserved("n5", (replace(ike_sa("n5", "7"), remote_host=own),)), ActionDone(action))
    assert made.state(HIGHER) == "protected"
    (closing,) = made.tell(SasObserved("n5", (replace(ike_sa("n5", "7"), remote_host=other),)))
    assert isinstance(closing, Terminate)
    assert closing.unique_id == "7"
    assert made.state(HIGHER) != "protected"
    channel = made.engine.known.channel("n5")
    assert channel is not None
    assert f"rewrote its remote address to {other}" in channel.reason


def test_an_sa_that_was_rewritten_while_meshsecd_was_away_is_closed_at_its_start() -> None:
    made = driver(HIGHER)
    protect(made, HIGHER)
    moved = replace(ike_sa("n5", "7"), remote_host=card(LOWER).locator)
    actions = made.tell(IkeDaemonUp(Observed(ike_sas={"n5": (moved,)}), daemon_restarted=False))
    assert [one.unique_id for one in actions if isinstance(one, Terminate)] == ["7"]
    assert made.state(HIGHER) != "protected"


def test_a_negotiation_with_another_address_is_no_rewritten_sa() -> None:
    made = driver(HIGHER)
    half_open = replace(
        ike_sa("n5", "7", state=IkeSaState.CONNECTING, children=()), remote_host=card(LOWER).locator, initiator=False
    )
    assert not [one for one in made.tell(SasObserved("n5", (half_open,))) if isinstance(one, Terminate)]


def test_a_peer_is_known_by_its_end_point() -> None:
    made = driver(HIGHER)
    assert made.engine.known.peer_at(str(card(HIGHER).locator)) == "n5"
    assert made.engine.known.peer_at(str(card(HIGHER).address)) == ""
    assert made.engine.known.peer_at("fd00::99") == ""


@pytest.mark.parametrize("cause", [FORGED, DENIED], ids=["forged", "denied"])
def test_attempts_that_fail_by_answers_of_others_are_repeated_without_growing_delays(cause: Cause) -> None:
    made = driver(HIGHER)
    action: Action = initiate(made)
    for _ in range(8):
        made.tell(ActionDone(action, cause))
        assert made.state(HIGHER) == "failed"
        (action,) = made.advance(0.5)
    channel = made.engine.known.channel("n5")
    assert channel is not None
    assert channel.attempt.last_failure is not None
    assert channel.attempt.last_failure.diagnosis.fault is Fault.PATH
    assert not channel.unauthenticated()
    made.tell(ActionDone(action, NO_ANSWER))
    assert channel.attempt.last_failure.diagnosis.meaning == f"no answer from {card(HIGHER).locator}"
    assert made.advance(CALM.backoff_first - 0.01) == [], "an ordinary failure has its ordinary delay"
    assert attempts(made.advance(0.01)) == ["n5"]


@pytest.mark.parametrize("cause", [FORGED, DENIED], ids=["forged", "denied"])
def test_an_sa_of_the_peers_is_not_doubted_because_somebody_forged_answers_to_our_attempt(cause: Cause) -> None:
    made = driver(HIGHER)
    action = initiate(made)
    made.tell(SasObserved("n5", (ike_sa("n5", initiator=False),)))
    assert made.tell(ActionDone(action, cause)) == []
    assert made.state(HIGHER) == "protected"


def test_an_sa_of_ours_is_not_doubted_when_another_attempt_was_unanswered() -> None:
    made = driver(HIGHER)
    action = initiate(made)
    assert made.tell(SasObserved("n5", (ike_sa("n5", initiator=True),)), ActionDone(action, NO_ANSWER)) == []
    assert made.state(HIGHER) == "protected"


def test_the_age_of_an_sa_counts_from_when_it_was_first_seen() -> None:
    made = driver(HIGHER)
    protect(made, HIGHER)
    channel = made.engine.known.channel("n5")
    assert channel is not None
    first = dict(channel.sas.first_seen)
    assert list(first.values()) == [made.now]
    made.advance(5.0)
    made.tell(SasObserved("n5", channel.sas.listed))
    assert channel.sas.first_seen == first


def test_a_silent_sa_is_known_until_something_arrives() -> None:
    made = driver(LOWER, HIGHER)
    quiet = Quiet(1.0, answers=False)
    for peers in ({"n5": quiet}, {}):
        made.tell(QuietSeen(peers))
        channel = made.engine.known.channel("n5")
        assert channel is not None
        assert channel.quiet == peers.get("n5")


def test_the_delay_after_failures_outlives_a_flapping_route() -> None:
    made = driver(HIGHER)
    made.tell(ActionDone(initiate(made), NO_ANSWER))
    for _ in range(100):
        made.tell(RouteRemoved(route(HIGHER).destination), RouteSet(route(HIGHER)))
    assert made.advance(CALM.backoff_first - 0.01) == []
    assert attempts(made.advance(0.01)) == ["n5"]


def test_a_route_that_flaps_during_an_attempt_starts_no_second_one() -> None:
    made = driver(HIGHER)
    action = initiate(made)
    for _ in range(100):
        assert made.tell(RouteRemoved(route(HIGHER).destination)) == []
        assert made.state(HIGHER) == "no-route"
        assert made.tell(RouteSet(route(HIGHER))) == []
        assert made.state(HIGHER) == "negotiating"
    made.tell(SasObserved("n5", (ike_sa("n5"),)), ActionDone(action))
    assert made.state(HIGHER) == "protected"


def test_an_answer_to_no_action_is_ignored() -> None:
    made = driver(HIGHER)
    action = initiate(made)
    made.tell(IkeDaemonDown("connection closed"))
    assert made.state(HIGHER) == "waiting"
    made.tell(ActionDone(action, NO_ANSWER))
    channel = made.engine.known.channel("n5")
    assert channel is not None
    assert channel.attempt.last_failure is None


def test_a_refusal_after_the_peers_own_success_is_no_failure() -> None:
    made = driver(HIGHER)
    action = initiate(made)
    made.tell(
        SasObserved("n5", (ike_sa("n5", initiator=False),)),
        ActionDone(action, Cause("NO_PROPOSAL_CHOSEN", FailureKind.NO_PROPOSAL)),
    )
    assert made.state(HIGHER) == "protected"
    channel = made.engine.known.channel("n5")
    assert channel is not None
    assert channel.attempt.last_failure is None


@pytest.mark.parametrize("cause", [NO_ANSWER, Cause("CHILD_SA 'mesh' not established after 10000ms")])
def test_a_peers_sa_is_doubted_when_our_simultaneous_attempt_was_unanswered(cause: Cause) -> None:
    """Our request may have made the peer drop that SA (INITIAL_CONTACT)."""
    made = driver(HIGHER)
    action = initiate(made)
    established = ike_sa("n5", "7", initiator=False)
    (closing,) = made.tell(SasObserved("n5", (established,)), ActionDone(action, cause))
    assert isinstance(closing, Terminate)
    assert closing.unique_id == "7"
    channel = made.engine.known.channel("n5")
    assert channel is not None
    assert channel.attempt.last_failure is not None
    assert channel.attempt.last_failure.cause == cause
    assert made.advance(CALM.backoff_first) == [], "the IKE daemon would build on the SA that is being closed"
    assert attempts(made.succeed(closing)) == ["n5"]


# --- limits ---


def test_no_more_attempts_at_once_than_the_cap_and_each_end_makes_room_for_one() -> None:
    made = driver(*range(10, 30), concurrency=4)
    running = made.tell(*(RouteSet(route(number)) for number in range(10, 30)))
    assert attempts(running) == ["n10", "n11", "n12", "n13"]
    assert made.advance(5.0) == []
    order = attempts(running)
    while running:
        action = running.pop(0)
        assert isinstance(action, Initiate)
        started = made.tell(SasObserved(action.peer, (ike_sa(action.peer),)), ActionDone(action))
        assert len(started) <= 1
        running += started
        order += attempts(started)
        assert len(running) <= 4
    assert order == [f"n{number}" for number in range(10, 30)]


def test_attempts_in_all_keep_to_the_rate_after_the_burst() -> None:
    made = driver(*range(10, 60), concurrency=64, initiate_rate=2.0, initiate_burst=5)
    assert len(attempts(made.tell(*(RouteSet(route(number)) for number in range(10, 60))))) == 5
    assert len(attempts(made.advance(10.0))) == 20
    assert len(attempts(made.advance(10.0))) == 20
    assert len(attempts(made.advance(100.0))) == 5


def test_a_peer_that_needs_no_attempt_any_more_leaves_the_queue() -> None:
    made = driver(10, 11, 12, concurrency=1)
    (first,) = made.tell(*(RouteSet(route(number)) for number in (10, 11, 12)))
    assert ["its place" in planned.why for planned in made.engine.plan(made.now)] == [False, True, True]
    made.tell(RouteRemoved(route(11).destination))
    assert attempts(made.tell(ActionDone(first, NO_ANSWER))) == ["n12"]


def test_routes_to_strangers_cost_nothing_but_a_bounded_table() -> None:
    made = driver(HIGHER)
    for number in range(MAX_STRANGERS + 1000):
        made.engine.handle(made.now, RouteSet(stranger(number)))
    assert made.engine.poll_actions() == []
    assert made.engine.poll_timeout() is None
    assert len(list(made.engine.known.routes)) == MAX_STRANGERS
    assert made.engine.known.routes.truncated
    assert attempts(made.tell(RouteSet(route(HIGHER)))) == ["n5"]


def test_a_table_full_of_strangers_empties_with_the_next_snapshot() -> None:
    made = driver(HIGHER)
    for number in range(MAX_STRANGERS + 1):
        made.engine.handle(made.now, RouteSet(stranger(number)))
    made.tell(RoutesReset({stranger(1).destination: stranger(1)}))
    assert list(made.engine.known.routes) == [stranger(1)]
    assert not made.engine.known.routes.truncated
    made.tell(RouteRemoved(stranger(1).destination))
    assert list(made.engine.known.routes) == []


def test_an_sa_that_does_not_last_is_damped() -> None:
    """Two ends that close each other's SA at once do not negotiate without end."""
    made = driver(HIGHER)
    made_attempts = 0
    actions = made.tell(RouteSet(route(HIGHER)))
    while made.now < 120.0:
        for action in actions:
            assert isinstance(action, Initiate)
            made_attempts += 1
            made.tell(ActionDone(action), SasObserved("n5", (ike_sa("n5", str(made_attempts)),)))
            made.tell(SasObserved("n5", (), "closed by the peer"))
        actions = made.advance(0.5)
    assert made_attempts <= 9


def test_only_the_first_sa_that_does_not_last_is_replaced_at_once() -> None:
    made = driver(HIGHER)
    protect(made, HIGHER)
    made.advance(0.3)
    again = made.tell(SasObserved("n5", (), "closed by the peer")) + made.advance(0.2)
    assert attempts(again) == ["n5"]
    made.tell(*(ActionDone(action) for action in again), SasObserved("n5", (ike_sa("n5", "2"),)))
    made.advance(0.3)
    assert made.tell(SasObserved("n5", (), "closed by the peer")) + made.advance(0.9) == []
    assert attempts(made.advance(0.2)) == ["n5"]


def test_an_sa_that_lasted_is_replaced_at_once() -> None:
    made = driver(HIGHER)
    protect(made, HIGHER)
    made.advance(60.0)
    made.engine.handle(made.now, SasObserved("n5", (), "closed by the peer"))
    channel = made.engine.known.channel("n5")
    assert channel is not None
    assert channel.reason == "the SA is gone: closed by the peer"
    assert attempts(made.engine.poll_actions()) == ["n5"]


# --- routes come and go ---


def test_a_route_change_renegotiates_nothing() -> None:
    made = driver(HIGHER)
    protect(made, HIGHER)
    for hops in (3, 4, 2):
        assert made.tell(RouteSet(route(HIGHER, hops))) == []
    channel = made.engine.known.channel("n5")
    assert channel is not None
    assert channel.route == route(HIGHER, 2)
    assert made.state(HIGHER) == "protected"
    assert made.advance(3600.0) == []


def test_a_peer_that_is_back_within_the_hold_time_has_its_old_sa() -> None:
    made = driver(HIGHER)
    protect(made, HIGHER)
    made.tell(RouteRemoved(route(HIGHER).destination))
    assert made.state(HIGHER) == "held"
    assert made.advance(CALM.hold_time - 1) == []
    assert made.tell(RouteSet(route(HIGHER))) == []
    assert made.state(HIGHER) == "protected"
    assert made.advance(3600.0) == []


def test_an_sa_without_route_is_closed_after_the_hold_time() -> None:
    made = driver(HIGHER)
    protect(made, HIGHER, "7")
    made.tell(RouteRemoved(route(HIGHER).destination))
    assert made.advance(CALM.hold_time - 0.01) == []
    (action,) = made.advance(0.02)
    assert isinstance(action, Terminate)
    assert action.unique_id == "7"
    assert made.state(HIGHER) == "no-route"
    assert made.succeed(action) == []
    assert made.advance(3600.0) == []


def test_a_route_that_returns_while_the_sa_is_being_closed_gets_a_new_one() -> None:
    made = driver(HIGHER)
    protect(made, HIGHER)
    made.tell(RouteRemoved(route(HIGHER).destination))
    (closing,) = made.advance(CALM.hold_time)
    made.tell(RouteSet(route(HIGHER)))
    actions = made.succeed(closing) + made.advance(CALM.backoff_first)
    assert attempts(actions) == ["n5"]


def test_without_the_routing_daemon_the_known_routes_stay_in_force() -> None:
    made = driver(LOWER, HIGHER)
    protect(made, HIGHER)
    protect(made, LOWER)
    made.tell(RouteRemoved(route(LOWER).destination), RouterDown("killed"))
    assert made.advance(10 * CALM.hold_time) == []
    assert (made.state(HIGHER), made.state(LOWER)) == ("protected", "held")
    assert made.tell(RoutesReset({route(HIGHER).destination: route(HIGHER, 3)})) == []
    assert made.state(HIGHER) == "protected"
    (action,) = made.advance(0.0)
    assert isinstance(action, Terminate)
    assert action.peer == "n1"


def test_a_hold_time_that_runs_when_the_routing_daemon_goes_does_not_end_without_it() -> None:
    made = driver(HIGHER)
    protect(made, HIGHER)
    made.tell(RouteRemoved(route(HIGHER).destination))
    made.advance(CALM.hold_time / 2)
    made.tell(RouterDown("killed"))
    assert made.advance(CALM.hold_time) == []
    assert made.state(HIGHER) == "held"


def test_a_snapshot_without_a_peers_route_is_a_loss_of_it() -> None:
    made = driver(HIGHER)
    protect(made, HIGHER)
    made.tell(RouterDown("killed"), RoutesReset({}))
    assert made.state(HIGHER) == "held"


def test_a_peer_that_is_added_after_its_route_is_seen_to_have_one() -> None:
    made = driver()
    made.tell(RouteSet(route(HIGHER)))
    actions = made.tell(PeerSet(peer(HIGHER)))
    while not isinstance(actions[0], Initiate):
        actions = made.succeed(*actions)
    assert attempts(actions) == ["n5"]


# --- the IKE daemon comes and goes ---


def test_after_a_restart_of_meshsecd_existing_sas_are_adopted_without_renegotiation() -> None:
    made = Driver(NODE, CALM)
    made.now = 1000.0
    established = Observed({"n5": (ike_sa("n5", established_at=10.0),)}, {"n5": None}, key_loaded=True)
    rules = rules_for_higher()
    actions = made.tell(
        PeerSet(peer(HIGHER)),
        RulesObserved(rules),
        RoutesReset({route(HIGHER).destination: route(HIGHER)}),
        IkeDaemonUp(established, daemon_restarted=False),
    )
    assert actions == [LoadConnection(connection_spec(card(NODE), peer(HIGHER), BACKEND, CALM))]
    assert made.state(HIGHER) == "protected"
    assert made.succeed(*actions) == []
    assert made.advance(3600.0) == []
    channel = made.engine.known.channel("n5")
    assert channel is not None
    assert channel.attempt.route_to_protected is None


def rules_for_higher() -> RulesSpec:
    made = Driver(NODE, CALM)
    made.tell(PeerSet(peer(HIGHER)))
    return made.engine.known.rules.wanted()


def test_an_attempt_that_a_killed_meshsecd_left_is_closed_and_repeated() -> None:
    """If it succeeded later, the peer would drop what was negotiated since."""
    made = Driver(NODE, CALM)
    half_open = ike_sa("n5", "7", state=IkeSaState.CONNECTING, children=())
    observed = Observed({"n5": (half_open,)}, {"n5": None}, key_loaded=True)
    actions = made.tell(
        PeerSet(peer(HIGHER)),
        RulesObserved(rules_for_higher()),
        RoutesReset({route(HIGHER).destination: route(HIGHER)}),
        IkeDaemonUp(observed, daemon_restarted=False),
    )
    assert [action.unique_id for action in actions if isinstance(action, Terminate)] == ["7"]
    assert attempts(made.succeed(*actions) + made.advance(0.0)) == ["n5"]
    assert made.tell(SasObserved("n5", (replace(half_open, unique_id="8"),))) == []


def test_an_attempt_that_succeeded_is_not_closed_because_of_an_older_view_of_it() -> None:
    made = driver(HIGHER)
    action = initiate(made)
    assert (
        made.tell(SasObserved("n5", (ike_sa("n5", state=IkeSaState.CONNECTING, children=()),)), ActionDone(action))
        == []
    )


def test_sas_that_are_seen_before_the_cards_are_adopted_too() -> None:
    made = Driver(NODE, CALM)
    established = Observed({"n5": (ike_sa("n5"),)}, {"n5": None}, key_loaded=True)
    actions = made.tell(
        IkeDaemonUp(established, daemon_restarted=False), PeerSet(peer(HIGHER)), RouteSet(route(HIGHER))
    )
    while actions:
        assert not any(isinstance(action, Terminate | UnloadConnection | Initiate) for action in actions)
        actions = made.succeed(*actions)
    assert made.state(HIGHER) == "protected"


def test_a_restarted_ike_daemon_is_configured_again_and_sas_come_back() -> None:
    made = driver(HIGHER)
    protect(made, HIGHER)
    made.tell(IkeDaemonDown("connection closed"))
    assert made.state(HIGHER) == "waiting"
    assert made.advance(60.0) == []
    kinds, actions = [], made.tell(IkeDaemonUp(Observed(), daemon_restarted=True))
    while actions:
        kinds += [type(action) for action in actions]
        actions = made.succeed(*actions) + made.advance(0.0)
    assert kinds == [LoadKey, LoadConnection, Initiate]


def test_a_restarted_ike_daemon_is_recognised_without_notice_of_the_old_ones_end() -> None:
    made = driver(HIGHER)
    protect(made, HIGHER)
    made.advance(60.0)
    assert LoadKey() in made.tell(IkeDaemonUp(Observed(), daemon_restarted=True))
    assert made.state(HIGHER) == "waiting"


def test_a_restarted_ike_daemon_ends_the_delays_after_failures() -> None:
    made = driver(HIGHER)
    action: Action = initiate(made)
    for _ in range(8):
        made.tell(ActionDone(action, NO_ANSWER))
        action = (made.advance(60.0))[-1]
    made.tell(ActionDone(action, NO_ANSWER))
    actions = made.tell(IkeDaemonUp(Observed(), daemon_restarted=True))
    while actions and not attempts(actions):
        actions = made.succeed(*actions) + made.advance(0.0)
    assert attempts(actions) == ["n5"]


def test_an_ike_daemon_that_was_only_slow_keeps_its_sas() -> None:
    made = driver(HIGHER)
    protect(made, HIGHER)
    made.tell(IkeDaemonDown("timeout"))
    spec = connection_spec(card(NODE), peer(HIGHER), BACKEND, CALM)
    back = Observed({"n5": (ike_sa("n5"),)}, {"n5": spec}, key_loaded=True)
    assert made.tell(IkeDaemonUp(back, daemon_restarted=False)) == []
    assert made.state(HIGHER) == "protected"


def test_a_held_sa_is_lost_with_the_ike_daemon() -> None:
    made = driver(HIGHER)
    protect(made, HIGHER)
    made.tell(RouteRemoved(route(HIGHER).destination), IkeDaemonDown("connection closed"))
    assert made.state(HIGHER) == "no-route"
    assert made.advance(2 * CALM.hold_time) == []


# --- trust ---


def test_a_removed_peer_loses_its_sas_at_once_and_is_forgotten() -> None:
    """Its user data is barred until the peer confirms the end of the SA, which a lossy link may delay."""
    made = driver(HIGHER)
    protect(made, HIGHER, "7")
    bar, unload, terminate = made.tell(PeerRemoved("n5"))
    assert isinstance(bar, ApplyRules)
    assert bar.rules.barred == {card(HIGHER).address, card(HIGHER).ipv4}
    assert unload == UnloadConnection("n5")
    assert isinstance(terminate, Terminate)
    assert (terminate.unique_id, terminate.patient) == ("7", True)
    closing = ike_sa("n5", "7", state=IkeSaState.DELETING)
    assert made.tell(SasObserved("n5", (closing,)), *(ActionDone(action) for action in (bar, unload, terminate))) == []
    assert made.engine.known.rules.wanted().barred == bar.rules.barred
    (lift,) = made.tell(SasObserved("n5", ()))
    assert isinstance(lift, ApplyRules)
    assert lift.rules.barred == frozenset()
    assert made.succeed(lift) == []
    assert made.engine.known.channel("n5") is None
    assert made.engine.plan(made.now) == []
    assert made.tell(RouteSet(route(HIGHER))) == []


def test_a_removed_peer_without_an_sa_is_barred_until_its_configuration_is_gone() -> None:
    """It may be negotiating one, which the IKE daemon shows after the command has answered."""
    made = driver(HIGHER)
    bar, unload = made.tell(PeerRemoved("n5"))
    assert isinstance(bar, ApplyRules)
    assert bar.rules.barred == {card(HIGHER).address, card(HIGHER).ipv4}
    assert unload == UnloadConnection("n5")
    assert made.succeed(bar) == []
    (terminate,) = made.tell(SasObserved("n5", (ike_sa("n5", "7"),)))
    assert made.tell(SasObserved("n5", ()), ActionDone(terminate)) == []
    assert made.engine.known.rules.wanted().barred == bar.rules.barred
    (lift,) = made.tell(ActionDone(unload))
    assert isinstance(lift, ApplyRules)
    assert lift.rules.barred == frozenset()


@pytest.mark.parametrize("cause", [None, Cause("busy")])
def test_a_peer_that_is_removed_while_it_is_being_configured_is_not_left_in_the_ike_daemon(cause: Cause | None) -> None:
    made = driver()
    (rules,) = made.tell(PeerSet(peer(HIGHER)))
    (load,) = made.succeed(rules)
    assert isinstance(load, LoadConnection)
    (bar,) = made.tell(PeerRemoved("n5"))
    assert isinstance(bar, ApplyRules)
    actions = made.tell(ActionDone(bar), ActionDone(load, cause))
    if cause is None:
        assert actions == [UnloadConnection("n5")]
        assert made.engine.known.rules.wanted().barred == {card(HIGHER).address, card(HIGHER).ipv4}
        actions = made.succeed(*actions)
    (lift,) = actions
    assert isinstance(lift, ApplyRules)
    assert lift.rules.barred == frozenset()
    assert list(made.engine.known.by_name) == []


def test_a_removed_peer_that_comes_again_under_another_name_is_not_barred() -> None:
    made = driver(HIGHER)
    protect(made, HIGHER, "7")
    made.tell(PeerRemoved("n5"), PeerSet(Peer("boat", card(HIGHER))))
    assert made.engine.known.rules.wanted().barred == frozenset()


def test_no_address_is_barred_after_the_ike_daemon_and_its_sas_are_gone() -> None:
    made = driver(HIGHER)
    protect(made, HIGHER, "7")
    made.tell(PeerRemoved("n5"), IkeDaemonDown("killed"))
    assert made.engine.known.rules.wanted().barred == frozenset()


def test_the_policy_decides_whether_the_drop_rule_of_a_removed_peer_stays() -> None:
    for removed_peers, stands in ((RemovedPeers.DROP, True), (RemovedPeers.OPEN, False)):
        made = driver(LOWER, HIGHER, removed_peers=removed_peers)
        made.succeed(*made.tell(PeerRemoved("n5")))
        wanted = made.engine.known.rules.wanted()
        assert (card(HIGHER).address in wanted.protected) is stands
        assert (card(HIGHER).locator in wanted.locators) is stands
        assert card(LOWER).address in wanted.protected


@pytest.mark.parametrize(("removed_peers", "stands"), [(RemovedPeers.DROP, True), (RemovedPeers.OPEN, False)])
def test_after_a_restart_of_meshsecd_the_drop_rule_of_a_removed_peer_follows_the_policy(
    removed_peers: RemovedPeers, stands: bool
) -> None:
    before = driver(LOWER, HIGHER).engine.known.rules.wanted()
    made = Driver(NODE, structs.replace(CALM, removed_peers=removed_peers))
    actions = made.tell(PeerSet(peer(LOWER)), RulesObserved(before))
    assert (actions == []) is stands
    assert (card(HIGHER).address in made.engine.known.rules.wanted().protected) is stands


def test_rules_of_other_programs_are_not_mistaken_for_those_of_removed_peers() -> None:
    made = driver(LOWER)
    (action,) = made.tell(RulesObserved(driver(LOWER, HIGHER).engine.known.rules.wanted()))
    assert isinstance(action, ApplyRules)
    assert card(HIGHER).address not in action.rules.protected


def test_while_a_card_is_refused_unknown_nodes_are_closed_even_where_the_policy_allows_them() -> None:
    """The card's peer must not count as an unknown node, to which data may go in the clear."""
    made = driver(HIGHER, unknown_nodes=UnknownNodes.ALLOW)
    assert made.engine.known.rules.in_force is not None
    assert made.engine.known.rules.in_force.unknown_nodes is UnknownNodes.ALLOW
    (closing,) = made.tell(TrustStoreRead(("boat.card: corrupt",)))
    assert isinstance(closing, ApplyRules)
    assert closing.rules.unknown_nodes is UnknownNodes.DROP
    assert closing.rules.protected == made.engine.known.rules.in_force.protected
    assert made.succeed(closing) == []
    opening = made.tell(TrustStoreRead(()), PeerSet(peer(LOWER)))
    assert isinstance(opening[0], ApplyRules)
    assert opening[0].rules.unknown_nodes is UnknownNodes.ALLOW
    assert card(LOWER).address in opening[0].rules.protected, "the peer's rules come with the opening, not after it"


def test_while_a_card_is_refused_nothing_is_bypassed() -> None:
    entry = Bypass(IPv6Network("fd12:3456:789a::/64"), "the ship's clock")
    made = driver(HIGHER, bypass=(entry,))
    assert made.engine.known.rules.in_force is not None
    assert made.engine.known.rules.in_force.bypass == (entry,)
    (closing,) = made.tell(TrustStoreRead(("boat.card: corrupt",)))
    assert isinstance(closing, ApplyRules)
    assert closing.rules.bypass == ()
    assert made.engine.known.rules.closed_by_doubt


def test_a_refused_card_at_the_start_never_opens_unknown_nodes() -> None:
    made = Driver(NODE, structs.replace(CALM, unknown_nodes=UnknownNodes.ALLOW))
    (first,) = made.tell(TrustStoreRead(("boat.card: corrupt",)), PeerSet(peer(HIGHER)))
    assert isinstance(first, ApplyRules)
    assert first.rules.unknown_nodes is UnknownNodes.DROP


def test_a_changed_card_closes_the_sa_and_negotiates_again() -> None:
    made = driver(HIGHER)
    protect(made, HIGHER, "7")
    changed = replace(card(HIGHER), ipv4=IPv4Address("10.9.9.9"))
    actions = made.tell(PeerSet(Peer("n5", changed)))
    assert {type(action) for action in actions} == {ApplyRules, Terminate}
    assert made.state(HIGHER) == "waiting"
    while not attempts(actions):
        actions = made.succeed(*actions) + made.advance(CALM.backoff_first)
    assert attempts(actions) == ["n5"]


def test_an_attempt_by_the_old_card_yields_no_sa_for_the_new_one() -> None:
    made = driver(HIGHER)
    action = initiate(made)
    (load,) = made.tell(PeerSet(Peer("n5", replace(card(HIGHER), ipv4=None))))
    assert isinstance(load, LoadConnection)
    made.succeed(load)
    (closing,) = made.tell(SasObserved("n5", (ike_sa("n5", "7"),)))
    assert isinstance(closing, Terminate)
    assert made.state(HIGHER) != "protected"
    assert made.tell(ActionDone(action)) == []
    assert attempts(made.succeed(closing)) == ["n5"]


def test_an_sa_that_another_identity_authenticated_protects_nothing() -> None:
    made = driver(HIGHER)
    made.tell(RouteSet(route(HIGHER)))
    actions = made.tell(SasObserved("n5", (ike_sa("n5", "7", remote_id=card(LOWER).address),)))
    assert made.state(HIGHER) != "protected"
    assert [action.unique_id for action in actions if isinstance(action, Terminate)] == ["7"]


def test_the_same_card_again_changes_nothing() -> None:
    made = driver(HIGHER)
    protect(made, HIGHER)
    assert made.tell(PeerSet(peer(HIGHER)), PeerRemoved("nobody")) == []
    assert made.state(HIGHER) == "protected"


def test_sas_and_configurations_of_strangers_are_closed() -> None:
    made = Driver(NODE, CALM)
    observed = Observed({"x": (ike_sa("x", "7"),)}, {"x": None}, key_loaded=True)
    actions = made.tell(
        IkeDaemonUp(observed, daemon_restarted=False), SasObserved("y", (ike_sa("y", "8"),)), SasObserved("z", ())
    )
    assert UnloadConnection("x") in actions
    assert {action.unique_id for action in actions if isinstance(action, Terminate)} == {"7", "8"}
    assert list(made.engine.known.channels()) == []


def test_a_peer_that_returns_while_it_is_being_removed_is_configured_again() -> None:
    made = driver(HIGHER)
    protect(made, HIGHER, "7")
    leaving = made.tell(PeerRemoved("n5"))
    assert made.tell(PeerSet(peer(HIGHER))) == []
    assert made.advance(0.0) == []
    actions = made.succeed(*leaving)
    assert LoadConnection(connection_spec(card(NODE), peer(HIGHER), BACKEND, CALM)) in actions


def test_an_sa_that_will_not_close_is_closed_again() -> None:
    made = driver(HIGHER)
    protect(made, HIGHER, "7")
    made.succeed(UnloadConnection("n5"))
    _, unload, terminate = made.tell(PeerRemoved("n5"))
    made.succeed(unload)
    assert made.tell(ActionDone(terminate, Cause("busy"))) == []
    assert made.advance(CALM.backoff_first) == [terminate]
    made.tell(ActionDone(terminate, Cause("busy")))
    made.tell(SasObserved("n5", ()))
    assert made.advance(3600.0) == []


# --- duplicates ---


def test_one_of_two_ike_sas_is_closed_and_the_channel_stays_protected() -> None:
    made = driver(HIGHER)
    protect(made, HIGHER, "7")
    second = ike_sa("n5", "8", initiator=False)
    (action,) = made.tell(SasObserved("n5", (ike_sa("n5", "7"), second)))
    assert isinstance(action, Terminate)
    assert action.unique_id == "8"
    assert made.state(HIGHER) == "protected"
    made.tell(ActionDone(action))
    assert made.engine.plan(made.now) == []


# --- stamps ---


def test_an_sa_whose_age_was_rounded_up_to_a_second_is_measured() -> None:
    made = driver(HIGHER)
    made.now = 100.85
    (action,) = made.tell(RouteSet(replace(route(HIGHER), decided_at=100.85)))
    made.now = 101.05
    made.tell(SasObserved("n5", (ike_sa("n5", established_at=made.now - 1),)), ActionDone(action))
    channel = made.engine.known.channel("n5")
    assert channel is not None
    assert channel.attempt.route_to_protected == pytest.approx(0.2)


def test_the_time_from_route_to_protected_is_taken_from_the_routers_decision() -> None:
    made = driver(HIGHER)
    made.now = 100.0
    (action,) = made.tell(RouteSet(replace(route(HIGHER), decided_at=99.98)))
    made.now = 100.03
    made.tell(SasObserved("n5", (ike_sa("n5", established_at=100.03),)), ActionDone(action))
    made.tell(NegotiationTimed("n5", 0.004, 0.005), NegotiationTimed("nobody"))
    channel = made.engine.known.channel("n5")
    assert channel is not None
    assert channel.attempt.route_to_protected == pytest.approx(0.05)
    assert (channel.attempt.wanted_at, channel.attempt.began_at, channel.protected_at) == (99.98, 100.0, 100.03)
    assert channel.attempt.phases is not None
    assert (channel.attempt.phases.ike_sa_init, channel.attempt.phases.ike_auth, channel.attempt.phases.child) == (
        0.004,
        0.005,
        None,
    )


def test_a_new_attempt_does_not_have_the_times_of_the_one_before() -> None:
    made = driver(HIGHER)
    (action,) = made.tell(RouteSet(route(HIGHER)))
    made.tell(SasObserved("n5", (ike_sa("n5", established_at=made.now),)), ActionDone(action))
    made.tell(NegotiationTimed("n5", 0.004, 0.005))
    channel = made.engine.known.channel("n5")
    assert channel is not None
    assert channel.attempt.phases is not None
    attempt = replace(channel.attempt)
    attempt.begin(made.now)
    assert attempt.phases is None


def test_the_plan_changes_nothing_and_says_what_each_action_waits_for() -> None:
    made = Driver(NODE, CALM)
    made.engine.handle(0.0, PeerSet(peer(HIGHER)))
    made.engine.handle(0.0, RouteSet(route(HIGHER)))
    first, second = made.engine.plan(0.0), made.engine.plan(0.0)
    assert first == second
    assert [type(planned.action) for planned in first] == [ApplyRules, LoadKey, LoadConnection, Initiate]
    assert "waits for the IKE daemon (not contacted yet)" in first[-1].why
    (rules,) = made.engine.poll_actions()
    assert made.engine.plan(0.0)[0].why.endswith("in progress")
    made.tell(ActionDone(rules, Cause("no permission")))
    assert made.engine.plan(0.0)[0].at == CALM.backoff_first


def test_thirty_nodes_that_start_at_once_have_one_ike_sa_per_pair() -> None:
    numbers = range(1, 31)
    world = World(*numbers)
    for station in world.stations.values():
        station.ike_starts()
        for other in numbers:
            if other != station.number:
                station.trust(other)
                station.route(other, exists=True)
    world.rest(60.0)
    for one in numbers:
        for other in range(one + 1, 31):
            here, there = world.pairs(one, other)
            assert len(here) == 1
            assert here == there
    assert sum(station.initiated for station in world.stations.values()) < 1.2 * 30 * 29 / 2


def test_a_renegotiation_on_demand_waits_for_no_turn_and_no_delay() -> None:
    """A demand is carried out even by the end that does not initiate, and for a new SA."""
    made = Driver(9)
    made.ready(5)
    made.tell(RouteSet(route(5)), SasObserved("n5", (ike_sa("n5", "1", initiator=False),)))
    assert made.state(5) == "protected"
    actions = made.tell(RenegotiationAsked("n5"))
    assert [type(action) for action in actions] == [Terminate], "the old one goes first"
    assert made.state(5) == "waiting"
    (action,) = made.succeed(*actions)
    assert isinstance(action, Initiate)
    made.tell(SasObserved("n5", (ike_sa("n5", "2"),)), ActionDone(action))
    assert made.state(5) == "protected"


def test_only_a_protected_channel_is_renegotiated() -> None:
    made = Driver(1)
    made.ready(5)
    assert made.tell(RenegotiationAsked("n5"), RenegotiationAsked("nobody")) == []
    assert made.state(5) == "no-route"


# --- a key that is being changed (ADR 0041) ---


def rotating(**changes: object) -> Driver:
    """Return an engine with two keys, each of which has a channel to the same peer."""
    made = driver(**changes)
    made.engine.known.rules.next_node = OTHER_KEY
    present = peer(HIGHER)
    actions = made.tell(PeerSet(present), PeerSet(replace(present, name="n5^", own=OTHER_KEY)))
    while actions:
        actions = made.succeed(*actions)
    return made


OTHER_KEY = card(NODE, key=7)


def test_both_keys_of_this_node_have_a_channel_by_the_same_route() -> None:
    made = rotating()
    actions = made.tell(RouteSet(route(HIGHER)))
    specs = {name: made.engine.known.channel(name) for name in ("n5", "n5^")}
    assert {name: one.connection.local_public_key for name, one in specs.items() if one and one.connection} == {
        "n5": card(NODE).public_key,
        "n5^": OTHER_KEY.public_key,
    }
    assert attempts(actions) == ["n5"], "with its other key the peer has the lower fingerprint, and initiates"
    assert all(one.route == route(HIGHER) for one in specs.values() if one)
    assert {OTHER_KEY.address, card(NODE).address} <= made.engine.known.rules.wanted().own
    assert "this node's next key" in explain(made.engine, made.now, "n5^")["sentences"][0]
    assert "next key" not in explain(made.engine, made.now, "n5")["sentences"][0]


@pytest.mark.parametrize("removed_peers", list(RemovedPeers))
def test_the_end_of_one_channel_leaves_the_other_s_route_and_rules(removed_peers: RemovedPeers) -> None:
    """The card is still in force through the other key, so nothing goes to it in the clear."""
    made = rotating(removed_peers=removed_peers)
    made.tell(RouteSet(route(HIGHER)))
    before = made.engine.known.rules.wanted()
    made.tell(PeerRemoved("n5"))
    left = made.engine.known.channel("n5^")
    assert left is not None
    assert left.route == route(HIGHER)
    after = made.engine.known.rules.wanted()
    assert (after.protected, after.locators, after.barred) == (before.protected, before.locators, frozenset())
    made.tell(RouteRemoved(route(HIGHER).destination))
    assert left.route is None


def test_a_channel_keeps_its_sa_when_its_key_takes_the_place_of_another() -> None:
    made = driver()
    following = Peer("n5~", card(HIGHER, key=8))
    made.succeed(*made.tell(PeerSet(peer(HIGHER)), PeerSet(following)))
    sa = replace(ike_sa("n5~", "9", initiator=False, established_at=made.now), remote_id=following.card.address)
    made.tell(SasObserved("n5~", (sa,)))
    made.tell(PeerRemoved("n5"))
    actions = made.tell(PeerSet(replace(following, name="n5", channel="n5~")))
    shown = made.engine.known.shown_as("n5")
    assert shown is not None
    assert shown.name == "n5~"
    assert shown.sas.listed == (sa,)
    assert [action for action in actions if isinstance(action, Terminate)] == []


def test_a_public_address_outside_the_mesh_that_a_predecessor_closed_is_opened() -> None:
    made = Driver(NODE, CALM)
    before = made.engine.known.rules.wanted()
    closed = {IPv4Address(one) for one in ("9.9.9.9", "10.0.0.77", "192.168.1.1")}
    made.tell(RulesObserved(replace(before, protected=before.protected | closed)), PeerSet(peer(HIGHER)))
    assert closed & made.engine.known.rules.wanted().protected == closed - {IPv4Address("9.9.9.9")}


def test_why_an_ipv4_address_is_not_believed_is_explained() -> None:
    made = driver(HIGHER)
    made.tell(PeerSet(replace(peer(HIGHER), card=replace(card(HIGHER), ipv4=None), ipv4_doubt="9.9.9.9 is out")))
    (told,) = (one for one in views.explain(made.engine, 1.0, "n5")["sentences"] if "is trusted" in one)
    assert "IPv4 address is not believed" in told
    assert "9.9.9.9 is out" in told
