"""The fleets' exchange over real connections: peers, strangers, and clients that send too much or too slowly."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Mapping
from ipaddress import IPv6Address
from pathlib import Path

import pytest

from meshsec.adapters.sockets import exchange
from meshsec.adapters.sockets.exchange import ExchangeServer
from meshsec.core.trust import fleet_exchange as lines
from meshsec.core.trust.fleet_exchange import ExchangeError, Holdings, News

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
    """Run ``work`` beside a server and return what the server received, waiting for ``takes`` pieces of news."""
    taken: list[News] = []

    async def run() -> None:
        enough = asyncio.Event()

        async def take(_address: IPv6Address, news: News) -> None:
            taken.append(news)
            if len(taken) == takes:
                enough.set()

        heard: list[Mapping[bytes, int]] = []
        server = ExchangeServer(lambda: SERVER, lambda _: admit, lambda _, numbers: heard.append(numbers), take)
        await server.start(HERE)
        try:
            await work()
            if takes:
                await asyncio.wait_for(enough.wait(), 60)
        finally:
            server.close()
        assert all(numbers == {KEY: CLIENT[KEY].number} for numbers in heard)
        assert len(heard) >= len(taken)

    asyncio.run(run())
    return taken


async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(str(HERE), exchange.PORT, limit=lines.LINE_MAX)


def test_both_ends_receive_the_cards_they_lack() -> None:
    async def work() -> None:
        assert await exchange.exchange(HERE, HERE, CLIENT) == ({KEY: SERVER[KEY].number}, News((b"newer",), (b"a",)))

    assert served(work, takes=1) == [News((), (b"c",))]


def test_a_stranger_learns_nothing() -> None:
    async def work() -> None:
        with pytest.raises((OSError, ExchangeError)):
            await exchange.exchange(HERE, HERE, CLIENT)

    assert served(work, admit=False) == []


@pytest.mark.parametrize("octets", [b"nonsense\n", b"x" * (2 * lines.LINE_MAX + 2)], ids=["nonsense", "without end"])
def test_a_malformed_line_ends_the_connection(octets: bytes) -> None:
    async def work() -> None:
        reader, writer = await connect()
        writer.write(octets)
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()
        assert await exchange.exchange(HERE, HERE, CLIENT) == ({KEY: SERVER[KEY].number}, News((b"newer",), (b"a",)))

    assert served(work, takes=1) == [News((), (b"c",))]


def test_a_silent_client_holds_one_connection_until_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize("wanted", range(64, 1025, 96))
def test_a_client_that_reads_nothing_keeps_no_descriptor(monkeypatch: pytest.MonkeyPatch, wanted: int) -> None:
    """A client that asks for a card many times and never reads is cut off after the timeout."""
    monkeypatch.setattr(exchange, "TIMEOUT", 0.5)
    card = bytes(200)
    held = {KEY: lines.holding(1, b"", [card])}
    (name,) = held[KEY].cards
    asked = lines.Offer([], [], {KEY.hex(): [name] * wanted})
    greedy = lines.encode(lines.hello(CLIENT)) + lines.encode(asked)

    admitted: list[IPv6Address] = []

    def admit(client: IPv6Address) -> bool:
        admitted.append(client)
        return True

    async def run() -> None:
        server = ExchangeServer(lambda: held, admit, lambda *_: None, _nothing)
        await server.start(HERE)
        with socket.socket(socket.AF_INET6) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)  # as on a link: else the kernel takes all
            client.setblocking(False)
            before = descriptors()
            loop = asyncio.get_running_loop()
            await loop.sock_connect(client, (str(HERE), exchange.PORT))
            await loop.sock_sendall(client, greedy)
            async with asyncio.timeout(20):
                while not admitted or descriptors() > before:  # noqa: ASYNC110 - nobody tells of a descriptor
                    await asyncio.sleep(0.01)
        server.close()

    asyncio.run(run())


@pytest.mark.parametrize("given", [160, 256, 1024])
def test_a_server_that_reads_nothing_keeps_no_descriptor(monkeypatch: pytest.MonkeyPatch, given: int) -> None:
    """A server that asks for all cards, never reads and never closes is left after the timeout."""
    monkeypatch.setattr(exchange, "TIMEOUT", 0.5)
    held = {KEY: lines.holding(1, b"", [bytes([number & 255, number >> 8]) * 100 for number in range(given)])}
    said = lines.summary({KEY: lines.holding(0, b"", [])}, lines.hello(held))
    greedy = lines.encode(said) + lines.encode(lines.Answer([], []))

    async def run() -> None:
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_INET6) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
            listener.bind((str(HERE), exchange.PORT))
            listener.listen()
            listener.setblocking(False)
            before = descriptors()
            asking = asyncio.create_task(exchange.exchange(HERE, HERE, held))
            accepted, _ = await loop.sock_accept(listener)
            with accepted:
                await loop.sock_sendall(accepted, greedy)
                with contextlib.suppress(OSError, TimeoutError, ExchangeError):
                    await asking
                async with asyncio.timeout(20):
                    while descriptors() > before + 1:  # noqa: ASYNC110 - nobody tells of a descriptor
                        await asyncio.sleep(0.01)

    asyncio.run(run())


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def _nothing(_address: IPv6Address, _news: News) -> None:
    return
