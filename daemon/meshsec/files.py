"""Read and write small files as a whole: a read is bounded, and a write leaves the old content or the new."""

import errno
import os
import stat
from pathlib import Path

_WITHOUT_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)
"""Errors of file systems that have no hard links, such as FAT and exFAT on a USB stick (link(2))."""
_INHERITED = ("/dev/stdin", "/dev/fd/")
"""Streams that the caller opened for this process, so that waiting for them is wanted."""


class FileError(Exception):
    """A file cannot be read or written. The message names it and says why."""


def read(path: Path, limit: int) -> str:
    """Return the text of a regular file or of /dev/stdin, at most ``limit`` bytes of UTF-8. Raises FileError.

    Nothing else is waited for, so that a pipe in a file's place stops no daemon.
    """
    inherited = str(path).startswith(_INHERITED)
    try:
        with open(path, "rb", opener=None if inherited else _at_once) as file:
            if not inherited and not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise FileError(f"{path}: is no regular file")
            content = file.read(limit + 1)
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from error
    if len(content) > limit:
        raise FileError(f"{path}: is longer than {limit} octets")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FileError(f"{path}:{line}: octet {content[error.start]:#04x} is not UTF-8") from error


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def exists(path: Path) -> bool:
    """Return whether the file exists. Raises FileError without the permission to know."""
    try:
        return path.exists()
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from error


def make_directory(path: Path) -> None:
    """Make a directory that all may read, whatever the umask, and its parents; an existing one is not changed.

    Raises FileError.
    """
    try:
        missing = [one for one in (path, *path.parents) if not one.exists()]
        path.mkdir(parents=True, exist_ok=True)
        for one in missing:
            one.chmod(0o755)
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from error


def write(path: Path, content: bytes, mode: int, *, replace: bool = True) -> None:
    """Write a file atomically and durably with exactly ``mode``.

    Raises FileError and then leaves the old file. Without ``replace`` an existing file is an error.
    """
    try:
        _write(path, content, mode, replace)
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}; nothing was changed") from error


def remove(path: Path) -> None:
    """Remove a file durably. Raises FileError."""
    try:
        path.unlink()
        sync_directory(path.parent)
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from error


def rename(path: Path, target: Path) -> None:
    """Rename a file over another, atomically and durably. Raises FileError."""
    try:
        path.replace(target)
        sync_directory(target.parent)
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from error


def _write(path: Path, content: bytes, mode: int, replace: bool) -> None:
    temporary = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            temporary.replace(path)
        else:
            _move_new(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_directory(path.parent)


def _move_new(temporary: Path, path: Path) -> None:
    """Give a whole file its name, unless that exists. Raises OSError."""
    try:
        path.hardlink_to(temporary)
    except OSError as error:
        if error.errno not in _WITHOUT_LINKS:
            raise
    else:
        return
    # An empty file reserves the name. After a power cut here it is empty, and never half of what was to be written.
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        temporary.replace(path)
    except OSError:
        path.unlink()
        raise


def sync_directory(path: Path) -> None:
    """Make a name durable: rename and unlink change the directory (fsync(2))."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
