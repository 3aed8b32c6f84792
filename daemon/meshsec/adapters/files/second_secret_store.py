"""The second secret in a file beside the node's key, mode 0600 (ADR 0091)."""

from pathlib import Path

from meshsec import files
from meshsec.core.trust import second_secret
from meshsec.core.trust.second_secret import LENGTH, SecondSecretError
from meshsec.files import FileError

NAME = "second-secret"
_MODE = 0o600
_LIMIT = 4 * LENGTH
"""Bytes: the digits, and the ends of lines that an editor may leave."""
_FIX = "`meshsec secret set` writes it again, `meshsec secret remove` does without"


def find(path: Path) -> bytes | None:
    """Return the second secret; None if this node has none. Raises FileError."""
    return load(path) if files.exists(path) else None


def load(path: Path) -> bytes:
    """Return the second secret. Raises FileError, also if others may read the file."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}; {_FIX}") from error
    if mode & 0o077:
        raise FileError(f"{path}: others may read it (`chmod 600 {path}`); it may be known, so a new one is better")
    try:
        return second_secret.decode(files.read(path, _LIMIT))
    except FileError as error:
        raise FileError(f"{error}; {_FIX}") from error
    except SecondSecretError as error:
        raise FileError(f"{path}: {error}; {_FIX}") from error


def save(path: Path, secret: bytes) -> None:
    """Write the second secret. Raises FileError and then changes nothing."""
    files.write(path, f"{secret.hex()}\n".encode("ascii"), _MODE)


def remove(path: Path) -> bool:
    """Remove the second secret durably; return whether there was one. Raises FileError."""
    if not files.exists(path):
        return False
    files.remove(path)
    return True
