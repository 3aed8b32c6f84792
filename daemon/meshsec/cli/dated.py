"""What on this node has a date, to compare its clock with: its files, and what fleets have signed."""

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import meshsec
from meshsec.adapters.files.trust_store import TrustStoreError, fleets
from meshsec.cli.app import App
from meshsec.core.explain.date_doctor import Evidence, judged
from meshsec.core.explain.findings import Check


def check(app: App) -> Check:
    """Return doctor's check of the date."""
    paths = (app.config, Path(app.settings.paths.key), *app.peers_directory.glob("*.card"))
    return judged(time.time(), [*_made(), *_written(paths), *_signed(app.peers_directory)])


def _made() -> Iterator[Evidence]:
    for one in _written([Path(meshsec.__file__)]):
        yield Evidence("this version of meshsec was made", one.at, one.otherwise)


def _written(paths: Iterable[Path]) -> Iterator[Evidence]:
    for path in paths:
        with suppress(OSError):  # others than root may not look into every directory
            yield Evidence(f"{path} was written", path.stat().st_mtime, f"`touch {path}`")


def _signed(directory: Path) -> Iterator[Evidence]:
    """Yield what fleets have signed. Their clocks are others, so this shows a clock that was wrong from the start."""
    try:
        joined = fleets.read(directory)
    except TrustStoreError:
        return
    for membership in joined.memberships.values():
        name = membership.fleet.name
        otherwise = "that of the fleet's operator was ahead, so that cards signed for a time end early: tell him"
        if membership.list:
            yield Evidence(f"the fleet {name} signed its list", membership.list.number, otherwise)
        for signed in membership.owns:
            yield Evidence(f"the fleet {name} signed this node's card", signed.since, otherwise)
