"""The second secret: what a node must have beside its key at levels that ask for it (ADR 0091).

The operator gives the same random secret to the nodes that need it. It is not in any card and crosses no network, so a
copied key alone does not pass. Each pair derives a secret of its own from it and from X25519 between the two nodes'
keys, and the IKE daemons mix that into the keys of the IKE_SA as a post-quantum preshared key (RFC 8784). Another node
with the second secret cannot compute the pair's without one of its private keys, and whoever can break X25519 one day
cannot without the second secret.
"""

from hashlib import sha256

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from meshsec.core.trust.pair_secret import pair_secret

LENGTH = 32
"""Octets. RFC 8784, section 6, asks for at least 256 bits of entropy."""
ALLOWED = f"{2 * LENGTH} hexadecimal digits, as `meshsec secret new` makes them"

_OF_PAIR = b"meshsec second secret, version 1\0"
_MARK = b"meshsec second secret's mark, version 1\0"
_ID = b"meshsec PPK_ID, version 1\0"


class SecondSecretError(ValueError):
    """A text that is no second secret. The message says what is allowed, and never what was found."""


def decode(text: str) -> bytes:
    """Return the secret that a text has. Raises SecondSecretError."""
    try:
        secret = bytes.fromhex(text.strip())
    except ValueError:
        secret = b""
    if len(secret) != LENGTH:
        raise SecondSecretError(f"this is no second secret; allowed: {ALLOWED}")
    return secret


def mark(secret: bytes) -> bytes:
    """Return the mark by which two nodes compare their second secrets without showing them (32 bytes)."""
    return sha256(_MARK + secret).digest()


def identity(known: bytes, one: bytes, other: bytes) -> str:
    """Return the PPK_ID of two nodes with these public keys, whose second secret has the mark ``known``.

    Ends with different second secrets so have different identities, and the IKE daemon's refusal says so.
    """
    first, second = sorted((one, other))
    return f"meshsec-{sha256(_ID + known + first + second).hexdigest()[:16]}"


def of_pair(seed: bytes, other: bytes, secret: bytes) -> bytes:
    """Return the pair's part of the second secret, for the node with the Ed25519 seed ``seed``.

    Raises IdentityError as ``pair_secret`` does.
    """
    return HKDF(SHA256(), LENGTH, salt=secret, info=_OF_PAIR).derive(pair_secret(seed, other))
