"""Connections between nodes: who is not admitted, too long, too slow or one too many is not answered."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from ipaddress import IPv6Address

import pytest

from meshsec.adapters import exchange
from meshsec.adapters.exchange import ExchangeServer
from meshsec.core import fleet_exchange as lines
from meshsec.core.fleet_exchange import ExchangeError, Holdings, News

HERE = IPv6Address("::1")
KEY = bytes(32)
SERVER: Holdings = {KEY: lines.holding(2, b"newer", [b"a", b"b"])}
CLIENT: Holdings = {KEY: lines.holding(1, b"older", [b"b", b"c"])}


@pytest.fixture(autouse=True)
def free_port(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_INET6) as found:
        found.bind((str(HERE), 0))
        monkeypatch.setattr(exchange, "PORT", found.getsockname()[1])


def served(work: Callable[[], Awaitable[None]], *, admit: bool = True, takes: int = 0) -> list[News]:
    """Run ``work`` beside a server; what that took, ``takes`` times."""
    taken: list[News] = []

    async def run() -> None:
        enough = asyncio.Event()

        async def take(_address: IPv6Address, news: News) -> None:
            taken.append(news)
            if len(taken) == takes:
                enough.set()

        server = ExchangeServer(lambda: SERVER, lambda _: admit, take)
        await server.start(HERE)
        try:
            await work()
            if takes:
                await asyncio.wait_for(enough.wait(), 60)
        finally:
            server.close()

    asyncio.run(run())
    return taken


async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(str(HERE), exchange.PORT, limit=lines.LINE_MAX)


def test_both_get_what_they_lack() -> None:
    async def work() -> None:
        assert await exchange.exchange(HERE, HERE, CLIENT) == News((b"newer",), (b"a",))

    assert served(work, takes=1) == [News((), (b"c",))]


def test_who_is_not_admitted_learns_nothing() -> None:
    async def work() -> None:
        with pytest.raises((OSError, ExchangeError)):
            await exchange.exchange(HERE, HERE, CLIENT)

    assert served(work, admit=False) == []


@pytest.mark.parametrize("octets", [b"nonsense\n", b"x" * (2 * lines.LINE_MAX + 2)], ids=["nonsense", "without end"])
def test_what_is_no_line_ends_the_connection(octets: bytes) -> None:
    async def work() -> None:
        reader, writer = await connect()
        writer.write(octets)
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()
        assert await exchange.exchange(HERE, HERE, CLIENT) == News((b"newer",), (b"a",))

    assert served(work, takes=1) == [News((), (b"c",))]


def test_a_client_that_says_nothing_has_its_time_and_one_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "TIMEOUT", 1.0)

    async def work() -> None:
        silent, writer = await connect()
        second, other = await connect()
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await second.readexactly(1)
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await silent.readexactly(1)
        writer.close()
        other.close()

    assert served(work) == []
