"""The page's server in the test's event loop, between a meshsecd that answers what a test wants and raw connections."""

import asyncio
import copy
import gzip
import json
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn

from meshsec.adapters.sockets.control import ControlError, ControlServer
from meshsec.core.values.model import Network
from meshsec.page import Server, assets
from meshsec.page.connection import Connection
from meshsec.page.feed import Feed
from meshsec.page.web import Web

TILES = "map.pmtiles"
"""The name of the file with the map, which a test may write."""
RECORDED = Path(__file__).parents[3] / "tests/vectors/page/answers.json"


@dataclass
class Meshsecd:
    """Answers from a record, which a test may change, and keeps what it was asked."""

    answers: dict[str, Any] = field(default_factory=lambda: json.loads(RECORDED.read_text()))
    asked: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)

    was_asked: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the status was asked."""

    async def answer(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer one method as meshsecd does; a change needs the session ``good``."""
        self.asked.append((method, params))
        if method == "status":
            self.was_asked.set()
        if method == "watch":
            return {}
        if method == "login" and params.get("token") == "good":
            return {"session": "good", "seconds": 3600.0}
        if method == "change" and params.get("session") == "good":
            return {"name": "boat"}
        if method == "positions" and params.get("session", "good") != "good":
            raise ControlError("not_logged_in", "for the test")
        if method == "session" and params["session"] == "good":
            return {}
        if method in {"login", "change", "session"}:
            raise ControlError("refused" if method == "login" else "not_logged_in", "for the test")
        if isinstance(self.answers[method], ControlError):
            raise self.answers[method]
        return copy.deepcopy(self.answers[method])


@dataclass
class Answer:
    """One answer by HTTP."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """Return the body as JSON."""
        return json.loads(gzip.decompress(self.body) if "content-encoding" in self.headers else self.body)


@dataclass
class Served:
    """The server, and what to ask it with."""

    port: int
    meshsecd: Meshsecd
    control: ControlServer

    async def connect(self, source: str = "127.0.0.1") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 24, local_addr=(source, 0))

    async def ask(
        self, path: str, *, method: str = "GET", body: object = None, source: str = "127.0.0.1", **headers: str
    ) -> Answer:
        """Ask by a connection of its own. Names of headers have underscores for hyphens."""
        reader, writer = await self.connect(source)
        try:
            writer.write(self.request(path, method=method, body=body, **headers))
            async with asyncio.timeout(20):
                return await read_answer(reader)
        finally:
            writer.close()

    def request(self, path: str, *, method: str = "GET", body: object = None, **headers: str) -> bytes:
        """Return the octets of a request as a browser sends it."""
        content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {"host": f"127.0.0.1:{self.port}", "accept_encoding": "gzip, br", "connection": "close"}
        if body is not None:
            given |= {"content_type": "application/json", "content_length": str(len(content))}
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in (given | headers).items() if value]
        return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode() + content

    async def document(self) -> Any:
        """Return the document once the first look is over."""
        async with asyncio.timeout(20):
            while True:
                whole = (await self.ask("/api/document")).json
                if "peers" in whole["document"]:
                    return whole


async def read_answer(reader: asyncio.StreamReader) -> Answer:
    """Read an answer up to the end of the connection."""
    status, headers = await read_head(reader)
    body = await reader.read()
    return Answer(status, headers, body)


async def read_head(reader: asyncio.StreamReader) -> tuple[int, Mapping[str, str]]:
    """Read the head of an answer: the status, and the headers by their names in lower case."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = head.strip().split("\r\n")
    return int(first.split()[1]), {name.lower(): value for name, _, value in (one.partition(": ") for one in lines)}


def serve(
    tmp_path: Path,
    scenario: Callable[[Served], Coroutine[Any, Any, None]],
    *,
    clients: Sequence[Network] | None = None,
    clients_log_in: bool = False,
) -> None:
    """Run a scenario against a server of its own."""

    async def run() -> None:
        async with serving(tmp_path, clients=clients, clients_log_in=clients_log_in) as served:
            await scenario(served)

    asyncio.run(run())


@asynccontextmanager
async def serving(tmp_path: Path, *, clients: Sequence[Network] | None, clients_log_in: bool) -> AsyncIterator[Served]:
    for name in assets.TYPES:
        (tmp_path / name).write_text(f"content of {name}\n" * 50)
    meshsecd = Meshsecd()
    control = ControlServer(tmp_path / "view.sock", meshsecd.answer)
    await control.start()
    listener = socket.create_server(("127.0.0.1", 0))
    feed = Feed(tmp_path / "view.sock")
    tiles = tmp_path / TILES
    web = Web(feed, assets.load(tmp_path), clients=clients, clients_log_in=clients_log_in, tiles=tiles)
    config = uvicorn.Config(
        web.app("rescue-1.mesh"),
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    server = Server(config, feed)
    following = asyncio.create_task(feed.run())
    running = asyncio.create_task(server._serve([listener]))  # without its handlers of signals
    while not server.started:  # noqa: ASYNC110  # uvicorn has no event for it
        await asyncio.sleep(0.01)
    try:
        yield Served(listener.getsockname()[1], meshsecd, control)
    finally:
        server.should_exit = True
        await running
        following.cancel()
        await control.close()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*rest, return_exceptions=True)
        await asyncio.sleep(0.01)
