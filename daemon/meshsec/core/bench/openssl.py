"""Read what ``openssl speed -mr`` prints: throughput of ciphers and hashes, and operations in a second of the others.

The forms are those of OpenSSL 3.0 (Debian 12) and 3.5 (Debian 13), as seen. Lines that begin with ``+F`` have figures:

- ``+F:NUMBER:NAME:BYTES_PER_SECOND`` of ciphers and hashes,
- ``+F2:`` (RSA), ``+F4:`` (ECDSA) and ``+F6:`` (EdDSA) end with signatures and verifications in a second,
- ``+F5:`` ends with agreements in a second and seconds for one,
- ``+F9:`` (KEM, since 3.2) ends with key generations, encapsulations and decapsulations in a second.
"""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from meshsec.core.bench.record import Taken


class Cipher(NamedTuple):
    """An authenticated cipher that is measured."""

    name: str
    """As policies and papers write it."""
    evp: str
    """As OpenSSL calls it."""


CIPHERS = (
    Cipher("AES-128-GCM", "aes-128-gcm"),
    Cipher("AES-256-GCM", "aes-256-gcm"),
    Cipher("ChaCha20-Poly1305", "chacha20-poly1305"),
    Cipher("AES-128-CCM", "aes-128-ccm"),
    Cipher("AES-256-CCM", "aes-256-ccm"),
)
HASHES = (Cipher("SHA-256", "sha256"), Cipher("SHA-512", "sha512"))
SIZES = (50, 200, 500, 1000, 1500, 8192)
"""Bytes of a packet: the dissertation's 50 to 1000, a full Ethernet frame, and what software sends at once."""

_SIGNATURES = ("signatures", "verifications")
OPERATIONS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "ecdhx25519": ("X25519", ("agreements",)),
    "ecdhp256": ("ECDH P-256", ("agreements",)),
    "ed25519": ("Ed25519", _SIGNATURES),
    "ecdsap256": ("ECDSA P-256", _SIGNATURES),
    "rsa2048": ("RSA-2048", _SIGNATURES),
    "rsa3072": ("RSA-3072", _SIGNATURES),
    "ML-KEM-768": ("ML-KEM-768", ("key generations", "encapsulations", "decapsulations")),
}
"""By OpenSSL's name: ours, and what is counted."""

_KINDS = {"+F2": 2, "+F4": 2, "+F5": 1, "+F6": 2, "+F9": 3}
"""Kind of a line, and how many of its values are counted in a second."""


def throughput(text: str) -> float | None:
    """Return the megabits in a second of a cipher or hash; None if the text has no such figure."""
    for fields in _lines(text):
        if fields[0] == "+F" and len(fields) >= 4:
            return _number(fields[3], 8 / 1e6)
    return None


def operations(algorithm: str, text: str) -> list[Taken]:
    """Return what was counted of an algorithm in OPERATIONS; nothing if the text has no such figure."""
    name, counted = OPERATIONS[algorithm]
    for fields in _lines(text):
        if _KINDS.get(fields[0]) != len(counted):
            continue
        values = fields[-2:-1] if fields[0] == "+F5" else fields[-len(counted) :]
        numbers = [_number(value) for value in values]
        if None in numbers or len(numbers) != len(counted):
            return []
        return [
            Taken({"algorithm": name, "what": what}, "1/s", [number])
            for what, number in zip(counted, numbers, strict=True)
            if number is not None
        ]
    return []


def set_ups(cells: Sequence[Taken]) -> float | None:
    """Return how many IKE_SAs one processor could set up in a second if it did nothing but the public-key operations.

    An end makes a key pair and derives a secret (X25519, two multiplications), signs once and verifies once
    (RFC 7296, section 1.2, with RFC 8420). None if one of them was not measured.
    """
    rates = {(one.key["algorithm"], one.key["what"]): median(one.samples) for one in cells if "what" in one.key}
    needed = (
        ("X25519", "agreements"),
        ("X25519", "agreements"),
        ("Ed25519", "signatures"),
        ("Ed25519", "verifications"),
    )
    if any(not rates.get(one) for one in needed):
        return None
    return 1 / sum(1 / rates[one] for one in needed)


def _lines(text: str) -> Iterator[list[str]]:
    for line in text.splitlines():
        if line.startswith("+F"):
            yield line.strip().split(":")


def _number(text: str, factor: float = 1.0) -> float | None:
    try:
        value = float(text) * factor
    except ValueError:
        return None
    return value if 0 < value < float("inf") else None
