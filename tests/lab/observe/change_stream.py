"""A reader of olsrv2d's change stream."""

import json
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tests.lab.observe.schemas import schema

_KEYS: Mapping[str, Sequence[str]] = {
    "neighbour": ("originator", "addresses"),
    "link": ("interface", "address"),
    "node": ("originator",),
    "edge": ("from", "to"),
    "attached": ("prefix", "originator"),
    "local_attached": ("prefix",),
    "route": ("destination",),
}


class ChangeStream:
    """A reader of the change stream: it checks each line against the schema and keeps the resulting tables."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(60)
        self._socket.connect(str(path))
        self._rest = b""
        self.hello: dict[str, Any] = {}
        self.snapshot: dict[str, Any] = {}
        self.lines: list[dict[str, Any]] = []
        self.tables: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in _KEYS}
        self.ended = False
        while not self.snapshot and self.drain():
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
        self.ended = not data
        return bool(data)

    def command(self, name: str, **fields: object) -> None:
        """Send a command; what it changes or why it is refused follows in the stream."""
        self._socket.sendall(json.dumps({"command": name, **fields}).encode() + b"\n")

    def close(self) -> None:
        """End the subscription; what was received stays."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def routes(self) -> dict[str, dict[str, Any]]:
        """Return the routes that the kernel has, by destination."""
        return {key: route for key, route in self.tables["route"].items() if route["installed"]}

    def _take(self, line: dict[str, Any]) -> None:
        schema("olsrv2d-changes-1").validate(line)
        self.lines.append(line)
        if line["type"] == "hello":
            self.hello = line
        elif line["type"] == "snapshot":
            self.snapshot = line
            for name, table in self.tables.items():
                entries = line[name if name.endswith("attached") else f"{name}s"]
                table.update({_key(name, entry): entry for entry in entries})
        elif line["type"] == "change" and line["op"] == "set":
            self.tables[line["object"]][_key(line["object"], line)] = line
        elif line["type"] == "change":
            self.tables[line["object"]].pop(_key(line["object"], line), None)


def _key(name: str, entry: Mapping[str, Any]) -> str:
    return json.dumps([entry[field] for field in _KEYS[name]]) if len(_KEYS[name]) > 1 else str(entry[_KEYS[name][0]])
