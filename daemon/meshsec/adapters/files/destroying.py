"""Destroy files: overwrite them in place, make that durable, and remove their names.

A name is never followed: a symbolic link is removed, and what it points to is reported unless it is destroyed itself.
Blocks of a flash disk that its controller has replaced are out of reach, so such a disk needs encryption besides
(docs/guide/lost-node.md).
"""

import os
import stat
import subprocess
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from meshsec.files import FileError

_ROOT = Path("/")
_PORTION = 1 << 16
_REMOUNT_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that was not destroyed, and why."""

    what: str
    why: str


def destroy(patterns: Iterable[str], also: Iterable[str] = ()) -> tuple[int, list[Failure]]:
    """Destroy all files that match, and those of ``also`` with all files below. Return how many, and what failed.

    A missing file is no failure. After a failure the others are destroyed all the same. File systems that are mounted
    read-only come last, because they must be remounted, which takes time.
    """
    found = dict.fromkeys(path for pattern in patterns for path in sorted(_ROOT.glob(pattern.lstrip("/"))))
    found |= dict.fromkeys(path for one in also for path in _below(Path(one)))
    read_only = {path: _mount_point(path) for path in found if _is_read_only(path)}
    count, failures = _destroy([path for path in found if path not in read_only], found)
    for place in dict.fromkeys(read_only.values()):
        problem = _remount(place, "rw")
        more, failed = _destroy([path for path in read_only if read_only[path] == place], found)
        count += more
        failures += failed
        if problem:
            failures.append(Failure(str(place), f"cannot be written: {problem}"))
        else:
            _remount(place, "ro")
    return count, failures


def _destroy(paths: Iterable[Path], found: Container[Path]) -> tuple[int, list[Failure]]:
    failures = [failure for path in paths for failure in _overwrite(path, found)]
    removed = [path for path in paths if _remove(path, failures)]
    for directory in dict.fromkeys(path.parent for path in removed):
        _sync(directory, failures)
    return len(removed), failures


def _is_read_only(path: Path) -> bool:
    with suppress(OSError):
        return bool(os.statvfs(path.parent).f_flag & os.ST_RDONLY)
    return False


def _mount_point(path: Path) -> Path:
    return next(one for one in path.parents if one.is_mount())


def _remount(place: Path, mode: str) -> str:
    """Remount what is mounted there; return what is wrong. FAT's table is written before it is read-only again."""
    argv = ["mount", "-o", f"remount,{mode}", str(place)]
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=_REMOUNT_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "; ".join(done.stderr.split("\n")).strip("; ") if done.returncode else ""


@contextmanager
def overwriting(path: Path) -> Iterator[None]:
    """Overwrite what has this name now, after the block has removed or replaced it; an exception leaves it as it is.

    Raises FileError.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        yield
        return
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}; nothing was changed") from error
    try:
        yield
        try:
            fill(descriptor)
        except OSError as error:
            raise FileError(f"{path}: its old content was not overwritten: {error.strerror}") from error
    finally:
        os.close(descriptor)


def remove_sockets(paths: Iterable[str]) -> None:
    """Remove sockets, and those in directories, whose processes have ended."""
    for path in map(Path, paths):
        for one in (path, *path.glob("*"), *path.glob("*/*")):
            if stat.S_ISSOCK(_mode(one)):
                with suppress(OSError):
                    one.unlink()


def _below(path: Path) -> Iterator[Path]:
    if stat.S_ISDIR(_mode(path)):
        for one in sorted(path.iterdir()):
            yield from _below(one)
    else:
        yield path


def _mode(path: Path) -> int:
    """Return the mode of what has that name; 0 if there is nothing."""
    with suppress(OSError):
        return path.lstat().st_mode
    return 0


def _overwrite(path: Path, found: Container[Path]) -> Iterator[Failure]:
    mode = _mode(path)
    if stat.S_ISLNK(mode) and path.readlink() not in found:
        yield Failure(f"{path} -> {path.readlink()}", "is a symbolic link; what it points to was not touched")
    if not stat.S_ISREG(mode):
        return
    try:
        # O_NOFOLLOW: the name may have become a link meanwhile.
        descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fill(descriptor)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return
    except OSError as error:
        yield Failure(str(path), f"was not overwritten: {error.strerror}")


def fill(descriptor: int) -> None:
    """Overwrite a file durably. It keeps its blocks, so that a full disk is no obstacle.

    Random octets: a file system that compresses stores zeros as a hole, and leaves the blocks as they are.
    """
    offset, length = 0, os.fstat(descriptor).st_size
    while offset < length:
        offset += os.pwrite(descriptor, os.urandom(min(_PORTION, length - offset)), offset)
    os.fdatasync(descriptor)


def _remove(path: Path, failures: list[Failure]) -> bool:
    """Remove a name; return whether it was that of a file or of a link."""
    mode = _mode(path)
    if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
        return False
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        failures.append(Failure(str(path), f"was not removed: {error.strerror}"))
        return False
    return True


def _sync(directory: Path, failures: list[Failure]) -> None:
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        failures.append(Failure(str(directory), f"was not synced: {error.strerror}"))
