"""Wake-ups from a thread to a test that waits (``tests/lab/basics/waiting.py``)."""

import socket
from contextlib import suppress


class Wakeups:
    """A source of events that another thread makes readable."""

    def __init__(self) -> None:
        self._read, self._write = socket.socketpair()
        self._read.setblocking(False)
        self._write.setblocking(False)

    def wake(self) -> None:
        """Make the source readable. Several wake-ups that nobody has read yet count as one."""
        with suppress(BlockingIOError):
            self._write.send(b".")

    def fileno(self) -> int:
        """Return the descriptor that is readable when something has arrived."""
        return self._read.fileno()

    def drain(self) -> bool:
        """Read all wake-ups."""
        return bool(self._read.recv(4096))

    def close(self) -> None:
        self._read.close()
        self._write.close()
