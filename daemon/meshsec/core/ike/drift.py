"""What runs on this node against what its policy says: each difference, and how to fix it.

Theory of operation. Adapters read what is configured and installed; a value is empty where a daemon does not report it.
This module compares that with what is desired. SAs come and go by themselves and rules are replaced, so meshsecd
examines twice, a moment apart, and only what both examinations found counts as a difference (``lasting``).

``drift_kernel`` compares the kernel's states and policies.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from hashlib import sha1
from ipaddress import IPv6Address
from typing import Any

from meshsec.core.policy.negotiated import agrees_esp, agrees_ike
from meshsec.core.trust.identity import IdentityError, address_of, locator_of, x25519_public
from meshsec.core.values.model import Authentication, ChildSa, ChildSpec, ConnectionSpec, IkeSa, Outside, SecondSecret

SCHEMA = "meshsec-drift-1"


class Where(StrEnum):
    """Where something differs."""

    CONNECTION = "connection"
    """What the IKE daemon is configured with for a peer."""
    CREDENTIALS = "credentials"
    """Keys, secrets and authorities that the IKE daemon has."""
    IKE_SA = "ike_sa"
    CHILD_SA = "child_sa"
    XFRM_STATE = "xfrm_state"
    XFRM_POLICY = "xfrm_policy"
    RULES = "rules"
    """The fail-closed rules in nftables."""
    ADDRESS = "address"
    NETWORK = "network"
    """The tunnel's routes, and the networks that the router announces."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as it should be."""

    where: Where
    peer: str | None
    """The peer's name as people see it; None when it concerns no peer."""
    what: str
    is_: str
    should: str
    fix: str


@dataclass(frozen=True, slots=True)
class Note:
    """Something that is no difference and may explain one, or that could not be looked at."""

    where: Where
    text: str


@dataclass(frozen=True, slots=True)
class Report:
    """What was found."""

    differences: tuple[Difference, ...] = ()
    unexamined: tuple[Note, ...] = ()
    """What could not be looked at, although it should."""
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class ConfiguredChild:
    """A CHILD_SA as the IKE daemon is configured to make it; None: it does not say."""

    name: str
    mode: str | None = None
    local_ts: tuple[str, ...] | None = None
    remote_ts: tuple[str, ...] | None = None
    rekey_time: int | None = None
    """Seconds."""
    close_action: str | None = None
    dpd_action: str | None = None

    @classmethod
    def of(cls, child: ChildSpec, spec: ConnectionSpec) -> "ConfiguredChild":
        """Return it as it should be."""
        return cls(
            name=child.name,
            mode=child.mode,
            local_ts=_sorted(child.local_ts),
            remote_ts=_sorted(child.remote_ts),
            rekey_time=spec.child_rekey_time,
            close_action="none",
            dpd_action="none",
        )


@dataclass(frozen=True, slots=True)
class Configured:
    """A connection as the IKE daemon has it; None: it does not say. Of proposals it reports only the result."""

    name: str
    local_addresses: tuple[str, ...] | None = None
    remote_addresses: tuple[str, ...] | None = None
    local_id: str | None = None
    remote_id: str | None = None
    local_authentication: str | None = None
    remote_authentication: str | None = None
    """``signature``, ``secret``, or what else the daemon calls it."""
    ike_version: str | None = None
    ike_rekey_time: int | None = None
    ike_reauth_time: int | None = None
    """Seconds; 0: never."""
    dpd_delay: int | None = None
    """Seconds; 0: nobody asks whether the peer is alive."""
    second_secret: str | None = None
    """Its PPK_ID, and whether there is no SA without it; empty: none."""
    duplicates: str | None = None
    """How the IKE daemon treats another IKE_SA with the same peer."""
    children: tuple[ConfiguredChild, ...] = ()

    @classmethod
    def of(cls, spec: ConnectionSpec) -> "Configured":
        """Return it as it should be."""
        outside = spec.outside or Outside((str(spec.local_address),), (str(spec.remote_address),), 0)
        return cls(
            name=spec.name,
            local_addresses=outside.local,
            remote_addresses=outside.remote,
            local_id=str(spec.local_id),
            remote_id=str(spec.remote_id),
            local_authentication=str(spec.authentication),
            remote_authentication=str(spec.authentication),
            ike_version="IKEv2",
            ike_rekey_time=spec.ike_rekey_time,
            ike_reauth_time=0,
            dpd_delay=outside.dpd_delay,
            second_secret=second_secret_words(spec.second_secret),
            duplicates="never" if spec.outside else "no",
            children=tuple(ConfiguredChild.of(child, spec) for child in spec.children),
        )


def second_secret_words(second: SecondSecret | None) -> str:
    """Return how a connection uses a second secret."""
    return f"{second.id}{', required' if second.required else ''}" if second else ""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What the IKE daemon has to authenticate by."""

    private_keys: frozenset[str] | None = frozenset()
    """SHA-1 of each public half (20 octets in hexadecimal); None: the daemon has no use for the node's."""
    public_keys: frozenset[tuple[str, bytes]] = frozenset()
    """Whose it is said to be, and the raw Ed25519 key; empty octets for a key of another kind."""
    secrets: frozenset[str] = frozenset()
    """The names that they are known by: that of their connection."""
    authorities: frozenset[str] = frozenset()
    """Names of certification authorities and subjects of certificates."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What ought to be: the connection of each trusted peer, by the name of its channel."""

    connections: Mapping[str, ConnectionSpec]
    titles: Mapping[str, str]
    """The peers' names as people see them."""
    public_keys: tuple[bytes, ...]
    """This node's public keys: the present one and, during a change, the next."""

    def title(self, name: str) -> str:
        """Return the name that people know; an entry that belongs to nobody keeps its own."""
        return self.titles.get(name, name)


_RESTART = "systemctl restart meshsecd: it configures the IKE daemon again, SAs stay"
_RESTART_IKE = (
    "systemctl restart meshsec-ike (libreswan: meshsec-pluto): it forgets what others gave it; SAs are negotiated again"
)
NEGOTIATE_AGAIN = "meshsec bench sa-setup {peer} --count 1: negotiates it again, user data waits meanwhile"
"""How to fix what was negotiated."""


def lasting(first: Report, second: Report) -> Report:
    """Return what two examinations both found, as the second describes it."""
    before = {_key(one) for one in first.differences}
    differences = tuple(one for one in second.differences if _key(one) in before)
    return Report(differences, tuple(one for one in second.unexamined if one in first.unexamined), second.notes)


def _key(one: Difference) -> tuple[object, ...]:
    return one.where, one.peer, one.what, one.should


def connections(wanted: Wanted, loaded: Iterable[Configured], others: Collection[str] = ()) -> Iterator[Difference]:
    """Return the connections of the IKE daemon. ``others``: names of those that other programs added after meshsecd."""
    found = {one.name: one for one in loaded}
    for name, spec in wanted.connections.items():
        if name not in found:
            yield Difference(Where.CONNECTION, wanted.title(name), "connection", "none", "configured", _RESTART)
            continue
        for what, is_, should in _configured(Configured.of(spec), found[name]):
            yield Difference(Where.CONNECTION, wanted.title(name), what, is_, should, _RESTART)
        if name in others:
            what, is_ = "configured last by", "another program; its proposals are not known"
            yield Difference(Where.CONNECTION, wanted.title(name), what, is_, "meshsecd", _RESTART)
    for name in found.keys() - wanted.connections.keys():
        with_ = _text(found[name].remote_addresses or ("an unknown address",))
        yield Difference(Where.CONNECTION, None, f"connection {name}", f"with {with_}", "none: no peer's", _RESTART)


def _configured(should: Configured, is_: Configured) -> Iterator[tuple[str, str, str]]:
    yield from _fields(should, is_, "")
    found = {child.name: child for child in is_.children}
    for child in should.children:
        if child.name in found:
            yield from _fields(child, found[child.name], f"CHILD_SA {child.name}: ")
        else:
            yield f"CHILD_SA {child.name}", "none", "configured"
    for name in found.keys() - {child.name for child in should.children}:
        yield f"CHILD_SA {name}", "configured", "none"


def _fields(should: Any, is_: Any, prefix: str) -> Iterator[tuple[str, str, str]]:
    """Fields that are reported and differ."""
    for field in fields(should):
        ought, actual = getattr(should, field.name), getattr(is_, field.name)
        if field.name not in ("name", "children") and actual is not None and actual != ought:
            yield prefix + field.name.replace("_", " "), _text(actual), _text(ought)


def credentials(wanted: Wanted, held: Credentials) -> Iterator[Difference]:
    """Keys that the IKE daemon has and should not, or lacks."""
    own = {sha1(key, usedforsecurity=False).hexdigest() for key in wanted.public_keys}
    keys = own if held.private_keys is None else held.private_keys
    by_secret = Authentication.SECRET
    connections = wanted.connections.items()
    secrets = {name for name, spec in connections if spec.authentication is by_secret or spec.second_secret}
    for what, there, ought in (
        ("private key", keys, own),
        ("secret", held.secrets, secrets),
        ("authority or certificate", held.authorities, set[str]()),
    ):
        for name in sorted(there - ought):
            yield Difference(Where.CREDENTIALS, None, f"{what} {name}", "loaded", "none", _RESTART_IKE)
        for name in sorted(ought - there):
            yield Difference(Where.CREDENTIALS, None, f"{what} {name}", "none", "loaded", _RESTART)
    for subject in sorted({subject for subject, key in held.public_keys if not _owns(subject, key)}):
        should = "the key that the address follows from"
        what = f"public key of {subject}"
        yield Difference(Where.CREDENTIALS, None, what, "another's", should, _RESTART_IKE)


def _owns(subject: str, key: bytes) -> bool:
    """Return whether a key belongs to an address or a locator: both follow from it (docs/reference/card.md)."""
    try:
        address = address_of(x25519_public(key))
        return IPv6Address(subject) in {address, locator_of(address)}
    except (IdentityError, ValueError):
        return False


def sas(wanted: Wanted, established: Mapping[str, Sequence[IkeSa]], now: float) -> Iterator[Difference]:
    """SAs that carry, against the policy that is in force: it may have been another when they were negotiated."""
    for name, ike_sas in established.items():
        spec = wanted.connections.get(name)
        for sa in ike_sas:
            if not sa.is_live:
                continue
            if spec is None:
                what, fix = f"IKE_SA {sa.unique_id} of {name}", _RESTART
                yield Difference(Where.IKE_SA, None, what, "established", "none: no peer's", fix)
            else:
                yield from _ike_sa(wanted.title(name), spec, sa, now)


def _ike_sa(peer: str, spec: ConnectionSpec, sa: IkeSa, now: float) -> Iterator[Difference]:
    fix = NEGOTIATE_AGAIN.format(peer=peer)

    def differs(what: str, is_: object, should: object) -> Difference:
        return Difference(Where.IKE_SA, peer, f"IKE_SA {sa.unique_id}: {what}", _text(is_), _text(should), fix)

    if not agrees_ike(spec.ike_proposals, sa.encryption, sa.integrity, sa.prf, sa.key_exchange):
        suite = _suite(sa.encryption, sa.integrity, sa.prf, sa.key_exchange)
        yield differs("suite", suite, _proposals(spec.ike_proposals))
    for what, is_, should in (
        ("identity of the peer", sa.remote_id, spec.remote_id),
        ("identity of this node", sa.local_id, spec.local_id),
    ):
        if is_ is not None and is_ != should:
            yield differs(what, is_, should)
    if _late(sa.rekey_at, spec.ike_rekey_time, now):
        yield differs("rekeying", "later than the policy allows", f"within {spec.ike_rekey_time} s")
    for child in sa.children:
        if child.carries:
            yield from _child_sa(peer, spec, child, now)


def _child_sa(peer: str, spec: ConnectionSpec, child: ChildSa, now: float) -> Iterator[Difference]:
    ought = next((one for one in spec.children if one.name == child.name), None)
    title, fix = f"CHILD_SA {child.name} {child.spi_in}", NEGOTIATE_AGAIN.format(peer=peer)
    if ought is None:
        yield Difference(Where.CHILD_SA, peer, title, "installed", "none: not of this name", fix)
        return

    def differs(what: str, is_: object, should: object) -> Difference:
        return Difference(Where.CHILD_SA, peer, f"{title}: {what}", _text(is_), _text(should), fix)

    if not agrees_esp(ought.esp_proposals, child.encryption, child.integrity, child.key_exchange):
        suite = _suite(child.encryption, child.integrity, child.key_exchange)
        yield differs("suite", suite, _proposals(ought.esp_proposals))
    if child.mode != ought.mode:
        yield differs("mode", child.mode, ought.mode)
    for what, configured, selectors in (
        ("local traffic selectors", child.local_ts, ought.local_ts),
        ("remote traffic selectors", child.remote_ts, ought.remote_ts),
    ):
        if configured and _sorted(configured) != _sorted(selectors):
            yield differs(what, _sorted(configured), _sorted(selectors))
    if _late(child.rekey_at, spec.child_rekey_time, now):
        yield differs("rekeying", "later than the policy allows", f"within {spec.child_rekey_time} s")


_ROUNDING = 2.0
"""Seconds: the IKE daemon reports whole ones, and the answer takes time."""


def _late(rekey_at: float | None, rekey_time: int, now: float) -> bool:
    return rekey_at is not None and rekey_at - now > rekey_time + _ROUNDING


def _suite(*names: str) -> str:
    return "-".join(filter(None, names)) or "none"


def _proposals(proposals: Iterable[str]) -> str:
    return "one of " + ", ".join(proposals)


def _sorted(values: Iterable[object]) -> tuple[str, ...]:
    return tuple(sorted(map(str, values)))


def _text(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)


def view(report: Report, peer: str | None = None) -> dict[str, Any]:
    """Return the report as JSON (docs/reference/schema/meshsec-drift-1.json), of all peers or of one."""
    return {
        "schema": SCHEMA,
        "differences": [
            {"where": str(one.where), "peer": one.peer, "what": one.what}
            | {"is": one.is_, "should": one.should, "mend": one.fix}
            for one in report.differences
            if peer is None or one.peer == peer
        ],
        "unexamined": [{"where": str(one.where), "why": one.text} for one in report.unexamined],
        "notes": [{"where": str(one.where), "text": one.text} for one in report.notes],
    }
