"""Which of a policy's proposals an IKE daemon can do, by what it says that it has.

The ciphers of ESP are not asked for: where ESP is the kernel's, the IKE daemon does not know them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from meshsec.core.values.model import ConnectionSpec

Algorithms = frozenset[str]
"""IANA's names of IKEv2 transforms, without key lengths: AES_GCM_16, PRF_HMAC_SHA2_256, CURVE_25519, ML_KEM_768."""

_BROKEN = {"3des": "3DES_CBC", "sha1": "HMAC_SHA1_96", "modp1024": "MODP_1024", "modp1536": "MODP_1536"}
"""Broken algorithms, for a lab alone (docs/guide/policies.md)."""
_ENCRYPTION = {"gcm16": "AES_GCM_16", "ccm16": "AES_CCM_16", "": "AES_CBC"}
_CIPHERS = {
    **{f"aes{bits}{mode}": name for bits in (128, 192, 256) for mode, name in _ENCRYPTION.items()},
    "chacha20poly1305": "CHACHA20_POLY1305",
}
_INTEGRITY = {"sha256": "HMAC_SHA2_256_128", "sha384": "HMAC_SHA2_384_192", "sha512": "HMAC_SHA2_512_256"}
_PRF = {f"prfsha{bits}": f"PRF_HMAC_SHA2_{bits}" for bits in (256, 384, 512)}
_KEY_EXCHANGE = {
    **{f"modp{bits}": f"MODP_{bits}" for bits in (2048, 3072, 4096, 6144, 8192)},
    **{f"ecp{bits}": f"ECP_{bits}" for bits in (256, 384, 521)},
    "x25519": "CURVE_25519",
    "x448": "CURVE_448",
    **{f"mlkem{size}": f"ML_KEM_{size}" for size in (512, 768, 1024)},
}
_IKE = {**_CIPHERS, **_INTEGRITY, **_PRF, **_KEY_EXCHANGE, **_BROKEN}
OF_DEBIAN: Algorithms = frozenset(
    name for name in {*_IKE.values()} - {*_BROKEN.values()} if not name.startswith("ML_KEM")
)
"""What of all that is not broken the charon of Debian 12 and 13 has; for one that cannot be asked."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A proposal that is not configured in the IKE daemon, and the algorithms that it lacks."""

    kind: str
    """``ike`` or ``esp``."""
    proposal: str
    lacks: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.proposal} for {self.kind.upper()}: {', '.join(self.lacks)} is not there"


class NothingLeftError(ValueError):
    """The IKE daemon can do no proposal of a kind. The message names each with what is lacking."""


def left_out(ike: Iterable[str], esp: Iterable[str], known: Algorithms | None) -> tuple[LeftOut, ...]:
    """Return the policy's proposals that the IKE daemon cannot do. ``known`` is None where it does not say."""
    if known is None:
        return ()
    kinds = (("ike", ike, _IKE), ("esp", esp, _KEY_EXCHANGE))
    found = (
        LeftOut(kind, proposal, _lacking(proposal, names, known))
        for kind, proposals, names in kinds
        for proposal in dict.fromkeys(proposals)
    )
    return tuple(one for one in found if one.lacks)


def possible(spec: ConnectionSpec, known: Algorithms | None) -> tuple[ConnectionSpec, tuple[LeftOut, ...]]:
    """Return the connection with the proposals that can be done, and the rest. Raises NothingLeftError."""
    out = left_out(spec.ike_proposals, (one for child in spec.children for one in child.esp_proposals), known)
    if not out:
        return spec, ()
    children = tuple(replace(child, esp_proposals=_kept("esp", child.esp_proposals, out)) for child in spec.children)
    return replace(spec, ike_proposals=_kept("ike", spec.ike_proposals, out), children=children), out


def _kept(kind: str, proposals: tuple[str, ...], out: tuple[LeftOut, ...]) -> tuple[str, ...]:
    lost = {one.proposal: one for one in out if one.kind == kind}
    kept = tuple(one for one in proposals if one not in lost)
    if not kept:
        missing = "; ".join(str(lost[one]) for one in proposals)
        raise NothingLeftError(f"the IKE daemon can do none of the policy's proposals: {missing}")
    return kept


def _lacking(proposal: str, names: dict[str, str], known: Algorithms) -> tuple[str, ...]:
    """Return what a proposal needs and charon lacks. What charon does not understand it refuses in its own words."""
    words = (word.partition("_")[2] if word.startswith("ke") else word for word in proposal.split("-"))
    return tuple(dict.fromkeys(names[word] for word in words if word in names and names[word] not in known))
