"""The kernel's ciphers and hashes, as it gives them to programs (AF_ALG, af_alg of the kernel's crypto API).

A message costs a program two system calls, which ESP inside the kernel does not need.
"""

import errno
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305

_NONCE = bytes(range(12))
_ASSOCIATED = bytes(range(8))
"""SPI and sequence number: what ESP authenticates beside its payload (RFC 4106, section 5)."""
_TAG = 16
_CCM_COUNTER = bytes([2]) + _NONCE + bytes(3)
"""A_0 of RFC 3610, section 2.3, with a nonce of 12 bytes, which the kernel takes as its initialization vector."""


class CipherError(Exception):
    """The kernel does not have it, or not for programs; the text says what is missing."""


@dataclass(frozen=True, slots=True)
class Aead:
    """An authenticated cipher, by the kernel's name."""

    kernel: str
    key: bytes
    iv: bytes
    reference: Callable[[bytes], bytes]
    """Seals a message in this process: what the kernel's answer must be."""


AEADS: Mapping[str, Aead] = {
    f"AES-{bits}-{mode}": Aead(name, key, iv, seal)
    for bits in (128, 256)
    for key in (bytes(range(bits // 8)),)
    for mode, name, iv, seal in (
        ("GCM", "gcm(aes)", _NONCE, lambda text, key=key: AESGCM(key).encrypt(_NONCE, text, _ASSOCIATED)),
        ("CCM", "ccm(aes)", _CCM_COUNTER, lambda text, key=key: AESCCM(key).encrypt(_NONCE, text, _ASSOCIATED)),
    )
} | {
    "ChaCha20-Poly1305": Aead(
        "rfc7539(chacha20,poly1305)",
        bytes(range(32)),
        _NONCE,
        lambda text: ChaCha20Poly1305(bytes(range(32))).encrypt(_NONCE, text, _ASSOCIATED),
    )
}
HASHES: Mapping[str, tuple[str, hashes.HashAlgorithm]] = {
    "SHA-256": ("sha256", hashes.SHA256()),
    "SHA-512": ("sha512", hashes.SHA512()),
}


class KernelAead:
    """A key in the kernel. Raises CipherError where the kernel has none such, or where it computes something else."""

    def __init__(self, name: str) -> None:
        self._aead = AEADS[name]
        self._socket = _opened("aead", self._aead.kernel, self._aead.key, tag=_TAG)
        text = bytes(range(100))
        sealed = self._aead.reference(text)
        if self.seal(text) != sealed or self.open(sealed) != text:
            self.close()
            raise CipherError(f"the kernel's {self._aead.kernel} does not give what it should")

    def seal(self, text: bytes) -> bytes:
        """Return ciphertext and tag."""
        return self._pass(socket.ALG_OP_ENCRYPT, text, len(text) + _TAG)

    def open(self, sealed: bytes) -> bytes:
        """Return the plaintext. Raises OSError for a forged message."""
        return self._pass(socket.ALG_OP_DECRYPT, sealed, len(sealed) - _TAG)

    def close(self) -> None:
        """Release the key."""
        self._socket.close()

    def _pass(self, operation: int, message: bytes, length: int) -> bytes:
        ahead = len(_ASSOCIATED)
        self._socket.sendmsg_afalg([_ASSOCIATED, message], op=operation, iv=self._aead.iv, assoclen=ahead)
        return self._socket.recv(ahead + length)[ahead:]


class KernelHash:
    """A hash of the kernel. Raises CipherError as ``KernelAead`` does."""

    def __init__(self, name: str) -> None:
        kernel, algorithm = HASHES[name]
        self._socket = _opened("hash", kernel)
        reference = hashes.Hash(algorithm)
        reference.update(_NONCE)
        self._length = algorithm.digest_size
        if self.digest(_NONCE) != reference.finalize():
            self.close()
            raise CipherError(f"the kernel's {kernel} does not give what it should")

    def digest(self, text: bytes) -> bytes:
        """Return the hash of a text."""
        self._socket.sendall(text)
        return self._socket.recv(self._length)

    def close(self) -> None:
        """Release it."""
        self._socket.close()


def _opened(kind: str, name: str, key: bytes = b"", *, tag: int = 0) -> socket.socket:
    """Return the socket of operations with a key. Raises CipherError."""
    try:
        with socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET, 0) as algorithm:
            algorithm.bind((kind, name))
            if key:
                algorithm.setsockopt(socket.SOL_ALG, socket.ALG_SET_KEY, key)
            if tag:
                algorithm.setsockopt(socket.SOL_ALG, socket.ALG_SET_AEAD_AUTHSIZE, None, tag)
            return algorithm.accept()[0]
    except (OSError, AttributeError) as error:
        raise CipherError(_why(kind, name, error)) from error


def _why(kind: str, name: str, error: OSError | AttributeError) -> str:
    option = f"CONFIG_CRYPTO_USER_API_{kind.upper()}"
    if isinstance(error, AttributeError) or error.errno in {errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT}:
        return f"this kernel gives its ciphers to no program ({option} is off)"
    if error.errno == errno.ENOENT:
        return f"this kernel has no {name}, or does not give it to programs (`modprobe algif_{kind}`, {option})"
    return f"the kernel's {name}: {error.strerror}"
