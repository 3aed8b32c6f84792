"""A reader of a daemon's UNIX socket that gives one JSON object in each line."""

import json
import socket
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Self

from tests.lab.observe.schemas import schema


class JsonLines(ABC):
    """A connection that checks each line against a schema."""

    def __init__(self, path: Path, lines: str, seconds: float) -> None:
        """``lines``: the schema's name. ``seconds``: how long a read waits for data."""
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(seconds)
        self._socket.connect(str(path))
        self._schema = schema(lines)
        self._rest = b""
        self.ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fileno(self) -> int:
        """Return the socket's descriptor, for select."""
        return self._socket.fileno()

    def drain(self) -> bool:
        """Read what is available; return False at the end of the stream."""
        data = self._socket.recv(1 << 16)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for text in lines:
            line = json.loads(text)
            self._schema.validate(line)
            self._take(line)
        self.ended = not data
        return bool(data)

    def send(self, line: str) -> None:
        """Send a line."""
        self._socket.sendall(line.encode() + b"\n")

    def close(self) -> None:
        """End the connection; what was received stays."""
        self._socket.close()

    @abstractmethod
    def _take(self, line: dict[str, Any]) -> None:
        """Keep what a line says."""
