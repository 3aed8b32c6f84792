"""gpsd's JSON protocol (gpsd_json(5)), of which only reports of time, position and velocity (TPV) are read.

gpsd is a local service that passes on what a receiver says. Its lines are bounded in length and number all the same.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

import msgspec

from meshsec.core.positions.positions import Position, checked
from meshsec.streams import failure_text

HOST: Final = "127.0.0.1"
MAX_LINE: Final = 64 * 1024
"""Bytes of a line: a report of all satellites in view has about 10 KiB."""
MAX_LINES: Final = 500
"""Lines in a second; a receiver of 10 Hz makes about 50."""
ANSWER_SECONDS: Final = 5.0
"""Time in which gpsd greets."""
_WATCH: Final = b'?WATCH={"enable":true,"json":true};\n'
_FIX: Final = 2
"""The mode from which a report has a position in two dimensions; 3 has the altitude, too."""


class GpsdError(Exception):
    """gpsd does not say where the node is; the text says why."""


class _Report(msgspec.Struct, frozen=True):
    """What is read of a line of gpsd."""

    kind: str = msgspec.field(name="class")
    mode: int = 0
    lat: float | None = None
    lon: float | None = None
    alt_hae: float | None = msgspec.field(name="altHAE", default=None)
    eph: float | None = None
    epv: float | None = None


_decoder = msgspec.json.Decoder(_Report)


async def positions(port: int) -> AsyncGenerator[Position, None]:
    """Yield the positions that gpsd reports, for as long as it does. Raises GpsdError."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            reader, writer = await asyncio.open_connection(HOST, port, limit=MAX_LINE)
    except (OSError, TimeoutError) as error:
        raise GpsdError(f"gpsd at {HOST} port {port}: {_why(error)}") from error
    try:
        async for line in _lines(reader, writer):
            if (found := position_of(line)) is not None:
                yield found
    except (OSError, EOFError, asyncio.LimitOverrunError, TimeoutError) as error:
        raise GpsdError(f"gpsd at {HOST} port {port}: {_why(error)}") from error
    finally:
        writer.close()


async def _lines(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> AsyncIterator[bytes]:
    """Yield gpsd's lines after its greeting. Raises what reading raises, and GpsdError if they are too many."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(ANSWER_SECONDS):
        await reader.readuntil(b"\n")
    writer.write(_WATCH)
    began, count = loop.time(), 0
    while True:
        line = await reader.readuntil(b"\n")
        count += 1
        if loop.time() - began >= 1:
            began, count = loop.time(), 0
        if count > MAX_LINES:
            raise GpsdError(f"gpsd sends more than {MAX_LINES} lines in a second")
        yield line


def position_of(line: bytes) -> Position | None:
    """Return the position in one line; None where there is none: another report, no fix, or figures that are none."""
    try:
        report = _decoder.decode(line)
    except (msgspec.DecodeError, ValueError):
        return None
    if report.kind != "TPV" or report.mode < _FIX or report.lat is None or report.lon is None:
        return None
    altitude = report.alt_hae if report.mode > _FIX else None
    return checked(Position(report.lat, report.lon, altitude, report.eph, report.epv))


def _why(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return failure_text(error, f"it does not answer within {ANSWER_SECONDS:.0f} s", MAX_LINE)
