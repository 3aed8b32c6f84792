"""Wait until one of some files changes (inotify(7)). While nothing changes, nothing runs."""

import ctypes
import os
import select
import struct
from collections.abc import Iterable
from pathlib import Path

from meshsec import files

_CLOSE_WRITE, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x8, 0x40, 0x80, 0x100, 0x200
_MASK = _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
_HEAD = struct.Struct("@iIII")
_BUFFER = 1 << 16
"""Bytes that are read at once; an event with the longest name has 272."""


class Changes:
    """A watch on files, each of which may come, go and be replaced. Their directories must exist."""

    def __init__(self, paths: Iterable[Path]) -> None:
        """Begin to watch. Raises FileError."""
        library = ctypes.CDLL(None, use_errno=True)
        self._descriptor = library.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        _check(self._descriptor, "inotify")
        self._watched: set[tuple[int, bytes]] = set()
        for path in paths:
            watch = library.inotify_add_watch(self._descriptor, os.fsencode(path.parent), _MASK)
            _check(watch, str(path.parent))
            self._watched.add((watch, os.fsencode(path.name)))

    def wait(self, seconds: float | None) -> None:
        """Return after a change of a file, or after that time."""
        while select.select([self._descriptor], [], [], seconds)[0]:
            if self._watched & set(_events(os.read(self._descriptor, _BUFFER))):
                return


def _events(data: bytes) -> Iterable[tuple[int, bytes]]:
    """Yield which watch saw a change of which name."""
    at = 0
    while at < len(data):
        watch, _, _, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size + length
        yield watch, data[at - length : at].rstrip(b"\0")


def _check(result: int, what: str) -> None:
    if result < 0:
        raise files.FileError(f"{what}: {os.strerror(ctypes.get_errno())}")
