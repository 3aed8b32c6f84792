"""Wake-ups from a thread to a test that waits (``tests/lab/basics/waiting.py``): something arrived."""

import socket
from contextlib import suppress


class Wakeups:
    """One end tells, the other is a source of events."""

    def __init__(self) -> None:
        self._read, self._write = socket.socketpair()
        self._read.setblocking(False)
        self._write.setblocking(False)

    def tell(self) -> None:
        """Something arrived; it is enough that one notice waits."""
        with suppress(BlockingIOError):
            self._write.send(b".")

    def fileno(self) -> int:
        """Readable when something arrived."""
        return self._read.fileno()

    def drain(self) -> bool:
        """Take the notices."""
        return bool(self._read.recv(4096))

    def close(self) -> None:
        """Nobody tells any more."""
        self._read.close()
        self._write.close()
