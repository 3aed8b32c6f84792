"""Remember what the files of the trust store said, so that a change of one file opens no other.

A file is opened again when its status has changed (inode, size, mode or times). Programs cannot set the time of the
last status change (ctime), but two changes within one clock step look alike. So a file that was changed just now is
read again.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from meshsec import files

T = TypeVar("T")

SETTLED = 1.1
"""Seconds after which a change certainly shows in the ctime: ext4 with 128-byte inodes counts whole seconds, and the
kernel's file clock lags by up to 10 ms."""
_LIMIT = 16384
"""Files that are remembered; at the limit all are forgotten, including those that no longer exist. A store has at most
4096 members and some thousands of cards."""


@dataclass(frozen=True, slots=True)
class _Known(Generic[T]):
    status: tuple[int, ...]
    text: str
    said: T


class Memory(Generic[T]):
    """The remembered files of one kind. Threads may share it: each entry is replaced as a whole."""

    def __init__(self, parse: Callable[[str], T], limit: int) -> None:
        """Remember what ``parse`` returns for a file's text. ``limit`` is the longest file in bytes."""
        self._parse = parse
        self._limit = limit
        self._known: dict[Path, _Known[T]] = {}

    def read(self, path: Path) -> tuple[T, int]:
        """Return what a file says, and its mode. Raises FileError and parsing errors; failures are not remembered."""
        try:
            found = path.stat()
        except OSError as error:
            raise files.FileError(f"{path}: {error.strerror}") from error
        known, status = self._known.get(path), _status(found)
        if known is None or not status or known.status != status:
            text = files.read(path, self._limit)
            known = _Known(status, text, known.said if known and known.text == text else self._parse(text))
            self._remember(path, known)
        return known.said, found.st_mode

    def wrote(self, path: Path, text: str, said: T) -> None:
        """Remember what was just written, so that the next read compares the text and does not parse it."""
        self._remember(path, _Known((), text, said))

    def _remember(self, path: Path, known: _Known[T]) -> None:
        if len(self._known) >= _LIMIT:
            self._known.clear()
        self._known[path] = known


def _status(found: os.stat_result) -> tuple[int, ...]:
    """Return the status values that change with a file; empty if the file was changed just now."""
    if time.time() - found.st_ctime < SETTLED:
        return ()
    return (found.st_dev, found.st_ino, found.st_size, found.st_mode, found.st_mtime_ns, found.st_ctime_ns)
