"""The control socket: local programs query and command meshsecd with JSON lines over a UNIX socket.

A request ``{"id": 1, "method": "status", "params": {}}`` is answered by ``{"id": 1, "result": {...}}`` or ``{"id": 1,
"error": {"code": "...", "message": "..."}}``. After the answer to ``watch``, lines ``{"event": {...}}`` follow. The
file's mode and group decide who may connect.
"""

import asyncio
import contextlib
import grp
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

MAX_REQUEST = 64 * 1024
"""Limit of one request line in bytes; a card takes some hundred."""

MAX_CLIENTS = 64
MAX_UNREAD = 4 * 1024 * 1024
"""Bytes that a client may leave unread before it is disconnected."""

MODE = 0o660
GROUP = "meshsec"
"""The group that may use the socket, if it exists."""

VIEW_GROUP = "meshsec-view"
"""The group that may use the socket for those who only look, if it exists."""

WATCH = "watch"


class ControlError(Exception):
    """A request is refused: ``code`` is for programs, the text for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Held(dict[str, Any]):
    """An answer that keeps something for its client, until that client disconnects, however it ends."""

    def __init__(self, content: Mapping[str, Any], release: Callable[[], None]) -> None:
        super().__init__(content)
        self.release = release


class _Request(msgspec.Struct):
    method: str
    id: int | str | None = None
    params: dict[str, Any] = {}


_decoder = msgspec.json.Decoder(_Request)
_encoder = msgspec.json.Encoder()

Handler = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Answers a method with its parameters; raises ``ControlError``."""


class ControlServer:
    """Serve up to ``MAX_CLIENTS`` clients, so that a slow or silent one does not delay the others."""

    def __init__(self, path: Path, handler: Handler, group: str = GROUP) -> None:
        """``group``: the group that may connect, beside root."""
        self._path = path
        self._handler = handler
        self._group = group
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.StreamWriter] = set()
        self._watchers: set[asyncio.StreamWriter] = set()
        self._inode = 0

    async def start(self) -> None:
        """Listen. The socket file of a predecessor that has ended is replaced. Raises OSError."""
        self._path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        listener = _listener(self._path, self._group)
        self._inode = self._path.stat().st_ino
        self._server = await asyncio.start_unix_server(self._serve, sock=listener, limit=MAX_REQUEST)

    async def close(self) -> None:
        """Stop listening and disconnect the clients."""
        if self._server:
            self._server.close()
        for writer in tuple(self._clients):
            writer.transport.abort()
        with contextlib.suppress(OSError):
            if self._path.stat().st_ino == self._inode:
                self._path.unlink()

    @property
    def is_watched(self) -> bool:
        """Whether a client watches the events."""
        return bool(self._watchers)

    def publish(self, event: Mapping[str, Any]) -> None:
        """Send an event to all watching clients."""
        line = _encoder.encode({"event": event}) + b"\n"
        for writer in tuple(self._watchers):
            self._send(writer, line)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._clients) >= MAX_CLIENTS:
            self._send(writer, _error(None, "busy", f"there are {MAX_CLIENTS} clients already"))
            writer.close()
            return
        self._clients.add(writer)
        held: list[Held] = []
        try:
            while line := await reader.readline():
                self._send(writer, await self._answer(line, writer, held))
                await writer.drain()
        except ValueError:
            self._send(writer, _error(None, "bad_request", f"a line of more than {MAX_REQUEST} octets"))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._clients.discard(writer)
            self._watchers.discard(writer)
            writer.close()
            for one in held:
                one.release()

    async def _answer(self, line: bytes, writer: asyncio.StreamWriter, held: list[Held]) -> bytes:
        try:
            request = _decoder.decode(line)
        except msgspec.MsgspecError as error:
            return _error(None, "bad_request", str(error))
        try:
            result = await self._handler(request.method, request.params)
        except ControlError as error:
            return _error(request.id, error.code, str(error))
        if isinstance(result, Held):
            held.append(result)
        if request.method == WATCH:
            self._watchers.add(writer)
        return _encoder.encode({"id": request.id, "result": result}) + b"\n"

    def _send(self, writer: asyncio.StreamWriter, line: bytes) -> None:
        """Queue a line. A client with too many unread bytes is disconnected."""
        if writer.is_closing():
            return
        writer.write(line)
        if writer.transport.get_write_buffer_size() > MAX_UNREAD:
            self._watchers.discard(writer)
            writer.transport.abort()


def _error(identifier: int | str | None, code: str, message: str) -> bytes:
    return _encoder.encode({"id": identifier, "error": {"code": code, "message": message}}) + b"\n"


def publisher(*servers: ControlServer) -> Callable[[Mapping[str, object]], None]:
    """Return a function that sends an event to the watching clients of all servers."""

    def publish(event: Mapping[str, object]) -> None:
        for server in servers:
            server.publish(event)

    return publish


def give_to_group(path: Path, group: str = GROUP) -> None:
    """Let a group, by default that of the control socket, write to a socket's file, and nobody else. Raises OSError."""
    with contextlib.suppress(KeyError, PermissionError):
        os.chown(path, -1, grp.getgrnam(group).gr_gid)
    path.chmod(MODE)


def _listener(path: Path, group: str) -> socket.socket:
    """Return a listening socket whose file has its mode and group before anybody can connect."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        path.unlink(missing_ok=True)
        listener.bind(str(path))
        give_to_group(path, group)
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener
