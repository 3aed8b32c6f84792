"""Where nodes are, and the map below them, for those who may see it: this machine, and who is logged in (ADR 0076).

The map is one PMTiles file (version 3), of which a browser reads parts. It is read where it is, never as a whole.
"""

import asyncio
import gzip
import json
import os
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from meshsec.adapters.sockets.control import ControlError
from meshsec.core.page.pace import Pace
from meshsec.page import connection
from meshsec.page.feed import Feed
from meshsec.page.guard import accepts_gzip
from meshsec.page.refusals import RefusedError

TILES: Final = Path("/srv/meshsec/map.pmtiles")
"""Where the operator puts the map."""
MAX_RANGE: Final = 1 << 20
"""Bytes of an answer; an image has some ten thousand, a directory at most some hundred thousand."""
_MAGIC: Final = b"PMTiles\x03"
_RANGE = re.compile(r"bytes=(\d{1,15})-(\d{1,15})")
_READERS: Final = 2
"""Threads that read the file, so that a slow disk keeps nobody else waiting; the unit has few tasks."""
_PACE: Final = 10.0, 120
"""Questions of one address in a second, and after a pause: a browser that shows another part of the map asks for about
forty images. meshsecd judges the login each time."""


class Places:
    """Positions of nodes, and the map."""

    def __init__(self, feed: Feed, tiles: Path) -> None:
        self._feed, self._tiles = feed, tiles
        self._pace = Pace(*_PACE, total=4)
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="map")

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/api/positions", self._positions, methods=["GET"]),
            Route("/map.pmtiles", self._map, methods=["GET"]),
        ]

    async def of(self, request: Request) -> Mapping[str, Any] | None:
        """Return where nodes are; None where who asks may not see it.

        Raises AbsentError, ControlError and RefusedError.
        """
        session = self._session_of(request)
        return None if session is None else await self._judged("positions", session)

    async def may_see(self, request: Request) -> bool:
        """Return whether who asks may see where nodes are. Raises AbsentError, ControlError and RefusedError."""
        session = self._session_of(request)
        return session == "" or (session is not None and await self._judged("session", session) is not None)

    def _session_of(self, request: Request) -> str | None:
        """Return the session that must hold; empty for this machine, None for who sees nothing. Raises RefusedError."""
        host = request.client.host if request.client else ""
        is_own = connection.is_own(host)
        scheme, _, session = request.headers.get("authorization", "").partition(" ")
        if not is_own and (scheme.lower() != "bearer" or not session or not self._is_from_peer(request)):
            return None
        if not self._pace.admits(host, asyncio.get_running_loop().time(), own=is_own):
            raise RefusedError(429, "too_often", "too much was asked; try again in a few seconds")
        return "" if is_own else session

    async def _judged(self, method: str, session: str) -> Mapping[str, Any] | None:
        """Return what meshsecd answers for a session; None where it does not hold."""
        try:
            return await self._feed.ask(method, {"session": session} if session else {})
        except ControlError as error:
            if error.code == "not_logged_in":
                return None
            raise

    def _is_from_peer(self, request: Request) -> bool:
        """Return whether nobody on the way reads the answer; a stolen session is worth nothing elsewhere."""
        return request.client is not None and self._feed.is_protected(request.client.host)

    async def _positions(self, request: Request) -> Response:
        """Answer the page. Who may not see positions gets a plain answer, since the page asks on its own."""
        found = await self.of(request)
        if found is None:
            return JSONResponse({"shown": False}, headers={"Cache-Control": "no-store"})
        has_map = await self._reading(_is_map, self._tiles)
        shown = {"shown": True, "map": has_map, "positions": found["positions"]}
        return _compressed(request, json.dumps(shown, separators=(",", ":")).encode())

    async def _map(self, request: Request) -> Response:
        if not await self.may_see(request):
            raise RefusedError(403, "not_logged_in", "only this machine and who is logged in see the map")
        asked = _RANGE.fullmatch(request.headers.get("range", ""))
        first, last = (int(asked[1]), int(asked[2])) if asked else (0, -1)
        if not 0 <= last - first < MAX_RANGE:
            raise RefusedError(416, "bad_range", f"allowed is one range of at most {MAX_RANGE} bytes")
        try:
            content, size, tag = await self._reading(_part, self._tiles, first, last - first + 1)
        except OSError as error:
            raise RefusedError(404, "no_map", f"{self._tiles}: {error.strerror}") from error
        if not content:
            raise RefusedError(416, "bad_range", f"the map has {size} bytes")
        headers = {
            "Content-Range": f"bytes {first}-{first + len(content) - 1}/{size}",
            "ETag": tag,
            "Cache-Control": "no-store",
        }
        return Response(content, 206, headers, "application/octet-stream")

    async def _reading(self, work: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._readers, work, *arguments)


def _compressed(request: Request, content: bytes) -> Response:
    """Return a document of the page, compressed for those who can read that: a thousand places have 200 kB."""
    headers = {"Cache-Control": "no-store"}
    if accepts_gzip(request.headers.get("accept-encoding", "")):
        content = gzip.compress(content, 6, mtime=0)
        headers["Content-Encoding"] = "gzip"
    return Response(content, 200, headers, "application/json")


def _is_map(path: Path) -> bool:
    try:
        return _part(path, 0, len(_MAGIC))[0] == _MAGIC
    except OSError:
        return False


def _part(path: Path, first: int, length: int) -> tuple[bytes, int, str]:
    """Return a part of the file, its size and a tag of its version. Raises OSError, also for what is no file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe would keep the thread for ever
    try:
        status = os.fstat(descriptor)
        tag = f'"{status.st_mtime_ns:x}-{status.st_size:x}"'
        return os.pread(descriptor, length, first), status.st_size, tag
    finally:
        os.close(descriptor)
