"""meshsecd's control socket: one question, or a line for each change."""

import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.lab.basics.patience import patient


class ControlStream:
    """meshsecd's ``watch``: a JSON line for each change."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.connect(str(path))
            self._socket.sendall(b'{"id": 1, "method": "watch", "params": {}}\n')
        except OSError:
            self._socket.close()
            raise

    def fileno(self) -> int:
        """For select."""
        return self._socket.fileno()

    def drain(self) -> bool:
        """Take what is there; False when meshsecd has gone."""
        try:
            return bool(self._socket.recv(1 << 16))
        except ConnectionError:
            return False

    def close(self) -> None:
        """End the subscription."""
        self._socket.close()


def ask(path: Path, method: str, params: Mapping[str, object] | None = None, seconds: float = 60.0) -> dict[str, Any]:
    """One question to meshsecd's control socket; raises ConnectionError and FileNotFoundError when it is not there."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(patient(seconds))
        connection.connect(str(path))
        request = {"id": 1, "method": method, "params": dict(params or {})}
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
