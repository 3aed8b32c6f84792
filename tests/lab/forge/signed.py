"""Sign forged OLSRv2 messages as olsrv2-signer does, or not quite (RFC 7182; ``daemon/crates/icv`` has the octets)."""

import os
from dataclasses import dataclass, field, replace

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from meshsec.core.trust.identity import raw_public_key
from tests.lab.forge.rfc5444 import Message, Tlv

ICV, TIMESTAMP, OWN = 5, 6, 252
"""TLV types, and the type extension of this project's signatures, for experiments (RFC 7182, section 13.7)."""
_DOMAIN = b"meshsec OLSRv2 message 1\0"
_HEAD = bytes(Tlv(TIMESTAMP, bytes(12), OWN))[:4]


def timestamp(counter: int, age: int = 0) -> Tlv:
    """Return the message TLV with a counter, and with how much the lowest one of late is below it."""
    return Tlv(TIMESTAMP, counter.to_bytes(8, "big") + age.to_bytes(4, "big"), OWN)


def icv(value: bytes) -> Tlv:
    """Return the message TLV with a public key and a signature."""
    return Tlv(ICV, value, OWN)


def quote(counter: int) -> Tlv:
    """Return the address TLV with the low half of the counter that was heard last from an address."""
    return Tlv(TIMESTAMP, (counter & 0xFFFFFFFF).to_bytes(4, "big"), OWN)


def last_counter(packet: bytes) -> int | None:
    """Return the counter of the last message in a packet that is signed; None when none is."""
    at = packet.rfind(_HEAD)
    return None if at < 0 else int.from_bytes(packet[at + len(_HEAD) :][:8], "big")


def with_tlvs(message: Message, *tlvs: Tlv) -> Message:
    """Return the message with further message TLVs."""
    return replace(message, tlvs=(*message.tlvs, *tlvs))


@dataclass
class Key:
    """A private key, and the counter of the message that it signed last."""

    private: Ed25519PrivateKey = field(default_factory=lambda: Ed25519PrivateKey.from_private_bytes(os.urandom(32)))
    counter: int = 1 << 20

    @property
    def public(self) -> bytes:
        """Return the public key."""
        return raw_public_key(self.private.public_key())

    def stamp(self) -> Tlv:
        """Return the TIMESTAMP of the next message."""
        self.counter += 1
        return timestamp(self.counter)

    def signature(self, message: Message) -> bytes:
        """Return the signature of a message that has its TIMESTAMP and no ICV."""
        limit, hops = (None if one is None else 0 for one in (message.hop_limit, message.hop_count))
        return self.private.sign(_DOMAIN + bytes(replace(message, hop_limit=limit, hop_count=hops)))

    def sign(self, message: Message, stamp: Tlv | None = None) -> Message:
        """Return the message with its two TLVs."""
        stamped = with_tlvs(message, stamp or self.stamp())
        return with_tlvs(stamped, icv(self.public + self.signature(stamped)))
