"""The client's end of the control socket: JSON lines (docs/development/architecture.md)."""

import json
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_TIMEOUT = 10.0
"""Seconds for an answer, unless the caller knows better."""
_LINE_LIMIT = 64 << 20
"""Octets of an answer: the topology of thousands of nodes fits."""


class DaemonAbsentError(Exception):
    """Nobody answers at the control socket."""


class DaemonError(Exception):
    """meshsecd refused, or what it answered cannot be understood."""

    def __init__(self, message: str, code: str = "") -> None:
        """``code`` is that of meshsecd's refusal (docs/reference/control-socket.md); empty when it gave none."""
        super().__init__(message)
        self.code = code


class Client:
    """A connection to meshsecd."""

    def __init__(self, path: Path, seconds: float | None = None) -> None:
        """``seconds``: how long an answer is waited for; None: as long as one from memory takes."""
        self._seconds = _TIMEOUT if seconds is None else seconds
        self._socket = _connected(path, self._seconds)
        self._lines = self._socket.makefile("rb")
        self._last_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lines.close()
        self._socket.close()

    def call(self, method: str, params: Mapping[str, object] | None = None) -> Any:
        """Return the result of a method. Raises DaemonError."""
        self._last_id += 1
        request = json.dumps({"id": self._last_id, "method": method, "params": params or {}})
        try:
            self._socket.sendall(request.encode() + b"\n")
        except OSError as fault:
            raise DaemonError(f"meshsecd went away: {fault.strerror}") from fault
        answer = self._message()
        if error := answer.get("error"):
            told = error if isinstance(error, dict) else {}
            raise DaemonError(str(told.get("message", error)), str(told.get("code", "")))
        if answer.get("id") != self._last_id or "result" not in answer:
            raise DaemonError(f"meshsecd gave no result to {method!r}")
        return answer["result"]

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield events as they happen, after ``watch`` was called. Raises DaemonError when meshsecd ends."""
        self._socket.settimeout(None)
        while True:
            message = self._message()
            if "event" in message:
                yield message["event"]

    def _message(self) -> dict[str, Any]:
        try:
            line = self._lines.readline(_LINE_LIMIT)
        except TimeoutError as error:
            raise DaemonError(f"meshsecd did not answer within {self._seconds:.0f} s") from error
        except OSError as error:
            raise DaemonError(f"meshsecd went away: {error.strerror}") from error
        if not line.endswith(b"\n"):
            raise DaemonError("meshsecd closed the connection" if len(line) < _LINE_LIMIT else "the answer is too long")
        try:
            message = json.loads(line)
        except ValueError as error:
            raise DaemonError("meshsecd's answer is not JSON: is this its control socket?") from error
        if not isinstance(message, dict):
            raise DaemonError("meshsecd's answer is no object: is this its control socket?")
        return message


def _connected(path: Path, seconds: float) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(seconds)
    try:
        connection.connect(str(path))
    except PermissionError as error:
        connection.close()
        raise DaemonError(f"{path}: permission denied: {_door(path)}") from error
    except OSError as error:
        connection.close()
        raise DaemonAbsentError(
            f"meshsecd does not answer at {path}: {error.strerror or error}; `systemctl start meshsec.target` starts it"
        ) from error
    return connection


def _door(path: Path) -> str:
    """Return who may talk to the daemon."""
    try:
        return f"be root or in the group {path.group()!r}"
    except (OSError, KeyError):
        return "be root or in the group of meshsecd"
