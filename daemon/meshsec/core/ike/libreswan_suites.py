"""Proposals in libreswan's words, from strongSwan's and back (libreswan 4.10 and 5.2, `ipsec algparse`).

Both daemons name RFC 7296's transforms (section 3.3.2) their own way. What libreswan does not have is refused with the
reason: a proposal is translated as a whole or not at all.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product

from meshsec.core.policy.capability import OF_DEBIAN

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
"""Key exchanges by the number of IANA's Transform Type 4, which both versions take."""

_GROUPS = {
    **{word: name for name, word in _KEY_EXCHANGE.items()},
    **{name: name for name in _KEY_EXCHANGE if name != "x25519"},
    **{f"ecp_{bits}": f"ecp{bits}" for bits in (256, 384, 521)},
    "curve25519": "x25519",
}
"""What libreswan takes for each key exchange, in strongSwan's words."""


ALGORITHMS = OF_DEBIAN - {"AES_CCM_16", "CURVE_448"}
"""What both versions have in IKE, of what a policy can name."""


class UntranslatableError(ValueError):
    """A proposal that the other daemon cannot do. The message says what of it, and why."""


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
    """Return an IKE proposal as ``ike=`` takes it. Raises UntranslatableError."""
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
    """Return an ESP proposal as ``esp=`` takes it. Raises UntranslatableError.

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
    """Return the IKE proposals that libreswan can do, in the order given, and those that it cannot."""
    return _sorted_out(proposals, ike)


def all_esp(proposals: Iterable[str]) -> tuple[tuple[str, ...], tuple[Refused, ...]]:
    """Return the same for ESP. libreswan's ``pfs`` holds for all: with one key exchange, all have one."""
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
    """Return whether strongSwan's proposal has one that libreswan knows."""
    return not _KEY_EXCHANGE.keys().isdisjoint(proposal.split("-"))


_ENCRYPTION_WORD = re.compile(r"(aes_gcm|aes_gcm_c|aes_ccm|aes_ccm_c|aes|chacha20_poly1305|chacha20poly1305)_?(\d+)?")
_HASH_BITS = {
    "sha2": 256,
    **{f"sha2_{bits}": bits for bits in (256, 384, 512)},
    **{f"sha{n}": n for n in (256, 384, 512)},
}
_UNSIZED = (256, 128)
"""Bits of AES that libreswan proposes where none are given."""
_MOST = 64
"""Proposals that one with alternatives (``aes256-sha2_256+sha2_512-dh14+dh19``) may mean."""


def read_ike(proposal: str) -> tuple[str, ...]:
    """strongSwan's form of one of ``ike=``; several where it has alternatives. Raises UntranslatableError."""
    encryption, words = _read(proposal)
    hashes, groups = _hashes_and_groups(words)
    if not groups:
        raise UntranslatableError("it has no key exchange; libreswan's own list of them has no counterpart")
    if not hashes:
        raise UntranslatableError("it has no hash")
    return tuple(
        "-".join((cipher, f"prf{digest}" if _is_aead(cipher) else digest, group))
        for cipher, digest, group in _few(encryption, hashes, groups)
    )


def read_esp(proposal: str, group: str = "") -> tuple[str, ...]:
    """Read ``esp=``; ``group`` is the key exchange of a proposal that names none. Raises UntranslatableError."""
    encryption, words = _read(proposal)
    hashes, groups = _hashes_and_groups([word for word in words if word != ["null"]])
    groups = groups or ((group,) if group else ())
    found = []
    for cipher, digest, one in _few(encryption, hashes or ("",), groups or ("",)):
        if not _is_aead(cipher) and not digest:
            raise UntranslatableError(f"{cipher} has no integrity")
        found.append("-".join(filter(None, (cipher, "" if _is_aead(cipher) else digest, one))))
    return tuple(dict.fromkeys(found))


def _read(proposal: str) -> tuple[tuple[str, ...], list[list[str]]]:
    """Return the ciphers, and the alternatives of each part that follows."""
    first, *rest = (part.split("+") for part in re.split("[-;]", proposal.strip().lower()))
    return tuple(cipher for word in first for cipher in _ciphers(word)), rest


def _ciphers(word: str) -> tuple[str, ...]:
    match = _ENCRYPTION_WORD.fullmatch(word)
    if match is None:
        raise UntranslatableError(f"{word!r} is no encryption that meshsec takes")
    if match[1].startswith("chacha"):
        if match[2] not in (None, "256"):
            raise UntranslatableError(f"{word!r} is no encryption that meshsec takes")
        return ("chacha20poly1305",)
    if match[2] and match[2] not in map(str, _BITS):
        raise UntranslatableError(f"{word!r} is no encryption that meshsec takes")
    mode = {"aes": "", "aes_gcm": "gcm16", "aes_ccm": "ccm16"}[match[1].removesuffix("_c")]
    return tuple(f"aes{bits}{mode}" for bits in ((match[2],) if match[2] else _UNSIZED))


def _hashes_and_groups(parts: Iterable[Iterable[str]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    hashes: list[str] = []
    groups: list[str] = []
    for word in (word for part in parts for word in part):
        if word in _HASH_BITS:
            hashes.append(f"sha{_HASH_BITS[word]}")
        elif word in _GROUPS:
            groups.append(_GROUPS[word])
        else:
            raise UntranslatableError(f"{word!r} is nothing that meshsec takes")
    return tuple(dict.fromkeys(hashes)), tuple(dict.fromkeys(groups))


def _few(*parts: tuple[str, ...]) -> Iterable[tuple[str, ...]]:
    count = 1
    for part in parts:
        count *= len(part)
    if count > _MOST:
        raise UntranslatableError(f"it means {count} proposals; allowed: {_MOST}")
    return product(*parts)


def _is_aead(cipher: str) -> bool:
    return cipher in _AEAD_OF_BOTH or cipher in _AEAD_OF_ESP


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
        raise UntranslatableError(f"{parts.aead} takes no integrity algorithm: it protects integrity itself")
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
