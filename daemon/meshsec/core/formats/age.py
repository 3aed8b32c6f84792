"""age files for a passphrase (age-encryption.org/v1): what `age --decrypt` opens on any machine, without meshsec.

A file has a header and a payload. The header holds the file's key, encrypted under a key that scrypt (RFC 7914) makes
of the passphrase, and ends with an HMAC (RFC 2104) under that key. The payload is a nonce of 16 octets and chunks of
64 KiB, each sealed with ChaCha20-Poly1305 (RFC 8439) under a key of its own (HKDF, RFC 5869). A chunk's nonce is its
number and whether it is the last one, so that nobody can cut a file or exchange its chunks.
"""

import base64
import binascii
import hmac
import re
from collections.abc import Iterator

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

RANDOM_LENGTH = 48
"""Octets of randomness that a file needs."""
WORK = 17
"""Binary logarithm of scrypt's cost that is written: 128 MiB and some 0.4 s, also on a board of 512 MiB."""
MOST_WORK = 20
"""The highest that is read: 1 GiB. age itself writes 18."""

_VERSION = "age-encryption.org/v1"
_HEADER = re.compile(
    rb"(age-encryption\.org/v1\n-> scrypt ([A-Za-z0-9+/]{22}) ([1-9][0-9]?)\n([A-Za-z0-9+/]{43})\n---) "
    rb"([A-Za-z0-9+/]{43})\n"
)
_LABEL = b"age-encryption.org/v1/scrypt"
_TAG_LENGTH = 16
_NONCE_LENGTH = 16
_CHUNK_LENGTH = 64 * 1024
_LAST = b"\x01"


class AgeError(ValueError):
    """What was read is no age file for this passphrase. The text says why and holds nothing of it."""


def encrypt(plain: bytes, passphrase: str, randomness: bytes) -> bytes:
    """Return the age file of ``plain``. ``randomness``: ``RANDOM_LENGTH`` octets that are never used again."""
    salt, key, nonce = (randomness[start : start + 16] for start in range(0, RANDOM_LENGTH, 16))
    wrapped = ChaCha20Poly1305(_wrapping_key(passphrase, salt, WORK)).encrypt(bytes(12), key, None)
    header = f"{_VERSION}\n-> scrypt {_text(salt)} {WORK}\n{_text(wrapped)}\n---".encode()
    cipher = ChaCha20Poly1305(_derived(key, nonce, b"payload"))
    starts = range(0, max(len(plain), 1), _CHUNK_LENGTH)
    chunks = (
        cipher.encrypt(_chunk_nonce(number, last=number == len(starts) - 1), plain[start : start + _CHUNK_LENGTH], None)
        for number, start in enumerate(starts)
    )
    return b"".join([header, b" ", _text(_mac(key, header)).encode(), b"\n", nonce, *chunks])


def decrypt(sealed: bytes, passphrase: str) -> bytes:
    """Return what an age file holds. Raises AgeError for another file, another passphrase, or a changed file."""
    found = _HEADER.match(sealed)
    if not found:
        raise AgeError("is no age file for a passphrase (age-encryption.org/v1)")
    header, salt, work, wrapped, mac = found.groups()
    if int(work) > MOST_WORK:
        raise AgeError(f"asks for 2^{int(work)} steps of scrypt; allowed: 2^{MOST_WORK}")
    try:
        wrapping = ChaCha20Poly1305(_wrapping_key(passphrase, _octets(salt), int(work)))
        key = wrapping.decrypt(bytes(12), _octets(wrapped), None)
    except InvalidTag:
        raise AgeError("was made with another passphrase, or its header was changed") from None
    if not hmac.compare_digest(_mac(key, header), _octets(mac)):
        raise AgeError("its header was changed")
    payload = sealed[found.end() :]
    nonce, chunks = payload[:_NONCE_LENGTH], payload[_NONCE_LENGTH:]
    try:
        return b"".join(_opened(ChaCha20Poly1305(_derived(key, nonce, b"payload")), chunks))
    except InvalidTag:
        raise AgeError("was cut or changed after it was made") from None


def _opened(cipher: ChaCha20Poly1305, chunks: bytes) -> Iterator[bytes]:
    length = _CHUNK_LENGTH + _TAG_LENGTH
    starts = range(0, max(len(chunks), 1), length)
    for number, start in enumerate(starts):
        nonce = _chunk_nonce(number, last=number == len(starts) - 1)
        yield cipher.decrypt(nonce, chunks[start : start + length], None)


def _chunk_nonce(number: int, *, last: bool) -> bytes:
    return number.to_bytes(11, "big") + (_LAST if last else b"\x00")


def _wrapping_key(passphrase: str, salt: bytes, work: int) -> bytes:
    return Scrypt(salt=_LABEL + salt, length=32, n=1 << work, r=8, p=1).derive(passphrase.encode())


def _derived(key: bytes, salt: bytes | None, info: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=salt, info=info).derive(key)


def _mac(key: bytes, header: bytes) -> bytes:
    return hmac.digest(_derived(key, None, b"header"), header, "sha256")


def _text(octets: bytes) -> str:
    return base64.b64encode(octets).decode("ascii").rstrip("=")


def _octets(text: bytes) -> bytes:
    try:
        octets = base64.b64decode(text + b"=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        raise AgeError("its header is no base64") from None
    if _text(octets).encode() != text:
        raise AgeError("its header is no canonical base64")
    return octets
