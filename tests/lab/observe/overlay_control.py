"""A reader of overlayd's control socket: it keeps the last status and all events."""

import json
from pathlib import Path
from typing import Any

from tests.lab.basics.waiting import wait_until
from tests.lab.observe.json_lines import JsonLines


class OverlayControl(JsonLines):
    """A connection to the control socket of one overlayd."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "overlayd-control-1", seconds=20)
        self._statuses = 0
        self.status: dict[str, Any] = {}
        self.events: list[dict[str, Any]] = []
        self._answers: list[dict[str, Any]] = []
        while not self._statuses and self.drain():
            pass

    def ask(self) -> dict[str, Any]:
        """Return the node's present status."""
        before = self._statuses
        self.send("status")
        while self._statuses == before:
            assert self.drain(), "the control socket was closed"
        return self.status

    def command(self, name: str, *addresses: str) -> dict[str, Any]:
        """Send ``permit`` or ``keep`` with the whole set of addresses. Return the answer."""
        return self.say(json.dumps({"type": name, "addresses": addresses}))

    def say(self, line: str) -> dict[str, Any]:
        """Send a line that overlayd answers with done or refused. Return the answer."""
        self.send(line)
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

    def _take(self, line: dict[str, Any]) -> None:
        if line["type"] == "status":
            self.status = line
            self._statuses += 1
        elif line["type"] == "event":
            self.events.append(line)
        elif line["type"] in ("done", "refused"):
            self._answers.append(line)
