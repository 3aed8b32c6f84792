"""Whether an SA was negotiated as one of a policy's proposals says (RFC 7296, section 2.7).

Proposals are in strongSwan's keywords, what was negotiated is in IANA's names. A keyword that is none that is known
here may be anything, so that a proposal with one agrees with every algorithm: nothing is called wrong that cannot be
judged."""

import re
from collections.abc import Iterable, Mapping

from meshsec.core.policy.suites import ENCRYPTION, KEY_EXCHANGE

_HASHES = {"sha256": "HMAC_SHA2_256_128", "sha384": "HMAC_SHA2_384_192", "sha512": "HMAC_SHA2_512_256"}
_PRFS = {f"prf{word}": f"PRF_HMAC_SHA2_{word.removeprefix('sha')}" for word in _HASHES}
_KNOWN = {*ENCRYPTION, *KEY_EXCHANGE, *_HASHES, *_PRFS}
_OTHER = re.compile(r"esn|noesn|ke[1-7]_.+")
"""Sequence numbers, and additional key exchanges (RFC 9370), which are not looked at."""


def agrees_ike(proposals: Iterable[str], encryption: str, integrity: str, prf: str, key_exchange: str) -> bool:
    """Return whether an IKE_SA with these algorithms is as one of ``proposals`` says; an empty name is unknown."""
    found = ((ENCRYPTION, encryption), (_HASHES, integrity), (KEY_EXCHANGE, key_exchange))
    return any(_all(one, found) and _prf(one, prf) for one in map(_words, proposals))


def agrees_esp(proposals: Iterable[str], encryption: str, integrity: str, key_exchange: str) -> bool:
    """Return whether a CHILD_SA agrees likewise; one without its own key exchange has the IKE_SA's."""
    found = ((ENCRYPTION, encryption), (_HASHES, integrity), (KEY_EXCHANGE, key_exchange))
    return any(_all(one, found) for one in map(_words, proposals))


def _words(proposal: str) -> frozenset[str]:
    return frozenset(word for word in proposal.split("-") if not _OTHER.fullmatch(word))


def _all(words: frozenset[str], found: Iterable[tuple[Mapping[str, str], str]]) -> bool:
    return all(_among(words, names, name) for names, name in found)


def _among(words: frozenset[str], names: Mapping[str, str], name: str) -> bool:
    """ChaCha20 has one size of key, which is reported or not."""
    wanted = {names[word] for word in words if word in names}
    return not name or name.removesuffix("-256") in wanted or name in wanted or bool(words - _KNOWN)


def _prf(words: frozenset[str], name: str) -> bool:
    """strongSwan derives it from the integrity algorithm where a proposal names none, or takes any of its own."""
    named = words & _PRFS.keys() or {f"prf{word}" for word in words & _HASHES.keys()}
    return not named or _among(words | named, _PRFS, name)
