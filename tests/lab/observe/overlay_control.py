"""A reader of overlayd's control socket: it checks each line against the schema and keeps the last status and all
events."""

import json
import socket
from pathlib import Path
from typing import Any, Self

from tests.lab.basics.waiting import wait_until
from tests.lab.observe.schemas import schema


class OverlayControl:
    """A connection to the control socket of one overlayd."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(20)
        self._socket.connect(str(path))
        self._rest = b""
        self._statuses = 0
        self.status: dict[str, Any] = {}
        self.events: list[dict[str, Any]] = []
        self._answers: list[dict[str, Any]] = []
        while not self._statuses and self.drain():
            pass

    def fileno(self) -> int:
        """Return the socket's descriptor, for select."""
        return self._socket.fileno()

    def drain(self) -> bool:
        """Read what is available; return False at the end of the stream."""
        data = self._socket.recv(1 << 16)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take(json.loads(line))
        return bool(data)

    def ask(self) -> dict[str, Any]:
        """Return the node's present status."""
        before = self._statuses
        self._socket.sendall(b"status\n")
        while self._statuses == before:
            assert self.drain(), "the control socket was closed"
        return self.status

    def command(self, name: str, *addresses: str) -> dict[str, Any]:
        """Send ``permit`` or ``keep`` with the whole set of addresses. Return the answer."""
        return self.say(json.dumps({"type": name, "addresses": addresses}))

    def say(self, line: str) -> dict[str, Any]:
        """Send a line that overlayd answers with done or refused. Return the answer."""
        self._socket.sendall(line.encode() + b"\n")
        while not self._answers:
            assert self.drain(), "the control socket was closed"
        return self._answers.pop(0)

    def ask_events(self) -> list[dict[str, Any]]:
        """Return all events that have come on this connection."""
        self.ask()
        return self.events

    def dropped(self, cause: str) -> int:
        """Return how many frames and packets have been dropped for a cause."""
        return int(self.ask()["dropped"].get(cause, 0))

    def wait_kept(self, address: str, up: bool, seconds: float = 30) -> None:
        """Wait until packets to a node whose route is kept pass at once (``up``), or pass no more."""
        who = f"{address} is kept {'up' if up else 'in vain'}"
        wait_until(
            who, lambda: {"address": address, "up": up} in self.ask()["kept"], [self], seconds, lambda: self.status
        )

    def wait_event(self, name: str) -> dict[str, Any]:
        """Wait for the first event of that name on this connection."""

        def found() -> dict[str, Any] | None:
            return next((event for event in self.events if event["name"] == name), None)

        return wait_until(f"event {name}", found, [self], 30, last=lambda: self.events)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, line: dict[str, Any]) -> None:
        schema("overlayd-control-1").validate(line)
        if line["type"] == "status":
            self.status = line
            self._statuses += 1
        elif line["type"] == "event":
            self.events.append(line)
        elif line["type"] in ("done", "refused"):
            self._answers.append(line)
