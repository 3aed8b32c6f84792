"""What the two commands of a benchmark say to each other: JSON lines over TCP, inside the pair's protected channel.

Bytes come from the other node: a line is at most ``LINE`` bytes, and must be whole in time.
"""

import json
import socket
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

LINE = 4096
"""Bytes of a line; a longer one ends the connection."""
CONNECT_SECONDS = 5.0
_SAY_SECONDS = 5.0
"""Time to hand a message to the kernel, which has room for it unless the other end reads nothing."""
_WAITING = 4
"""Connections that may wait; a benchmark has one."""


class TalkError(Exception):
    """Nobody serves, the connection broke, or what was said cannot be understood."""


class Talk:
    """One connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._heard = b""
        """What came after the last line."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._socket.close()

    def say(self, message: Mapping[str, object]) -> None:
        """Send a message. Raises TalkError."""
        self._socket.settimeout(_SAY_SECONDS)
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise TalkError(f"the connection broke: {error.strerror or error}") from error

    def hear(self, seconds: float) -> dict[str, Any]:
        """Return the next message. Raises TalkError if none is whole in time, or it is no object."""
        end = time.monotonic() + seconds
        while b"\n" not in self._heard:
            if len(self._heard) >= LINE:
                raise TalkError("a line is too long")
            self._heard += self._more(end - time.monotonic(), seconds)
        line, _, self._heard = self._heard.partition(b"\n")
        try:
            message = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise TalkError("a line is not JSON") from error
        if not isinstance(message, dict):
            raise TalkError("a line is no object")
        return message

    def _more(self, left: float, seconds: float) -> bytes:
        """Return what comes next. ``left``: what is left of the ``seconds`` for the line. Raises TalkError."""
        late = f"no whole line came within {seconds:.0f} s"
        if left <= 0:
            raise TalkError(late)
        try:
            self._socket.settimeout(left)
            octets = self._socket.recv(LINE - len(self._heard))
        except TimeoutError as error:
            raise TalkError(late) from error
        except OSError as error:
            raise TalkError(f"the connection broke: {error.strerror or error}") from error
        if not octets:
            raise TalkError("the connection was closed")
        return octets


def connect(own: str, peer: str, port: int) -> Talk:
    """Return a connection to the command that serves. Raises TalkError."""
    opened = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    opened.settimeout(CONNECT_SECONDS)
    try:
        opened.bind((own, 0))
        opened.connect((peer, port))
    except OSError as error:
        opened.close()
        raise TalkError(error.strerror or str(error)) from error
    return Talk(opened)


class Listener:
    """Wait for the peer, and refuse everybody else."""

    def __init__(self, own: str, peer: str, port: int) -> None:
        """Listen. Raises TalkError."""
        self._peer = peer
        self._socket = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((own, port))
            self._socket.listen(_WAITING)
        except OSError as error:
            self._socket.close()
            raise TalkError(f"port {port} of {own}: {error.strerror}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._socket.close()

    def accept(self, seconds: float) -> Talk | None:
        """Return a connection of the peer; None if none came in time, or somebody else's did, which is closed."""
        self._socket.settimeout(max(0.0, seconds))
        try:
            connection, sender = self._socket.accept()
        except (BlockingIOError, TimeoutError):
            return None
        if sender[0] != self._peer:
            connection.close()
            return None
        return Talk(connection)
