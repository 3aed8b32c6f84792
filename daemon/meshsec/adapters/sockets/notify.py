"""systemd's notification socket (sd_notify(3)); silent where there is no systemd."""

import os
import socket
from contextlib import suppress
from typing import Any

from sdnotify import SystemdNotifier

_MICROSECONDS = 1_000_000
_FIRST = 3
"""SD_LISTEN_FDS_START."""


class Notifier:
    """Tells the service manager how the daemon does."""

    def __init__(self) -> None:
        self._notifier: Any = SystemdNotifier() if "NOTIFY_SOCKET" in os.environ else None  # type: ignore[no-untyped-call]

    def ready(self) -> None:
        """The daemon serves."""
        self._tell("READY=1")

    def reloading(self) -> None:
        """The configuration is being read again; ``ready`` ends it."""
        self._tell("RELOADING=1")

    def stopping(self) -> None:
        """The daemon ends."""
        self._tell("STOPPING=1")

    def status(self, text: str) -> None:
        """How it does, in a line for people."""
        self._tell(f"STATUS={text}")

    def alive(self) -> None:
        """Feed the watchdog: call it only after a proof of life."""
        self._tell("WATCHDOG=1")

    def keep(self, name: str, descriptor: int) -> None:
        """Have the service manager keep an open file until the unit is stopped: it outlives this process."""
        if self._notifier:
            with suppress(OSError):
                socket.send_fds(self._notifier.socket, [f"FDSTORE=1\nFDPOLL=0\nFDNAME={name}".encode()], [descriptor])

    def let_go(self, name: str) -> None:
        """The end of ``keep``."""
        self._tell(f"FDSTOREREMOVE=1\nFDNAME={name}")

    def close(self) -> None:
        """Let go of the socket."""
        if self._notifier:
            self._notifier.socket.close()

    def _tell(self, state: str) -> None:
        if self._notifier:
            self._notifier.notify(state)


def kept() -> dict[str, int]:
    """By name the open files that a predecessor had the service manager ``keep`` (sd_listen_fds(3))."""
    names = os.environ.get("LISTEN_FDNAMES", "").split(":") if os.environ.get("LISTEN_PID") == str(os.getpid()) else []
    found = dict(zip(names, range(_FIRST, _FIRST + len(names)), strict=True))
    for descriptor in found.values():
        os.set_inheritable(descriptor, False)
    return found


def watchdog_interval() -> float | None:
    """Seconds between two signs of life: half of what the service manager allows; None when it watches not."""
    allowed = os.environ.get("WATCHDOG_USEC", "")
    if not allowed.isdecimal() or os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    return int(allowed) / _MICROSECONDS / 2 or None
