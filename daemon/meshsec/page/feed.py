"""Follow meshsecd, and tell every browser what changed.

While a browser looks, meshsecd is asked every two seconds and at once after an event; else every ten seconds, for the
figures over time. All browsers get the same changes: a change is computed and encoded once.
"""

import asyncio
import contextlib
import json
import logging
import time
import zlib
from collections import deque
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from meshsec.adapters.sockets.asking import AbsentError, Asking, watching
from meshsec.adapters.sockets.control import ControlError
from meshsec.core.page import document
from meshsec.core.page.figures import STEP, Figures
from meshsec.core.page.merge_patch import difference

LOOK_SECONDS = 2.0
"""Time between two looks while somebody watches: a change of a route has no event."""
REST_SECONDS = 0.3
"""Least time between two looks, however many events there are."""
LOOKED_AT = ("topology", "services", "join_requests")
"""What is asked at each look of somebody who watches."""
SLOW_SECONDS = 15.0
"""Time between two looks at what is expensive to find out, or changes rarely."""
SLOW = ("doctor", "clients", "gateway")
RETRY_SECONDS = 1.0
EVENTS = 50
FRESH_SECONDS = 1.0
"""Time for which a browser waits for what nobody looked at until now: the graph, and what is wrong."""
KEPT_CHANGES = 64
"""Changes that a browser may have missed and still get one by one."""
UNREAD = 64
"""Changes that may wait for one browser; a slower one is disconnected and begins again."""

_log = logging.getLogger(__name__)

Change = tuple[int, bytes]
"""The document's new version, and the patch to it."""


_END: Change = (0, b"")
"""What tells a browser's listener that there is nothing more."""


class EndedError(Exception):
    """There are no more changes for a browser: it takes them more slowly than they happen, or this process ends."""


class Feed:
    """The document that the page shows, kept up to date."""

    def __init__(self, path: Path) -> None:
        """``path``: the socket of meshsecd for those who only look."""
        self.version = 0
        self._path = path
        self._document: dict[str, Any] = document.empty(document.NO_ANSWER)
        self._events: deque[dict[str, Any]] = deque(maxlen=EVENTS)
        self._figures = Figures()
        self._changes: deque[Change] = deque(maxlen=KEPT_CHANGES)
        self._listeners: set[asyncio.Queue[Change]] = set()
        self._look = asyncio.Event()
        self._looked = asyncio.Event()
        """Set once a look has found all that the page shows."""
        self._sampled_at = self._slow_at = self._wanted_until = float("-inf")
        self._compressed: tuple[int, bytes] = (-1, b"")

    async def whole(self) -> bytes:
        """Return the whole document as JSON, compressed (gzip), with its version."""
        self._wanted_until = asyncio.get_running_loop().time() + FRESH_SECONDS + LOOK_SECONDS
        if not self._looked.is_set():
            self._look.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FRESH_SECONDS):
                    await self._looked.wait()
        if self._compressed[0] != self.version:
            text = json.dumps({"version": self.version, "document": self._document}, separators=(",", ":"))
            self._compressed = (self.version, _gzip(text.encode()))
        return self._compressed[1]

    @contextlib.asynccontextmanager
    async def listening(self, after: int) -> AsyncIterator["Listener"]:
        """Give one browser the changes since version ``after``."""
        queue: asyncio.Queue[Change] = asyncio.Queue(UNREAD)
        missed = [change for change in self._changes if change[0] > after]
        complete = after == self.version or (bool(missed) and missed[0][0] == after + 1)
        self._listeners.add(queue)
        self._look.set()
        try:
            yield Listener(queue, missed, complete=complete)
        finally:
            self._listeners.discard(queue)

    async def ask(self, method: str, params: Mapping[str, object]) -> dict[str, Any]:
        """Ask meshsecd something of one browser's. Raises AbsentError and ControlError."""
        async with await Asking.open(self._path) as asking:
            return await asking.ask(method, params)

    def is_protected(self, address: str) -> bool:
        """Return whether nobody on the way reads what a browser at this address sends."""
        return document.is_protected(self._document, address)

    async def is_own_client(self, address: str) -> bool:
        """Return whether a client of this node itself has an address now. Raises AbsentError and ControlError.

        The document's clients may be old, and somebody else may have come to the address.
        """
        return document.is_own_client(await self.ask("clients", {}), address)

    def is_behind(self, address: str) -> bool:
        """Return whether a browser at this address is in a network behind this node or behind a peer."""
        return document.is_behind(self._document, address)

    def end(self) -> None:
        """Let all browsers go."""
        for queue in tuple(self._listeners):
            _let_go(queue, self._listeners)

    def look_soon(self) -> None:
        """Look again without waiting for the next turn."""
        self._look.set()

    async def run(self) -> None:
        """Follow meshsecd until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_events())
            tasks.create_task(self._follow())

    async def _follow(self) -> None:
        while True:
            try:
                async with await Asking.open(self._path) as asking:
                    while True:
                        await self._take_look(asking)
                        await self._wait()
            except (AbsentError, ControlError) as error:
                self._become(document.absent(self._document, f"{document.NO_ANSWER} ({error})"))
                await asyncio.sleep(RETRY_SECONDS)

    async def _wait(self) -> None:
        """Wait for the next look: for an event or a new browser, else for the time to pass."""
        await asyncio.sleep(REST_SECONDS)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout((LOOK_SECONDS if self._is_watched else STEP) - REST_SECONDS):
                await self._look.wait()
        self._look.clear()

    @property
    def _is_watched(self) -> bool:
        """Whether a browser looks, or has just fetched the document."""
        return bool(self._listeners) or asyncio.get_running_loop().time() < self._wanted_until

    async def _take_look(self, asking: Asking) -> None:
        now, wall = asyncio.get_running_loop().time(), time.time()
        methods = ["status"]
        if is_watched := self._is_watched:
            methods += LOOKED_AT
            if now - self._slow_at >= SLOW_SECONDS:
                self._slow_at = now
                methods += SLOW
        answers = {method: await asking.ask(method) for method in methods}
        following = document.document(answers, self._document, wall)
        if now - self._sampled_at >= STEP - REST_SECONDS:
            self._sampled_at = now
            self._figures.sample(answers["status"]["peers"], wall)
            following["figures"] = self._figures.view()
        self._become({**following, "events": list(self._events)})
        if is_watched:
            self._looked.set()
        else:
            self._looked.clear()

    async def _follow_events(self) -> None:
        while True:
            try:
                async with watching(self._path) as events:
                    async for event in events:
                        self._events.append({"at": round(time.time(), 1), **event})
                        self._look.set()
            except (AbsentError, ControlError) as error:
                _log.debug("watch: %s", error)
                await asyncio.sleep(RETRY_SECONDS)

    def _become(self, following: dict[str, Any]) -> None:
        """Replace the document, and tell the browsers."""
        patch = difference(self._document, following)
        if not patch:
            return
        self.version += 1
        self._document = following
        change = (self.version, json.dumps(patch, separators=(",", ":")).encode())
        self._changes.append(change)
        for queue in tuple(self._listeners):
            _put(queue, change, self._listeners)


class Listener:
    """The changes for one browser."""

    def __init__(self, queue: asyncio.Queue[Change], missed: list[Change], *, complete: bool) -> None:
        self.complete = complete
        """Whether the browser can go on from its version; else it must fetch the whole document."""
        self.missed = missed
        self._queue = queue

    async def next(self) -> Change:
        """Return the next change. Raises EndedError when there are no more."""
        change = await self._queue.get()
        if change == _END:
            raise EndedError
        return change


def _put(queue: asyncio.Queue[Change], change: Change, listeners: set[asyncio.Queue[Change]]) -> None:
    try:
        queue.put_nowait(change)
    except asyncio.QueueFull:
        _let_go(queue, listeners)


def _let_go(queue: asyncio.Queue[Change], listeners: set[asyncio.Queue[Change]]) -> None:
    listeners.discard(queue)
    while not queue.empty():
        queue.get_nowait()
    queue.put_nowait(_END)


def _gzip(content: bytes) -> bytes:
    compressor = zlib.compressobj(6, wbits=31)
    return compressor.compress(content) + compressor.flush()
