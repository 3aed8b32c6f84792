"""The policy profile: which algorithms, how patient, how many at once, and what is dropped.

A profile is a file ``policies/NAME.toml`` with the fields of ``Policy``; ``decode_policy`` turns its decoded table
into a ``Policy``. The defaults here are those of ``policies/default.toml``, which gives each setting's source.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from ipaddress import IPv6Network, ip_network
from typing import Any

from meshsec.core.policy import bypass, suites
from meshsec.core.policy.suites import Suite
from meshsec.core.values.model import Bypass, CopyDscp, DataPlane, Network, UnknownNodes


class RemovedPeers(StrEnum):
    """What becomes of the drop rule of a peer that is trusted no longer."""

    DROP = "drop"
    """It stands: user data to and from its addresses stays forbidden as long as the rules stand."""
    OPEN = "open"
    """It goes: the addresses fall under ``unknown_nodes``."""


class EspRank(StrEnum):
    """Who puts ESP proposals in order that are equally strong."""

    CPU = "cpu"
    """The processor: the cipher that it does best comes first (ADR 0043)."""
    LISTED = "listed"
    """Nobody: as they are listed."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A complete profile. Times are seconds."""

    ike_proposals: tuple[str, ...] = (
        "aes256gcm16-prfsha256-x25519-ke1_mlkem768",
        "aes256gcm16-prfsha256-x25519",
        "chacha20poly1305-prfsha256-x25519",
        "aes128gcm16-prfsha256-x25519",
    )
    """In strongSwan's names, best first (RFC 8247)."""
    esp_proposals: tuple[str, ...] = (
        "aes256gcm16-x25519-ke1_mlkem768",
        "chacha20poly1305-x25519-ke1_mlkem768",
        "aes256gcm16-x25519",
        "chacha20poly1305-x25519",
        "aes128gcm16-x25519",
    )
    """In strongSwan's names, best first (RFC 8221)."""
    esp_rank: EspRank = EspRank.CPU
    suites: tuple[Suite, ...] = ()
    """Ranked, the strongest first and none below the floor: what is not here cannot be chosen (suite_choice.py). Their
    proposals then are ``ike_proposals`` and ``esp_proposals``. Empty: nothing is chosen."""
    floor: str = ""
    """Name of the last suite that was kept; empty: the last of the list."""
    ike_rekey_time: int = 14400
    child_rekey_time: int = 3600
    replay_window: int = 256
    """Packets by which one may come late on an SA before it is dropped as a replay."""
    copy_dscp: CopyDscp = CopyDscp.OUT
    hold_time: float = 300.0
    """How long the SA of a peer without a route is kept: partitions heal."""
    deadline_ms: float = 100.0
    """Milliseconds from route to protected; longer is reported as late, and makes a faster suite be chosen."""
    initiate_timeout: float = 10.0
    """After which an attempt counts as failed."""
    concurrency: int = 4
    """Negotiations that this node initiates at the same time."""
    initiate_rate: float = 20.0
    """Attempts per second in the long run, over all peers."""
    initiate_burst: int = 40
    """Attempts that may be made at once after a pause."""
    backoff_first: float = 1.0
    backoff_factor: float = 2.0
    backoff_max: float = 60.0
    backoff_jitter: float = 0.2
    """Part of a delay by which it is lengthened at random, 0 to 1."""
    initiator_jitter: float = 0.01
    """The initiator waits at random up to this long, so that neighbours do not start in step."""
    takeover_delay: float = 2.0
    """After which the other end initiates because the initiator did not."""
    takeover_delay_fresh: float = 0.5
    """The same when our own IKE daemon is fresh: the initiator then believes that the SA stands."""
    data_plane: DataPlane = DataPlane.IPSEC
    """What carries user data to a peer where `meshsec mode` says nothing else."""
    unknown_nodes: UnknownNodes = UnknownNodes.DROP
    removed_peers: RemovedPeers = RemovedPeers.DROP
    mesh_prefixes: tuple[Network, ...] = (IPv6Network("fc00::/7"),)
    """What counts as a mesh address; the IPv4 mesh prefix is added here by the configuration."""
    bypass: tuple[Bypass, ...] = ()
    """What is reached in the clear on the mesh as long as it is no peer's."""

    def preferring(self, suite: Suite | None) -> "Policy":
        """The same with the proposals of one of its suites first."""
        if suite is None:
            return self
        return replace(
            self,
            ike_proposals=tuple(dict.fromkeys((suite.ike, *self.ike_proposals))),
            esp_proposals=tuple(dict.fromkeys((suite.esp, *self.esp_proposals))),
        )


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """What is wrong with one field of a table."""

    field: str
    value: object
    allowed: str

    def __str__(self) -> str:
        return f"{self.field}: {self.value!r} is not allowed; allowed: {self.allowed}"


class PolicyError(ValueError):
    """A table that is no policy: all of its problems at once."""

    def __init__(self, problems: tuple[FieldProblem, ...]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems


DEFAULT = Policy()

MODES = (DataPlane.IPSEC, DataPlane.OVERLAY)
"""What may be chosen: user data is never sent plain."""


class _RefusalError(ValueError):
    """A part of a value that is not allowed, where naming the whole would hide it."""

    def __init__(self, value: object, allowed: str) -> None:
        super().__init__()
        self.value = value
        self.allowed = allowed


def decode_policy(table: Mapping[str, object], base: Policy = DEFAULT, *, broken: bool = False) -> Policy:
    """``base`` with the fields of ``table`` (a profile, or the overrides of one) in place of its own.

    ``broken``: algorithms that are broken are allowed, for measurements in a lab. Raises ``PolicyError`` with every
    field that is unknown or has a bad value.
    """
    problems: list[FieldProblem] = []
    decoded: dict[str, Any] = {}
    for name, value in table.items():
        if name not in _FIELDS:
            problems.append(FieldProblem(name, value, "one of " + ", ".join(_FIELDS)))
            continue
        try:
            if not broken:
                _refuse_broken(value)
            decoded[name] = _FIELDS[name].decode(value)
        except _RefusalError as refusal:
            problems.append(FieldProblem(name, refusal.value, refusal.allowed))
        except ValueError:
            problems.append(FieldProblem(name, value, _FIELDS[name].allowed))
    policy = replace(base, **decoded)
    problems += _order_problems(policy, decoded.keys())
    problems += _suite_problems(policy, decoded)
    if problems:
        raise PolicyError(tuple(problems))
    return _with_suites(policy) if policy.suites else policy


def _suite_problems(policy: Policy, given: Mapping[str, Any]) -> list[FieldProblem]:
    problems = []
    names = [suite.name for suite in policy.suites]
    if policy.floor and policy.floor not in names:
        problems.append(FieldProblem("floor", policy.floor, f"the name of a suite of the profile: {', '.join(names)}"))
    if policy.suites:
        allowed = "nothing, because the profile's suites say what is proposed"
        mixed = [name for name in ("ike_proposals", "esp_proposals") if name in given]
        problems += [FieldProblem(name, given[name], allowed) for name in mixed]
    return problems


def _with_suites(policy: Policy) -> Policy:
    """What is below the floor goes here, once: nothing that comes later has it to propose or to choose."""
    names = [suite.name for suite in policy.suites]
    kept = policy.suites[: names.index(policy.floor) + 1] if policy.floor else policy.suites
    return replace(
        policy,
        suites=kept,
        floor=kept[-1].name,
        ike_proposals=tuple(dict.fromkeys(suite.ike for suite in kept)),
        esp_proposals=tuple(dict.fromkeys(suite.esp for suite in kept)),
    )


def _order_problems(policy: Policy, given: Collection[str]) -> list[FieldProblem]:
    """Pairs of fields of which the first must not exceed the second; told about a field that was given."""
    problems = []
    for low, high in (("backoff_first", "backoff_max"), ("takeover_delay_fresh", "takeover_delay")):
        low_value, high_value = getattr(policy, low), getattr(policy, high)
        if low_value > high_value and low in given:
            problems.append(FieldProblem(low, low_value, f"at most {high}, which is {high_value:g}"))
        elif low_value > high_value and high in given:
            problems.append(FieldProblem(high, high_value, f"at least {low}, which is {low_value:g}"))
    return problems


@dataclass(frozen=True, slots=True)
class _Field:
    """How one field is decoded; ``decode`` raises ``ValueError`` on anything but ``allowed``."""

    allowed: str
    decode: Callable[[object], object]


def _number(low: float, high: float, unit: str) -> _Field:
    def decode(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise ValueError
        return float(value)

    return _Field(f"a number from {low:g} to {high:g} ({unit})", decode)


def _integer(low: int, high: int, unit: str) -> _Field:
    def decode(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError
        return value

    return _Field(f"a whole number from {low} to {high} ({unit})", decode)


def _choice(kind: type[UnknownNodes] | type[RemovedPeers] | type[EspRank] | type[CopyDscp]) -> _Field:
    return _Field(" or ".join(f'"{member}"' for member in kind), kind)


def _texts(value: object) -> list[str]:
    if not isinstance(value, list | tuple) or not value or not all(isinstance(item, str) for item in value):
        raise ValueError
    return list(value)


def _data_plane(value: object) -> DataPlane:
    if value not in MODES:
        raise ValueError
    return DataPlane(str(value))


_PROPOSAL = re.compile(r"(3des|[a-z][a-z0-9]*)([-_][a-z0-9]+)+")


def _proposals(value: object) -> tuple[str, ...]:
    proposals = _texts(value)
    if not all(_PROPOSAL.fullmatch(proposal) for proposal in proposals) or len(set(proposals)) < len(proposals):
        raise ValueError
    return tuple(proposals)


_WEAK = re.compile(r"(des|3des|null|blowfish|cast|rc4|md5|sha1|prfmd5|prfsha1|modp(768|1024|1536)|modp1024s160)(\d*)")
_STRONG = "algorithms that are not broken: no DES, 3DES, MD5, SHA-1, null encryption, MODP group of less than 2048 bits"


def _refuse_broken(value: object) -> None:
    """The floor below every profile's own: in a list of proposals, or of suites with theirs.

    Raises _RefusalError that names the proposal.
    """
    for entry in value if isinstance(value, list | tuple) else ():
        for proposal in (entry.get("ike"), entry.get("esp")) if isinstance(entry, Mapping) else (entry,):
            if any(_WEAK.fullmatch(word) for word in str(proposal).split("-")):
                raise _RefusalError(proposal, _STRONG)


def _suites(value: object) -> tuple[Suite, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError  # noqa: TRY004  # the caller names what is allowed
    found = tuple(_suite(entry) for entry in value)
    for index, suite in enumerate(found):
        if any(suite.name == other.name or suite.algorithms == other.algorithms for other in found[:index]):
            raise _RefusalError(value[index], suites.ALLOWED)
    return found


def _suite(entry: object) -> Suite:
    if not isinstance(entry, Mapping) or entry.keys() != {"name", "ike", "esp"}:
        raise _RefusalError(entry, suites.ALLOWED)
    try:
        return suites.decode(entry["name"], entry["ike"], entry["esp"], _PROPOSAL)
    except ValueError:
        raise _RefusalError(entry, suites.ALLOWED) from None


def _bypass(value: object) -> tuple[Bypass, ...]:
    if not isinstance(value, list | tuple) or len(value) > bypass.MOST:
        raise ValueError
    found: list[Bypass] = []
    for entry in value:
        try:
            found.append(bypass.decode(entry))
        except ValueError:
            raise _RefusalError(entry, bypass.ALLOWED) from None
        if str(found[-1]) in map(str, found[:-1]):
            raise _RefusalError(entry, bypass.ALLOWED)
    return tuple(found)


def _name(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError  # noqa: TRY004  # the caller names what is allowed
    return value


SHORTEST_PREFIX = {4: 8, 6: 7}
"""By IP version. A shorter mesh prefix would put other networks than a mesh under the drop rules."""


def _prefixes(value: object) -> tuple[Network, ...]:
    networks = tuple(ip_network(text) for text in _texts(value))
    if any(network.prefixlen < SHORTEST_PREFIX[network.version] for network in networks):
        raise ValueError
    return networks


_PROPOSALS = _Field("a list of different proposals in strongSwan's names, as aes256gcm16-prfsha256-x25519", _proposals)

_FIELDS: Mapping[str, _Field] = {
    "ike_proposals": _PROPOSALS,
    "esp_proposals": _PROPOSALS,
    "esp_rank": _choice(EspRank),
    "suites": _Field(suites.ALLOWED, _suites),
    "floor": _Field("the name of a suite of the profile, or nothing", _name),
    "ike_rekey_time": _integer(600, 86400, "seconds"),
    "child_rekey_time": _integer(300, 86400, "seconds"),
    "replay_window": _integer(32, 1024, "packets"),
    "copy_dscp": _choice(CopyDscp),
    "hold_time": _number(0, 86400, "seconds"),
    "deadline_ms": _number(1, 60000, "milliseconds"),
    "initiate_timeout": _number(1, 120, "seconds"),
    "concurrency": _integer(1, 64, "negotiations"),
    "initiate_rate": _number(0.1, 1000, "attempts per second"),
    "initiate_burst": _integer(1, 1000, "attempts"),
    "backoff_first": _number(0.1, 60, "seconds"),
    "backoff_factor": _number(1, 10, "times the delay before"),
    "backoff_max": _number(0.1, 3600, "seconds"),
    "backoff_jitter": _number(0, 1, "part of the delay"),
    "initiator_jitter": _number(0, 0.05, "seconds"),
    "takeover_delay": _number(0.1, 60, "seconds"),
    "takeover_delay_fresh": _number(0.1, 60, "seconds"),
    "data_plane": _Field(" or ".join(f'"{mode}"' for mode in MODES), _data_plane),
    "unknown_nodes": _choice(UnknownNodes),
    "removed_peers": _choice(RemovedPeers),
    "mesh_prefixes": _Field(
        'a list of network prefixes, IPv6 of /7 or longer, IPv4 of /8 or longer, as "fc00::/7"', _prefixes
    ),
    "bypass": _Field(bypass.ALLOWED, _bypass),
}
