"""A reader of olsrv2d's change stream."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.lab.observe.json_lines import JsonLines

_KEYS: Mapping[str, Sequence[str]] = {
    "neighbour": ("originator", "addresses"),
    "link": ("interface", "address"),
    "node": ("originator",),
    "edge": ("from", "to"),
    "attached": ("prefix", "originator"),
    "local_attached": ("prefix",),
    "route": ("destination",),
}


class ChangeStream(JsonLines):
    """A reader of the change stream: it keeps the resulting tables."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "olsrv2d-changes-1", seconds=60)
        self.hello: dict[str, Any] = {}
        self.snapshot: dict[str, Any] = {}
        self.lines: list[dict[str, Any]] = []
        self.tables: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in _KEYS}
        while not self.snapshot and self.drain():
            pass

    def command(self, name: str, **fields: object) -> None:
        """Send a command; what it changes or why it is refused follows in the stream."""
        self.send(json.dumps({"command": name, **fields}))

    @property
    def routes(self) -> dict[str, dict[str, Any]]:
        """Return the routes that the kernel has, by destination."""
        return {key: route for key, route in self.tables["route"].items() if route["installed"]}

    def _take(self, line: dict[str, Any]) -> None:
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
