"""What is read of gpsd, and a gpsd that says too much, nonsense or nothing; scenarios have a real one."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from meshsec.adapters.gps import gpsd
from meshsec.adapters.gps.gpsd import GpsdError, position_of, positions
from meshsec.core.positions.positions import Position

GREETING = b'{"class":"VERSION","release":"3.22"}\r\n'
FIX = {
    "class": "TPV",
    "device": "/dev/ttyACM0",
    "mode": 3,
    "time": "2026-11-28T12:00:00.000Z",
    "lat": 47.1,
    "lon": 11.2,
    "alt": 600.0,
    "altHAE": 647.0,
    "eph": 17.1,
    "epv": 27.6,
    "speed": 0.1,
}
PLACE = Position(47.1, 11.2, 647.0, 17.1, 27.6)
Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def line(**changed: object) -> bytes:
    return json.dumps({**FIX, **changed}).encode() + b"\r\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (line(), PLACE),
        (line(mode=2), PLACE._replace(altitude=None)),
        (line(mode=1), None),
        (line(mode=0), None),
        (line(lat=None), None),
        (line(lat=91), None),
        (line(lon=-180.1), None),
        (line(eph=-1, epv=1e9), PLACE._replace(accuracy=None, altitude_accuracy=None)),
        (line(altHAE=1e9), PLACE._replace(altitude=None)),
        (line(lat="47"), None),
        (line(**{"class": "SKY"}), None),
        (b'{"class":"TPV","mode":3,"lat":NaN,"lon":1}', None),
        (b'{"class":"TPV","mode":3,"lat":1e999,"lon":1}', None),
        (b"[]", None),
        (b"{" * 5000, None),
        (b"\xff\xfe", None),
    ],
)
def test_a_line_is_a_position_or_none(text: bytes, found: Position | None) -> None:
    assert position_of(text) == found


def first(script: Script, count: int = 1) -> list[Position]:
    """Return the first positions from a gpsd that does as in the script."""

    async def run() -> list[Position]:
        ended = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(EOFError, OSError):
                await script(reader, writer)
            writer.close()
            ended.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        reading = positions(server.sockets[0].getsockname()[1])
        try:
            async with asyncio.timeout(20):
                return [await anext(reading) for _ in range(count)]
        finally:
            await reading.aclose()
            server.close()
            await ended.wait()
            await asyncio.sleep(0.01)

    return asyncio.run(run())


def test_gpsd_is_asked_for_reports_and_what_is_no_position_is_passed_over() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GREETING)
        assert await reader.readuntil(b"\n") == b'?WATCH={"enable":true,"json":true};\n'
        writer.write(b'{"class":"DEVICES","devices":[]}\r\n' + line(mode=1) + line() + line(lat=47.2))
        await reader.read()

    assert first(script, 2) == [PLACE, PLACE._replace(latitude=47.2)]


def test_gpsd_that_is_away_is_named_with_its_port() -> None:
    async def run() -> None:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        with pytest.raises(GpsdError, match=f"port {port}: .*refused|port {port}: Connect call failed"):
            await anext(aiter(positions(port)))

    asyncio.run(run())


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (GREETING, "it closed the connection"),
        (b"x" * (gpsd.MAX_LINE + 1), "a line of more than"),
        (GREETING + b"x" * (gpsd.MAX_LINE * 3), "a line of more than"),
        (GREETING + b"\n" * (gpsd.MAX_LINES + 10), "more than 500 lines"),
    ],
)
def test_too_much_and_too_little_end_the_connection(said: bytes, reason: str) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        await reader.readuntil(b"\n") if said == GREETING else await reader.read()

    with pytest.raises(GpsdError, match=reason):
        first(script)


def test_a_port_that_says_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpsd, "ANSWER_SECONDS", 0.05)

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    with pytest.raises(GpsdError, match="it does not answer within"):
        first(script)
