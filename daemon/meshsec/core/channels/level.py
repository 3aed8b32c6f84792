"""A pair's level of authentication: what is chosen for it, and the rise to it without an interruption (ADR 0091).

Theory of operation. ``leveled`` narrows the connection to what the chosen level allows, or returns none if the pair
lacks something that no negotiation brings. An established SA below the chosen level stays while its successor is
negotiated, for ``GRACE`` seconds at most, also if the pair cannot have the level; one below the floor is closed at
once. An SA above the chosen level stays.
"""

from dataclasses import dataclass, field, replace

from meshsec.core.policy.levels import (
    Area,
    Choice,
    Circumstances,
    Level,
    LevelTimes,
    at_least,
    choose,
    in_force,
    meets,
    shortfall,
)
from meshsec.core.policy.policy import Policy
from meshsec.core.positions.positions import Position, distance
from meshsec.core.trust import second_secret
from meshsec.core.values.model import Authentication, ConnectionSpec, IkeSa, SecondSecret

GRACE = 30.0
"""Seconds for which an SA below the chosen level is kept. A set-up takes less than one, and a peer that does not answer
at first is tried several times."""
SETTLED = 10.5
"""Seconds after an SA's set-up before its successor is negotiated: then both ends see which one is the later
(``CROSSING_SECONDS`` in reconcile.py), and keep it."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What this node knows of threat, place and the second secret."""

    threat: str = ""
    """Why the threat is high; empty: it is not."""
    position: Position | None = None
    """Where this node is; None: that is not known."""
    mark: bytes = b""
    """Of the second secret (``second_secret.mark``); empty: this node has none."""

    def is_inside(self, area: Area) -> bool | None:
        """Return whether this node is in a circle; None: its position is unknown or not accurate enough to say."""
        if self.position is None:
            return None
        metres = distance(self.position, Position(area.latitude, area.longitude))
        error = self.position.accuracy or 0.0
        return None if abs(metres - area.radius) < error else metres <= area.radius


@dataclass(slots=True)
class PeerLevel:
    """One channel's level. Times are monotonic seconds."""

    choice: Choice | None = None
    """None: the policy has no levels."""
    refused: str = ""
    """Why the pair cannot have the level: it or this node lacks something. No SA is set up then."""
    rise_by: float | None = None
    """Time at which the SA is closed that is below the chosen level, or refused; None: there is none such."""
    began_at: str = ""
    """The level for which this node's last attempt was made."""
    due: float | None = None
    """When the level is chosen again, because a rule yields no longer; None: not before the next event."""
    times: LevelTimes = field(default_factory=LevelTimes)
    """How long this node's set-ups with the peer took."""


def circumstances(around: Surroundings, level: PeerLevel, peer: str, fleet: str, now: float) -> Circumstances:
    """Return what the rules ask about a peer. ``fleet`` is the one that has signed its card; empty: none has."""
    return Circumstances(peer, fleet, around.threat, around.is_inside, level.times.late(now))


def leveled(
    policy: Policy, level: PeerLevel, asked: Circumstances, mark: bytes, spec: ConnectionSpec
) -> ConnectionSpec | None:
    """Choose the level for a peer and return its connection at that level; None if the pair cannot have the level.

    ``mark``: of the second secret; empty: this node has none.
    """
    if not policy.levels:
        return spec
    level.choice = choose(policy.levels, policy.level_rules, asked)
    by_secret = spec.authentication is Authentication.SECRET
    level.refused = shortfall(level.choice.level, asked.fleet, by_secret=by_secret, second_secret=bool(mark))
    return None if level.refused else _narrowed(policy, level.choice.level, b"" if by_secret else mark, spec)


def _narrowed(policy: Policy, level: Level, mark: bytes, spec: ConnectionSpec) -> ConnectionSpec:
    suites = at_least(level, policy.suites)
    if suites:
        ike, esp = [one.ike for one in suites], [one.esp for one in suites]
        children = (replace(one, esp_proposals=_kept(one.esp_proposals, esp)) for one in spec.children)
        spec = replace(spec, ike_proposals=_kept(spec.ike_proposals, ike), children=tuple(children))
    second = None
    if mark:
        ppk_id = second_secret.identity(mark, spec.local_public_key, spec.remote_public_key)
        second = SecondSecret(ppk_id, required=level.second_secret)
    return replace(
        spec,
        ike_rekey_time=min(level.ike_rekey_time, spec.ike_rekey_time),
        child_rekey_time=min(level.child_rekey_time, spec.child_rekey_time),
        second_secret=second,
    )


def _kept(proposals: tuple[str, ...], allowed: list[str]) -> tuple[str, ...]:
    """Return what a level allows of proposals. The weakest is first in place of a weaker one, which is in time."""
    kept = [one for one in proposals if one in allowed]
    first = [] if proposals[:1] == tuple(kept[:1]) else allowed[-1:]
    return tuple(dict.fromkeys((*first, *kept)))


def is_below_floor(policy: Policy, sa: IkeSa, fleet: str) -> bool:
    """Return whether an established IKE_SA is below the policy's floor: agreed on under another policy or fleet."""
    return bool(policy.levels) and not meets(policy.levels[-1], sa, policy.suites, fleet)


def is_below(policy: Policy, level: PeerLevel, sa: IkeSa, fleet: str) -> bool:
    """Return whether an established IKE_SA is below the level that is chosen now."""
    return level.choice is not None and not meets(level.choice.level, sa, policy.suites, fleet)


def found(policy: Policy, sa: IkeSa | None, fleet: str) -> Level | None:
    """Return the level that is in force with a peer; None without an SA or levels."""
    return in_force(policy.levels, sa, policy.suites, fleet) if sa is not None else None
