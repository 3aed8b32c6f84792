"""One running lab: it has a name of its own, and what a dead lab has left behind is swept away.

An instance holds a lock on its directory below /run as long as its process lives, so that a sweep knows dead labs from
living ones. A kept instance (the demo's KEEP=1) is marked, and only ``end`` removes it.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from tests.lab.net import namespaces

RUN = Path("/run/meshsec-lab")
"""Short, because the path of a UNIX socket ends after 107 octets."""
_LOCK, _KEPT, _FILES = "lock", "kept", "files"
_SERIALS = count()


class Instance:
    """The name, the run directory and the lock of one lab."""

    def __init__(self) -> None:
        with _registry():
            _sweep()
            self.name = f"{os.getpid()}.{next(_SERIALS)}"
            self.run = RUN / self.name
            self.run.mkdir()
            self._lock = (self.run / _LOCK).open("w", encoding="ascii")
            fcntl.flock(self._lock, fcntl.LOCK_EX)

    def namespace(self, node: str) -> str:
        """Return the name of a node's namespace."""
        return f"{namespaces.PREFIX}{self.name}-{node}"

    def own_directory(self, base: Path, label: str) -> Path:
        """Make a directory below ``base`` that is removed with the instance."""
        made = base / f"{label}-{self.name}"
        made.mkdir(parents=True)
        (self.run / _FILES).symlink_to(made)
        return made

    def keep(self) -> None:
        """Leave everything running when this process ends, until ``end_kept``."""
        (self.run / _KEPT).touch()
        self.abandon()

    def abandon(self) -> None:
        """Give up the lock, as the end of the process does: the next sweep removes what is not kept."""
        self._lock.close()

    def end(self) -> None:
        """Remove everything."""
        with _registry():
            _remove(self.name)
        self._lock.close()


def end_kept() -> list[str]:
    """Remove the instances that were kept, and return their names."""
    with _registry():
        kept = [path.parent.name for path in RUN.glob(f"*/{_KEPT}")]
        for name in kept:
            _remove(name)
    return kept


@contextmanager
def _registry() -> Iterator[None]:
    """Hold the lock of the registry, so that nobody sweeps an instance that is just being made."""
    RUN.mkdir(mode=0o755, exist_ok=True)
    with (RUN / ".registry").open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _sweep() -> None:
    found = {path.name for path in RUN.iterdir() if path.is_dir()}
    found |= {name.removeprefix(namespaces.PREFIX).partition("-")[0] for name in namespaces.existing()}
    for name in found:
        if "." in name and not _alive(name):
            _remove(name)


def _alive(name: str) -> bool:
    directory = RUN / name
    if (directory / _KEPT).exists():
        return True
    try:
        with (directory / _LOCK).open("r+", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


def _remove(name: str) -> None:
    for namespace in namespaces.existing(f"{namespaces.PREFIX}{name}-"):
        namespaces.destroy(namespace)
    if (files := RUN / name / _FILES).is_symlink():
        shutil.rmtree(files.readlink(), ignore_errors=True)
    shutil.rmtree(RUN / name, ignore_errors=True)
