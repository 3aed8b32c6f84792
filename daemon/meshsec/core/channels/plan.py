"""What is lacking, what prevents it, and the plan that people are shown. Nothing is changed here."""

from dataclasses import dataclass

from meshsec.core.channels.actions import (
    Action,
    ApplyRules,
    Initiate,
    Kind,
    LoadConnection,
    LoadKey,
    OverlayAction,
    RouteNetworks,
    Subject,
)
from meshsec.core.channels.channel import Channel
from meshsec.core.channels.network_events import network_actions
from meshsec.core.channels.overlay import NONE
from meshsec.core.channels.reconcile import reconcile_peer
from meshsec.core.channels.situation import Situation


@dataclass(frozen=True, slots=True)
class Planned:
    """One action of the plan: why, and when (monotonic seconds; None: as soon as what it waits for is there)."""

    action: Action
    why: str
    at: float | None = None


def plan(known: Situation, now: float) -> list[Planned]:
    """Return what the engine would do from here, and why."""
    actions: list[Action] = common_actions(known)
    for channel in known.by_name.values():
        actions += lacking(known, channel)
    actions += [*overlay_actions(known), *network_actions(known)]
    return [_planned(known, now, action) for action in actions]


def obstacle(known: Situation, action: Action) -> str | None:
    """Return what must be done before ``action``; None when it can be done now."""
    if isinstance(action, ApplyRules | RouteNetworks):
        return None
    if isinstance(action, OverlayAction):
        return known.overlay.obstacle(action) if known.rules.in_force is not None else "the fail-closed rules"
    if known.ike_down is not None:
        return f"the IKE daemon ({known.ike_down})"
    if isinstance(action, LoadKey):
        return None if known.rules.in_force is not None else "the fail-closed rules"
    if isinstance(action, LoadConnection | Initiate):
        return _opening_obstacle(known, action)
    return None


def common_actions(known: Situation) -> list[Action]:
    """Return what is lacking for all peers: rules, then the key."""
    actions: list[Action] = []
    if not known.rules.met():
        actions.append(ApplyRules(known.rules.wanted()))
    if not known.key_loaded:
        actions.append(LoadKey())
    return actions


def overlay_actions(known: Situation) -> list[OverlayAction]:
    """Return what is lacking in the overlay."""
    rules = known.rules.in_force
    return known.overlay.actions(rules.admitted if rules is not None and known.rules.met() else NONE)


def lacking(known: Situation, channel: Channel) -> list[Action]:
    """Return what is lacking for one peer."""
    attempting = known.queue.is_active(channel.name) or channel.attempt.unconfirmed
    observed = channel.observed(attempting=attempting)
    unwanted = channel.level.refused and "a level of authentication is asked for that the pair cannot have"
    timeout = channel.attempt.timeout(known.policy)
    actions = reconcile_peer(channel.name, channel.desired(), observed, timeout, unwanted)
    if channel.is_rising() and not any(isinstance(one, Initiate) for one in actions):
        actions.append(Initiate(channel.name, all_children(channel), timeout))
    return actions


def all_children(channel: Channel) -> tuple[str, ...]:
    """Return the names of all CHILD_SAs that are wanted with a peer."""
    return tuple(child.name for child in channel.connection.children) if channel.connection else ()


def _opening_obstacle(known: Situation, action: LoadConnection | Initiate) -> str | None:
    channel = known.by_name[action.subject.peer]
    if not known.rules.covers(channel.card):
        return "the fail-closed rules"
    if not known.key_loaded:
        return "this node's key in the IKE daemon"
    if isinstance(action, Initiate) and not _configured(known, channel):
        return "the peer's configuration in the IKE daemon"
    if isinstance(action, Initiate) and channel.sas.revoked_left():
        return "the end of an SA that is not to be relied on"
    return None


def _configured(known: Situation, channel: Channel) -> bool:
    changing = known.in_flight.has(Subject(Kind.CONNECTION, channel.name))
    return channel.configured() and not changing


def _planned(known: Situation, now: float, action: Action) -> Planned:
    subject = action.subject
    why = action.why or _wish(known.by_name[subject.peer])
    if known.in_flight.has(subject):
        return Planned(action, f"{why}; in progress")
    missing = obstacle(known, action)
    if missing is not None:
        return Planned(action, f"{why}; waits for {missing}")
    if isinstance(action, Initiate) and known.queue.waits(action.peer):
        return Planned(action, f"{why}; waits for its place among the concurrent negotiations")
    at = _due(known, action)
    return Planned(action, why, at if at > now else None)


def _wish(channel: Channel) -> str:
    return "a stronger level of authentication is asked for" if channel.is_rising() else channel.reason


def _due(known: Situation, action: Action) -> float:
    if isinstance(action, Initiate):
        return known.by_name[action.peer].attempt.due
    return known.in_flight.due(action.subject)
