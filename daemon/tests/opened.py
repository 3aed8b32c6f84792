"""Recording which files the interpreter opens, through its audit hooks (PEP 578)."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from meshsec.adapters.files.trust_store.memory import SETTLED

_recorders: list[list[str]] = []


def _hear(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and _recorders:
        for recorder in _recorders:
            recorder.append(str(arguments[0]))


sys.addaudithook(_hear)


@contextmanager
def opened(directory: Path) -> Iterator[set[str]]:
    """Record the names of a directory's files that are opened, without hidden ones."""
    recorder: list[str] = []
    names: set[str] = set()
    _recorders.append(recorder)
    try:
        yield names
    finally:
        _recorders.remove(recorder)
        names.update(path.name for path in map(Path, recorder) if path.parent == directory and path.name[0] != ".")


def settle(directory: Path) -> None:
    """Wait until every file of a directory is old enough to be remembered."""
    newest = max(entry.stat().st_ctime for entry in os.scandir(directory))
    while time.time() - newest <= SETTLED:
        time.sleep(0.02)
