"""Which archive of Debian the roots of tests come from: a snapshot of a date where it can be reached.

With a snapshot, what Debian changes today does not decide about somebody's unrelated change. Without one, roots come
from this machine's own sources. The first root that is built decides, and ``build/debian`` keeps that until `make
clean`, so that a server that is away for an hour does not have all roots built again. ``.ci/newest`` asks for this
machine's sources, because somebody has to notice what Debian changes.
"""

import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.lab.basics.places import BUILD

NEWEST = "MESHSEC_NEWEST_DEBIAN"
"""Set: this machine's sources, whatever can be reached."""
_KEPT = BUILD / "debian"
_OWN = "own"
_TRIED = "trixie"
"""The suite whose index says whether the snapshot is there."""
_SECONDS = 60


@dataclass(frozen=True)
class Snapshot:
    """The archive as it was at a time."""

    date: str
    """As in ISO 8601, without separators. The state before it is served if nothing changed then."""
    place: str = "http://snapshot.debian.org/archive"
    """URL of the archives' directories. apt checks signatures, so the way there needs no secrecy."""

    def sources(self, suite: str) -> str:
        """Return apt's sources for a suite, with its security updates. An old index is what is wanted here."""
        suites = {"debian": suite, "debian-security": f"{suite}-security"}
        options = "[check-valid-until=no]"
        return "".join(f"deb {options} {self._archive(name)} {one} main\n" for name, one in suites.items())

    def is_reached(self) -> bool:
        """Return whether apt gets the snapshot from here, as this machine's apt is configured."""
        address = f"{self._archive('debian')}dists/{_TRIED}/InRelease"
        argv = ["/usr/lib/apt/apt-helper", "-o", "Acquire::Retries=0", "-o", "Acquire::http::Timeout=20"]
        with tempfile.TemporaryDirectory() as directory:
            download = [*argv, "download-file", address, f"{directory}/InRelease"]
            try:
                return not subprocess.run(download, capture_output=True, check=False, timeout=_SECONDS).returncode
            except (OSError, subprocess.TimeoutExpired):
                return False

    def _archive(self, name: str) -> str:
        return f"{self.place}/{name}/{self.date}/"


SNAPSHOT = Snapshot("20261115T000000Z")
"""The one that tests use. A newer date builds all roots again."""


def decide(snapshot: Snapshot = SNAPSHOT, kept: Path = _KEPT) -> None:
    """Decide between the snapshot and this machine's sources, unless that is decided for this date."""
    if NEWEST in os.environ or snapshot.date in _words(kept):
        return
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(f"{snapshot.date if snapshot.is_reached() else _OWN} {snapshot.date}\n", encoding="ascii")


def chosen(snapshot: Snapshot = SNAPSHOT, kept: Path = _KEPT) -> Snapshot | None:
    """Return the snapshot where it was decided for; None: this machine's sources."""
    return snapshot if NEWEST not in os.environ and _words(kept)[:1] == [snapshot.date] else None


def said(snapshot: Snapshot = SNAPSHOT, kept: Path = _KEPT) -> str:
    """Return a line about where roots of tests come from."""
    if NEWEST in os.environ:
        return "roots of tests: this machine's Debian sources, as asked for"
    if not (words := _words(kept)):
        return "roots of tests: none was built"
    if words[0] == snapshot.date:
        return f"roots of tests: Debian's snapshot of {snapshot.date}"
    return f"roots of tests: this machine's Debian sources; the snapshot of {words[-1]} could not be reached"


def _words(kept: Path) -> list[str]:
    return kept.read_text(encoding="ascii").split() if kept.exists() else []
