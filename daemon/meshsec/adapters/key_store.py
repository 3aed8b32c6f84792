"""The node's private key: made once on the node, PKCS#8 in PEM, readable by its owner alone.

Its public half lies beside it for everybody, so that showing the node's card takes no privilege.
"""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from meshsec import files
from meshsec.core import identity

_MODE = 0o600
_PUBLIC_MODE = 0o644
_PUBLIC_SUFFIX = ".pub"
_LIMIT = 4096
"""Octets of a key file; an Ed25519 key needs 119."""


class KeyStoreError(Exception):
    """A key file that cannot be made or must not be used. The message names it and says how to mend it."""


@dataclass(frozen=True, slots=True, repr=False)
class NodeKey:
    """The node's key pair. It has no representation as text, so that no log shows it."""

    private: Ed25519PrivateKey

    @property
    def public_key(self) -> bytes:
        """The Ed25519 public key, 32 octets."""
        return self.private.public_key().public_bytes_raw()

    def pkcs8_pem(self) -> bytes:
        """The private key as the file has it and as VICI's load-key takes it."""
        return self.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def public_pem(self) -> bytes:
        """The public key in PEM (RFC 8410)."""
        return self.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def create(path: Path) -> NodeKey:
    """Make the node's key and write it. Raises KeyStoreError, also when there is one already."""
    seed = identity.generate(lambda: os.urandom(identity.KEY_LENGTH))
    key = NodeKey(Ed25519PrivateKey.from_private_bytes(seed))
    try:
        if files.exists(path):
            raise KeyStoreError(f"{path}: there is a key already; it is never overwritten")
        files.write(path, key.pkcs8_pem(), _MODE, replace=False)
        files.write(path.with_suffix(_PUBLIC_SUFFIX), key.public_pem(), _PUBLIC_MODE)
    except files.FileError as error:
        raise KeyStoreError(str(error)) from error
    return key


def load(path: Path) -> NodeKey:
    """Read the node's key. Raises KeyStoreError when others can read it or it is no key of a node."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise KeyStoreError(f"{path}: there is no key; `meshsec init` makes one") from error
    except OSError as error:
        raise KeyStoreError(f"{path}: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        _check_owner(path, os.fstat(file.fileno()))
        return _decoded(path, file.read(_LIMIT))


def load_public(path: Path) -> bytes:
    """The public key that belongs to the private key in ``path``, 32 octets, read without it. Raises KeyStoreError."""
    public = path.with_suffix(_PUBLIC_SUFFIX)
    try:
        if not files.exists(public):
            return load(path).public_key
        key = load_pem_public_key(files.read(public, _LIMIT).encode())
    except files.FileError as error:
        raise KeyStoreError(str(error)) from error
    except ValueError as error:
        raise KeyStoreError(f"{public}: is no public key in PEM") from error
    if not isinstance(key, Ed25519PublicKey):
        raise KeyStoreError(f"{public}: is not an Ed25519 key")
    return key.public_bytes_raw()


def _check_owner(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise KeyStoreError(f"{path}: is no regular file")
    if status.st_uid not in (0, os.geteuid()):
        raise KeyStoreError(f"{path}: belongs to user {status.st_uid}; allowed: root (chown root {path})")
    if status.st_mode & 0o077:
        mode = stat.S_IMODE(status.st_mode)
        raise KeyStoreError(f"{path}: has mode {mode:04o}, so others may use it; allowed: 0600 (chmod 600 {path})")


def _decoded(path: Path, content: bytes) -> NodeKey:
    try:
        key = load_pem_private_key(content, password=None)
    except (ValueError, TypeError) as error:
        raise KeyStoreError(f"{path}: is no unencrypted PKCS#8 key in PEM") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyStoreError(f"{path}: is not an Ed25519 key")
    return NodeKey(key)
