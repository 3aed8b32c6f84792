"""What the two commands of a benchmark say to each other: JSON lines over TCP, inside the pair's protected channel.

Bytes come from the other node: a line is at most ``LINE`` bytes, and each read has its time.
"""

import json
import socket
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

LINE = 4096
"""Bytes of a line; a longer one ends the connection."""
CONNECT_SECONDS = 5.0
_WAITING = 4
"""Connections that may wait; a benchmark has one."""


class TalkError(Exception):
    """Nobody serves, the connection broke, or what was said cannot be understood."""


class Talk:
    """One connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._lines = connection.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lines.close()
        self._socket.close()

    def say(self, message: Mapping[str, object]) -> None:
        """Send a message. Raises TalkError."""
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise TalkError(f"the connection broke: {error.strerror or error}") from error

    def hear(self, seconds: float) -> dict[str, Any]:
        """Return the next message. Raises TalkError if none comes in time, or it is no object."""
        self._socket.settimeout(seconds)
        try:
            line = self._lines.readline(LINE)
        except TimeoutError as error:
            raise TalkError(f"nothing was said within {seconds:.0f} s") from error
        except OSError as error:
            raise TalkError(f"the connection broke: {error.strerror or error}") from error
        if not line.endswith(b"\n"):
            raise TalkError("the connection was closed" if len(line) < LINE else "a line is too long")
        try:
            message = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise TalkError("a line is not JSON") from error
        if not isinstance(message, dict):
            raise TalkError("a line is no object")
        return message


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
