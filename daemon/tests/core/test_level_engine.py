"""The engine's part in levels of authentication: no SA below the floor, and a rise without an interruption."""

from dataclasses import replace
from typing import TypeVar

import pytest

from core.world import Driver, card, ike_sa, peer, route
from meshsec.core.channels.actions import Action, Initiate, LoadConnection, Terminate, UnloadConnection
from meshsec.core.channels.events import ActionDone, PeerSet, RouteSet, SasObserved, SurroundingsSet
from meshsec.core.channels.level import GRACE, SETTLED, Surroundings
from meshsec.core.explain import levels_view, views
from meshsec.core.policy.levels import YIELD_FIRST, Area
from meshsec.core.policy.policy import Policy, decode_policy
from meshsec.core.positions.positions import Position, distance
from meshsec.core.trust import second_secret
from meshsec.core.values.failures import Cause, FailureKind
from meshsec.core.values.model import IkeSa

LEVELS = [{"name": "secret", "second_secret": True}, {"name": "fleet", "fleet": True}, {"name": "card"}]
WITHOUT_FLEET = [LEVELS[0], LEVELS[2]]
AT_THREAT = [{"level": "secret", "threat": True}]
MARK = second_secret.mark(bytes(32))
CALM, ALARM = Surroundings(mark=MARK), Surroundings("the operator says so", mark=MARK)
PLAIN = ike_sa("n5", remote_id=card(5).address)
MIXED = replace(PLAIN, unique_id="2", second_secret=True, spi_initiator="i2", spi_responder="r2")


def policy(**table: object) -> Policy:
    return decode_policy({"levels": WITHOUT_FLEET, "level_rules": AT_THREAT} | table)


def begun(one: Policy, around: Surroundings = CALM, *sas: IkeSa) -> tuple[Driver, list[Action]]:
    """Return a node with a route to a peer that it knows, and with these SAs."""
    driver = Driver(1, one)
    driver.engine.handle(0.0, SurroundingsSet(around))
    driver.ready(5)
    actions = driver.tell(RouteSet(route(5)), SasObserved("n5", sas))
    driver.now = 100.0
    return driver, actions


A = TypeVar("A")


def of(kind: type[A], actions: list[Action]) -> list[A]:
    return [action for action in actions if isinstance(action, kind)]


def loaded(driver: Driver) -> LoadConnection | None:
    channel = driver.engine.known.channel("n5")
    assert channel is not None
    return LoadConnection(channel.loaded_connection) if channel.loaded_connection else None


def level_of(driver: Driver) -> dict[str, object]:
    shown = views.status(driver.engine, driver.now)["peers"][0]["level"]
    assert isinstance(shown, dict)
    return shown


def test_without_levels_a_policy_does_what_it_did() -> None:
    driver, _ = begun(Policy(), ALARM, PLAIN)
    assert driver.state(5) == "protected"
    assert driver.advance(60) == []
    assert loaded(driver).spec.second_secret is None  # type: ignore[union-attr]
    assert views.status(driver.engine, driver.now)["peers"][0]["level"] is None


def test_a_rise_negotiates_first_and_closes_afterwards() -> None:
    driver, _ = begun(policy(), CALM, PLAIN)
    assert driver.state(5) == "protected"
    lax = loaded(driver)
    assert lax is not None
    assert lax.spec.second_secret is not None
    assert not lax.spec.second_secret.required, "the peer may ask for it"
    (load,) = driver.tell(SurroundingsSet(ALARM))
    assert isinstance(load, LoadConnection)
    assert load.spec.second_secret is not None
    assert load.spec.second_secret.required
    driver.succeed(load)
    assert "stronger level" in views.plan(driver.engine, driver.now)["actions"][0]["why"]
    (initiate,) = driver.advance(0.05)
    assert isinstance(initiate, Initiate)
    assert initiate.children == ("mesh",)
    assert driver.state(5) == "protected"
    assert level_of(driver)["in_force"] == "card"
    assert level_of(driver)["chosen"] == "secret"
    driver.now += 0.02
    actions = driver.tell(SasObserved("n5", (PLAIN, MIXED)))
    actions += driver.tell(ActionDone(initiate))
    assert [(one.unique_id, one.patient) for one in of(Terminate, actions)] == [("1", True)]
    assert driver.state(5) == "protected"
    assert level_of(driver)["in_force"] == "secret"
    driver.succeed(*actions)
    assert driver.tell(SasObserved("n5", (MIXED,))) == []
    assert driver.advance(GRACE + 1) == []
    count, seconds = driver.engine.known.level_times.recent("secret")
    assert count == 1
    assert seconds is not None
    assert 0.02 <= seconds < 0.08


def test_an_sa_that_is_a_moment_old_is_not_replaced_before_both_ends_can_see_which_is_later() -> None:
    driver, _ = begun(policy(), CALM, PLAIN)
    driver.tell(SasObserved("n5", ()))
    young = replace(PLAIN, unique_id="3")
    driver.tell(SasObserved("n5", (young,)))
    driver.succeed(*driver.tell(SurroundingsSet(ALARM)))
    assert of(Initiate, driver.advance(SETTLED - 0.1)) == []
    assert of(Initiate, driver.advance(0.2))


def test_a_peer_that_cannot_follow_keeps_its_sa_for_a_while_and_then_has_none() -> None:
    driver, _ = begun(policy(), CALM, PLAIN)
    actions = driver.succeed(*driver.tell(SurroundingsSet(ALARM)))
    began, attempts = driver.now, 0
    no = Cause("this node asks for the second secret, and the peer has none", FailureKind.SECOND_SECRET)
    while not of(Terminate, actions):
        assert driver.state(5) == "protected"
        for initiate in of(Initiate, actions):
            attempts += 1
            driver.tell(ActionDone(initiate, no))
        actions = driver.advance(0.5)
        assert driver.now - began < GRACE + 1
    assert driver.now - began >= GRACE - 1
    assert attempts > 1
    assert driver.state(5) != "protected"
    driver.succeed(*of(Terminate, actions))
    driver.tell(SasObserved("n5", ()))
    assert driver.state(5) in {"waiting", "failed", "negotiating"}


def test_a_failed_rise_does_not_cast_doubt_on_the_sa_that_carries() -> None:
    """Elsewhere an attempt without an answer makes this node give up an SA of the peer's."""
    theirs = replace(PLAIN, initiator=False)
    driver, _ = begun(policy(), CALM, theirs)
    driver.succeed(*driver.tell(SurroundingsSet(ALARM)))
    (initiate,) = of(Initiate, driver.advance(SETTLED + 1))
    assert of(Terminate, driver.tell(ActionDone(initiate, Cause("timeout", FailureKind.NO_ANSWER)))) == []
    assert driver.state(5) == "protected"


def test_what_is_below_the_floor_is_closed_at_once() -> None:
    driver, actions = begun(policy(level_floor="secret"), CALM, PLAIN)
    assert [one.unique_id for one in of(Terminate, actions)] == ["1"]
    assert driver.state(5) != "protected"
    driver, actions = begun(policy(level_floor="secret"), CALM, MIXED)
    assert of(Terminate, actions) == []
    assert driver.state(5) == "protected"


def test_a_level_that_the_pair_cannot_have_leaves_no_configuration_in_the_ike_daemon() -> None:
    driver, _ = begun(policy(level_floor="secret"), Surroundings())
    assert loaded(driver) is None
    assert driver.state(5) == "waiting"
    assert "meshsec secret set" in str(level_of(driver)["refused"])
    assert any("meshsec secret set" in one for one in views.explain(driver.engine, driver.now, "n5")["sentences"])
    actions = driver.tell(SurroundingsSet(CALM))
    assert of(LoadConnection, actions)
    actions = driver.succeed(*actions) + driver.advance(5)
    assert of(Initiate, actions)
    assert level_of(driver)["refused"] is None


UNABLE = Surroundings("the operator says so")
"""The threat is high, and this node has no second secret."""


def test_a_pair_that_cannot_have_the_level_keeps_its_sa_for_the_grace_and_has_none_afterwards() -> None:
    driver, _ = begun(policy(), Surroundings(), PLAIN)
    actions = driver.tell(SurroundingsSet(UNABLE))
    assert actions == [], "neither is the SA closed nor its connection removed"
    assert driver.state(5) == "protected"
    assert levels_view.unable(driver.engine.known) == [
        {"peer": "n5", "ends": True, "why": str(level_of(driver)["refused"])}
    ]
    (problem,) = levels_view.problems(driver.engine.known)
    assert problem.startswith("the SA with n5 ends within 30 s: this node has no second secret; `meshsec secret set`")
    said = views.explain(driver.engine, driver.now, "n5")["sentences"]
    assert any(one.startswith("The present SA is closed in 30 s") for one in said)
    assert driver.advance(GRACE - 1) == [], "there is no successor to negotiate"
    assert driver.state(5) == "protected"
    actions = driver.advance(2)
    assert of(UnloadConnection, actions)
    assert [one.unique_id for one in of(Terminate, actions)] == ["1"]
    assert of(Initiate, actions) == []
    assert driver.state(5) != "protected"
    driver.succeed(*actions)
    driver.tell(SasObserved("n5", ()))
    assert loaded(driver) is None
    assert driver.advance(GRACE) == []
    (problem,) = levels_view.problems(driver.engine.known)
    assert problem.startswith("no SA with n5: ")


def test_an_sa_that_ends_during_the_grace_has_no_other_in_its_place() -> None:
    driver, _ = begun(policy(), Surroundings(), PLAIN)
    driver.tell(SurroundingsSet(UNABLE))
    driver.advance(5)
    actions = driver.tell(SasObserved("n5", ()))
    assert of(UnloadConnection, actions)
    assert of(Initiate, [*actions, *driver.advance(GRACE)]) == []


def test_an_sa_in_place_of_the_one_in_grace_does_not_lengthen_it() -> None:
    driver, _ = begun(policy(), Surroundings(), PLAIN)
    driver.tell(SurroundingsSet(UNABLE))
    driver.advance(20)
    later = replace(PLAIN, unique_id="7", spi_initiator="i7", spi_responder="r7")
    driver.succeed(*driver.tell(SasObserved("n5", (PLAIN, later))))
    driver.succeed(*driver.tell(SasObserved("n5", (later,))))
    assert driver.state(5) == "protected"
    assert [one.unique_id for one in of(Terminate, driver.advance(11))] == ["7"]


@pytest.mark.parametrize("back", [Surroundings(), CALM, ALARM], ids=["calm", "calm-with-secret", "secret"])
def test_a_level_that_the_pair_can_have_again_in_time_ends_the_grace(back: Surroundings) -> None:
    driver, _ = begun(policy(), Surroundings(), PLAIN)
    driver.tell(SurroundingsSet(UNABLE))
    driver.advance(5)
    actions = driver.succeed(*driver.tell(SurroundingsSet(back)))
    assert level_of(driver)["refused"] is None
    assert of(Terminate, actions) == []
    actions += driver.advance(1)
    assert bool(of(Initiate, actions)) is (back is ALARM), "with the secret the rise begins"
    assert driver.state(5) == "protected"


def test_an_sa_below_the_floor_has_no_grace() -> None:
    driver, _ = begun(policy(level_floor="secret"), CALM, MIXED)
    assert driver.state(5) == "protected"
    below = replace(MIXED, second_secret=False)
    actions = driver.tell(SurroundingsSet(UNABLE), SasObserved("n5", (below,)))
    assert of(UnloadConnection, actions)
    assert of(Terminate, actions)
    assert driver.state(5) != "protected"


def test_a_second_secret_that_is_removed_ends_the_sas_that_need_it_after_the_grace() -> None:
    driver, _ = begun(policy(level_floor="secret"), CALM, MIXED)
    assert driver.tell(SurroundingsSet(Surroundings())) == []
    assert driver.advance(GRACE - 1) == []
    assert [one.unique_id for one in of(Terminate, driver.advance(2))] == ["2"]


def test_a_peer_whose_fleet_signs_no_more_is_closed_where_its_level_asks_for_the_fleet() -> None:
    driver = Driver(1, decode_policy({"levels": LEVELS[1:], "level_floor": "fleet"}))
    driver.ready(5)
    assert loaded(driver) is None
    driver.succeed(*driver.tell(PeerSet(replace(peer(5), fleet="alpha")), RouteSet(route(5))))
    assert loaded(driver) is not None
    driver.tell(SasObserved("n5", (PLAIN,)))
    assert driver.state(5) == "protected"
    actions = driver.tell(PeerSet(peer(5)))
    assert of(UnloadConnection, actions)
    (close,) = of(Terminate, actions)
    assert not close.patient


def test_a_lower_level_costs_no_negotiation() -> None:
    driver, _ = begun(policy(), ALARM, MIXED)
    assert driver.state(5) == "protected"
    driver.succeed(*driver.tell(SurroundingsSet(CALM)))
    assert driver.advance(2 * GRACE) == []
    assert level_of(driver)["in_force"] == "secret"
    assert level_of(driver)["chosen"] == "card"


SUITES = [
    {"name": "p384", "ike": "aes256gcm16-prfsha384-ecp384", "esp": "aes256gcm16-ecp384"},
    {"name": "x25519", "ike": "aes256gcm16-prfsha256-x25519", "esp": "aes256gcm16-x25519"},
    {"name": "p256", "ike": "aes128gcm16-prfsha256-ecp256", "esp": "aes128gcm16-ecp256"},
]


def test_a_slow_peer_moves_nothing_below_the_floor() -> None:
    """It is slow on purpose: the rule for calm times yields for it, and its floor and all other peers stay."""
    one = decode_policy(
        {
            "suites": SUITES,
            "levels": [{"name": "top", "suite": "p384"}, {"name": "base", "suite": "x25519"}, {"name": "low"}],
            "level_floor": "base",
            "level_rules": [{"level": "top", "while_in_time": True}],
        }
    )
    driver = Driver(1, one)
    driver.ready(5, 6)
    driver.tell(RouteSet(route(5)), RouteSet(route(6)))
    found = set()
    for _ in range(12):
        channel = driver.engine.known.channel("n5")
        assert channel is not None
        assert channel.connection is not None
        found.add(channel.connection.ike_proposals)
        actions = driver.advance(3)
        driver.succeed(*of(LoadConnection, actions))
        for initiate in of(Initiate, actions):
            if initiate.subject.peer != "n5":
                driver.tell(ActionDone(initiate, Cause("no answer", FailureKind.NO_ANSWER)))
                continue
            driver.now += 5.0
            slow = replace(PLAIN, encryption="AES_GCM_16-256", key_exchange="ECP_384", unique_id=str(driver.now))
            driver.tell(SasObserved("n5", (slow,)), ActionDone(initiate))
            driver.tell(SasObserved("n5", ()))
    top, base = (SUITES[0]["ike"],), (SUITES[0]["ike"], SUITES[1]["ike"])
    assert {tuple(sorted(one)) for one in found} == {tuple(sorted(top)), tuple(sorted(base))}
    other = driver.engine.known.channel("n6")
    assert other is not None
    assert other.connection is not None
    assert other.connection.ike_proposals == top
    # Once nobody is late any more, the rule holds again without an event from outside.
    last = driver.engine.known.channel("n5")
    assert last is not None
    driver.tell(SasObserved("n5", (replace(PLAIN, encryption="AES_GCM_16-256", key_exchange="ECP_384"),)))
    driver.advance(YIELD_FIRST * 100)
    assert last.level.choice is not None
    assert last.level.choice.level.name == "top"


def test_a_rule_yields_at_once_after_late_set_ups_and_asks_again_later() -> None:
    driver = Driver(1, policy(level_rules=[{"level": "secret", "while_in_time": True}]))
    driver.engine.handle(0.0, SurroundingsSet(CALM))
    driver.ready(5)
    driver.tell(RouteSet(route(5)))
    chosen = []
    for number in range(3):
        (initiate,) = of(Initiate, driver.advance(3))
        driver.now += 2.0
        driver.succeed(*driver.tell(SasObserved("n5", (replace(MIXED, unique_id=f"s{number}"),))))
        driver.succeed(*driver.tell(ActionDone(initiate)))
        chosen.append(level_of(driver)["chosen"])
        driver.tell(SasObserved("n5", ()))
    assert chosen == ["secret", "card", "card"]
    assert "ms, the deadline is 100 ms" in str(level_of(driver)["others"])
    driver.succeed(*driver.tell(SasObserved("n5", (MIXED,))))
    driver.succeed(*driver.advance(2 * YIELD_FIRST))
    assert level_of(driver)["chosen"] == "secret"


def test_each_level_offers_what_it_allows_and_no_shorter_lifetime_than_it_asks_for() -> None:
    table = {
        "suites": SUITES,
        "levels": [{"name": "top", "suite": "p384", "ike_rekey_time": 1200, "child_rekey_time": 600}, {"name": "low"}],
        "level_rules": [{"level": "top", "peers": ["n5"]}],
    }
    driver, _ = begun(decode_policy(table))
    spec = loaded(driver).spec  # type: ignore[union-attr]
    assert spec.ike_proposals == (SUITES[0]["ike"],)
    assert spec.children[0].esp_proposals == (SUITES[0]["esp"],)
    assert (spec.ike_rekey_time, spec.child_rekey_time) == (1200, 600)


def test_where_the_choice_by_the_deadline_is_too_weak_for_a_level_its_fastest_suite_is_first() -> None:
    table = {
        "suites": SUITES,
        "levels": [{"name": "top", "suite": "x25519"}, {"name": "low"}],
        "level_rules": [{"level": "top", "peers": ["n5"]}],
    }
    driver, _ = begun(decode_policy(table))
    spec = loaded(driver).spec  # type: ignore[union-attr]
    assert spec.ike_proposals == (SUITES[0]["ike"], SUITES[1]["ike"])
    driver.engine.known.suites._chosen = 2
    driver.tell(SurroundingsSet(ALARM))
    channel = driver.engine.known.channel("n5")
    assert channel is not None
    assert channel.connection is not None
    assert channel.connection.ike_proposals == (SUITES[1]["ike"], SUITES[0]["ike"])


@pytest.mark.parametrize(
    ("metres_away", "accuracy", "inside"),
    [(0, None, True), (900, None, True), (1100, None, False), (900, 200.0, None), (1100, 200.0, None), (0, 5.0, True)],
)
def test_a_position_says_where_the_node_is_as_far_as_it_is_accurate(
    metres_away: float, accuracy: float | None, inside: bool | None
) -> None:
    area = Area(latitude=0.0, longitude=0.0, radius=1000.0)
    place = Position(metres_away / 111_195, 0.0, accuracy=accuracy)
    assert Surroundings(position=place).is_inside(area) is inside
    assert Surroundings().is_inside(area) is None


def test_a_node_on_the_edge_of_a_circle_is_in_it_and_exact_enough_is_known() -> None:
    center, place = Position(0.0, 0.0), Position(0.01, 0.0)
    edge = distance(center, place)
    assert Surroundings(position=place).is_inside(Area(latitude=0.0, longitude=0.0, radius=edge)) is True
    area = Area(latitude=0.0, longitude=0.0, radius=edge + 64.0)
    error = abs(edge - area.radius)
    assert Surroundings(position=place._replace(accuracy=error)).is_inside(area) is True
    assert Surroundings(position=place._replace(accuracy=error + 1)).is_inside(area) is None


def test_status_says_how_high_the_threat_is_and_why() -> None:
    driver, _ = begun(policy())
    shown = views.status(driver.engine, driver.now)["levels"]
    assert (shown["threat"], shown["why"]) == ("normal", None)
    driver.tell(SurroundingsSet(ALARM))
    shown = views.status(driver.engine, driver.now)["levels"]
    assert (shown["threat"], shown["why"]) == ("high", "the operator says so")
