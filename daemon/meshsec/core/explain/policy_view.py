"""What a policy profile comes to: its settings, and each proposal with what it is, its source, and who can do it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from meshsec.core.ike import libreswan_suites
from meshsec.core.policy.capability import Algorithms, left_out
from meshsec.core.policy.levels import Area, Level, LevelRule
from meshsec.core.policy.policy import Policy, Profile
from meshsec.core.policy.suites import Suite
from meshsec.core.values.bypass import Bypass
from meshsec.core.values.definition import keys

SCHEMA = "meshsec-policy-1"
LIST_SCHEMA = "meshsec-policies-1"

_BITS = (128, 192, 256)
_WORDS: Mapping[str, tuple[str, str]] = {
    **{f"aes{bits}gcm16": (f"AES-GCM with {bits} bits", "RFC 4106, RFC 5282") for bits in _BITS},
    **{f"aes{bits}ccm16": (f"AES-CCM with {bits} bits", "RFC 4309, RFC 5282") for bits in _BITS},
    **{f"aes{bits}": (f"AES-CBC with {bits} bits", "RFC 3602") for bits in _BITS},
    "chacha20poly1305": ("ChaCha20-Poly1305", "RFC 7634"),
    **{f"sha{bits}": (f"HMAC-SHA2-{bits}", "RFC 4868") for bits in (256, 384, 512)},
    **{f"prfsha{bits}": (f"keys by HMAC-SHA2-{bits}", "RFC 4868") for bits in (256, 384, 512)},
    **{f"modp{bits}": (f"MODP group of {bits} bits", "RFC 3526") for bits in (2048, 3072, 4096, 6144, 8192)},
    **{f"ecp{bits}": (f"elliptic curve P-{bits}", "RFC 5903") for bits in (256, 384, 521)},
    "3des": ("3DES, which is broken", "RFC 2451"),
    "sha1": ("HMAC-SHA-1, which is broken", "RFC 2404"),
    "modp1536": ("MODP group of 1536 bits, which is too short", "RFC 3526"),
    "x25519": ("Curve25519", "RFC 8031"),
    "x448": ("Curve448", "RFC 8031"),
    **{
        f"ke1_mlkem{size}": (f"with ML-KEM-{size} besides", "RFC 9370, FIPS 203, draft-ietf-ipsecme-ikev2-mlkem")
        for size in (512, 768, 1024)
    },
}
"""What each of strongSwan's keywords means, and where it is specified for IKEv2 and ESP."""


@dataclass(frozen=True, slots=True)
class Part:
    """One algorithm of a proposal."""

    keyword: str
    is_: str
    """Its name in words; empty when it is not known here."""
    source: str


@dataclass(frozen=True, slots=True)
class Proposal:
    """One of a policy, explained."""

    kind: str
    """``ike`` or ``esp``."""
    strongswan: str
    libreswan: str
    """The form that ``ike=`` or ``esp=`` takes; empty when libreswan cannot do it."""
    why_not: str
    """The part that libreswan cannot do; empty when it can do all."""
    parts: tuple[Part, ...]
    lacks: tuple[str, ...] | None = None
    """The algorithms, in IANA's names, that this node's IKE daemon lacks; None where it was not asked."""


def proposals(policy: Policy, known: Algorithms | None = None) -> list[Proposal]:
    """Return a policy's proposals, best first, IKE before ESP. ``known``: the algorithms that the IKE daemon has."""
    found = [
        *(_explained("ike", one, libreswan_suites.ike) for one in policy.ike_proposals),
        *(_explained("esp", one, libreswan_suites.esp) for one in policy.esp_proposals),
    ]
    if known is None:
        return found
    lost = {(one.kind, one.proposal): one.lacks for one in left_out(policy.ike_proposals, policy.esp_proposals, known)}
    return [replace(one, lacks=lost.get((one.kind, one.strongswan), ())) for one in found]


def settings(policy: Policy) -> dict[str, object]:
    """Return a profile's keys as its file has them: suites replace the two lists of proposals."""
    implied = {"ike_proposals", "esp_proposals"} if policy.suites else set()
    return {key.name: _plain(getattr(policy, key.attribute)) for key in keys(Profile) if key.name not in implied}


def view(name: str, file: str, policy: Policy, known: Algorithms | None = None) -> dict[str, object]:
    """Return the answer of ``meshsec policy show`` and ``explain``; ``file`` is empty for what is built in."""
    return {
        "schema": SCHEMA,
        "name": name,
        "file": file or None,
        "settings": settings(policy),
        "proposals": [_shown(one) for one in proposals(policy, known)],
    }


def _explained(kind: str, proposal: str, translate: Callable[[str], str]) -> Proposal:
    parts = tuple(Part(word, *_WORDS.get(word, ("", ""))) for word in proposal.split("-"))
    try:
        return Proposal(kind, proposal, translate(proposal), "", parts)
    except libreswan_suites.UntranslatableError as error:
        return Proposal(kind, proposal, "", str(error), parts)


def _shown(proposal: Proposal) -> dict[str, object]:
    return {
        "kind": proposal.kind,
        "strongswan": proposal.strongswan,
        "libreswan": proposal.libreswan or None,
        "why_not": proposal.why_not or None,
        "lacks": None if proposal.lacks is None else list(proposal.lacks),
        "parts": [
            {"keyword": part.keyword, "is": part.is_ or None, "source": part.source or None} for part in proposal.parts
        ],
    }


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return list(_plains(value))
    if isinstance(value, Suite):
        return {"name": value.name, "ike": value.ike, "esp": value.esp}
    if isinstance(value, Bypass):
        return value.table()
    if isinstance(value, Level | LevelRule | Area):
        kept = {key.name: getattr(value, key.attribute) for key in keys(type(value))}
        given = {key.name for key in keys(type(value)) if key.required or kept[key.name] != key.default}
        return {name: _plain(one) for name, one in kept.items() if name in given}
    if isinstance(value, StrEnum):
        return value.value
    return value if isinstance(value, str | int | float) else str(value)


def _plains(values: tuple[object, ...]) -> Iterator[object]:
    return map(_plain, values)
