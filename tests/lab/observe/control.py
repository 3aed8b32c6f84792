"""meshsecd's control socket: questions, and a line for each change."""

import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.lab.basics.patience import patient

_LAST_ANSWER = 5.0
"""Seconds to wait for an answer after the test has already failed."""


class ControlStream:
    """A subscription to meshsecd's ``watch``: a JSON line for each change."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.connect(str(path))
            self._socket.sendall(b'{"id": 1, "method": "watch", "params": {}}\n')
        except OSError:
            self._socket.close()
            raise

    def fileno(self) -> int:
        """Return the socket's descriptor, for select."""
        return self._socket.fileno()

    def drain(self) -> bool:
        """Read what is available; return False when meshsecd has ended."""
        try:
            return bool(self._socket.recv(1 << 16))
        except ConnectionError:
            return False

    def close(self) -> None:
        """End the subscription."""
        self._socket.close()


class Control:
    """Asks the meshsecd of one node."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def ask(self, method: str, **params: object) -> dict[str, Any]:
        """Return meshsecd's answer; {} when it does not run. An error that it reports is a LookupError."""
        try:
            return self._ask(method, params, 60.0)
        except (ConnectionError, FileNotFoundError):
            return {}

    def peer(self, name: str) -> dict[str, Any]:
        """Return what ``status`` says about one peer; {} when it says nothing."""
        found = [entry for entry in self.ask("status").get("peers", []) if entry["name"] == name]
        return found[0] if found else {}

    def summary(self) -> str:
        """Return the state of every channel in a few words."""
        peers = self.ask("status").get("peers", [])
        return "; ".join(f"{peer['name']} {peer['state']} ({peer.get('reason', '')})" for peer in peers) or "no answer"

    def last_status(self) -> str:
        """Return the status, or why there is none: a meshsecd that hangs must not hide the failure of a test."""
        try:
            return json.dumps(self._ask("status", {}, _LAST_ANSWER), indent=1)
        except (OSError, LookupError) as error:
            return f"no answer: {error}"

    def watch(self) -> ControlStream:
        """Subscribe to its changes. Raises ConnectionError or FileNotFoundError when it does not run."""
        return ControlStream(self._path)

    def _ask(self, method: str, params: Mapping[str, object], seconds: float) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(patient(seconds))
            connection.connect(str(self._path))
            request = {"id": 1, "method": method, "params": params}
            connection.sendall(json.dumps(request).encode() + b"\n")
            answer = json.loads(_line(connection))
        if "error" in answer:
            raise LookupError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result


def _line(connection: socket.socket) -> bytes:
    received = bytearray()
    while not received.endswith(b"\n"):
        if not (data := connection.recv(1 << 16)):
            raise ConnectionResetError("meshsecd closed the connection")
        received += data
    return bytes(received)
