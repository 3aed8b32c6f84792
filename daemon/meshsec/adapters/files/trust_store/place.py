"""The directory of the trust store: its files, their permissions, and one writer at a time."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from meshsec import files
from meshsec.adapters.files.trust_store import lock
from meshsec.core.values.model import PEER_NEXT

SUFFIX = ".card"
NEXT_SUFFIX = ".next"
REVOKED_SUFFIX = ".revoked"
NEXT = PEER_NEXT
"""Suffix of a peer's name for its next key."""
MARK = "\nchannel "
"""Prefix of a channel's mark, the second line of a card file."""

MODE = 0o644


class TrustStoreError(Exception):
    """A change of the trust store is refused. The message says why; nothing was changed."""


class UnsafeError(Exception):
    """A file must not be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A file that is refused, with the reason."""

    path: Path
    message: str

    @property
    def title(self) -> str:
        """The name under which the peer is shown to users."""
        return title_of(self.path)

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def title_of(path: Path) -> str:
    """Return the name under which the peer of a card file is shown to users."""
    return path.stem + (NEXT if path.suffix == NEXT_SUFFIX else "")


def listed(directory: Path, suffix: str) -> list[Path]:
    """Return the files of one kind; none without a directory. Raises TrustStoreError."""
    try:
        with os.scandir(directory) as found:
            names = sorted(entry.name for entry in found)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise TrustStoreError(f"{directory}: {error.strerror}") from error
    return [directory / name for name in names if name.endswith(suffix) and not name.startswith(".")]


def read(path: Path, limit: int) -> str:
    """Read a file that decides about trust. Raises FileError, and UnsafeError if others than its owner may write it."""
    text = files.read(path, limit)
    refuse_shared(path, path.stat().st_mode)
    return text


def refuse_shared(path: Path, mode: int) -> None:
    """Raise UnsafeError if others than the owner may write the file."""
    if stat.S_IMODE(mode) & 0o022:
        raise UnsafeError(f"others than its owner may write it: chmod 644 {path}")


def write(path: Path, text: str) -> None:
    """Write a file of the store. Raises TrustStoreError and then changes nothing."""
    try:
        files.write(path, text.encode(), MODE)
    except files.FileError as error:
        raise TrustStoreError(str(error)) from error


def remove(path: Path) -> None:
    """Remove a file of the store. Raises TrustStoreError."""
    try:
        files.remove(path)
    except files.FileError as error:
        raise TrustStoreError(str(error)) from error


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Exclude other writers, so that two of them cannot take the same name. Raises TrustStoreError."""
    try:
        files.make_directory(directory)
        with lock.locked(directory):
            yield
    except (files.FileError, lock.LockError) as error:
        raise TrustStoreError(str(error)) from error
