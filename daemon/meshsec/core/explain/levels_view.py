"""What people are shown of levels of authentication (ADR 0091)."""

from collections.abc import Mapping
from typing import Any

from meshsec.core.channels import level
from meshsec.core.channels.channel import Channel
from meshsec.core.channels.situation import Situation
from meshsec.core.explain.findings import Check
from meshsec.core.explain.findings import Level as Grade
from meshsec.core.policy.levels import Level, conditions
from meshsec.core.policy.policy import Policy
from meshsec.core.values.model import peer_name

CARD = "each end proves that it holds the key on its card"


def asks(one: Level) -> str:
    """Return what a level asks for, in words."""
    words = [CARD]
    words += ["a fleet has signed the peer's card"] if one.fleet else []
    words += ["both ends have the second secret"] if one.second_secret else []
    words += [f"no suite is weaker than {one.suite}"] if one.suite else []
    return ", ".join(words)


def policy_lines(policy: Policy) -> list[str]:
    """Return what a policy says of levels, for people."""
    if not policy.levels:
        return []
    floor, rules = policy.levels[-1], [(rule.level, conditions(rule)) for rule in policy.level_rules]
    return [
        *(f"Level {one.name}: {asks(one)}{' (the floor)' if one is floor else ''}" for one in policy.levels),
        *(f"  {name} {f'if {words}' if words else 'always'}" for name, words in rules),
    ]


def threat(known: Situation) -> dict[str, Any]:
    """Return how high the threat is, and why it is high."""
    return {"threat": "high" if known.around.threat else "normal", "why": known.around.threat or None}


def node(known: Situation) -> dict[str, Any] | None:
    """Return the levels, with the times of this node's set-ups; None without levels."""
    if not known.policy.levels:
        return None
    return {
        **threat(known),
        "position_known": known.around.position is not None,
        "second_secret": bool(known.around.mark),
        "floor": known.policy.levels[-1].name,
        "deadline_ms": known.policy.deadline_ms,
        "levels": [_timed(known, one) for one in known.policy.levels],
    }


def _timed(known: Situation, one: Level) -> dict[str, Any]:
    samples, recent = known.level_times.recent(one.name)
    recent_ms = None if recent is None else round(recent * 1000, 3)
    return {"name": one.name, "asks": asks(one), "samples": samples, "recent_ms": recent_ms}


def peer(known: Situation, channel: Channel) -> dict[str, Any] | None:
    """Return a peer's level: which one is asked for, which one its SA has, and why; None without levels."""
    choice = channel.level.choice
    if choice is None:
        return None
    in_force = level.found(known.policy, channel.ike_sa(), channel.fleet)
    return {
        "chosen": choice.level.name,
        "in_force": in_force.name if in_force else None,
        "why": choice.why,
        "refused": channel.level.refused or None,
        "others": list(choice.others),
    }


def sentences(known: Situation, channel: Channel, now: float) -> list[str]:
    """Return why a peer has its level, and what would change it."""
    choice = channel.level.choice
    if choice is None:
        return []
    name, floor = choice.level.name, known.policy.levels[-1].name
    found = [f"Its level of authentication is {name}, never one below {floor}: {choice.why}."]
    found += [f"That asks for: {asks(choice.level)}."]
    if channel.level.refused and channel.level.rise_by is not None:
        found.append(
            f"The present SA is closed in {_left(channel, now)} s, because the pair cannot have that level: "
            f"{channel.level.refused}."
        )
    elif channel.level.refused:
        found.append(f"There is no SA, because the pair cannot have that level: {channel.level.refused}.")
    elif channel.level.rise_by is not None:
        found.append(
            f"The present SA is below it: it is closed when its successor is established, in {_left(channel, now)} s "
            "at the latest."
        )
    elif (in_force := level.found(known.policy, channel.ike_sa(), channel.fleet)) and in_force.name != name:
        found.append(f"The present SA is of the level {in_force.name} and stays: a lower one is for the next set-up.")
    return [*found, *(f"A stronger level: {other}." for other in choice.others)]


def _left(channel: Channel, now: float) -> int:
    return max(0, round((channel.level.rise_by or now) - now))


def problems(known: Situation) -> list[str]:
    """Return what status says of peers that cannot have their level."""
    return [f"{_outcome(one['peer'], ends=one['ends'])}: {one['why']}" for one in unable(known)]


def unable(known: Situation) -> list[dict[str, Any]]:
    """Return the peers that cannot have their level: whether their SA still carries and ends, and what they lack."""
    refused = sorted((one for one in known.channels() if one.level.refused), key=lambda one: one.title)
    return [{"peer": one.title, "ends": one.carrying_sa() is not None, "why": one.level.refused} for one in refused]


def _outcome(peers: str, *, ends: bool) -> str:
    return f"the SA with {peers} ends within {level.GRACE:g} s" if ends else f"no SA with {peers}"


def checks(known: Situation, problems: Mapping[str, str]) -> list[Check]:
    """Return doctor's findings. ``problems``: why files cannot be read, with the command that fixes each."""
    found = [Check("levels of authentication", Grade.WARN, problem, fix) for problem, fix in problems.items()]
    found += _nobody(known)
    refused: dict[tuple[str, bool], list[str]] = {}
    for one in unable(known):
        refused.setdefault((one["why"], one["ends"]), []).append(one["peer"])
    for (why, ends), names in refused.items():
        lacks, _, fix = why.partition("; ")
        told = f"{_outcome(', '.join(names), ends=ends)}, because their level asks for more: {lacks}"
        found.append(Check("levels of authentication", Grade.FAIL, told, fix))
    return found


def _nobody(known: Situation) -> list[Check]:
    """Warn of names in rules that no peer and no fleet of a peer has: such a rule raises nothing."""
    channels = list(known.channels())
    peers, fleets = {peer_name(one.title) for one in channels}, {one.fleet for one in channels}
    rules = known.policy.level_rules
    names = [f"the peer {name}" for rule in rules for name in rule.peers if name not in peers]
    names += [f"the fleet {name}" for rule in rules for name in rule.fleets if name not in fleets]
    if not names:
        return []
    told = (
        f"level_rules name {', '.join(dict.fromkeys(names))}, whom this node does not know: those rules raise nothing"
    )
    return [Check("levels of authentication", Grade.WARN, told, "correct the names in [policy] of meshsec.toml")]
