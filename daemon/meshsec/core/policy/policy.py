"""The policy profile: which algorithms, how patient, how many at once, and what is dropped.

A profile is a file ``policies/NAME.toml`` with the keys of ``Profile``. ``decode_policy`` turns its decoded table into
a ``Policy``, which has the constants of pacing, too. ``policies/default.toml`` is generated from ``Profile``.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from ipaddress import IPv6Network, ip_network
from typing import Annotated, ClassVar

from msgspec import Meta, Struct, structs

from meshsec.core.policy import bypass as exceptions
from meshsec.core.policy import levels as authentication
from meshsec.core.policy.broken import STRONG
from meshsec.core.policy.broken import broken as broken_proposals
from meshsec.core.policy.levels import LevelFloor, LevelRules, Levels
from meshsec.core.policy.suites import Proposal, Suite
from meshsec.core.values.bypass import Bypass
from meshsec.core.values.definition import Once, Reading, Rule, Wrong
from meshsec.core.values.model import CopyDscp, DataPlane, Network, UnknownNodes
from meshsec.core.values.tables import Problem


class RemovedPeers(StrEnum):
    """What becomes of the drop rule of a peer that is trusted no longer."""

    DROP = "drop"
    """The rule stays: user data to and from its addresses stays forbidden."""
    OPEN = "open"
    """The rule goes: the addresses fall under ``unknown_nodes``."""


class EspRank(StrEnum):
    """Who puts ESP proposals in order that are equally strong."""

    CPU = "cpu"
    """The processor: the cipher that it does best comes first (ADR 0043)."""
    LISTED = "listed"
    """Nobody: as they are listed."""


_ANY_PREFIX = "ADDRESS/LENGTH with all bits after LENGTH zero"
MODES = (DataPlane.IPSEC, DataPlane.OVERLAY)
"""What may be chosen: user data is never sent plain."""
SHORTEST_PREFIX = {4: 8, 6: 7}
"""Shortest mesh prefix by IP version. A shorter one would put other networks than a mesh under the drop rules."""


def _data_plane(value: object) -> DataPlane:
    if value not in MODES:
        raise ValueError
    return DataPlane(str(value))


def _any_prefix(value: object) -> Network:
    if not isinstance(value, str) or "/" not in value:
        raise ValueError
    return ip_network(value)


def _prefix(value: object) -> Network:
    if not isinstance(value, str):
        raise ValueError  # noqa: TRY004  # the rule says what is allowed
    network = ip_network(value)
    if network.prefixlen < SHORTEST_PREFIX[network.version]:
        raise ValueError
    return network


def _name(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError  # noqa: TRY004  # the rule says what is allowed
    return value


_LIST = "a list of different proposals in strongSwan's names, as aes256gcm16-prfsha256-x25519"
_PREFIXES = 'a list of network prefixes, IPv6 of /7 or longer, IPv4 of /8 or longer, as "fc00::/7"'


class Profile(Struct, frozen=True):
    """The keys of a profile. Times are seconds unless the name says otherwise."""

    removed: ClassVar[Mapping[str, str]] = {
        "initiate_timeout": "an attempt that takes longer than 10 s has failed; after a failure the next may take 20 s",
        "initiate_rate": "this node makes at most 20 attempts a second in the long run",
        "initiate_burst": "this node makes at most 40 attempts at once",
        "backoff_first": "after a failed attempt the next is made in 1 s, later ones in up to 60 s",
        "backoff_factor": "each failed attempt doubles the delay of the next, up to 60 s",
        "backoff_max": "after failed attempts the next is made in at most 60 s",
        "backoff_jitter": "a delay is lengthened by up to a fifth at random",
        "initiator_jitter": "the initiator waits up to 0.01 s at random",
        "takeover_delay": "the other end takes over after 2 s",
        "takeover_delay_fresh": "after a restart of its IKE daemon the other end takes over after 0.5 s",
    }

    ike_proposals: Annotated[
        tuple[Proposal, ...],
        Once("each proposal once"),
        Meta(
            min_length=1,
            description="IKEv2 proposals, best first, in strongSwan's names. RFC 8247: AES-GCM with a 16-octet ICV and "
            "ChaCha20-Poly1305 (section 2.1), PRF_HMAC_SHA2_256 (section 2.2), Curve25519 (section 2.4; RFC 8031). AES "
            "with 256 bits is first because it costs one packet; 128 bits are last, for peers whose policy asks for "
            "them. AEAD algorithms need no integrity algorithm (RFC 5282). The first one is a hybrid of Curve25519 and "
            "ML-KEM-768, so that both would have to be broken to read one day what is recorded today (RFC 9370, RFC "
            "9242; FIPS 203; draft-ietf-ipsecme-ikev2-mlkem). An IKE daemon without ML-KEM, as those of Debian 12 and "
            "13, does not offer it (`meshsec policy explain`); a pair uses it where both ends have it. Broken "
            "algorithms are refused (docs/guide/policies.md).",
            extra={"allowed": _LIST},
        ),
    ] = (
        "aes256gcm16-prfsha256-x25519-ke1_mlkem768",
        "aes256gcm16-prfsha256-x25519",
        "chacha20poly1305-prfsha256-x25519",
        "aes128gcm16-prfsha256-x25519",
    )
    esp_proposals: Annotated[
        tuple[Proposal, ...],
        Once("each proposal once"),
        Meta(
            min_length=1,
            description="ESP proposals, best first. RFC 8221, section 5: AES-GCM with a 16-octet ICV, "
            "ChaCha20-Poly1305. The key exchange method gives each rekeyed CHILD_SA forward secrecy of its own (RFC "
            "7296, section 1.3.1).",
            extra={"allowed": _LIST},
        ),
    ] = (
        "aes256gcm16-x25519-ke1_mlkem768",
        "chacha20poly1305-x25519-ke1_mlkem768",
        "aes256gcm16-x25519",
        "chacha20poly1305-x25519",
        "aes128gcm16-x25519",
    )
    esp_rank: Annotated[
        EspRank,
        Meta(
            description='"cpu" orders ESP proposals that differ in nothing but an equally strong cipher by this '
            "processor (docs/development/adr/0043): AES-GCM first where it has AES instructions, ChaCha20-Poly1305 "
            'first where it has none (RFC 7634, section 1). "listed" leaves them as they are listed.'
        ),
    ] = EspRank.CPU
    suites: Annotated[
        tuple[Suite, ...],
        Once("each name once", "name"),
        Meta(
            description="A ranked list of suites, the strongest first, takes the place of the two lists above. The "
            "node chooses the strongest that meets deadline_ms now, never one below the floor (policies/deadline.toml "
            "shows it). Without suites nothing is chosen.",
            extra={"allowed": 'a list of tables { name = "...", ike = "...", esp = "..." }'},
        ),
    ] = ()
    floor: Annotated[
        str,
        Rule("the name of a suite of the profile, or nothing", _name),
        Meta(description="The name of the last suite that may be chosen; empty: the last of the list."),
    ] = ""
    levels: Levels = ()
    level_floor: LevelFloor = ""
    level_rules: LevelRules = ()
    ike_rekey_time: Annotated[
        int,
        Meta(
            ge=600,
            le=86400,
            description="Lifetime of an IKE_SA before it is rekeyed. Each end has its own (RFC 7296, section 2.8). The "
            "default is strongSwan's (swanctl.conf, rekey_time).",
            extra={"unit": "seconds"},
        ),
    ] = 14400
    child_rekey_time: Annotated[
        int,
        Meta(
            ge=300,
            le=86400,
            description="Lifetime of a CHILD_SA before it is rekeyed; the default is strongSwan's.",
            extra={"unit": "seconds"},
        ),
    ] = 3600
    replay_window: Annotated[
        int,
        Meta(
            ge=32,
            le=1024,
            description="Packets by which one may come late before it is dropped as a replay (RFC 4303, section 3.4.3: "
            "at least 32, 64 is preferred). The default is larger because a new path overtakes the old one when a "
            "route changes. It is for ESP in the kernel; libipsec has its own.",
            extra={"unit": "packets"},
        ),
    ] = 256
    copy_dscp: Annotated[
        CopyDscp,
        Meta(
            description="Whether a tunnel's outer header has the DSCP of the packet in it, so that relays know what is "
            'urgent ("out"), and the packet that comes out has the outer one\'s ("in"); "yes": both, "no": '
            "neither. RFC 4301, section 5.1.2.1: copying outwards shows an observer which packets are urgent, copying "
            "inwards lets him set it. It concerns IPv4 where ESP is in the kernel: IPv6 is in transport mode there, "
            "with one header, and in user space nothing is copied (tried with 5.9.8)."
        ),
    ] = CopyDscp.OUT
    hold_time: Annotated[
        float,
        Meta(
            ge=0,
            le=86400,
            description="How long the SA of a peer without a route is kept. A partition of a moving mesh (a tunnel, a "
            "hill) heals in minutes, and the SA costs a few kilobytes meanwhile.",
            extra={"unit": "seconds"},
        ),
    ] = 300.0
    deadline_ms: Annotated[
        float,
        Meta(
            ge=1,
            le=60000,
            description="Milliseconds from route to protected. ETSI TS 122 186 and the vehicle messages have 100 ms. A "
            "set-up that takes longer is reported, and where there are suites a faster one is chosen.",
            extra={"unit": "milliseconds"},
        ),
    ] = 100.0
    concurrency: Annotated[
        int,
        Meta(
            ge=1,
            le=64,
            description="Negotiations that this node initiates at the same time. A set-up costs about half a "
            "millisecond of CPU and two round trips, so four do not crowd a small radio cell, and thirty peers are "
            "done in a second.",
            extra={"unit": "negotiations"},
        ),
    ] = 4
    data_plane: Annotated[
        DataPlane,
        Rule('"ipsec" or "overlay"', _data_plane, {"enum": ["ipsec", "overlay"]}),
        Meta(
            description='What carries user data to a peer where `meshsec mode` says nothing else: "ipsec", or '
            '"overlay" with [overlay] enabled.'
        ),
    ] = DataPlane.IPSEC
    overlay_fallback: Annotated[
        bool,
        Meta(
            description="Whether the overlay carries user data to a peer whose data plane is ipsec while no SA is "
            "established, as after the death of the IKE daemon. Without it such user data is dropped until an SA is "
            "established. A switch from the overlay to ipsec keeps the overlay until the first SA is established, "
            "whatever this says."
        ),
    ] = False
    unknown_nodes: Annotated[
        UnknownNodes,
        Meta(
            description='User data from and to mesh addresses that no card speaks for: "drop" or "allow". While a '
            'card is refused it is "drop", because its peer would look like an unknown node.'
        ),
    ] = UnknownNodes.DROP
    removed_peers: Annotated[
        RemovedPeers,
        Meta(
            description='The drop rule of a peer that is removed: "drop" keeps it, "open" lets its addresses fall '
            "under unknown_nodes."
        ),
    ] = RemovedPeers.DROP
    mesh_prefixes: Annotated[
        tuple[Annotated[Network, Rule(_PREFIXES, _prefix)], ...],
        Meta(
            min_length=1,
            description="What counts as a mesh address: the unique local addresses (RFC 4193), in which every node's "
            "address and locator lie. Add the mesh's IPv4 prefix where nodes have IPv4 addresses. A peer's IPv4 "
            "address counts only inside of one; without any, inside of the /16 around this node's own address "
            "(docs/reference/card.md).",
            extra={"allowed": _PREFIXES},
        ),
    ] = (IPv6Network("fc00::/7"),)
    bypass: Annotated[
        tuple[Bypass, ...],
        Once(exceptions.ALLOWED, "matches"),
        Meta(
            max_length=exceptions.MOST,
            description="What is reached in the clear on the mesh, because it knows no IPsec (BYPASS in RFC 4301, "
            "section 4.4.1): a mesh address, or any other address on a mesh interface, as { prefix = "
            '"fd12:3456:789a::/64", protocol = "udp", port = 123, reason = "..." }. A peer is never reached in the '
            "clear, whatever this list says.",
            extra={"allowed": exceptions.ALLOWED},
        ),
    ] = ()

    open_networks: Annotated[
        tuple[Annotated[Network, Rule(_ANY_PREFIX, _any_prefix)], ...],
        Once("each prefix once"),
        Meta(
            max_length=256,
            description="Networks behind nodes whose user data crosses the mesh in the clear, each exactly as "
            '[routing] attached or accept names it, such as "0.0.0.0/0". All others are protected: their packets '
            "travel between peers inside IPsec or the overlay, or not at all.",
            extra={"allowed": f"a list of networks, each {_ANY_PREFIX}"},
        ),
    ] = ()

    def wrong(self, given: Mapping[str, object]) -> Wrong:
        """Yield a floor that is no suite, suites with equal algorithms, and suites beside lists of proposals."""
        names = [suite.name for suite in self.suites]
        if self.floor and self.floor not in names:
            where = "floor" if "floor" in given else "suites"
            yield (where,), f"the name of a suite of the profile: {', '.join(names)}, with floor = {self.floor!r}"
        kinds = [suite.algorithms for suite in self.suites]
        if "suites" in given:
            for index, kind in enumerate(kinds):
                if kind and kind in kinds[:index]:
                    yield ("suites", index, "ike"), "other algorithms than those of the suites before"
        if self.suites:
            for name in ("ike_proposals", "esp_proposals"):
                if name in given:
                    yield (name,), "nothing, because the profile's suites say what is proposed"
        kept = names[: names.index(self.floor) + 1] if self.floor in names else names
        overlay = {"data_plane": self.data_plane is DataPlane.OVERLAY, "overlay_fallback": self.overlay_fallback}
        found = authentication.wrong(self.levels, self.level_floor, self.level_rules, kept, overlay)
        yield from authentication.located(found, given)


class Policy(Profile, frozen=True):
    """A complete profile, and the constants of pacing, which no operator can judge. Times are seconds.

    The floor has been applied: ``suites`` has none below it, and ``ike_proposals`` and ``esp_proposals`` are theirs.
    """

    # Several retransmissions at the mesh's pace (the first after 0.05 s); charon itself gives up after 12 s.
    initiate_timeout: Annotated[float, Meta(ge=1, le=120, description="after which an attempt has failed")] = 10.0
    # What topology can make this node send: thirty peers that appear at once are tried without a pause.
    initiate_rate: Annotated[float, Meta(ge=0.1, le=1000, description="attempts per second, over all peers")] = 20.0
    initiate_burst: Annotated[int, Meta(ge=1, le=1000, description="attempts at once after a pause")] = 40
    # Exponential, as RFC 7296, section 2.4, asks of retries; up to a minute: the peer may not have our card yet.
    backoff_first: Annotated[float, Meta(ge=0.1, le=60, description="delay after the first failure")] = 1.0
    backoff_factor: Annotated[float, Meta(ge=1, le=10, description="times the delay before")] = 2.0
    backoff_max: Annotated[float, Meta(ge=0.1, le=3600, description="the longest delay")] = 60.0
    backoff_jitter: Annotated[float, Meta(ge=0, le=1, description="part of a delay added at random")] = 0.2
    # One relay's appearance gives many nodes a route at the same time (RFC 5148, section 4, for the reasoning).
    initiator_jitter: Annotated[float, Meta(ge=0, le=0.05, description="random wait of the initiator")] = 0.01
    # The end with the higher fingerprint takes over when the other did nothing; sooner when our own IKE daemon was
    # restarted, because the other end then believes that the SA is established.
    takeover_delay: Annotated[float, Meta(ge=0.1, le=60, description="after which the other end initiates")] = 2.0
    takeover_delay_fresh: Annotated[float, Meta(ge=0.1, le=60, description="the same after a restart")] = 0.5

    def preferring(self, suite: Suite | None) -> "Policy":
        """Return the same with the proposals of one of its suites first."""
        if suite is None:
            return self
        return structs.replace(
            self,
            ike_proposals=tuple(dict.fromkeys((suite.ike, *self.ike_proposals))),
            esp_proposals=tuple(dict.fromkeys((suite.esp, *self.esp_proposals))),
        )


class PolicyError(ValueError):
    """A table that is no policy: all of its problems at once."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = tuple(problems)


DEFAULT = Policy()


def decode_policy(
    table: Mapping[str, object], base: Policy = DEFAULT, *, broken: bool = False, pacing: bool = False
) -> Policy:
    """Return ``base`` with the keys of ``table`` (a profile, or the overrides of one) in place of its own.

    For measurements in a lab, ``broken`` allows broken algorithms, and ``pacing`` makes the constants keys. Raises
    ``PolicyError`` with every key that is unknown or has a bad value.
    """
    reading = Reading("/")
    found = reading.table(Policy if pacing else Profile, table, defaults=structs.asdict(base))
    if not broken:
        refused = {problem.path for problem in reading.problems}
        for path, proposal in broken_proposals(table):
            if path not in refused:
                reading.refuse(path, proposal, STRONG)
    if reading.problems:
        raise PolicyError(reading.problems)
    policy = structs.replace(base, **structs.asdict(found))
    kept = authentication.above_floor(policy.levels, policy.level_floor)
    # What no peer may use is no suite at all, so that the choice by the deadline does not rest on it.
    policy = structs.replace(policy, levels=kept, floor=(kept[-1].suite if kept else "") or policy.floor)
    return _with_suites(policy) if policy.suites else policy


def _with_suites(policy: Policy) -> Policy:
    """Return the policy without suites below the floor, so that nothing later can propose or choose one."""
    names = [suite.name for suite in policy.suites]
    kept = policy.suites[: names.index(policy.floor) + 1] if policy.floor else policy.suites
    return structs.replace(
        policy,
        suites=kept,
        floor=kept[-1].name,
        ike_proposals=tuple(dict.fromkeys(suite.ike for suite in kept)),
        esp_proposals=tuple(dict.fromkeys(suite.esp for suite in kept)),
    )
