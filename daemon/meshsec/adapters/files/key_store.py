"""The node's private key: made once on the node, PKCS#8 in PEM, readable by its owner alone.

The public key is in a file beside it that everybody may read, so that showing the node's card needs no privilege.

During a change of the key (ADR 0041), ``node.next.key`` is used as well. Ending the present key renames the next one to
its place. ``node.rotation`` records which of the two keys has marked channels, so that channels keep their names. It is
written before the next key, and absent if the key was never changed.
"""

import json
import os
import stat
from dataclasses import asdict, dataclass
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
from meshsec.adapters.files import secret_file
from meshsec.core.trust import identity
from meshsec.core.values.model import OWN_NEXT

_PUBLIC_MODE = 0o644
_PUBLIC_SUFFIX = ".pub"
_NEXT_SUFFIX = ".next.key"
_ROTATION_SUFFIX = ".rotation"
_MARK = ".restore-interrupted"
"""It is hidden, so that no backup has it."""
MARK = OWN_NEXT
"""Suffix of a peer's name in the channel of this node's second key, which replaces or has replaced the first."""
_LIMIT = 4096
"""Limit of a key file in bytes; an Ed25519 key needs 119."""


class KeyStoreError(Exception):
    """A key file cannot be made or must not be used. The message names the file and says how to fix it."""


class NoKeyError(KeyStoreError):
    """The node has no key yet."""


class SealedKeyError(KeyStoreError):
    """The node's key is sealed, and the TPM has not opened it."""


class HalfRestoredError(KeyStoreError):
    """``meshsec restore`` was interrupted, so the key and the node's other files may belong to two nodes."""


@dataclass(frozen=True, slots=True, repr=False)
class NodeKey:
    """The node's key pair. It has no text representation, so that no log can show it."""

    private: Ed25519PrivateKey

    @property
    def public_key(self) -> bytes:
        """The Ed25519 public key, 32 bytes."""
        return identity.raw_public_key(self.private.public_key())

    def seed(self) -> bytes:
        """Return the 32 bytes of the private key (RFC 8032, section 5.1.5)."""
        return self.private.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())

    def pkcs8_pem(self) -> bytes:
        """Return the private key in PEM, as in the file and as VICI's load-key takes it."""
        return self.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def public_pem(self) -> bytes:
        """Return the public key in PEM (RFC 8410)."""
        return self.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


@dataclass(frozen=True, slots=True)
class Rotation:
    """The latest change of the key, in progress or complete. Keys are public ones in hexadecimal."""

    old: str
    next: str
    mark: str
    """Mark of the next key's channels. Those of the old key have the other mark: ``MARK`` or nothing."""

    def mark_of(self, public_key: bytes) -> str:
        """Return the mark of a key's channels: ``MARK`` or nothing."""
        if public_key.hex() == self.next:
            return self.mark
        return "" if self.mark or public_key.hex() != self.old else MARK


def next_path(path: Path) -> Path:
    """Return the path of the key that is to replace the one in ``path``."""
    return path.with_suffix(_NEXT_SUFFIX)


def mark_path(path: Path) -> Path:
    """Return the file that is beside the key in ``path`` while ``meshsec restore`` replaces the node's files."""
    return path.with_name(_MARK)


def check(path: Path, content: bytes, mode: int, public: bytes | None) -> None:
    """Refuse content that would be no key in ``path``, or another one than ``public``, the file beside it.

    Raises KeyStoreError.
    """
    _check_mode(path, mode)
    key = _decoded(path, content)
    if public is not None and _public(path.with_suffix(_PUBLIC_SUFFIX), public) != key.public_key:
        raise KeyStoreError(f"{path}: belongs to another public key than {path.with_suffix(_PUBLIC_SUFFIX)}")


def rotation(path: Path) -> Rotation | None:
    """Return the latest change of the key in ``path``; None if it is the node's first key. Raises KeyStoreError."""
    record = path.with_suffix(_ROTATION_SUFFIX)
    try:
        if not files.exists(record):
            return None
        found = Rotation(**json.loads(files.read(record, _LIMIT)))
    except files.FileError as error:
        raise KeyStoreError(str(error)) from error
    except (TypeError, ValueError) as error:
        raise KeyStoreError(f"{record}: is no record of a change of the key ({error})") from error
    if found.mark not in {"", MARK}:
        raise KeyStoreError(f"{record}: the mark is {found.mark!r}; allowed: none and {MARK!r}")
    return found


def create(path: Path) -> NodeKey:
    """Make the node's key and write it. Raises KeyStoreError, also if one exists."""
    key = _made()
    _save(path, key)
    return key


def create_next(path: Path) -> NodeKey:
    """Make the key that is to replace the one in ``path``, or keep the one that exists. Raises KeyStoreError."""
    following, present = next_path(path), load(path).public_key
    try:
        if secret_file.exists(following):
            return load(following)
        before, key = rotation(path), _made()
        mark = "" if before and before.mark_of(present) else MARK
        record = Rotation(present.hex(), key.public_key.hex(), mark)
        files.write(path.with_suffix(_ROTATION_SUFFIX), f"{json.dumps(asdict(record))}\n".encode(), _PUBLIC_MODE)
        _save(following, key)
    except files.FileError as error:
        raise KeyStoreError(str(error)) from error
    return key


def end(path: Path) -> None:
    """Destroy the key in ``path`` and put the next one in its place. Raises KeyStoreError if there is no next one.

    An interruption leaves each key whole. A second call continues, and writes missing public keys again.
    """
    public, following = path.with_suffix(_PUBLIC_SUFFIX), next_path(path)
    try:
        if secret_file.exists(following):
            load(following)
            _remove(public)
            secret_file.move(following, path)
        elif files.exists(public):
            raise KeyStoreError(f"{following}: there is no next key; `meshsec key next` makes one")
        _remove(following.with_suffix(_PUBLIC_SUFFIX))
        files.write(public, load(path).public_pem(), _PUBLIC_MODE)
    except files.FileError as error:
        raise KeyStoreError(str(error)) from error


def cancel(path: Path) -> None:
    """Destroy the next key. Raises KeyStoreError."""
    try:
        _remove(next_path(path).with_suffix(_PUBLIC_SUFFIX))
        if secret_file.exists(next_path(path)):
            secret_file.remove(next_path(path))
    except files.FileError as error:
        raise KeyStoreError(str(error)) from error


def _remove(path: Path) -> None:
    if files.exists(path):
        files.remove(path)


def _made() -> NodeKey:
    return NodeKey(Ed25519PrivateKey.from_private_bytes(identity.generate(lambda: os.urandom(identity.KEY_LENGTH))))


def _check_whole(path: Path) -> None:
    """Refuse the key of a node that is half replaced by another. Raises HalfRestoredError."""
    if os.path.lexists(mark := mark_path(path)):
        raise HalfRestoredError(
            f"{mark}: `meshsec restore` was interrupted, so that key, name and trust may be of two nodes; "
            "`meshsec restore FILE` completes it. Without the backup: `meshsec zeroize`, then `meshsec up` makes a new "
            "key"
        )


def _save(path: Path, key: NodeKey) -> None:
    _check_whole(path)
    try:
        if secret_file.exists(path):
            raise KeyStoreError(f"{path}: there is a key already; it is never overwritten")
        secret_file.write(path, key.pkcs8_pem(), replace=False)
        files.write(path.with_suffix(_PUBLIC_SUFFIX), key.public_pem(), _PUBLIC_MODE)
    except files.FileError as error:
        raise KeyStoreError(str(error)) from error


def load(path: Path) -> NodeKey:
    """Read the node's key.

    Raises NoKeyError, SealedKeyError and HalfRestoredError. Raises KeyStoreError if others can read the file, if it is
    not a node key, or if the public key beside it differs.
    """
    _check_whole(path)
    try:
        descriptor = os.open(secret_file.place(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except files.FileError as error:
        raise SealedKeyError(str(error)) from error
    except FileNotFoundError as error:
        raise NoKeyError(f"{path}: there is no key; `meshsec init` makes one") from error
    except OSError as error:
        raise KeyStoreError(f"{path}: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        _check_owner(path, os.fstat(file.fileno()))
        key = _decoded(path, file.read(_LIMIT))
    if _beside(path) not in {None, key.public_key}:
        public = path.with_suffix(_PUBLIC_SUFFIX)
        raise KeyStoreError(
            f"{path}: belongs to another public key than {public}; restore the key whose card the peers have, then "
            f"`rm {public}`: without that file the key itself is asked"
        )
    return key


def find(path: Path, public_key: bytes) -> NodeKey:
    """Return the key in ``path`` or its next one, whichever has this public key. Raises KeyStoreError, also if
    neither.
    """
    key = load(path)
    if key.public_key != public_key and (following := next_path(path)).exists():
        key = load(following)
    if key.public_key != public_key:
        raise KeyStoreError(f"{path}: the key was changed; restart meshsecd to use it (SAs and rules stay)")
    return key


def load_public(path: Path) -> bytes:
    """Return the public key of the private key in ``path``, 32 bytes. Raises KeyStoreError.

    A user who may not read the private key gets it from the file beside it.
    """
    if os.access(path, os.R_OK):
        return load(path).public_key
    return _beside(path) or load(path).public_key


def _beside(path: Path) -> bytes | None:
    """Return the public key in the file beside the key; None without such a file. Raises KeyStoreError."""
    public = path.with_suffix(_PUBLIC_SUFFIX)
    try:
        if not files.exists(public):
            return None
        return _public(public, files.read(public, _LIMIT).encode())
    except files.FileError as error:
        raise KeyStoreError(str(error)) from error


def _public(public: Path, content: bytes) -> bytes:
    try:
        key = load_pem_public_key(content)
    except ValueError as error:
        raise KeyStoreError(f"{public}: is no public key in PEM") from error
    if not isinstance(key, Ed25519PublicKey):
        raise KeyStoreError(f"{public}: is not an Ed25519 key")
    return identity.raw_public_key(key)


def _check_owner(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise KeyStoreError(f"{path}: is no regular file")
    if status.st_uid not in (0, os.geteuid()):
        raise KeyStoreError(f"{path}: belongs to user {status.st_uid}; allowed: root (chown root {path})")
    _check_mode(path, stat.S_IMODE(status.st_mode))


def _check_mode(path: Path, mode: int) -> None:
    if mode & 0o077:
        raise KeyStoreError(f"{path}: has mode {mode:04o}, so others may use it; allowed: 0600 (chmod 600 {path})")


def _decoded(path: Path, content: bytes) -> NodeKey:
    try:
        key = load_pem_private_key(content, password=None)
    except (ValueError, TypeError) as error:
        raise KeyStoreError(f"{path}: is no unencrypted PKCS#8 key in PEM") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyStoreError(f"{path}: is not an Ed25519 key")
    return NodeKey(key)
