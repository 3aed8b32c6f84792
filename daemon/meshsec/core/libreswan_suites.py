"""Proposals in libreswan's words, from strongSwan's and back (libreswan 4.10 and 5.2, `ipsec algparse`).

Both daemons name RFC 7296's transforms (section 3.3.2) their own way. What libreswan does not have is refused with the
reason: a proposal is translated as a whole or not at all.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

_BITS = (128, 192, 256)
_AEAD_OF_BOTH = {**{f"aes{bits}gcm16": f"aes_gcm{bits}" for bits in _BITS}, "chacha20poly1305": "chacha20_poly1305"}
_AEAD_OF_ESP = {f"aes{bits}ccm16": f"aes_ccm{bits}" for bits in _BITS}
"""libreswan has AES-CCM in ESP alone."""
_CIPHER = {f"aes{bits}": f"aes{bits}" for bits in _BITS}
_HASH = {f"sha{bits}": f"sha2_{bits}" for bits in (256, 384, 512)}
_PRF = {f"prf{name}": word for name, word in _HASH.items()}
_KEY_EXCHANGE = {
    **{f"modp{bits}": f"dh{group}" for bits, group in ((2048, 14), (3072, 15), (4096, 16), (6144, 17), (8192, 18))},
    **{f"ecp{bits}": f"dh{group}" for bits, group in ((256, 19), (384, 20), (521, 21))},
    "x25519": "dh31",
}
"""By the number of IANA's Transform Type 4, which both versions take."""


class UntranslatableError(ValueError):
    """A proposal that libreswan cannot do. The message says what of it, and why."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A proposal that was left out, and why."""

    proposal: str
    why: str

    def __str__(self) -> str:
        return f"{self.proposal}: {self.why}"


@dataclass(slots=True)
class _Parts:
    """The algorithms of one proposal in strongSwan's words, by kind."""

    aead: str = ""
    cipher: str = ""
    hash: str = ""
    prf: str = ""
    key_exchange: str = ""


def ike(proposal: str) -> str:
    """An IKE proposal as ``ike=`` takes it. Raises UntranslatableError."""
    parts = _taken_apart(proposal, _AEAD_OF_BOTH)
    if not parts.key_exchange:
        raise UntranslatableError("it has no key exchange")
    if parts.aead and not parts.prf:
        raise UntranslatableError("it has no pseudo-random function")
    if parts.cipher and parts.prf not in ("", f"prf{parts.hash}"):
        raise UntranslatableError("libreswan takes the same hash for integrity and for keys")
    prf = _PRF[parts.prf] if parts.prf else _HASH[parts.hash]
    encryption = _AEAD_OF_BOTH[parts.aead] if parts.aead else _CIPHER[parts.cipher]
    return f"{encryption}-{prf}-{_KEY_EXCHANGE[parts.key_exchange]}"


def esp(proposal: str) -> str:
    """An ESP proposal as ``esp=`` takes it. Raises UntranslatableError.

    libreswan adds to one without key exchange that of its IKE_SA when the connection says ``pfs=yes``.
    """
    parts = _taken_apart(proposal, _AEAD_OF_BOTH | _AEAD_OF_ESP)
    if parts.prf:
        raise UntranslatableError(f"{parts.prf} has no place in ESP")
    if parts.aead:
        words = [(_AEAD_OF_BOTH | _AEAD_OF_ESP)[parts.aead], "null"]
    else:
        words = [_CIPHER[parts.cipher], _HASH[parts.hash]]
    return "-".join([*words, _KEY_EXCHANGE[parts.key_exchange]] if parts.key_exchange else words)


def all_ike(proposals: Iterable[str]) -> tuple[tuple[str, ...], tuple[Refused, ...]]:
    """The IKE proposals that libreswan can do, in the order given, and those that it cannot."""
    return _sorted_out(proposals, ike)


def all_esp(proposals: Iterable[str]) -> tuple[tuple[str, ...], tuple[Refused, ...]]:
    """The same for ESP. libreswan's ``pfs`` is one for all: beside those with a key exchange none goes without."""
    given = tuple(proposals)
    done, refused = _sorted_out(given, esp)
    lost = {one.proposal for one in refused}
    bare = [one for one in given if one not in lost and not has_key_exchange(one)]
    if len(bare) in (0, len(done)):
        return done, refused
    why = "it has no key exchange, and libreswan's pfs= is one for all of a connection"
    kept = tuple(esp(one) for one in given if one not in lost and one not in bare)
    return kept, refused + tuple(Refused(one, why) for one in bare)


def has_key_exchange(proposal: str) -> bool:
    """Whether strongSwan's proposal has one that libreswan knows."""
    return not _KEY_EXCHANGE.keys().isdisjoint(proposal.split("-"))


def _sorted_out(
    proposals: Iterable[str], translate: Callable[[str], str]
) -> tuple[tuple[str, ...], tuple[Refused, ...]]:
    done: list[str] = []
    refused: list[Refused] = []
    for proposal in proposals:
        try:
            done.append(translate(proposal))
        except UntranslatableError as error:
            refused.append(Refused(proposal, str(error)))
    return tuple(done), tuple(refused)


def _taken_apart(proposal: str, aead: Iterable[str]) -> _Parts:
    parts = _Parts()
    for word in proposal.split("-"):
        _set(parts, _kind(word, aead), word)
    if not (parts.aead or parts.cipher):
        raise UntranslatableError("it has no encryption")
    if parts.aead and (parts.cipher or parts.hash):
        raise UntranslatableError(f"{parts.aead} stands alone: it protects integrity itself")
    if parts.cipher and not parts.hash:
        raise UntranslatableError(f"{parts.cipher} has no integrity")
    return parts


def _kind(word: str, aead: Iterable[str]) -> str:
    tables = {"aead": aead, "cipher": _CIPHER, "hash": _HASH, "prf": _PRF, "key_exchange": _KEY_EXCHANGE}
    for kind, table in tables.items():
        if word in table:
            return kind
    if word in _AEAD_OF_ESP:
        raise UntranslatableError(f"libreswan has {word} in ESP alone")
    raise UntranslatableError(f"libreswan has no {word}")


def _set(parts: _Parts, kind: str, word: str) -> None:
    if getattr(parts, kind):
        raise UntranslatableError(f"it has both {getattr(parts, kind)} and {word}; one proposal here has one of a kind")
    setattr(parts, kind, word)
