"""Gets an update from the nearest peer that has it, verified as one from a medium is.

Each link carries an image once: who is near the source gets it first and gives it on. So a node asks its nearest peers,
and goes past them only when a farther one has had the update for so long that they seem not to take it.
"""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple

from meshsec_update import download, machine, release
from meshsec_update.download import Folder, Peer
from meshsec_update.machine import Image, RefusedError
from meshsec_update.release import SIGNATURE, SUMS, Release

FOLDER = Path("/var/lib/meshsec-update")
FETCHED = 10
"""Status of `fetch`, which has no privileges, when there is something to install."""
HOP_SECONDS = 3600
"""For each hop beyond the nearest peers, a node waits so long before it asks there."""


class Found(NamedTuple):
    """An update that a peer has."""

    peer: Peer
    release: Release
    age: int
    """Seconds for which the peer has had it."""


def peers(status: Mapping[str, Any]) -> list[Peer]:
    """Return the peers that are protected and in reach, the nearest first."""
    near = [one for one in status["peers"] if one["state"] == "protected" and one["hops"] is not None]
    return sorted(
        (Peer(one["name"], one["address"], one["hops"]) for one in near), key=lambda peer: (peer.hops, peer.name)
    )


def fetch(
    status: Mapping[str, Any], running: Image, folder: Path, largest: int, keyring: Path = release.KEYRING
) -> Path | None:
    """Fetch an update into ``folder`` and return its directory; None when no peer has one that this node should take.

    ``largest`` limits the bytes of a file. A peer that fails does not keep the node from asking the next one; raises
    RefusedError when all that have an update fail.
    """
    forget_useless(folder, running)
    known, failures = peers(status), []
    for peer in known:
        with tempfile.TemporaryDirectory() as temporary:
            found = _ask(peer, running, Path(temporary), keyring)
            if found is None or found.age < (peer.hops - known[0].hops) * HOP_SECONDS:
                continue
            try:
                return _download(found, Path(temporary), folder, largest)
            except RefusedError as error:
                failures.append(f"{peer.name}: {error}")
                print(f"meshsec-update: {failures[-1]}")
    if failures:
        raise RefusedError("no peer gave the update: " + "; ".join(failures))
    return None


def _ask(peer: Peer, running: Image, into: Path, keyring: Path) -> Found | None:
    """Return what a peer has, if it is newer than every version on the disk, also than one that failed here."""
    try:
        age = 0
        for name in (SUMS, SIGNATURE):
            content, age = download.small(peer, name)
            (into / name).write_bytes(content)
        found = release.read(into, running, keyring)
        release.need_newer(found, running)
    except (OSError, HTTPException, ValueError, RefusedError) as error:
        print(f"meshsec-update: {peer.name}: {error}")
        return None
    return Found(peer, found, age)


def _download(found: Found, signed: Path, folder: Path, largest: int) -> Path:
    """Get what is missing of an update, and return its directory. ``signed`` has its checksums."""
    target = Folder(folder / found.release.version)
    if target.refuses(found.peer):
        raise RefusedError(f"version {found.release.version}: what this peer gave before was not what was signed")
    _forget_older(folder, target.path)
    target.path.mkdir(parents=True, exist_ok=True)
    for name in (SUMS, SIGNATURE):
        shutil.copy(signed / name, target.path)
    for file in found.release.files:
        download.complete(found.peer, target, file, largest)
    target.finish()
    for other in _children(folder):
        if other != target.path:
            shutil.rmtree(other)
    return target.path


def forget_useless(folder: Path, running: Image) -> None:
    """Remove what was fetched of versions that this node does not take any more."""
    for path in _children(folder):
        if why := release.why_not(path.name, running):
            print(f"meshsec-update: {path}: removed: {why}")
            shutil.rmtree(path)


def _forget_older(folder: Path, than: Path) -> None:
    """Remove what was begun of older versions. A newer one stays, so that nobody can remove it by an older offer."""
    for path in _children(folder):
        if path != than and not machine.is_newer(path.name, than.name):
            shutil.rmtree(path)


def _children(folder: Path) -> Iterator[Path]:
    yield from list(folder.iterdir()) if folder.is_dir() else ()
