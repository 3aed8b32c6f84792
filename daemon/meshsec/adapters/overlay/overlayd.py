"""Drive overlayd through its control socket (docs/reference/schema/overlayd-control-1.json): JSON lines over UNIX.

overlayd sends ``hello`` and ``status`` first, and then events. It answers commands in order with ``done`` or
``refused``. Commands stay in force when the connection ends, so each new connection sends them again.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable
from ipaddress import IPv6Address
from pathlib import Path
from typing import Literal

import msgspec

from meshsec.core.channels.events import OverlayDown, OverlayObserved, OverlayUp
from meshsec.streams import failure_text

SCHEMA = 1
MAX_LINE = 8 * 1024 * 1024
"""Limit of a line in bytes: a status with some thousand sessions."""

PORTION = 1024
"""Addresses that overlayd accepts in one line."""

RECONNECT_FIRST = 0.05
RECONNECT_MAX = 1.0
"""Longest interval in seconds between attempts to reach overlayd; it doubles from the first to this."""

HELLO_TIMEOUT = 10.0
ANSWER_TIMEOUT = 10.0
LOOK_INTERVAL = 5.0
"""Polling interval in seconds; overlayd sends no event when a session ends."""

TALK = 3 * LOOK_INTERVAL
"""Seconds for which a peer counts as talking after the poll that saw its packets."""

OverlayEvent = OverlayUp | OverlayDown | OverlayObserved


class OverlaydError(Exception):
    """overlayd sent what its schema does not allow, refused a command, or is not configured as it must be."""


class _Hello(msgspec.Struct, tag="hello"):
    schema: int
    software: str
    version: str = ""
    pid: int = 0


class _Tun(msgspec.Struct):
    name: str


class _Permit(msgspec.Struct):
    by: str


class _Kept(msgspec.Struct):
    address: str
    up: bool


class _Session(msgspec.Struct):
    address: str
    ready: bool
    packets_in: int = 0


class _Status(msgspec.Struct, tag="status"):
    address: str
    tun: _Tun | None
    permit: _Permit | str
    kept: list[_Kept]
    sessions: list[_Session]
    forwarded: int = 0
    delivered: int = 0
    sent: int = 0
    dropped: dict[str, int] = {}


class _Event(msgspec.Struct, tag="event"):
    name: str
    address: str | None = None


class _Done(msgspec.Struct, tag="done"):
    command: str


class _Refused(msgspec.Struct, tag="refused"):
    reason: str
    command: str | None = None


_line = msgspec.json.Decoder(_Hello | _Status | _Event | _Done | _Refused)
_encoder = msgspec.json.Encoder()
_STATUS = b"status\n"


class Overlayd:
    """A client of the control socket of the overlayd that has our own key."""

    def __init__(self, path: Path, own: IPv6Address, device: str) -> None:
        """Prepare the client; ``own`` is this node's address, ``device`` the TUN device that overlayd must have."""
        self._path = path
        self._own = own
        self._device = device
        self._writer: asyncio.StreamWriter | None = None
        self._asked: deque[asyncio.Future[None]] = deque()
        self._kept: set[IPv6Address] = set()
        self._linked: set[IPv6Address] = set()
        self._told: OverlayObserved | None = None
        self._looks_owed = 0
        self._packets: dict[IPv6Address, int] = {}
        self._talked: dict[IPv6Address, float] = {}
        self.version = ""
        """overlayd's version; empty while it does not answer."""
        self.pid = 0
        self.carried: dict[str, int] = {}
        """Packets that overlayd forwarded, delivered and sent, as reported last."""
        self.dropped: dict[str, int] = {}
        """Frames and packets that it dropped, by cause, as reported last."""

    @property
    def talking(self) -> frozenset[IPv6Address]:
        """Peers that sent user data lately: seen in a status of the last ``TALK`` seconds."""
        since = time.monotonic() - TALK
        self._talked = {one: at for one, at in self._talked.items() if at > since}
        return frozenset(self._talked)

    async def run(self, on_event: Callable[[OverlayEvent], None]) -> None:
        """Stay connected until cancelled. A connection begins with ``OverlayUp`` and ends with ``OverlayDown``."""
        pause = RECONNECT_FIRST
        while True:
            try:
                reader, writer = await asyncio.open_unix_connection(self._path, limit=MAX_LINE)
                try:
                    async with asyncio.timeout(HELLO_TIMEOUT):
                        await self._open(reader)
                    self._writer, pause = writer, RECONNECT_FIRST
                    on_event(OverlayUp())
                    self._tell(on_event)
                    async with asyncio.TaskGroup() as tasks:
                        tasks.create_task(self._look())
                        await self._follow(reader, on_event)
                finally:
                    self._close()
                    writer.close()
            except* (OSError, EOFError, asyncio.LimitOverrunError, ValueError, OverlaydError) as errors:
                why = failure_text(_first(errors), "no status in time", MAX_LINE)
                on_event(OverlayDown(f"overlayd at {self._path}: {why}"))
            await asyncio.sleep(pause)
            pause = min(pause * 2, RECONNECT_MAX)

    async def permit(self, addresses: Iterable[IPv6Address]) -> None:
        """Set the peers with which user data is exchanged; all others are refused. Raises ``OverlaydError``."""
        await self._command("permit", addresses)

    async def keep(self, addresses: Collection[IPv6Address]) -> None:
        """Set the peers to which a session is kept open. Raises ``OverlaydError``."""
        await self._command("keep", addresses)
        self._kept &= frozenset(addresses)
        if self._writer:
            self._ask_status(self._writer)

    async def _command(self, kind: Literal["permit", "keep"], addresses: Iterable[IPv6Address]) -> None:
        if self._writer is None:
            raise OverlaydError(f"overlayd at {self._path} is not connected")
        portions = _portions(kind, sorted(addresses))
        answers = [asyncio.get_running_loop().create_future() for _ in portions]
        self._asked.extend(answers)
        self._writer.writelines(_encoder.encode(portion) + b"\n" for portion in portions)
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT):
                for answer in answers:
                    await asyncio.shield(answer)
        except TimeoutError as error:
            raise OverlaydError(f"no answer to {kind} within {ANSWER_TIMEOUT:g} s") from error

    async def _look(self) -> None:
        """Poll the status. An overlayd that has not answered the last poll at the next one counts as hung."""
        while self._writer:
            await asyncio.sleep(LOOK_INTERVAL)
            if self._looks_owed > 1:
                raise OverlaydError(f"it did not answer for {LOOK_INTERVAL:g} s")
            self._ask_status(self._writer)

    def _ask_status(self, writer: asyncio.StreamWriter) -> None:
        self._looks_owed += 1
        writer.write(_STATUS)

    def _close(self) -> None:
        """Cancel all commands that are waiting for an answer."""
        self._writer, self.version, self.pid, self._looks_owed, self._told = None, "", 0, 0, None
        while self._asked:
            answer = self._asked.popleft()
            if not answer.done():
                answer.set_exception(OverlaydError("it closed the connection"))
                answer.exception()  # the caller may have given up

    async def _open(self, reader: asyncio.StreamReader) -> None:
        hello = _line.decode(await reader.readuntil(b"\n"))
        if not isinstance(hello, _Hello):
            raise OverlaydError("its first line is no hello")
        if hello.schema != SCHEMA:
            raise OverlaydError(f"it speaks schema {hello.schema}; {SCHEMA} is needed")
        status = _line.decode(await reader.readuntil(b"\n"))
        if not isinstance(status, _Status):
            raise OverlaydError("its second line is no status")
        self._check(status)
        self._packets = _packets(status)  # packets from before the connection do not count as talking
        self._take(status)
        self.version, self.pid = hello.version, hello.pid

    def _check(self, status: _Status) -> None:
        """Refuse an overlayd that has another address or device than our rules and routes, or other permissions than
        ours.
        """
        if IPv6Address(status.address) != self._own:
            raise OverlaydError(f"its address is {status.address}, and not this node's {self._own}")
        name = status.tun.name if status.tun else "none"
        if name != self._device:
            raise OverlaydError(f"its TUN device is {name}, and not {self._device} as [overlay] tun says")
        if not isinstance(status.permit, _Permit) or status.permit.by != "control":
            raise OverlaydError('its configuration says itself who is permitted; permit = "control" is needed')

    async def _follow(self, reader: asyncio.StreamReader, on_event: Callable[[OverlayEvent], None]) -> None:
        while True:
            match _line.decode(await reader.readuntil(b"\n")):
                case _Event() as event:
                    self._happened(event)
                case _Status() as status:
                    self._looks_owed = max(0, self._looks_owed - 1)
                    self._check(status)
                    self._take(status)
                case _Done():
                    self._answered(None)
                case _Refused() as refused:
                    self._answered(OverlaydError(f"refused: {refused.reason}"))
                case _Hello():
                    raise OverlaydError("a second hello")
            self._tell(on_event)

    def _happened(self, event: _Event) -> None:
        if event.address is None:
            return
        match event.name:
            case "kept-up":
                self._kept.add(IPv6Address(event.address))
            case "kept-down":
                self._kept.discard(IPv6Address(event.address))
            case "session-up":
                self._linked.add(IPv6Address(event.address))

    def _take(self, status: _Status) -> None:
        self._kept = {IPv6Address(one.address) for one in status.kept if one.up}
        self._linked = {IPv6Address(one.address) for one in status.sessions if one.ready}
        packets = _packets(status)
        now = time.monotonic()
        self._talked |= {one: now for one, count in packets.items() if count > self._packets.get(one, 0)}
        self._packets = packets
        self.carried = {"forwarded": status.forwarded, "delivered": status.delivered, "sent": status.sent}
        self.dropped = status.dropped

    def _answered(self, error: OverlaydError | None) -> None:
        if not self._asked:
            raise OverlaydError("an answer to nothing")
        answer = self._asked.popleft()
        if error is None:
            answer.set_result(None)
        else:
            answer.set_exception(error)
            answer.exception()  # the caller may have given up

    def _tell(self, on_event: Callable[[OverlayEvent], None]) -> None:
        """Report an event if something differs from the last report."""
        observed = OverlayObserved(frozenset(self._kept), frozenset(self._linked))
        if observed != self._told:
            self._told = observed
            on_event(observed)


def _portions(kind: str, addresses: list[IPv6Address]) -> list[dict[str, object]]:
    """Split a command into as many lines as it needs. It takes effect with the last line."""
    parts = [addresses[start : start + PORTION] for start in range(0, len(addresses), PORTION)] or [[]]
    lines: list[dict[str, object]] = [{"type": kind, "addresses": [str(one) for one in part]} for part in parts]
    for number, line in enumerate(lines[1:], 1):
        line["portion"] = number
    for line in lines[:-1]:
        line["more"] = True
    return lines


def _packets(status: _Status) -> dict[IPv6Address, int]:
    return {IPv6Address(one.address): one.packets_in for one in status.sessions}


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
