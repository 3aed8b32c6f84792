"""One browser's connection, with bounds: nobody may keep others out, or memory, by being slow."""

import asyncio
from collections import Counter
from ipaddress import ip_address
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

MOST = 96
"""Connections at a time, beside those from this machine: others cannot keep its operator out."""
MOST_FROM_ONE = 24
"""Connections from one address. A browser opens six for each address, and a tab keeps one of them."""
REQUEST_SECONDS = 10.0
"""Time for the head of a request."""
READ_SECONDS = 20.0
"""Time in which a browser must take some of what waits for it."""
MAX_HEAD = 16 * 1024
"""Bytes of a request's head."""


def is_own(address: str) -> bool:
    """Return whether a connection from an address is one of this machine's."""
    return bool(address) and ip_address(address.partition("%")[0]).is_loopback


class Connection(H11Protocol):
    """uvicorn's protocol with these bounds."""

    _open: ClassVar[Counter[str]] = Counter()

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._from = ""
        self._head_due: asyncio.TimerHandle | None = None
        self._read_due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Close the connection at once when there are too many."""
        super().connection_made(transport)
        self._from = self.client[0] if self.client else ""
        self._open[self._from] += 1
        others = sum(count for address, count in self._open.items() if not is_own(address))
        if self._open[self._from] > MOST_FROM_ONE or (others > MOST and not is_own(self._from)):
            transport.abort()
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        super().connection_lost(exc)
        for timer in (self._head_due, self._read_due):
            if timer:
                timer.cancel()
        self._open[self._from] -= 1
        if not self._open[self._from]:
            del self._open[self._from]

    def data_received(self, data: bytes) -> None:
        """Await the rest of a head that has begun."""
        super().data_received(data)
        self._await_head()

    def pause_writing(self) -> None:
        """Give the browser time to read."""
        super().pause_writing()
        self._read_due = self.loop.call_later(READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """End that."""
        super().resume_writing()
        if self._read_due:
            self._read_due.cancel()

    def _await_head(self) -> None:
        """Abort the connection later, unless a request is being answered."""
        cycle: RequestResponseCycle | None = self.cycle
        answering = cycle is not None and not cycle.response_complete
        if answering and self._head_due:
            self._head_due.cancel()
            self._head_due = None
        elif not answering and not self._head_due and not self.transport.is_closing():
            self._head_due = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)
