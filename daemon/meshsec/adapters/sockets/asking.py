"""Ask meshsecd through one of its sockets, in an event loop (docs/reference/control-socket.md)."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from meshsec.adapters.sockets.control import ControlError

LINE_LIMIT = 64 << 20
"""Bytes of an answer: the topology of thousands of nodes fits."""
SECONDS = 10.0
"""Time for an answer."""


class AbsentError(Exception):
    """Nobody answers at the socket, or what comes is no answer; the text says why."""


class Asking:
    """A connection to meshsecd, for one question at a time. Each question may raise AbsentError and ControlError."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, path: Path) -> Self:
        """Connect. Raises AbsentError."""
        try:
            return cls(*await asyncio.open_unix_connection(path, limit=LINE_LIMIT))
        except OSError as error:
            raise AbsentError(f"{path}: {error.strerror or error}") from error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()

    async def ask(self, method: str, params: Mapping[str, object] | None = None) -> dict[str, Any]:
        """Return the result of a method."""
        self._writer.write(json.dumps({"id": 1, "method": method, "params": params or {}}).encode() + b"\n")
        try:
            async with asyncio.timeout(SECONDS):
                answer = await self._message()
        except TimeoutError as error:
            raise AbsentError(f"no answer to {method!r} within {SECONDS:.0f} s") from error
        if isinstance(refusal := answer.get("error"), dict):
            raise ControlError(str(refusal.get("code")), str(refusal.get("message")))
        if not isinstance(result := answer.get("result"), dict):
            raise AbsentError(f"meshsecd sent something else than an answer to {method!r}")
        return result

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """Yield events as they happen, after ``watch`` was asked, until meshsecd goes away."""
        while True:
            event = (await self._message()).get("event")
            if isinstance(event, dict):
                yield event

    async def _message(self) -> dict[str, Any]:
        try:
            line = await self._reader.readuntil(b"\n")
            message = json.loads(line)
        except (OSError, asyncio.IncompleteReadError) as error:
            raise AbsentError("meshsecd went away") from error
        except (ValueError, asyncio.LimitOverrunError) as error:
            raise AbsentError("meshsecd sent a line that is not JSON") from error
        if not isinstance(message, dict):
            raise AbsentError("meshsecd sent JSON that is not an object")
        return message


@contextlib.asynccontextmanager
async def watching(path: Path) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    """Watch what changes. Raises AbsentError."""
    async with await Asking.open(path) as asking:
        await asking.ask("watch")
        yield asking.events()
