"""Talk to systemd's notification socket (sd_notify(3)); without systemd do nothing."""

import os
import socket
from contextlib import suppress
from typing import Any

from sdnotify import SystemdNotifier

_MICROSECONDS = 1_000_000
_FIRST = 3
"""SD_LISTEN_FDS_START."""


class Notifier:
    """Report the daemon's state to the service manager, and never wait for it.

    A service manager that has stopped reading must not stop the daemon: what finds its queue full is lost.
    """

    def __init__(self) -> None:
        found: Any = SystemdNotifier() if "NOTIFY_SOCKET" in os.environ else None  # type: ignore[no-untyped-call]
        self._socket: socket.socket | None = found and found.socket
        if self._socket:
            self._socket.setblocking(False)

    def ready(self) -> None:
        """Report that the daemon is ready."""
        self._tell("READY=1")

    def reloading(self) -> None:
        """Report that the configuration is being read again; ``ready`` ends this."""
        self._tell("RELOADING=1")

    def stopping(self) -> None:
        """Report that the daemon stops."""
        self._tell("STOPPING=1")

    def status(self, text: str) -> None:
        """Report the state in a line for people."""
        self._tell(f"STATUS={text}")

    def alive(self) -> None:
        """Trigger the watchdog. Call it only after a proof of life."""
        self._tell("WATCHDOG=1")

    def keep(self, name: str, descriptor: int) -> None:
        """Let the service manager keep an open file until the unit is stopped, so that it outlives this process."""
        if self._socket:
            with suppress(OSError):
                socket.send_fds(self._socket, [f"FDSTORE=1\nFDPOLL=0\nFDNAME={name}".encode()], [descriptor])

    def let_go(self, name: str) -> None:
        """Let the service manager close a file that it keeps."""
        self._tell(f"FDSTOREREMOVE=1\nFDNAME={name}")

    def close(self) -> None:
        """Close the socket."""
        if self._socket:
            self._socket.close()

    def _tell(self, state: str) -> None:
        if self._socket:
            with suppress(OSError):
                self._socket.send(state.encode())


def kept() -> dict[str, int]:
    """Return by name the open files that a predecessor gave the service manager (``keep``, sd_listen_fds(3))."""
    names = os.environ.get("LISTEN_FDNAMES", "").split(":") if os.environ.get("LISTEN_PID") == str(os.getpid()) else []
    found = dict(zip(names, range(_FIRST, _FIRST + len(names)), strict=True))
    for descriptor in found.values():
        os.set_inheritable(descriptor, False)
    return found


def watchdog_interval() -> float | None:
    """Return the seconds between two signs of life, half of the service manager's limit; None without a watchdog."""
    allowed = os.environ.get("WATCHDOG_USEC", "")
    if not allowed.isdecimal() or os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    return int(allowed) / _MICROSECONDS / 2 or None
