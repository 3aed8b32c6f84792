"""The secret of a pair of nodes: what authenticates IKE where a daemon cannot use the nodes' Ed25519 keys (ADR 0042).

Both ends compute it from their own private key and the other's card, so nothing is exchanged and no card changes. It
is X25519 (RFC 7748) between the two nodes' keys, drawn through HKDF (RFC 5869) with both public keys: what is known of
it to others than these two is as much as of any Diffie-Hellman secret, and it serves no other purpose.
"""

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from meshsec.core.trust import identity

LENGTH = 32
"""Octets: as many as the keys have; RFC 7296, section 2.15, wants the strength of the strongest key negotiated."""

_PURPOSE = b"meshsec IKE pre-shared key, version 1\0"


def pair_secret(seed: bytes, other: bytes) -> bytes:
    """Return what the node with the Ed25519 seed ``seed`` shares with that of the Ed25519 public key ``other``.

    Raises IdentityError when ``other`` is no node's key, and when it is the node's own.
    """
    own = identity.public_key_of(seed)
    if own == other:
        raise identity.IdentityError("the key is this node's own: a secret is shared by two nodes")
    theirs = X25519PublicKey.from_public_bytes(identity.x25519_public(other))
    shared = X25519PrivateKey.from_private_bytes(identity.x25519_private(seed)).exchange(theirs)
    first, second = sorted((own, other))
    return HKDF(SHA256(), LENGTH, salt=None, info=_PURPOSE + first + second).derive(shared)
