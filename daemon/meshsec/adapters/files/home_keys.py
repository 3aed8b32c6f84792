"""Destroy the keys of fleets in the homes of this machine's users, of whom root trusts none.

A user may put anything into his home, also a link by which root would overwrite somebody else's file. So a directory
and a file are opened without following a link, and only a regular file of the home's owner is overwritten. One of root
is, too, if it has no other name: it was made by `sudo meshsec fleet init`.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from meshsec.adapters.files.destroying import Failure, fill

PASSWD, HOMES = Path("/etc/passwd"), Path("/home")
_NAME = ".meshsec-fleet"
VARIABLE = "MESHSEC_FLEET"
"""Variable of the environment that names the directory of a fleet (cli/fleet_options.py)."""
_KEYS = ("*.key", ".*.key.*")
"""Names of keys, and of what an interrupted write of one has left."""
_LINK = "is a symbolic link; what it points to was not touched"


@dataclass(frozen=True, slots=True)
class Place:
    """A directory in which a fleet's key may be."""

    directory: Path
    owners: frozenset[int]
    """Users whose files in it may be destroyed, besides those of root that have no other name."""


def places() -> list[Place]:
    """Return those in the homes of root, of all users in the file of users, and below /home, and the one that is named.

    Users whom only a directory service knows are found if their homes are below /home. Nobody asks the service, because
    an answer may take longer than the keys may live.
    """
    homes = [(0, os.environ.get("HOME") or "/root"), *_listed()]
    with suppress(OSError):
        homes += [(path.lstat().st_uid, str(path)) for path in HOMES.iterdir()]
    found = [(owner, Path(home, _NAME)) for owner, home in homes if home.startswith("/")]
    if named := os.environ.get(VARIABLE):
        directory = Path(named).expanduser().absolute()
        with suppress(OSError):
            found.append((directory.lstat().st_uid, directory))
    owners: dict[Path, set[int]] = {}
    for owner, directory in found:
        owners.setdefault(directory, set()).add(owner)
    return [Place(directory, frozenset(users)) for directory, users in owners.items()]


def destroy(found: Iterable[Place]) -> tuple[int, list[Failure]]:
    """Destroy the keys of fleets in these places. Return how many, and what failed."""
    count, failures = 0, list[Failure]()
    for place in found:
        removed, left = _destroy(place)
        count += removed
        failures += left
    return count, failures


def _listed() -> Iterator[tuple[int, str]]:
    with suppress(OSError):
        for line in PASSWD.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
            fields = line.split(":")
            if len(fields) == 7 and fields[2].isdecimal():
                yield int(fields[2]), fields[5]


def _destroy(place: Place) -> tuple[int, list[Failure]]:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        directory = os.open(place.directory, flags)
    except OSError as error:
        if place.directory.is_symlink():
            return 0, [Failure(str(place.directory), _LINK)]
        is_missing = isinstance(error, (FileNotFoundError, NotADirectoryError))
        return 0, [] if is_missing else [Failure(str(place.directory), f"was not searched: {error.strerror}")]
    try:
        names = [
            name
            for name in sorted(os.listdir(directory))  # noqa: PTH208  # of a descriptor
            if any(fnmatchcase(name, one) for one in _KEYS)
        ]
        failures = [(name, why) for name in names if (why := _destroy_file(directory, name, place.owners))]
        with suppress(OSError):
            os.fsync(directory)
    finally:
        os.close(directory)
    return len(names) - len(failures), [Failure(f"{place.directory}/{name}", why) for name, why in failures]


def _destroy_file(directory: int, name: str, owners: frozenset[int]) -> str:
    """Overwrite a file and remove its name. Return what failed."""
    try:
        if stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=directory)
            return _LINK
        file = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
        try:
            if why := _strange(os.fstat(file), owners):
                return why
            fill(file)
        finally:
            os.close(file)
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"was not destroyed: {error.strerror}"
    return ""


def _strange(found: os.stat_result, owners: frozenset[int]) -> str:
    """Return why a file is none that the home's owner or root has put here; nothing if it is one."""
    if not stat.S_ISREG(found.st_mode):
        return "is no regular file"
    if found.st_uid in owners or (found.st_uid == 0 and found.st_nlink == 1):
        return ""
    return f"belongs to user {found.st_uid}, who is not the directory's owner; it was not touched"
