"""Gets one file of an update from a peer, which may be hostile: within bounds of size and of time.

A download goes on where it ended, also with another peer. So a peer can spoil what others gave. The first time that
happens, what is there is removed, and from then on each peer only continues what it gave itself.
"""

import hashlib
import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import BinaryIO, NamedTuple

from meshsec_update import release
from meshsec_update.machine import RefusedError
from meshsec_update.offer import PORT
from meshsec_update.release import File

MARGIN = 64 << 20
"""Bytes that a download leaves free on the state partition."""
_SILENCE_SECONDS = 30.0
_ANSWER_SECONDS = 60.0
"""Time for the head of an answer, and for the whole of a small file."""
_WINDOW_SECONDS = 60.0
_WINDOW_BYTES = 60 << 10
"""Bytes that a peer must give in each window: 1 KiB/s, an update of 340 MB in four days."""
_PEER_SECONDS = 3600.0
"""Time after which the next peer is asked to continue a file."""
_BLOCK = 1 << 16


class Peer(NamedTuple):
    """Who may have an update."""

    name: str
    address: str
    hops: int


class _WrongError(Exception):
    """What is there of a file is not the beginning of what was signed."""


class Folder:
    """What was fetched of one version so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._separate, self._refused = path / "separate", path / "refused"

    def part(self, name: str, peer: Peer) -> Path:
        """Return where a peer continues a file that is not complete."""
        return self.path / (f"{name}.{peer.address}.part" if self._separate.exists() else f"{name}.part")

    def separate(self) -> None:
        """Keep what each peer gives apart from now on, and remove what several gave."""
        if self._separate.exists():
            return
        for part in self.path.glob("*.part"):
            part.unlink()
        self._separate.touch()

    def refuse(self, peer: Peer) -> None:
        """Remember that all of what a peer gave was wrong."""
        with self._refused.open("a", encoding="ascii") as file:
            file.write(f"{peer.address}\n")

    def refuses(self, peer: Peer) -> bool:
        """Return whether all of what a peer gave was wrong."""
        return self._refused.exists() and peer.address in self._refused.read_text(encoding="ascii").splitlines()

    def finish(self) -> None:
        """Leave nothing but the files of the update."""
        for path in (*self.path.glob("*.part"), self._separate, self._refused):
            path.unlink(missing_ok=True)


def small(peer: Peer, name: str) -> tuple[bytes, int]:
    """Return the content of a small file, and for how many seconds the peer has had it."""
    with _answer(peer, name, whole=True) as answer:
        return answer.read(release.LIMIT), int(answer.headers.get("Age", "0"))


def complete(peer: Peer, folder: Folder, file: File, largest: int) -> None:
    """Get what is missing of a file; raises RefusedError, and keeps nothing that turned out to be wrong."""
    path = folder.path / file.name
    if path.exists() and _is_right(path, file):
        return
    path.unlink(missing_ok=True)
    part = folder.part(file.name, peer)
    if part.exists():
        with suppress(_WrongError):
            _continue(peer, part, file, largest)
            part.rename(path)
            return
        print(f"meshsec-update: {file.name}: what was there is wrong and was removed; {peer.name} is asked for all")
        part.unlink(missing_ok=True)
        folder.separate()
        part = folder.part(file.name, peer)
    try:
        _continue(peer, part, file, largest)
    except _WrongError as error:
        part.unlink(missing_ok=True)
        folder.refuse(peer)
        raise RefusedError(f"{file.name}: {error}; this peer is not asked for this version again") from None
    part.rename(path)


def _continue(peer: Peer, part: Path, file: File, largest: int) -> None:
    """Get what is missing of a part and verify the whole; raises _WrongError when it is not what was signed."""
    start = part.stat().st_size if part.exists() else 0
    if start > largest:
        raise _WrongError(f"{start} bytes; at most {largest} fit")
    try:
        with _answer(peer, file.name, start) as answer:
            if answer.length is None:
                raise RefusedError(f"{file.name}: the peer does not say how many bytes it sends")
            size = start + answer.length
            _need_room(part, file.name, size, answer.length, largest)
            with part.open("ab") as target:
                _copy(answer, target, size - start)
                target.flush()
                os.fsync(target.fileno())
    except (OSError, HTTPException, ValueError) as error:
        raise RefusedError(f"{file.name}: {error}; the next try goes on where this one ended") from None
    if (found := part.stat().st_size) < size:
        raise RefusedError(f"{file.name}: {found} bytes of {size}; the next try goes on there")
    if not _is_right(part, file):
        raise _WrongError(f"its {size} bytes are not what was signed: truncated or changed")


def _copy(answer: HTTPResponse, target: BinaryIO, left: int) -> None:
    """Copy so many bytes at most; raises TimeoutError when the peer is too slow."""
    begin = window = time.monotonic()
    in_window = 0
    while left and (block := answer.read1(min(left, _BLOCK))):
        target.write(block)
        left -= len(block)
        in_window += len(block)
        now = time.monotonic()
        if now - begin > _PEER_SECONDS:
            raise TimeoutError(f"not complete after {_PEER_SECONDS:.0f} s")
        if now - window > _WINDOW_SECONDS:
            if in_window < _WINDOW_BYTES:
                raise TimeoutError(f"{in_window} bytes in {now - window:.0f} s; at least {_WINDOW_BYTES} are expected")
            window, in_window = now, 0


def _is_right(path: Path, file: File) -> bool:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest() == file.sha256


def _need_room(part: Path, name: str, size: int, missing: int, largest: int) -> None:
    """Raise RefusedError unless a file of ``size`` bytes is allowed, and what is missing of it fits.

    What other peers gave of it makes room.
    """
    if size > largest:
        raise RefusedError(f"{name} has {size} bytes; at most {largest} fit into a slot of this disk")
    others = [path for path in part.parent.glob(f"{name}.*.part") if path != part]
    while missing + MARGIN > (free := shutil.disk_usage(part.parent).free):
        if not others:
            raise RefusedError(
                f"{part.parent} has room for {free} bytes, {missing + MARGIN} are needed; remove what else is there"
            )
        others.pop().unlink()


@contextmanager
def _answer(peer: Peer, name: str, start: int = 0, *, whole: bool = False) -> Iterator[HTTPResponse]:
    """Ask a peer for a file from a byte on. Its head, or the ``whole`` of it, must come in _ANSWER_SECONDS."""
    connection = HTTPConnection(peer.address, PORT, timeout=_SILENCE_SECONDS)
    connection.connect()
    watch = threading.Timer(_ANSWER_SECONDS, _end, [connection.sock])
    watch.daemon = True
    watch.start()
    try:
        connection.request("GET", f"/{name}", headers={"Range": f"bytes={start}-"} if start else {})
        answer = connection.getresponse()
        _check_status(name, answer.status, start)
        if not whole:
            watch.cancel()
        yield answer
    finally:
        watch.cancel()
        connection.close()


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _check_status(name: str, status: int, start: int) -> None:
    if start and status in {HTTPStatus.OK, HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE}:
        raise _WrongError(f"status {status}: the peer does not continue it at byte {start}")
    if status != (HTTPStatus.PARTIAL_CONTENT if start else HTTPStatus.OK):
        raise RefusedError(f"{name}: the peer answers with status {status}")
