"""Levels of authentication: circumstances raise them, nothing brings one below the floor (ADR 0091)."""

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.world import ike_sa
from meshsec.core.explain import levels_view, policy_view
from meshsec.core.policy.levels import (
    ENOUGH,
    YIELD_FIRST,
    YIELD_MAX,
    Area,
    Circumstances,
    LevelTimes,
    choose,
    in_force,
    left_out,
    meets,
    shortfall,
)
from meshsec.core.policy.policy import Policy, PolicyError, decode_policy

SUITES = [
    {"name": "p384", "ike": "aes256gcm16-prfsha384-ecp384", "esp": "aes256gcm16-ecp384"},
    {"name": "x25519", "ike": "aes256gcm16-prfsha256-x25519", "esp": "aes256gcm16-x25519"},
]
LEVELS: list[dict[str, object]] = [
    {"name": "strong", "fleet": True, "second_secret": True, "suite": "p384", "ike_rekey_time": 3600},
    {"name": "secret", "fleet": True, "second_secret": True},
    {"name": "fleet", "fleet": True},
    {"name": "card"},
    {"name": "below"},
]
CIRCLE = {"latitude": 47.0, "longitude": 8.0, "radius": 1000.0}
ELSEWHERE = {"latitude": 46.0, "longitude": 7.0, "radius": 500.0}
RULES: list[dict[str, object]] = [
    {"level": "strong", "threat": True},
    {"level": "fleet", "fleets": ["alpha"]},
    {"level": "secret", "peers": ["base"]},
    {"level": "secret", "outside": [CIRCLE]},
    {"level": "strong", "fleets": ["alpha"], "while_in_time": True},
]
TABLE = {"suites": SUITES, "levels": LEVELS, "level_floor": "card", "level_rules": RULES}
HOME = {"is_inside": lambda _: True}


def policy(**changes: object) -> Policy:
    return decode_policy(TABLE | changes)


def chosen(one: Policy, now: Circumstances) -> str:
    return choose(one.levels, one.level_rules, now).level.name


def refusal(**changes: object) -> str:
    with pytest.raises(PolicyError) as refused:
        policy(**changes)
    return str(refused.value)


def test_what_is_below_the_floor_is_no_level_at_all() -> None:
    assert [level.name for level in policy().levels] == ["strong", "secret", "fleet", "card"]
    assert [level.name for level in policy(level_floor="", level_rules=[]).levels][-1] == "below"
    assert "not below the floor" in refusal(level_rules=[{"level": "below"}])
    assert "the name of a level" in refusal(level_floor="nothing-like-it")


def test_without_a_rule_that_applies_the_floor_holds_and_the_choice_says_what_would_raise_it() -> None:
    choice = choose(policy().levels, policy().level_rules, Circumstances("car", "", **HOME))  # type: ignore[arg-type]
    assert choice.level.name == "card"
    assert "floor" in choice.why
    assert "strong if the threat is high" in choice.others
    assert "secret if the peer is base" in choice.others
    assert any(one.startswith("secret if this node is outside 1000 m around 47, 8") for one in choice.others)


@pytest.mark.parametrize(
    ("now", "level"),
    [
        (Circumstances("car", "", threat="the operator says so", **HOME), "strong"),  # type: ignore[arg-type]
        (Circumstances("car", "alpha", late={"strong": "slow"}, **HOME), "fleet"),  # type: ignore[arg-type]
        (Circumstances("car", "alpha", **HOME), "strong"),  # type: ignore[arg-type]
        (Circumstances("base", "", **HOME), "secret"),  # type: ignore[arg-type]
        (Circumstances("car", "", is_inside=lambda _: False), "secret"),
        (Circumstances("car", "", is_inside=lambda _: None), "secret"),
        (Circumstances("car", "beta", **HOME), "card"),  # type: ignore[arg-type]
    ],
)
def test_the_strongest_level_of_the_rules_that_apply_is_chosen(now: Circumstances, level: str) -> None:
    assert chosen(policy(), now) == level


def test_an_unknown_place_counts_as_the_one_that_raises() -> None:
    one = policy(level_rules=[{"level": "secret", "inside": [CIRCLE]}])
    for found, level in ((None, "secret"), (True, "secret"), (False, "card")):
        now = Circumstances("car", "", is_inside=partial(answer, found))
        choice = choose(one.levels, one.level_rules, now)
        assert choice.level.name == level
        assert ("not known" in choice.why) is (found is None)


@pytest.mark.parametrize(
    ("found", "inside", "outside"),
    [
        ((True, False), "known", ""),
        ((False, True), "known", ""),
        ((True, None), "known", ""),
        ((True, True), "known", ""),
        ((False, False), "", "known"),
        ((None, False), "unknown", "unknown"),
        ((None, None), "unknown", "unknown"),
    ],
)
def test_several_circles_are_one_area(found: tuple[bool | None, ...], inside: str, outside: str) -> None:
    """``inside`` and ``outside``: how a rule applies; empty: it does not."""
    circles = [{**CIRCLE, "radius": float(number + 1)} for number in range(2)]
    answers = dict(zip((1.0, 2.0), found, strict=True))
    now = Circumstances("car", "", is_inside=lambda area: answers[area.radius])
    for where, applies in (("inside", inside), ("outside", outside)):
        one = policy(level_rules=[{"level": "secret", where: circles}])
        choice = choose(one.levels, one.level_rules, now)
        assert (choice.level.name == "secret") is bool(applies)
        assert ("not known" in choice.why) is (applies == "unknown")
        assert bool(choice.others) is not bool(applies)


def test_only_what_is_stronger_than_the_choice_is_named_as_what_would_raise_it() -> None:
    rules = [
        {"level": "secret", "peers": ["car"]},
        {"level": "secret", "threat": True},
        {"level": "fleet", "peers": ["x"]},
    ]
    one = policy(level_rules=rules)
    assert choose(one.levels, one.level_rules, Circumstances("car", "")).others == ()


def answer(found: bool | None, _: Area) -> bool | None:
    return found


circumstances = st.builds(
    Circumstances,
    peer=st.sampled_from(["car", "base"]),
    fleet=st.sampled_from(["", "alpha", "beta"]),
    threat=st.sampled_from(["", "high"]),
    is_inside=st.sampled_from([partial(answer, found) for found in (None, True, False)]),
    late=st.dictionaries(st.sampled_from([str(level["name"]) for level in LEVELS]), st.just("slow")),
)


@given(
    floor=st.sampled_from(["strong", "secret", "fleet", "card", "below"]),
    picked=st.lists(st.sampled_from(RULES)),
    now=circumstances,
)
def test_no_circumstance_chooses_below_the_floor(
    floor: str, picked: list[dict[str, object]], now: Circumstances
) -> None:
    order = [str(level["name"]) for level in LEVELS]
    rules = [rule for rule in picked if order.index(str(rule["level"])) <= order.index(floor)]
    one = policy(level_floor=floor, level_rules=rules)
    level = chosen(one, now)
    assert order.index(level) <= order.index(floor)
    # More rules and more circumstances never choose a weaker level.
    assert order.index(level) <= order.index(chosen(policy(level_floor=floor, level_rules=[]), now))
    assert order.index(chosen(one, replace(now, threat="high"))) <= order.index(level)


def test_a_profile_whose_levels_are_out_of_order_is_refused_with_the_key() -> None:
    assert "no more than" in refusal(levels=[{"name": "card"}, {"name": "fleet", "fleet": True}], level_rules=[])
    short = [{"name": "a"}, {"name": "card", "ike_rekey_time": 600}]
    assert "ike_rekey_time" in refusal(levels=short, level_rules=[])
    assert "the name of a suite" in refusal(levels=[{"name": "card", "suite": "none"}], level_rules=[])
    assert "suite" in refusal(levels=[{"name": "card", "suite": "x25519"}], level_rules=[], floor="p384")


def test_the_overlay_is_refused_where_the_floor_asks_for_more_than_keys() -> None:
    strict = {"levels": LEVELS[:3], "level_floor": "fleet", "level_rules": []}
    assert "no overlay" in refusal(**strict, overlay_fallback=True)
    assert "no overlay" in refusal(**strict, data_plane="overlay")
    assert policy(overlay_fallback=True).overlay_fallback, "the floor is the card"


def test_overrides_that_conflict_with_a_profiles_levels_are_refused_at_a_key_that_they_have() -> None:
    base = policy()
    for table in (
        {"level_floor": "fleet", "overlay_fallback": True},
        {"level_floor": "strong"},
        {"suites": SUITES[1:]},
    ):
        with pytest.raises(PolicyError) as refused:
            decode_policy(table, base)
        assert all(problem.path[0] in table for problem in refused.value.problems)


def test_what_a_policy_says_of_levels_is_told_in_sentences() -> None:
    lines = levels_view.policy_lines(policy())
    assert lines[3].startswith("Level card: ")
    assert lines[3].endswith("(the floor)")
    assert "  strong if the threat is high" in lines
    assert "  secret if this node is outside 1000 m around 47, 8" in lines
    assert "  strong if the fleet alpha has signed the card and set-ups with the peer are in time" in lines
    assert any("second secret" in line for line in lines)
    assert levels_view.policy_lines(Policy()) == []


@pytest.mark.parametrize(("place", "joint"), [("inside", "in {} or {}"), ("outside", "outside {} and {}")])
def test_one_circle_is_enough_to_be_inside_and_all_of_them_count_outside(place: str, joint: str) -> None:
    lines = levels_view.policy_lines(policy(level_rules=[{"level": "strong", place: [CIRCLE, ELSEWHERE]}]))
    circles = "1000 m around 47, 8", "500 m around 46, 7"
    assert f"  strong if this node is {joint.format(*circles)}" in lines


def test_what_no_level_allows_is_no_suite_at_all() -> None:
    one = policy(levels=[{"name": "top", "suite": "p384"}, {"name": "low"}], level_floor="top", level_rules=[])
    assert [suite.name for suite in one.suites] == ["p384"]
    assert one.floor == "p384"
    assert one.ike_proposals == (SUITES[0]["ike"],)
    assert [suite.name for suite in policy().suites] == ["p384", "x25519"]


def test_exports_say_that_they_have_no_levels() -> None:
    assert [one.split(":")[0] for one in left_out(policy().levels)][-1] == "level of authentication card"
    assert left_out(()) == ()


def test_an_sa_meets_a_level_by_what_was_negotiated() -> None:
    one = policy()
    strong, secret, fleet, card = one.levels
    plain = replace(ike_sa("n5"), encryption="AES_GCM_16-256", key_exchange="CURVE_25519")
    mixed = replace(plain, second_secret=True)
    slow = replace(mixed, key_exchange="ECP_384")
    found = {
        (name, who): level.name if (level := in_force(one.levels, sa, one.suites, who)) else None
        for name, sa in (("plain", plain), ("mixed", mixed), ("slow", slow))
        for who in ("", "alpha")
    }
    assert found == {
        ("plain", ""): "card",
        ("plain", "alpha"): "fleet",
        ("mixed", ""): "card",
        ("mixed", "alpha"): "secret",
        ("slow", ""): "card",
        ("slow", "alpha"): "strong",
    }
    assert not meets(strong, mixed, one.suites, "alpha")
    assert not meets(secret, plain, one.suites, "alpha")
    assert not meets(fleet, slow, one.suites, "")
    assert meets(card, plain, one.suites, "")


def test_what_a_pair_lacks_is_said_with_the_command_that_fixes_it() -> None:
    strong, _, _, card = policy().levels
    assert "meshsec fleet" in shortfall(strong, "", by_secret=False, second_secret=True)
    assert "meshsec secret" in shortfall(strong, "alpha", by_secret=False, second_secret=False)
    assert "libreswan" in shortfall(strong, "alpha", by_secret=True, second_secret=True)
    assert not shortfall(strong, "alpha", by_secret=False, second_secret=True)
    assert not shortfall(card, "", by_secret=True, second_secret=False)


def test_a_rule_yields_after_late_set_ups_for_longer_and_longer_and_comes_back() -> None:
    times, now = LevelTimes(), 100.0
    for _ in range(ENOUGH):
        assert not times.late(now)
        times.measured(now, "strong", 0.5, 0.1)
    assert "500.0 ms, the deadline is 100 ms" in times.late(now)["strong"]
    assert times.next_time(now) == now + YIELD_FIRST
    pause, pauses = YIELD_FIRST, []
    for _ in range(12):
        now = times.next_time(now) or 0.0
        assert not times.late(now), "a trial"
        times.measured(now, "strong", 0.5, 0.1)
        pauses.append((times.next_time(now) or 0.0) - now)
        pause = min(2 * pause, YIELD_MAX)
        assert pauses[-1] == pause
    assert pauses[-1] == YIELD_MAX
    now += YIELD_MAX
    for _ in range(3):
        times.measured(now, "strong", 0.01, 0.1)
    assert not times.late(now)
    assert times.recent("strong")[1] == pytest.approx(0.01)
    assert times.recent("card") == (0, None)


def test_in_time_is_up_to_the_deadline_and_each_level_yields_by_itself() -> None:
    times = LevelTimes()
    for _ in range(ENOUGH):
        times.measured(1.0, "strong", 0.1, 0.1)
        times.measured(1.0, "secret", 0.2, 0.1)
        times.measured(5.0, "fleet", 0.2, 0.1)
    assert set(times.late(5.0)) == {"secret", "fleet"}
    assert times.next_time(5.0) == 1.0 + YIELD_FIRST
    assert times.next_time(1.0 + YIELD_FIRST) == 5.0 + YIELD_FIRST
    assert times.next_time(5.0 + YIELD_FIRST) is None


def test_a_rule_that_asks_for_the_floor_changes_nothing() -> None:
    one = policy(level_rules=[{"level": "card", "peers": ["car"]}])
    assert choose(one.levels, one.level_rules, Circumstances("car", "")).why.startswith("it is the floor")


def test_one_late_set_up_changes_nothing() -> None:
    times = LevelTimes()
    for seconds in (0.01, 0.5, 0.01, 0.01):
        times.measured(1.0, "strong", seconds, 0.1)
        assert not times.late(1.0)


def test_levels_are_shown_as_the_profile_has_them() -> None:
    shown = policy_view.settings(policy())
    assert shown["levels"] == LEVELS[:-1]
    assert shown["level_rules"] == RULES
    assert decode_policy({name: value for name, value in shown.items() if value not in ("", [])}) == policy()
