"""How a peer finds out that two nodes have one key (ADR 0079), between the addresses that the routers announce.

Theory of operation. Packets to an address reach the nearer of two nodes that have it, so a peer has its SA with one of
them, and the other asks in vain. That alone proves nothing, because anybody can send a first message under any address.

So a node that asks in vain sends a *claim*: a number that meshsecd draws at its first claim and every six hours, its
life, signed by the node's key. The peer sends the claim on to its own address of the node, as a *question* with a
nonce. Whoever the peer's packets reach answers it. A node remembers all lives in which it has claimed. To a life of
its own it says nothing: the claim is its own, or an old one that somebody replays. To a claim by its key in another
life it answers by a *denial*, signed over the nonce. One key made both signatures, and the node that made the
second one never made the first. So two nodes have the key, or had it when the claim was made.

Datagrams of the port for requests to join (``joining.py``), octets, big-endian, after version 1 and kind:

========  ====  =====================================================================================
message   kind  then
========  ====  =====================================================================================
claim     5     receiver's address (16), life (16), signature (64)
question  6     nonce (16), the claim from its version on (98)
denial    7     nonce (16), life (16), signature (64)
========  ====  =====================================================================================
"""

import struct
from dataclasses import dataclass
from ipaddress import IPv6Address

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from meshsec.core.trust.joining import VERSION

NUMBER_LENGTH = 16
"""Octets of a life and of a nonce: drawn by chance, so that no two are the same."""
CLAIM, QUESTION, DENIAL = 5, 6, 7
KINDS = frozenset({CLAIM, QUESTION, DENIAL})

_SIGNATURE = 64
_CLAIM = struct.Struct(f"!BB{NUMBER_LENGTH}s{NUMBER_LENGTH}s")
_QUESTION = struct.Struct(f"!BB{NUMBER_LENGTH}s")
_DENIAL = struct.Struct(f"!BB{NUMBER_LENGTH}s{NUMBER_LENGTH}s")
_CLAIM_PURPOSE = b"meshsec twins: claim\0"
_DENIAL_PURPOSE = b"meshsec twins: denial\0"


class TwinsError(ValueError):
    """Octets that are no message, or that the key has not signed. The text says why."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Somebody with the node's key asks the receiver for an SA in vain. Its signature has not been checked."""

    receiver: IPv6Address
    life: bytes
    octets: bytes


@dataclass(frozen=True, slots=True)
class Question:
    """Is this claim yours?"""

    nonce: bytes
    claim: Claim


@dataclass(frozen=True, slots=True)
class Denial:
    """It is not, nor was it ever. Its signature has not been checked."""

    nonce: bytes
    life: bytes
    octets: bytes


Message = Claim | Question | Denial


def claim(key: Ed25519PrivateKey, receiver: IPv6Address, life: bytes) -> bytes:
    """Return a claim of this life of the node."""
    body = _CLAIM.pack(VERSION, CLAIM, receiver.packed, life)
    return body + key.sign(_CLAIM_PURPOSE + body)


def question(nonce: bytes, about: Claim) -> bytes:
    """Return the question whether a claim is the receiver's."""
    return _QUESTION.pack(VERSION, QUESTION, nonce) + about.octets


def denial(key: Ed25519PrivateKey, asked: Question) -> bytes:
    """Return the answer of a node that has never claimed in the life that it is asked about."""
    body = _DENIAL.pack(VERSION, DENIAL, asked.nonce, asked.claim.life)
    return body + key.sign(_DENIAL_PURPOSE + body)


def decode(octets: bytes) -> Message:
    """Return the message as far as its form says it. Raises TwinsError."""
    match octets[:2]:
        case b"\1\5":
            return _read_claim(octets)
        case b"\1\6" if len(octets) > _QUESTION.size:
            return Question(_QUESTION.unpack_from(octets)[2], _read_claim(octets[_QUESTION.size :]))
        case b"\1\7" if len(octets) == _DENIAL.size + _SIGNATURE:
            _, _, nonce, life = _DENIAL.unpack_from(octets)
            return Denial(nonce, life, octets)
    raise TwinsError(f"{len(octets)} octets that begin with {octets[:2].hex()}")


def _read_claim(octets: bytes) -> Claim:
    if len(octets) != _CLAIM.size + _SIGNATURE or octets[:2] != bytes([VERSION, CLAIM]):
        raise TwinsError(f"a claim of {len(octets)} octets that begins with {octets[:2].hex()}")
    _, _, receiver, life = _CLAIM.unpack_from(octets)
    return Claim(IPv6Address(receiver), life, octets)


def check(said: Claim | Denial, public_key: bytes) -> None:
    """Raise TwinsError unless this key has signed the message."""
    purpose = _CLAIM_PURPOSE if isinstance(said, Claim) else _DENIAL_PURPOSE
    body, signature = said.octets[:-_SIGNATURE], said.octets[-_SIGNATURE:]
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, purpose + body)
    except InvalidSignature:
        raise TwinsError("it is not signed by the node's key") from None
