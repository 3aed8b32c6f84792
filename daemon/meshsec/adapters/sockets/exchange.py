"""Exchange what fleets have signed between nodes (core/trust/fleet_exchange.py).

It uses TCP between ``fc..`` addresses, with limits of time, number and size. The owner of the server decides who may
connect.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from ipaddress import IPv6Address

from meshsec.core.trust import fleet_exchange as lines
from meshsec.core.trust.fleet_exchange import LINE_MAX, Answer, ExchangeError, Hello, Holdings, News, Offer, Summary

PORT = lines.PORT
TIMEOUT = 20.0
"""Deadline of a whole exchange in seconds; a slower one is tried again later."""
CLIENTS_MAX = 8

Admit = Callable[[IPv6Address], bool]
Take = Callable[[IPv6Address, News], Awaitable[None]]
"""Receives what a peer sent, with its address."""
Numbers = Mapping[bytes, int]
"""The numbers of the lists that a peer has, by the fleets' public keys."""


class ExchangeServer:
    """Answer the peers. A client is closed if it is not admitted, one too many, or the second from one address."""

    def __init__(
        self, holdings: Callable[[], Holdings], admit: Admit, hear: Callable[[IPv6Address, Numbers], None], take: Take
    ) -> None:
        self._holdings = holdings
        self._admit = admit
        self._hear = hear
        self._take = take
        self._clients: set[IPv6Address] = set()
        self._server: asyncio.Server | None = None

    async def start(self, address: IPv6Address) -> None:
        """Listen at ``address``. Raises OSError if that is not possible (yet)."""
        self._server = await asyncio.start_server(self._serve, str(address), PORT, limit=LINE_MAX, backlog=CLIENTS_MAX)

    def close(self) -> None:
        """Listen no longer."""
        if self._server:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = IPv6Address(writer.get_extra_info("peername")[0].partition("%")[0])
        if client in self._clients or len(self._clients) >= CLIENTS_MAX or not self._admit(client):
            writer.transport.abort()
            return
        self._clients.add(client)
        try:
            async with asyncio.timeout(TIMEOUT):
                news = await self._answer(client, reader, writer)
                await _close(writer)
            await self._take(client, news)
        except (OSError, TimeoutError, ExchangeError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()
            self._clients.discard(client)

    async def _answer(self, client: IPv6Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> News:
        mine = self._holdings()
        hello = lines.decode(await _line(reader), Hello)
        self._hear(client, lines.numbers(hello))
        await _send(writer, lines.summary(mine, hello))
        offer = lines.decode(await _line(reader), Offer)
        await _send(writer, lines.answer(mine, hello, offer))
        return offer.news()


async def exchange(own: IPv6Address, peer: IPv6Address, mine: Holdings) -> tuple[Numbers, News]:
    """Exchange with a peer, and return which lists it had and what it sent. Raises OSError, TimeoutError and
    ExchangeError.
    """
    async with asyncio.timeout(TIMEOUT):
        reader, writer = await asyncio.open_connection(str(peer), PORT, local_addr=(str(own), 0), limit=LINE_MAX)
        try:
            await _send(writer, lines.hello(mine))
            summary = lines.decode(await _line(reader), Summary)
            await _send(writer, lines.offer(mine, summary))
            news = lines.decode(await _line(reader), Answer).news()
            await _close(writer)
        finally:
            writer.transport.abort()
        return lines.numbers(summary), news


async def _close(writer: asyncio.StreamWriter) -> None:
    """Close a connection and wait until the kernel has taken the remaining data.

    A peer that reads nothing keeps the last 64 KiB here, and with them the descriptor, for as long as it likes.
    """
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def _send(writer: asyncio.StreamWriter, line: Hello | Summary | Offer | Answer) -> None:
    writer.write(lines.encode(line))
    await writer.drain()


async def _line(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readline()
    except ValueError:
        raise ExchangeError(f"a line of more than {LINE_MAX} octets") from None
