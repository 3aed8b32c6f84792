"""What the page answers by HTTP.

Nothing here changes anything by itself: a change carries the secret of a login, and meshsecd judges it. The secret is
no cookie, so that no other page can make a browser send it (ADR 0073).
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from meshsec.adapters.sockets.asking import AbsentError
from meshsec.adapters.sockets.control import ControlError
from meshsec.core.page.document import within
from meshsec.core.page.pace import Pace
from meshsec.core.values.model import Network
from meshsec.page import connection
from meshsec.page.assets import Asset
from meshsec.page.feed import EndedError, Feed, Listener
from meshsec.page.guard import Guard, accepts_gzip
from meshsec.page.places import TILES, Places
from meshsec.page.refusals import RefusedError
from meshsec.page.watched import Watched

MAX_BODY = 16 * 1024
"""Bytes of a request's body; a card takes some hundred."""
BODY_SECONDS = 10.0
MAX_STREAMS = 32
"""Browsers that follow changes at a time."""
OWN_STREAMS = 4
"""How many of these only a browser on this machine may be."""
PULSE_SECONDS = 20.0
"""Time after which something is sent to a browser even if nothing has changed, so that a dead one is noticed."""
STATUS = {
    "refused": 409,
    "not_logged_in": 401,
    "unknown_peer": 404,
    "bad_params": 400,
    "unknown_method": 400,
    "busy": 503,
}
"""HTTP's status by the code of meshsecd's refusal."""


class Web:
    """The routes."""

    def __init__(
        self,
        feed: Feed,
        assets: Mapping[str, Asset],
        *,
        clients: Sequence[Network] | None = None,
        clients_log_in: bool = False,
        tiles: Path = TILES,
    ) -> None:
        """``clients``: the networks of this node's clients, where not only peers see the page; None: peers alone do.

        ``clients_log_in``: whether clients that are at this node itself may log in (ADR 0081).
        """
        self._feed = feed
        self._clients_log_in = clients_log_in
        self._clients = clients
        self._places = Places(feed, tiles)
        self._assets = assets
        self._streams = 0
        self._asking, self._changing = Pace(2.0, 20, total=4), Pace(0.5, 10, total=4)

    def app(self, name: str) -> Guard:
        """Return the application. ``name``: this node's name, with its domain."""
        routes = [Route(path, partial(self._asset, asset), methods=["GET"]) for path, asset in self._assets.items()]
        routes += [
            Route("/api/document", self._document, methods=["GET"]),
            Route("/api/changes", self._changes, methods=["GET"]),
            Route("/api/explain", self._explain, methods=["GET"]),
            Route("/api/login", self._login, methods=["POST"]),
            Route("/api/logout", self._logout, methods=["POST"]),
            Route("/api/change", self._change, methods=["POST"]),
            *self._places.routes(),
            *Watched(self._feed, self._places).routes(),
        ]
        refusals = {RefusedError: _refuse, AbsentError: _refuse_absent, ControlError: _refuse_control}
        return Guard(Starlette(routes=routes, exception_handlers=refusals), name, self._may_look)

    def _may_look(self, address: str) -> bool:
        if self._feed.is_protected(address):
            return True
        if self._clients is None:
            return False
        return self._feed.is_behind(address) or any(within(address, network) for network in self._clients)

    async def _may_log_in(self, address: str) -> bool:
        return self._feed.is_protected(address) or (self._clients_log_in and await self._feed.is_own_client(address))

    async def _asset(self, asset: Asset, request: Request) -> Response:
        headers = {"ETag": asset.etag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == asset.etag:
            return Response(status_code=304, headers=headers)
        return _compressed(request, asset.compressed, asset.content_type, headers)

    async def _document(self, request: Request) -> Response:
        return _compressed(request, await self._feed.whole(), "application/json", {"Cache-Control": "no-store"})

    async def _changes(self, request: Request) -> Response:
        after = request.headers.get("last-event-id") or request.query_params.get("after", "")
        if not after.isascii() or not after.isdecimal() or len(after) > 15:
            raise RefusedError(400, "bad_params", f"after: {after[:32]!r} is not allowed; allowed: a version's number")
        if self._streams >= MAX_STREAMS - (0 if _is_own(request) else OWN_STREAMS):
            raise RefusedError(503, "busy", f"{self._streams} browsers follow this node already")
        return StreamingResponse(
            self._stream(int(after), request), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
        )

    async def _stream(self, after: int, request: Request) -> AsyncIterator[bytes]:
        """Yield what changes, for as long as who asked may look."""
        self._streams += 1
        try:
            async with self._feed.listening(after) as listener:
                yield b"retry: 1000\n\n"
                if not listener.complete:
                    yield b"event: again\ndata: {}\n\n"
                    return
                for version, patch in listener.missed:
                    yield _event(version, patch)
                async for octets in _following(listener):
                    if request.client is None or not self._may_look(request.client.host):
                        return
                    yield octets
        finally:
            self._streams -= 1

    async def _explain(self, request: Request) -> Response:
        _admit(self._asking, request)
        return _json(await self._feed.ask("explain", {"peer": request.query_params.get("peer", "")}))

    async def _login(self, request: Request) -> Response:
        return _json(await self._feed.ask("login", {"token": _text(await self._body(request), "token")}))

    async def _logout(self, request: Request) -> Response:
        await self._body(request)
        return _json(await self._feed.ask("logout", {"session": _session(request)}))

    async def _change(self, request: Request) -> Response:
        body = await self._body(request)
        params = {name: body[name] for name in ("method", "params") if name in body}
        found = await self._feed.ask("change", {"session": _session(request), **params})
        self._feed.look_soon()
        return _json(found)

    async def _body(self, request: Request) -> Mapping[str, Any]:
        """Return the JSON object that a request carries. Raises RefusedError."""
        _admit(self._changing, request)
        if request.client is None or not await self._may_log_in(request.client.host):
            message = "from here the page only shows: no SA protects the packets on their whole way"
            raise RefusedError(403, "read_only", message)
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise RefusedError(415, "bad_request", "allowed is a body of the type application/json")
        try:
            body = json.loads(await _octets(request))
        except (ValueError, RecursionError) as error:
            raise RefusedError(400, "bad_request", "the body is no JSON") from error
        if not isinstance(body, dict):
            raise RefusedError(400, "bad_request", "the body is no JSON object")
        return body


def _is_own(request: Request) -> bool:
    return request.client is not None and connection.is_own(request.client.host)


def _admit(pace: Pace, request: Request) -> None:
    """Raise RefusedError when somebody asks too often."""
    source = request.client.host if request.client else ""
    if not pace.admits(source, asyncio.get_running_loop().time(), own=_is_own(request)):
        raise RefusedError(429, "too_often", "too much was asked; try again in a few seconds")


async def _octets(request: Request) -> bytes:
    content = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                content += chunk
                if len(content) > MAX_BODY:
                    raise RefusedError(413, "bad_request", f"a body of more than {MAX_BODY} bytes")
    except TimeoutError as error:
        raise RefusedError(408, "bad_request", f"the body did not come within {BODY_SECONDS:.0f} s") from error
    except ClientDisconnect as error:
        raise RefusedError(400, "bad_request", "the body did not come") from error
    return bytes(content)


async def _following(listener: Listener) -> AsyncIterator[bytes]:
    while True:
        try:
            async with asyncio.timeout(PULSE_SECONDS):
                version, patch = await listener.next()
        except TimeoutError:
            yield b": still here\n\n"
        except EndedError:
            return
        else:
            yield _event(version, patch)


def _event(version: int, patch: bytes) -> bytes:
    return b"id: %d\ndata: %s\n\n" % (version, patch)


def _session(request: Request) -> str:
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not secret:
        raise RefusedError(401, "not_logged_in", "nobody is logged in: `meshsec page login` prints the address for it")
    return secret


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise RefusedError(400, "bad_params", f"{name} is missing; allowed: a text that is not empty")
    return value


def _json(value: Mapping[str, Any]) -> Response:
    return JSONResponse(value, headers={"Cache-Control": "no-store"})


def _compressed(request: Request, content: bytes, content_type: str, headers: Mapping[str, str]) -> Response:
    """Return compressed content. Every browser can read it, and what cannot is asked to say that it can."""
    if not accepts_gzip(request.headers.get("accept-encoding", "")):
        raise RefusedError(406, "bad_request", "the page is sent compressed: Accept-Encoding must name gzip")
    return Response(content, media_type=content_type, headers={**headers, "Content-Encoding": "gzip"})


async def _refuse(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)  # noqa: S101  # as it was registered
    return JSONResponse({"code": error.code, "message": str(error)}, status_code=error.status)


async def _refuse_absent(_request: Request, error: Exception) -> Response:
    return JSONResponse({"code": "absent", "message": f"meshsecd does not answer: {error}"}, status_code=503)


async def _refuse_control(_request: Request, error: Exception) -> Response:
    code = error.code if isinstance(error, ControlError) else ""
    return JSONResponse({"code": code, "message": str(error)}, status_code=STATUS.get(code, 502))
