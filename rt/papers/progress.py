"""What a run of `QUICK=1 make papers` has measured, so that the next run goes on where this one was interrupted."""

import subprocess
import time
from hashlib import sha256
from pathlib import Path

import msgspec

from tests.lab.basics.places import REPOSITORY

DAY = 24 * 60 * 60
"""Seconds for which a run can be gone on with; later the machine may be in another state."""


class _Run(msgspec.Struct):
    """The form of the file."""

    source: str
    begun: float
    """Time in seconds since 1970."""
    measured: dict[str, int]
    """When the result of each benchmark was written, in nanoseconds since 1970."""


class Progress:
    """The benchmarks that a run has measured. Their file is there until the run comes to its end."""

    def __init__(self, path: Path, source: str) -> None:
        """Go on with the run in the file. Begin a new one if that measured another source, or began over a day ago."""
        self._path = path
        now = time.time()
        before = _read(path)
        if before and before.source == source and 0 <= now - before.begun < DAY:
            self._run = before
        else:
            self._run = _Run(source, now, {})

    def has(self, name: str, written: int) -> bool:
        """Return whether the run has measured the benchmark and its result, ``written`` then, is still that one."""
        return self._run.measured.get(name) == written

    def add(self, name: str, written: int) -> None:
        """Note that a benchmark was measured to its end."""
        self._run.measured[name] = written
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_suffix(".new")
        new.write_bytes(msgspec.json.encode(self._run))
        new.replace(self._path)

    def end(self) -> None:
        """Forget the run: the next one measures everything."""
        self._path.unlink(missing_ok=True)


def source() -> str:
    """Return what identifies the source: the commit and the changes since. It is the same for all where git fails."""
    commit, changes = (_git(*argv) for argv in (("rev-parse", "HEAD"), ("diff", "HEAD")))
    return f"{commit.decode().strip()} {sha256(changes).hexdigest()}"


def _git(*argv: str) -> bytes:
    try:
        return subprocess.run(["git", *argv], cwd=REPOSITORY, capture_output=True, check=False).stdout
    except FileNotFoundError:
        return b""


def _read(path: Path) -> _Run | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Run)
    except (OSError, msgspec.MsgspecError):
        return None
