"""The second secret in a file beside the node's key (ADR 0091), sealed if the key is."""

from pathlib import Path

from meshsec import files
from meshsec.adapters.files import secret_file
from meshsec.core.trust import second_secret
from meshsec.core.trust.second_secret import LENGTH, SecondSecretError
from meshsec.files import FileError

NAME = "second-secret"
_LIMIT = 4 * LENGTH
"""Bytes: the digits, and the ends of lines that an editor may leave."""
_FIX = "`meshsec secret set` writes it again, `meshsec secret remove` does without"


def find(path: Path) -> bytes | None:
    """Return the second secret; None if this node has none. Raises FileError."""
    return load(path) if secret_file.exists(path) else None


def load(path: Path) -> bytes:
    """Return the second secret. Raises FileError, also if others may read the file."""
    found = secret_file.place(path)
    try:
        mode = found.stat().st_mode
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}; {_FIX}") from error
    if mode & 0o077:
        raise FileError(f"{path}: others may read it (`chmod 600 {path}`); it may be known, so a new one is better")
    try:
        return second_secret.decode(files.read(found, _LIMIT))
    except FileError as error:
        raise FileError(f"{error}; {_FIX}") from error
    except SecondSecretError as error:
        raise FileError(f"{path}: {error}; {_FIX}") from error


def save(path: Path, secret: bytes) -> None:
    """Write the second secret. Raises FileError and then changes nothing."""
    secret_file.write(path, f"{secret.hex()}\n".encode("ascii"))


def remove(path: Path) -> bool:
    """Remove the second secret durably; return whether there was one. Raises FileError."""
    if not secret_file.exists(path):
        return False
    secret_file.remove(path)
    return True
