"""The visits of a run, written down as they are made, so that a run that ended early can go on where it ended.

``build/bench/NAME.visits.jsonl``: the first line says what the run measures, each other line is one visit. A line that
was cut off, because the machine died while it was written, does not count.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rt.measure.results import machine, versions


class JournalError(Exception):
    """There is no run that could go on. The message says why, and what to do."""


class Journal:
    """What a run has measured so far."""

    def __init__(self, path: Path, about: Mapping[str, object], *, resume: bool) -> None:
        """Begin a journal, or read the one at ``path``. ``about``: what another run must have in common with this one.

        Raises JournalError when there is nothing to read, or what is there was measured in another way.
        """
        self._path = path
        self._visits: dict[str, Any] = {}
        heading = json.loads(json.dumps({"about": about, "machine": machine(), "versions": versions()}))
        if resume:
            self._read(heading)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
        lines = [heading, *({"visit": visit, "found": found} for visit, found in self._visits.items())]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")

    def __len__(self) -> int:
        return len(self._visits)

    def __contains__(self, visit: str) -> bool:
        return visit in self._visits

    def __getitem__(self, visit: str) -> Any:
        return self._visits[visit]

    def add(self, visit: str, found: object) -> None:
        """Keep what a visit found."""
        line = json.dumps({"visit": visit, "found": found})
        self._visits[visit] = json.loads(line)["found"]
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def close(self) -> None:
        """Remove the file: the run came to its end, and its result has everything."""
        self._path.unlink(missing_ok=True)

    def _read(self, heading: Mapping[str, Any]) -> None:
        try:
            first, *lines = self._path.read_text(encoding="utf-8").splitlines()
            before = json.loads(first)
        except (OSError, ValueError) as error:
            raise JournalError(f"{self._path}: no run that could go on; begin one without --resume") from error
        for part, now in heading.items():
            then = before.get(part, {})
            for name in {**then, **now}:
                if then.get(name) != now.get(name):
                    raise JournalError(
                        f"{self._path}: {part}, {name}: {then.get(name)!r} then, {now.get(name)!r} now; "
                        f"go on as it was begun, or begin again without --resume"
                    )
        for line in lines:
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            self._visits[entry["visit"]] = entry["found"]
