"""Writes an update beside what runs: all that can be refused is refused before anything is written."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from meshsec_update import health, machine, release, store, trial
from meshsec_update.machine import Image, RefusedError
from meshsec_update.release import SIGNATURE, SUMS, Release

RUN = Path("/run/meshsec-update")
_SOURCE = RUN / "source"
"""Where the transfers of systemd-sysupdate look."""
_SYSUPDATE = "/usr/lib/systemd/systemd-sysupdate"


def check(directory: Path, *, again: bool = True) -> Release:
    """Return the update in ``directory``, all of which was verified, if this node would take it.

    ``again`` allows a version that waits for its trial or that failed here, because a user asks for it: the power may
    have gone while it was written or tried.
    """
    running = machine.image()
    found = release.read(directory, running)
    release.need_newer(found, running, again=again)
    release.check_content(directory, found)
    _need_calm(running)
    _need_room(directory, found, running)
    return found


def install(directory: Path, *, again: bool = True) -> Release:
    """Check the update in ``directory``, and write it."""
    with _alone():
        found = check(directory, again=again)
        write(directory, found)
    return found


def write(directory: Path, found: Release) -> None:
    """Write what was checked: the root first, and last the kernel, which makes it count."""
    RUN.mkdir(mode=0o700, exist_ok=True)
    _SOURCE.unlink(missing_ok=True)
    _SOURCE.symlink_to(directory.resolve())
    with machine.esp_writable():
        for path in _leftovers(found):
            path.unlink()
        machine.said([_SYSUPDATE, "update", found.version])
        _remember(directory, found.version)


def _remember(directory: Path, version: str) -> None:
    """Keep the signed checksums on the first partition, so that this node can give the update to others."""
    kept = {version, machine.image().version}
    for old in store.SIGNED.iterdir() if store.SIGNED.is_dir() else ():
        if old.name not in kept:
            shutil.rmtree(old)
    target = store.SIGNED / version
    target.mkdir(parents=True, exist_ok=True)
    for name in (SUMS, SIGNATURE):
        (target / name).write_bytes((directory / name).read_bytes())


def _need_calm(running: Image) -> None:
    """Only a node that works, with a version that has passed its trial, can tell whether the next one is as good."""
    if trial.kernel(running) is not None:
        raise RefusedError(
            "the version that runs is still being tried; wait until `meshsec-update status` says otherwise"
        )
    if wrong := health.problems():
        raise RefusedError(
            f"this node does not work now, so no update could be judged: {'; '.join(wrong)}; see `meshsec doctor`"
        )


def _need_room(directory: Path, found: Release, running: Image) -> None:
    root, kernel = ((directory / file.name).stat().st_size for file in found.files)
    if root > (slot := machine.slot_size()):
        raise RefusedError(
            f"{found.root.name}: {root} bytes; a slot of this disk has {slot}: write the whole image to the disk"
        )
    space = os.statvfs(machine.ESP)
    kept = machine.kernels(running.version, running.architecture)
    replaced = (path for path in machine.KERNELS.iterdir() if path not in kept)
    free = space.f_bavail * space.f_frsize + sum(path.stat().st_size for path in replaced)
    if kernel > free:
        raise RefusedError(
            f"{found.kernel.name}: {kernel} bytes; {machine.ESP} has room for {free}: remove what is not meshsec's"
        )


def _leftovers(found: Release) -> list[Path]:
    """Return what an interrupted update left, and a kernel of this version that failed: it is tried again."""
    useless = [path for path in machine.KERNELS.iterdir() if path.name.startswith(".#") or not path.stat().st_size]
    return useless + machine.kernels(found.version, found.kernel.architecture)


@contextmanager
def _alone() -> Iterator[None]:
    RUN.mkdir(mode=0o700, exist_ok=True)
    with (RUN / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RefusedError("another meshsec-update is at work; wait for it") from None
        yield
