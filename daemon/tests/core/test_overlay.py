"""The second data plane: which one carries, in which order one follows the other, and that nothing leaks between."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from core.test_engine import CALM, HIGHER, LOWER, NODE, attempts
from core.test_views import checked
from core.world import Driver, card, ike_sa, peer, route
from meshsec.core.channels.actions import Action, ApplyRules, Initiate, Keep, Permit, RouteOverlay, Terminate
from meshsec.core.channels.events import (
    ActionDone,
    IkeDaemonUp,
    ModesSet,
    OverlayDown,
    OverlayObserved,
    OverlayRoutesObserved,
    OverlayUp,
    PeerRemoved,
    PeerSet,
    RouteSet,
    RulesObserved,
    SasObserved,
)
from meshsec.core.channels.overlay import KEEP_MAX
from meshsec.core.explain import views
from meshsec.core.values.failures import Cause
from meshsec.core.values.model import DataPlane, Modes, Observed

DEVICE = "overlay0"
HIS = card(HIGHER).address
NOBODY = frozenset[Any]()
ALL = Modes(DataPlane.OVERLAY)


def ready(*numbers: int, modes: Modes | None = None, **changes: object) -> Driver:
    """Return an engine whose daemons both answer and are configured."""
    made = Driver(NODE, structs.replace(CALM, **changes), overlay=DEVICE)
    choose(made, modes or Modes())
    made.ready(*numbers)
    settle(made, made.tell(OverlayUp()))
    return made


def choose(made: Driver, modes: Modes) -> None:
    """Set the modes before any other event."""
    made.engine.handle(made.now, ModesSet(modes))


def settle(made: Driver, actions: list[Action]) -> list[Action]:
    """Let all actions but negotiations succeed, and return them in order."""
    asked = []
    for _ in range(10):
        asked += actions
        actions = made.succeed(*(action for action in actions if not isinstance(action, Initiate)))
    assert not actions, "it does not come to rest"
    return asked


def session(made: Driver, *numbers: int, kept: bool = True) -> list[Action]:
    addresses = frozenset(card(number).address for number in numbers)
    return made.tell(OverlayObserved(addresses if kept else NOBODY, addresses))


def routed(made: Driver, actions: list[Action]) -> list[Action]:
    """Let the kernel set the overlay's routes and report them."""
    (route,) = [action for action in actions if isinstance(action, RouteOverlay)]
    return made.tell(OverlayRoutesObserved(route.addresses), ActionDone(route))


def protect(made: Driver, unique_id: str = "1", *, initiator: bool = True) -> list[Action]:
    sa = ike_sa("n5", unique_id, initiator=initiator, established_at=made.now)
    return made.tell(SasObserved("n5", (sa,)))


def by_ipsec(**changes: object) -> Driver:
    """Return an engine with a peer in mode ``ipsec`` that has an SA."""
    made = ready(HIGHER, modes=None, **changes)
    (attempt,) = made.tell(RouteSet(route(HIGHER)))
    protect(made)
    made.succeed(attempt)
    assert plane(made) == ("protected", "ipsec")
    return made


def by_overlay(**changes: object) -> Driver:
    """Return an engine with a peer in mode ``overlay`` to which the overlay carries."""
    made = ready(HIGHER, modes=ALL, **changes)
    made.tell(RouteSet(route(HIGHER)))
    routed(made, session(made, HIGHER))
    assert plane(made) == ("protected", "overlay")
    return made


def told(made: Driver) -> tuple[object, object]:
    """Return the peers that overlayd may exchange user data with, and those it keeps sessions to."""
    return made.engine.known.overlay.permitted, made.engine.known.overlay.keeping


def plane(made: Driver) -> tuple[str, str | None]:
    (entry,) = checked("status", views.status(made.engine, made.now))["peers"]
    return entry["state"], entry["data_plane"]


def explained(made: Driver) -> str:
    return "\n".join(checked("explain", views.explain(made.engine, made.now, "n5"))["sentences"])


# --- the order of things ---


def test_without_an_overlay_nothing_is_asked_of_it_and_no_rule_knows_it() -> None:
    made = Driver(NODE, CALM)
    asked = made.tell(ModesSet(ALL), PeerSet(peer(HIGHER)), OverlayRoutesObserved(frozenset({HIS})))
    (rules,) = asked
    assert isinstance(rules, ApplyRules)
    assert (rules.rules.overlay_device, rules.rules.admitted) == ("", frozenset())
    channel = made.engine.known.channel("n5")
    assert channel is not None
    assert channel.handover.mode is DataPlane.IPSEC


def test_the_order_is_rules_permission_session_route() -> None:
    made = Driver(NODE, CALM, overlay=DEVICE)
    choose(made, ALL)
    (rules,) = made.tell(PeerSet(peer(HIGHER)), OverlayUp())
    assert isinstance(rules, ApplyRules)
    assert (rules.rules.overlay_device, rules.rules.admitted) == (DEVICE, frozenset({HIS}))
    assert session(made, HIGHER) == []
    permit, *others = made.succeed(rules)
    assert permit == Permit(frozenset({HIS}))
    assert others == [RouteOverlay(frozenset({HIS}))]
    assert made.succeed(permit) == [Keep(frozenset({HIS}))]


def test_a_peer_in_mode_ipsec_is_permitted_and_gets_neither_session_nor_route() -> None:
    made = ready(HIGHER)
    assert told(made) == (frozenset({HIS}), NOBODY)
    assert made.engine.plan(made.now) == []


def test_a_new_connection_to_overlayd_is_configured_again() -> None:
    made = by_overlay()
    made.tell(OverlayDown("it closed the connection"))
    asked = settle(made, made.tell(OverlayUp()))
    assert asked == [Permit(frozenset({HIS})), Keep(frozenset({HIS}))]


def test_without_rules_in_force_no_route_is_added_and_existing_ones_stay() -> None:
    made = by_overlay()
    (rules,) = made.tell(RulesObserved(None))
    assert isinstance(rules, ApplyRules)
    assert made.tell(PeerSet(peer(LOWER))) == []
    assert session(made, HIGHER, LOWER) == []


def test_a_refusal_of_overlayd_is_tried_again_later() -> None:
    made = Driver(NODE, CALM, overlay=DEVICE)
    made.ready(HIGHER)
    permit, _ = made.tell(OverlayUp())
    assert made.tell(ActionDone(permit, Cause("refused: on purpose"))) == []
    assert Permit(frozenset({HIS})) in made.advance(2.0)


# --- one plane takes over from the other ---


def test_ipsec_goes_on_until_the_overlay_carries_and_then_ends_once() -> None:
    made = by_ipsec()
    asked = settle(made, made.tell(ModesSet(ALL)))
    assert asked == [Keep(frozenset({HIS}))]
    assert plane(made) == ("protected", "ipsec")
    assert "waiting for the overlay's session" in explained(made)
    (end,) = routed(made, session(made, HIGHER))
    assert isinstance(end, Terminate)
    assert (end.unique_id, end.patient) == ("1", True)
    assert plane(made) == ("protected", "overlay")
    made.tell(SasObserved("n5", ()), ActionDone(end))
    assert protect(made, "2", initiator=False) == []
    assert made.advance(600.0) == []
    assert made.engine.plan(made.now) == []


def test_the_overlay_carries_until_an_sa_is_established() -> None:
    made = by_overlay()
    (attempt,) = made.tell(ModesSet(Modes()))
    assert isinstance(attempt, Initiate)
    assert plane(made) == ("protected", "overlay")
    assert "the overlay carries user data until an SA is established" in explained(made)
    (route_away,) = protect(made)
    assert route_away == RouteOverlay(NOBODY)
    assert plane(made) == ("protected", "overlay")
    assert routed(made, [route_away]) == [Keep(NOBODY)]
    made.succeed(attempt)
    assert plane(made) == ("protected", "ipsec")


def test_an_end_that_is_not_the_initiator_does_not_wait_for_the_other_after_a_switch() -> None:
    made = ready(LOWER, modes=ALL)
    made.tell(RouteSet(route(LOWER)))
    routed(made, session(made, LOWER))
    assert attempts(made.tell(ModesSet(Modes()))) == ["n1"]


def test_in_mode_ipsec_the_overlay_carries_nothing_unless_the_policy_says_so() -> None:
    made = by_ipsec()
    session(made, HIGHER)
    asked = settle(made, made.tell(SasObserved("n5", (), "charon died")))
    assert not any(isinstance(action, Keep | RouteOverlay) for action in asked)
    assert plane(made)[1] is None


def test_without_an_sa_the_overlay_bridges_to_a_peer_that_has_a_session_with_us() -> None:
    made = by_ipsec(overlay_fallback=True)
    assert session(made, HIGHER, kept=False) == []
    asked = made.tell(SasObserved("n5", (), "the peer closed it"))
    assert Keep(frozenset({HIS})) in asked
    (to_route,) = session(made, HIGHER)
    routed(made, [to_route])
    assert plane(made) == ("protected", "overlay")
    assert RouteOverlay(NOBODY) in protect(made, "2")


def test_a_bridge_that_is_wanted_again_while_it_is_being_ended_comes_to_rest() -> None:
    made = by_ipsec(overlay_fallback=True)
    session(made, HIGHER, kept=False)
    bridge, end = Keep(frozenset({HIS})), Keep(NOBODY)
    assert bridge in made.tell(SasObserved("n5", (), "the peer closed it"))
    protect(made, "2")
    assert end in made.succeed(bridge)
    session(made, HIGHER)
    made.tell(SasObserved("n5", (), "the peer closed it again"))
    asked = [end]
    for action in asked:
        assert len(asked) < 10, "this goes on for ever"
        asked += [new for new in made.succeed(action) if isinstance(new, Keep)]
        asked += [new for new in made.tell(OverlayObserved(action.addresses, action.addresses)) if new in (bridge, end)]
    assert asked == [end, bridge]


def test_a_peer_without_a_session_is_not_bridged_to() -> None:
    made = by_ipsec(overlay_fallback=True)
    asked = made.tell(SasObserved("n5", (), "lost"))
    assert not any(isinstance(action, Keep | RouteOverlay) for action in asked)
    assert plane(made) == ("negotiating", None) or plane(made) == ("waiting", None)


def test_a_switch_touches_no_rule() -> None:
    made = by_ipsec()
    before = made.engine.known.rules.wanted()
    made.tell(ModesSet(ALL))
    assert made.engine.known.rules.wanted() == before


# --- mode overlay ---


def test_with_a_peer_in_mode_overlay_no_negotiation_is_begun() -> None:
    made = ready(HIGHER, LOWER, modes=ALL)
    assert made.tell(RouteSet(route(HIGHER)), RouteSet(route(LOWER))) == []
    assert made.advance(600.0) == []
    channel = made.engine.known.channel("n5")
    assert channel is not None
    assert channel.configured()


def test_an_sa_that_the_peer_makes_is_left_alone_and_carries_while_the_overlay_does_not() -> None:
    made = ready(HIGHER, modes=ALL)
    made.tell(RouteSet(route(HIGHER)))
    assert protect(made, initiator=False) == []
    assert plane(made) == ("protected", "ipsec")
    assert made.advance(600.0) == []


def test_routes_that_a_predecessor_left_are_taken_over() -> None:
    made = Driver(NODE, CALM, overlay=DEVICE)
    choose(made, ALL)
    observed = Observed(ike_sas={"n5": (ike_sa("n5"),)}, key_loaded=True)
    asked = made.tell(
        PeerSet(peer(HIGHER)), OverlayRoutesObserved(frozenset({HIS})), IkeDaemonUp(observed, daemon_restarted=False)
    )
    asked = settle(made, asked)
    assert not any(isinstance(action, RouteOverlay | Terminate) for action in asked)
    settle(made, made.tell(OverlayUp(), OverlayObserved(frozenset({HIS}), frozenset({HIS}))))
    assert plane(made) == ("protected", "overlay")
    assert made.engine.plan(made.now) == []


def test_a_lost_session_keeps_its_route_while_nothing_else_carries() -> None:
    made = by_overlay()
    assert made.tell(OverlayObserved(NOBODY, NOBODY)) == []
    assert plane(made) == ("waiting", None)
    assert "there is none to the peer yet" in explained(made)
    session(made, HIGHER)
    assert plane(made) == ("protected", "overlay")


def test_when_overlayd_dies_its_routes_are_gone_and_come_back_with_it() -> None:
    made = by_overlay()
    made.tell(OverlayDown("it closed the connection"), OverlayRoutesObserved(NOBODY))
    assert plane(made) == ("waiting", None)
    assert "it closed the connection" in explained(made)
    assert made.advance(60.0) == []
    settle(made, made.tell(OverlayUp()))
    routed(made, session(made, HIGHER))
    assert plane(made) == ("protected", "overlay")


def test_a_removed_peer_loses_permission_session_and_route_at_once() -> None:
    made = by_overlay()
    asked = made.tell(PeerRemoved("n5"))
    (rules,) = [action.rules for action in asked if isinstance(action, ApplyRules)]
    assert rules.admitted == frozenset()
    assert HIS in rules.protected
    assert Permit(NOBODY) in asked
    assert RouteOverlay(NOBODY) in asked


def test_a_peer_may_have_a_mode_of_its_own() -> None:
    made = ready(LOWER, HIGHER, modes=Modes(peers={HIS: DataPlane.OVERLAY}))
    view = checked("mode", views.mode(made.engine))
    assert {(one["name"], one["plane"], one["override"]) for one in view["peers"]} == {
        ("n1", "ipsec", False),
        ("n5", "overlay", True),
    }
    made.tell(ModesSet(Modes(DataPlane.OVERLAY, {HIS: DataPlane.IPSEC})))
    assert [str(channel.handover.mode) for channel in made.engine.known.channels()] == ["overlay", "ipsec"]


def test_another_card_under_the_same_name_inherits_no_mode() -> None:
    made = ready(HIGHER, modes=Modes(peers={HIS: DataPlane.OVERLAY}))
    made.tell(PeerSet(replace(peer(HIGHER), card=card(HIGHER, key=77))))
    channel = made.engine.known.channel("n5")
    assert channel is not None
    assert channel.handover.mode is DataPlane.IPSEC


def test_without_the_operators_choice_the_policy_decides_the_mode() -> None:
    made = ready(HIGHER, data_plane=DataPlane.OVERLAY)
    assert told(made) == (frozenset({HIS}), frozenset({HIS}))
    made.tell(ModesSet(Modes(DataPlane.IPSEC)))
    assert [str(channel.handover.mode) for channel in made.engine.known.channels()] == ["ipsec"]


@pytest.mark.parametrize("state", ["no-route", "waiting"])
def test_without_session_and_sa_the_state_depends_on_the_route(state: str) -> None:
    made = ready(HIGHER, modes=ALL)
    if state == "waiting":
        made.tell(RouteSet(route(HIGHER)))
    assert plane(made) == (state, None)


# --- many peers ---


def test_of_more_peers_than_sessions_can_be_kept_those_in_reach_come_first() -> None:
    numbers = range(10, 10 + KEEP_MAX + 3)
    made = ready(*numbers, modes=ALL)
    everybody = frozenset(card(number).address for number in numbers)
    first = made.engine.known.overlay.keeping or NOBODY
    assert (made.engine.known.overlay.permitted, len(first)) == (everybody, KEEP_MAX)
    (out, *_) = [number for number in numbers if card(number).address not in first]
    assert "Sessions are kept to 1024 others" in _explained(made, out)
    assert "others" not in _explained(made, numbers[0])
    (keep,) = [action for action in made.tell(RouteSet(route(out))) if isinstance(action, Keep)]
    assert len(keep.addresses & first) == KEEP_MAX - 1, "the others stay"
    assert card(out).address in keep.addresses
    assert made.succeed(keep) == [], "it comes to rest"
    assert made.tell(RouteSet(route(numbers[0]))) == []


def _explained(made: Driver, number: int) -> str:
    return "\n".join(views.explain(made.engine, made.now, f"n{number}")["sentences"])
