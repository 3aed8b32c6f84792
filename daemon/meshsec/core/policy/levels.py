"""Levels of authentication: what each asks of a pair, and which one the circumstances choose (ADR 0091).

Theory of operation. A profile declares levels, the strongest first; each asks at least what the next one asks. The
floor is the level of every peer. Rules name a stronger level and conditions; the strongest level of those whose
conditions hold is chosen, so rules only raise. A condition that cannot be judged (no position is known) counts as met.
A rule with ``while_in_time`` yields for a while when set-ups at its level were late for that peer; then the other rules
and the floor hold. Levels below the floor are removed when a profile is decoded, so that nothing later can choose one.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median_low
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct

from meshsec.core.policy.suites import NAME_RULE, Suite, negotiated
from meshsec.core.values.definition import Once, Rule, Wrong
from meshsec.core.values.model import IkeSa

NEWEST = 3
"""Set-ups whose (lower) median is a level's time."""
ENOUGH = 2
"""Late set-ups with one peer before a rule yields."""
YIELD_FIRST, YIELD_MAX = 10.0, 600.0
"""Seconds for which a rule yields: at first, and at most. Each trial that is late doubles them."""
_ANYBODY = "names of peers, each a text in quotes"


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError
    return value


_Name = Annotated[str, Rule("a name, not empty", _text, {"type": "string", "minLength": 1})]


class Area(Struct, frozen=True):
    """A circle on the Earth (WGS 84)."""

    latitude: Annotated[float, Meta(ge=-90, le=90, description="degrees north", extra={"unit": "degrees"})]
    longitude: Annotated[float, Meta(ge=-180, le=180, description="degrees east", extra={"unit": "degrees"})]
    radius: Annotated[float, Meta(ge=1, le=20_000_000, description="metres", extra={"unit": "metres"})]

    def __str__(self) -> str:
        return f"{self.radius:g} m around {self.latitude:g}, {self.longitude:g}"


class Level(Struct, frozen=True):
    """What is asked of a pair beside the proof that each end holds the key on its card (RFC 7427, RFC 8420)."""

    name: Annotated[str, NAME_RULE, Meta(description="what it is called in `level_floor`, rules and reports")]
    fleet: Annotated[bool, Meta(description="a fleet's key in force has signed the peer's card")] = False
    second_secret: Annotated[
        bool, Meta(description="both ends prove that they have the second secret, too (`meshsec secret`; RFC 8784)")
    ] = False
    suite: Annotated[
        str,
        Rule("the name of a suite of the profile", _text, {"type": "string", "minLength": 1}),
        Meta(description="the weakest suite that may be negotiated; left out: the profile's floor"),
    ] = ""
    ike_rekey_time: Annotated[
        int, Meta(ge=600, le=86400, description="in place of the profile's, if shorter", extra={"unit": "seconds"})
    ] = 86400
    child_rekey_time: Annotated[
        int, Meta(ge=300, le=86400, description="in place of the profile's, if shorter", extra={"unit": "seconds"})
    ] = 86400


class LevelRule(Struct, frozen=True):
    """When a level above the floor is chosen: when all conditions hold that the rule has."""

    level: Annotated[str, NAME_RULE, Meta(description="the level that is chosen")]
    peers: Annotated[
        tuple[_Name, ...],
        Once("each name once"),
        Meta(min_length=1, description="the peer is one of these", extra={"allowed": _ANYBODY}),
    ] = ()
    fleets: Annotated[
        tuple[_Name, ...],
        Once("each name once"),
        Meta(
            min_length=1,
            description="one of these fleets has signed the peer's card",
            extra={"allowed": "names of fleets"},
        ),
    ] = ()
    threat: Annotated[bool, Meta(description="the threat is high (`meshsec threat`, or a key that was copied)")] = False
    inside: Annotated[
        tuple[Area, ...],
        Meta(
            max_length=16,
            description="this node is in one of these circles, or may be",
            extra={"allowed": "a list of { latitude = ..., longitude = ..., radius = ... }, the radius in metres"},
        ),
    ] = ()
    outside: Annotated[
        tuple[Area, ...],
        Meta(
            max_length=16,
            description="this node is in none of these circles, or may be in none",
            extra={"allowed": "a list of { latitude = ..., longitude = ..., radius = ... }, the radius in metres"},
        ),
    ] = ()
    while_in_time: Annotated[
        bool, Meta(description="only as long as set-ups with the peer meet deadline_ms at this level")
    ] = False


def _floor(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError  # noqa: TRY004  # the rule says what is allowed
    return value


Levels = Annotated[
    tuple[Level, ...],
    Once("each name once", "name"),
    Meta(
        max_length=16,
        description="Levels of authentication, the strongest first (docs/guide/policies.md).",
        extra={"allowed": 'a list of tables { name = "...", fleet = true, second_secret = true, suite = "..." }'},
    ),
]
LevelFloor = Annotated[
    str,
    Rule("the name of a level of the profile, or nothing", _floor),
    Meta(description="The level of every peer, below which no SA is accepted; empty: the last of the list."),
]
LevelRules = Annotated[
    tuple[LevelRule, ...],
    Meta(
        max_length=64,
        description="When a stronger level than the floor is asked for. The strongest of all that apply counts.",
        extra={"allowed": 'a list of tables { level = "...", threat = true, peers = ["..."] }'},
    ),
]
"""The three keys of a profile that levels have."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What the rules ask about."""

    peer: str
    """The peer's name as people see it."""
    fleet: str
    """Name of the fleet whose key in force has signed the peer's card. Empty: no fleet has."""
    threat: str = ""
    """Why the threat is high; empty: it is not."""
    is_inside: Callable[[Area], bool | None] = lambda _: None
    """Whether this node is in a circle; None: that is not known."""
    late: Mapping[str, str] = field(default_factory=dict)
    """The levels that are too slow for the peer now, with what was measured."""


class Choice(NamedTuple):
    """The level that is asked for, and why."""

    level: Level
    why: str
    others: tuple[str, ...]
    """What would choose a stronger level."""


def choose(levels: Sequence[Level], rules: Iterable[LevelRule], now: Circumstances) -> Choice:
    """Return the strongest level of the rules that apply, the floor (the last of ``levels``) if none does."""
    rank = {level.name: index for index, level in enumerate(levels)}
    floor = len(levels) - 1
    chosen, why, others = floor, "it is the floor of the policy, and no rule asks for more", []
    for rule in sorted(rules, key=lambda one: rank[one.level]):
        met, unmet = _judge(rule, now)
        if unmet:
            others.append((rank[rule.level], f"{rule.level} if {' and '.join(unmet)}"))
        elif rank[rule.level] < chosen:
            chosen, why = rank[rule.level], " and ".join(met) or "a rule asks for it always"
    return Choice(levels[chosen], why, tuple(text for place, text in others if place < chosen))


def conditions(rule: LevelRule) -> str:
    """Return the conditions of a rule in words; empty if it has none."""
    nowhere = Circumstances("", "", is_inside=lambda _: None, late={rule.level: ""})
    met, unmet = _judge(rule, nowhere)
    places = [one.removeprefix("it is not known whether ") for one in met]
    return " and ".join([*places, *unmet])


def _judge(rule: LevelRule, now: Circumstances) -> tuple[list[str], list[str]]:
    """Return the conditions of a rule that hold, and those that do not, in words."""
    met: list[str] = []
    unmet: list[str] = []

    def take(holds: bool, fact: str, wish: str) -> None:
        (met if holds else unmet).append(fact if holds else wish)

    if rule.peers:
        take(now.peer in rule.peers, f"a rule names {now.peer}", f"the peer is {_either(rule.peers)}")
    if rule.fleets:
        signed = f"the fleet {now.fleet} has signed the card"
        take(now.fleet in rule.fleets, signed, f"the fleet {_either(rule.fleets)} has signed the card")
    if rule.threat:
        take(bool(now.threat), f"the threat is high ({now.threat})", "the threat is high")
    for areas, inside in ((rule.inside, True), (rule.outside, False)):
        if areas:
            take(*_place(areas, [now.is_inside(area) for area in areas], inside=inside))
    if rule.while_in_time:
        late = now.late.get(rule.level)
        wish = f"set-ups are in time again ({late})" if late else "set-ups with the peer are in time"
        take(late is None, "set-ups at this level are in time", wish)
    return met, unmet


def _place(areas: Sequence[Area], found: Sequence[bool | None], *, inside: bool) -> tuple[bool, str, str]:
    """Judge a condition of place: what is not known counts as met, because that raises the level."""
    where = "in" if inside else "outside"
    words = f"this node is {where} {(' or ' if inside else ' and ').join(map(str, areas))}"
    if inside:
        holds, known = any(one is not False for one in found), any(found)
    else:
        holds, known = not any(found), all(one is False for one in found)
    return holds, words if known else f"it is not known whether {words}", words


def _either(names: Sequence[str]) -> str:
    return " or ".join(names)


def wrong(
    levels: Sequence[Level],
    floor: str,
    rules: Sequence[LevelRule],
    suites: Sequence[str],
    overlay: Mapping[str, bool],
) -> Wrong:
    """Yield what only several of the profile's keys show.

    ``suites``: the names, the strongest first. ``overlay``: the keys by which the overlay may carry user data, and
    whether it does.
    """
    names = [level.name for level in levels]
    if floor and floor not in names:
        yield ("level_floor",), f"the name of a level of the profile: {', '.join(names) or 'it has none'}"
        return
    for index, level in enumerate(levels):
        if level.suite and level.suite not in suites:
            yield ("levels", index, "suite"), f"the name of a suite of the profile: {', '.join(suites) or 'none'}"
        elif index and (key := _asks_more(level, levels[index - 1], suites)):
            yield ("levels", index, key), f"no more than {names[index - 1]} asks: the strongest level comes first"
    if levels and asks_more_than_the_key(levels, floor):
        yield from (((key,), NOT_BY_OVERLAY) for key, carries in overlay.items() if carries)
    kept = names[: names.index(floor) + 1] if floor else names
    for index, rule in enumerate(rules):
        if rule.level not in kept:
            yield ("level_rules", index, "level"), f"a level that is not below the floor: {', '.join(kept) or 'none'}"


def located(found: Wrong, given: Mapping[str, object]) -> Wrong:
    """Yield the same at a key that the table has, which may override a profile with the other one."""
    keys = ("levels", "level_floor", "level_rules", "suites", "floor", "data_plane", "overlay_fallback")
    for path, rule in found:
        yield path if path[0] in given else (next(key for key in keys if key in given),), rule


def _asks_more(weaker: Level, stronger: Level, suites: Sequence[str]) -> str:
    """Return the key by which a level asks more than the one before it; empty if it asks no more."""

    def rank(level: Level) -> int:
        return suites.index(level.suite) if level.suite in suites else len(suites)

    asked = {
        "fleet": weaker.fleet > stronger.fleet,
        "second_secret": weaker.second_secret > stronger.second_secret,
        "suite": rank(weaker) < rank(stronger),
        "ike_rekey_time": weaker.ike_rekey_time < stronger.ike_rekey_time,
        "child_rekey_time": weaker.child_rekey_time < stronger.child_rekey_time,
    }
    return next((key for key, more in asked.items() if more), "")


def above_floor(levels: tuple[Level, ...], floor: str) -> tuple[Level, ...]:
    """Return the levels without those below the floor; all of them if none is named."""
    names = [level.name for level in levels]
    return levels[: names.index(floor) + 1] if floor else levels


NOT_BY_OVERLAY = "no overlay where the floor asks for a fleet or the second secret: the overlay knows keys alone"


def asks_more_than_the_key(levels: Sequence[Level], floor: str) -> bool:
    """Return whether the level of every peer asks for what the overlay cannot prove."""
    lowest = next((level for level in levels if level.name == floor), levels[-1])
    return lowest.fleet or lowest.second_secret


def shortfall(level: Level, fleet: str, *, by_secret: bool, second_secret: bool) -> str:
    """Return what a pair lacks for a level whatever it negotiates, and how to fix it; empty if nothing.

    ``by_secret``: one end's IKE daemon is libreswan (ADR 0042). ``second_secret``: this node has it.
    """
    if level.fleet and not fleet:
        return "no fleet's key in force has signed the peer's card; `meshsec fleet add` on the fleet's desk signs one"
    if level.second_secret and by_secret:
        return "libreswan is one end's IKE daemon, with which meshsec uses no second secret; use strongSwan at both"
    if level.second_secret and not second_secret:
        return "this node has no second secret; `meshsec secret set` takes the one of the other nodes"
    return ""


def left_out(levels: Iterable[Level]) -> tuple[str, ...]:
    """Return what to say of each where connections alone are written for an IKE daemon without meshsecd."""
    return tuple(f"level of authentication {one.name}: meshsecd alone chooses levels" for one in levels)


def meets(level: Level, sa: IkeSa, suites: Sequence[Suite], fleet: str) -> bool:
    """Return whether an established IKE_SA is at least as strong as a level asks."""
    if (level.fleet and not fleet) or (level.second_secret and not sa.second_secret):
        return False
    return not level.suite or negotiated(at_least(level, suites), sa) is not None


def in_force(levels: Iterable[Level], sa: IkeSa, suites: Sequence[Suite], fleet: str) -> Level | None:
    """Return the strongest level that an established IKE_SA meets; None if it meets none."""
    return next((level for level in levels if meets(level, sa, suites, fleet)), None)


def at_least(level: Level, suites: Sequence[Suite]) -> tuple[Suite, ...]:
    """Return the suites that a level allows. ``suites``: the profile's, the strongest first."""
    names = [suite.name for suite in suites]
    return tuple(suites[: names.index(level.suite) + 1]) if level.suite else tuple(suites)


@dataclass(slots=True)
class _Times:
    count: int = 0
    newest: deque[float] = field(default_factory=lambda: deque(maxlen=NEWEST))
    pause: float = YIELD_FIRST
    until: float = 0.0
    """Monotonic time until which rules for the level yield."""
    said: str = ""
    """What was late."""


class LevelTimes:
    """How long set-ups at each level took, in seconds, and which levels are too slow now."""

    def __init__(self) -> None:
        self._times: dict[str, _Times] = {}

    def measured(self, now: float, level: str, seconds: float, deadline: float) -> None:
        """Take in a set-up that this node initiated."""
        times = self._times.setdefault(level, _Times())
        times.count += 1
        times.newest.append(seconds)
        if len(times.newest) < ENOUGH:
            return
        if median_low(times.newest) <= deadline:
            times.pause = YIELD_FIRST
        elif times.until <= now:
            times.until, times.pause = now + times.pause, min(2 * times.pause, YIELD_MAX)
            # One set-up, that of the next trial, then decides.
            times.newest = deque((seconds,), maxlen=NEWEST)
            times.said = f"the last took {seconds * 1000:.1f} ms, the deadline is {deadline * 1000:g} ms"

    def late(self, now: float) -> dict[str, str]:
        """Return the levels whose rules yield, with what was measured."""
        return {name: times.said for name, times in self._times.items() if times.until > now}

    def next_time(self, now: float) -> float | None:
        """Return when a rule yields no longer; None: none does."""
        return min((times.until for times in self._times.values() if times.until > now), default=None)

    def recent(self, level: str) -> tuple[int, float | None]:
        """Return the number of set-ups at a level, and the median of the newest; None without any."""
        times = self._times.get(level)
        return (times.count, median_low(times.newest)) if times else (0, None)
