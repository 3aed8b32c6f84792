"""Carry VICI's commands and events over charon's socket (strongSwan: src/libcharon/plugins/vici/README.md).

The ``vici`` package encodes and decodes messages; the transport is ours, because that package blocks. charon serves the
requests of one connection one after the other and answers ``initiate`` only at its end. So each command in progress has
a connection from a pool, and events have one more.
"""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

from vici import protocol
from vici.exception import DeserializationException

from meshsec.adapters.ike.vici_fields import text
from meshsec.core.ike.port import CommandError, IkeError
from meshsec.streams import peer_pid

Packet: Any = protocol.Packet
Message: Any = protocol.Message

MAX_FRAME = 512 * 1024
"""charon's own limit of one frame in bytes."""

COMMAND_TIMEOUT = 5.0
"""Deadline in seconds of a command that charon answers from memory."""

MAX_COMMANDS = 8
"""Commands in progress at once: each occupies one of charon's threads."""

EVENTS = ("ike-updown", "child-updown", "ike-rekey", "child-rekey", "ike-update", "log", "alert")
"""The events that we subscribe to; a charon before 6.0.3 has no ``alert``."""

_BUFFERED = 0.00005
"""A frame that took less time in seconds to receive was waiting already, so it arrived together with the one before."""

FAILURES = (OSError, EOFError, TimeoutError, DeserializationException, UnicodeDecodeError, struct.error, ValueError)
"""What can go wrong with a connection and with what it carries."""


class Connection:
    """One VICI connection: one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, path: Path) -> "Connection":
        """Connect to charon's socket."""
        return cls(*await asyncio.open_unix_connection(path, limit=MAX_FRAME))

    @property
    def peer_pid(self) -> int:
        """PID of the process at the other end."""
        return peer_pid(self._writer)

    def send(self, packet: bytes) -> None:
        """Send one frame."""
        self._writer.write(struct.pack("!I", len(packet)) + packet)

    async def receive(self) -> Any:
        """Receive one frame; raise one of ``FAILURES`` if it is not allowed."""
        (length,) = struct.unpack("!I", await self._reader.readexactly(4))
        if not 0 < length <= MAX_FRAME:
            raise ValueError(f"a frame of {length} octets; 1 to {MAX_FRAME} are allowed")
        return Packet.parse(await self._reader.readexactly(length))

    async def request(self, command: str, message: Mapping[str, Any], stream: str) -> tuple[dict[str, Any], list[Any]]:
        """Send a command and collect its answer and the events of ``stream`` (empty: none) that come before it."""
        if stream:
            await self.register(stream)
        self.send(Packet.request(command, Message.serialize(message)))
        events: list[Any] = []
        while (packet := await self.receive()).response_type == Packet.EVENT:
            events.append(Message.deserialize(packet.payload))
        if packet.response_type != Packet.CMD_RESPONSE:
            raise CommandError(f"charon does not know the command {command!r}")
        if stream:
            await self._confirm(Packet.unregister_event(stream), stream)
        return Message.deserialize(packet.payload), events

    async def register(self, event: str) -> None:
        """Subscribe to an event. Raises CommandError if charon does not know it."""
        await self._confirm(Packet.register_event(event), event)

    async def _confirm(self, packet: bytes, event: str) -> None:
        self.send(packet)
        while (answer := await self.receive()).response_type == Packet.EVENT:
            pass
        if answer.response_type != Packet.EVENT_CONFIRM:
            raise CommandError(f"charon does not know the event {event!r}")

    def close(self) -> None:
        """Close the connection once what was sent has left."""
        self._writer.close()

    async def end(self) -> None:
        """Close the connection at once and fetch its error, which asyncio would log otherwise."""
        self._writer.transport.abort()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


class Commands:
    """Runs commands, each on a connection of its own from a pool."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._idle: list[Connection] = []
        self._slots = asyncio.Semaphore(MAX_COMMANDS)

    async def run(
        self, command: str, message: Mapping[str, Any], stream: str = "", more: float = 0.0
    ) -> tuple[dict[str, Any], list[Any], int]:
        """Run a command with ``more`` seconds beside ``COMMAND_TIMEOUT``."""
        async with self._slots:
            answer, events, pid = await self._exchange(command, message, stream, COMMAND_TIMEOUT + more)
        if text(answer, "success", "yes") != "yes":
            raise CommandError(text(answer, "errmsg", "no reason given"))
        return answer, events, pid

    async def _exchange(
        self, command: str, message: Mapping[str, Any], stream: str, within: float
    ) -> tuple[dict[str, Any], list[Any], int]:
        """Do one request on its own connection, which returns to the pool only after a complete answer."""
        connection: Connection | None = None
        try:
            async with asyncio.timeout(within):
                connection = self._idle.pop() if self._idle else await Connection.open(self._path)
                answer, events = await connection.request(command, message, stream)
        except BaseException as error:
            if connection:
                await connection.end()
            if isinstance(error, FAILURES):
                raise IkeError(f"{command}: {describe(error)}") from error
            raise
        self._idle.append(connection)
        return answer, events, connection.peer_pid

    def close(self) -> None:
        """Close the pooled connections."""
        while self._idle:
            self._idle.pop().close()


class Events:
    """Receives events, on a connection that carries nothing else."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path = path
        self._clock = clock
        self._connection: Connection | None = None

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[AsyncIterator[tuple[str, Mapping[str, Any], float]]]:
        """Connect and subscribe until the block ends; give the events as they come, until the connection fails."""
        async with asyncio.timeout(COMMAND_TIMEOUT):
            connection = await Connection.open(self._path)
        try:
            async with asyncio.timeout(COMMAND_TIMEOUT):
                for event in EVENTS:
                    with contextlib.suppress(CommandError):
                        await connection.register(event)
            self._connection = connection
            yield self._received(connection)
        finally:
            self._connection = None
            await connection.end()

    async def _received(self, connection: Connection) -> AsyncIterator[tuple[str, Mapping[str, Any], float]]:
        """Yield each event's name, its message and the time at which it arrived."""
        arrived = self._clock()
        while True:
            asked = self._clock()
            packet = await connection.receive()
            if self._clock() - asked > _BUFFERED:
                arrived = self._clock()
            if packet.response_type == Packet.EVENT:
                yield packet.event_type.decode(), Message.deserialize(packet.payload), arrived

    def close(self) -> None:
        """Close the connection, so that receiving from it fails."""
        if self._connection:
            self._connection.close()


def describe(error: BaseException) -> str:
    """Return a failure in words."""
    if isinstance(error, TimeoutError):
        return "charon does not answer in time"
    if isinstance(error, asyncio.IncompleteReadError):
        return "charon closed the connection"
    return str(error) or type(error).__name__
