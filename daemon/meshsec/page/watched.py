"""What the page's process answers to programs that watch networks: metrics, NetJSON's graph and meshviewer's.

All who ask within a few seconds get the same answer, so that meshsecd has no more work the more often somebody asks.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import meshsec
from meshsec.adapters.sockets.asking import AbsentError
from meshsec.adapters.sockets.control import ControlError
from meshsec.core.monitoring import meshviewer, metrics, netjson
from meshsec.page.feed import Feed
from meshsec.page.places import Places

KEPT_SECONDS = 5.0
"""Time for which an answer, or the reason why there is none, is given again; Prometheus asks each 15 s or more rarely.
"""
_Failure = AbsentError | ControlError
_NETJSON = "application/json"


class Watched:
    """The documents for programs, each made at most every ``KEPT_SECONDS``."""

    def __init__(self, feed: Feed, places: Places) -> None:
        self._feed = feed
        self._places = places
        self._kept: dict[str, tuple[float, bytes | _Failure]] = {}
        self._making = asyncio.Lock()

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/metrics", self._metrics, methods=["GET"]),
            Route("/netjson", self._netjson, methods=["GET"]),
            Route("/meshviewer.json", self._meshviewer, methods=["GET"]),
        ]

    async def _metrics(self, _request: Request) -> Response:
        try:
            content = await self._made("metrics", self._exposition)
        except AbsentError:
            content = metrics.exposition(metrics.absent())
        return Response(content, headers={"Content-Type": metrics.CONTENT_TYPE, "Cache-Control": "no-store"})

    async def _netjson(self, _request: Request) -> Response:
        content = await self._made("netjson", self._graph)
        return Response(content, headers={"Content-Type": _NETJSON, "Cache-Control": "no-store"})

    async def _meshviewer(self, request: Request) -> Response:
        """Answer with the positions for those who may see them, and else without."""
        if await self._places.may_see(request):
            content = await self._made("meshviewer with positions", partial(self._mesh, "positions"))
        else:
            content = await self._made("meshviewer", self._mesh)
        return Response(content, headers={"Content-Type": _NETJSON, "Cache-Control": "no-store"})

    async def _mesh(self, *more: str) -> bytes:
        """Return meshviewer's document, made of the answers to these methods, too. Raises AbsentError, ControlError."""
        answers = {method: await self._feed.ask(method, {}) for method in (*meshviewer.METHODS, *more)}
        return netjson.encoded(meshviewer.meshviewer(answers, meshsec.__version__, time.time()))

    async def _made(self, name: str, make: Callable[[], Awaitable[bytes]]) -> bytes:
        """Return a document that is not too old. Raises what ``make`` raises."""
        async with self._making:
            now = asyncio.get_running_loop().time()
            at, found = self._kept.get(name, (float("-inf"), b""))
            if now - at > KEPT_SECONDS:
                try:
                    found = await make()
                except (AbsentError, ControlError) as error:
                    found = error
                self._kept[name] = (asyncio.get_running_loop().time(), found)
            if isinstance(found, bytes):
                return found
            raise found.with_traceback(None)

    async def _exposition(self) -> bytes:
        """Return the metrics of what meshsecd answers, without what it cannot find out now. Raises AbsentError."""
        answers: dict[str, Mapping[str, Any]] = {}
        for method in metrics.METHODS:
            with suppress(ControlError):
                answers[method] = await self._feed.ask(method, {})
        return metrics.exposition(metrics.node(answers) if "status" in answers else metrics.absent())

    async def _graph(self) -> bytes:
        """Return the graph. Raises AbsentError and ControlError."""
        answers = {method: await self._feed.ask(method, {}) for method in netjson.METHODS}
        return netjson.encoded(netjson.network_graph(answers, meshsec.__version__))
