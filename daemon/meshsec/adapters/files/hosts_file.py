"""meshsec's lines in ``/etc/hosts``, a file that the administrator and other programs change at any time (ADR 0071).

The file is replaced as a whole, with its mode and owner, and only while nobody else writes it. Writers in place are
noticed by a lease: nobody has the file open for writing when it is taken, and the kernel says whether somebody has
tried since. Writers that rename are noticed because the two files are exchanged: what comes out must be what was read.
Otherwise it is put back, and the caller tries again.
"""

import ctypes
import fcntl
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from meshsec import files
from meshsec.core.formats import hosts

HOSTS = Path("/etc/hosts")
"""Where the C library looks first (hosts(5))."""
LIMIT = 16 << 20
"""Bytes of the file: lists of a hundred thousand refused names fit."""

_NEW_MODE = 0o644
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
"""Constants of renameat2(2)."""


def parts(path: Path) -> hosts.Parts:
    """Return the file taken apart; without a file there is nothing in it. Raises FileError."""
    try:
        with path.open("rb") as file:
            return hosts.parts(_content(file, path))
    except FileNotFoundError:
        return hosts.parts(b"")
    except OSError as error:
        raise files.FileError(f"{path}: {error.strerror}") from error


def target(path: Path) -> Path:
    """Return the file to which a path leads: a vehicle's /etc cannot be written, and /etc/hosts there is a link."""
    return Path(os.path.realpath(path))


def put(path: Path, lines: Sequence[str]) -> bool:
    """Make these lines meshsec's. Return False, and change nothing, if somebody else is writing the file.

    Raises FileError and then leaves the file as it was.
    """
    real = target(path)
    try:
        with real.open("rb") as file:
            return _put(file, real, lines)
    except FileNotFoundError:
        if lines:
            files.write(real, hosts.joined(b"", lines), _NEW_MODE, replace=False)
        return True
    except BlockingIOError:
        return False
    except OSError as error:
        raise files.FileError(f"{path}: {error.strerror}; nothing was changed") from error


def _put(file: BinaryIO, path: Path, lines: Sequence[str]) -> bool:
    lease = _Lease(file)
    content = _content(file, path)
    wanted = hosts.joined(content, lines)
    if wanted == content:
        return True
    with _beside(path, wanted, os.fstat(file.fileno())) as made:
        _exchange(made, path)
        if lease.is_broken() or not os.path.samestat(made.stat(), os.fstat(file.fileno())):
            made.replace(path)
            return False
    files.sync_directory(path.parent)
    return True


def _content(file: BinaryIO, path: Path) -> bytes:
    content = file.read(LIMIT + 1)
    if len(content) > LIMIT:
        raise files.FileError(f"{path}: is longer than {LIMIT} bytes; nothing was changed")
    return content


class _Lease:
    """A lease on a file that is open for reading (fcntl(2), F_SETLEASE). It ends when the file is closed."""

    def __init__(self, file: BinaryIO) -> None:
        """Take it where the file system has leases. Raises BlockingIOError if the file is open for writing."""
        self._file = file
        self._taken = False
        signal.signal(signal.SIGIO, signal.SIG_IGN)  # sent when somebody wants to write; it would end this process
        try:
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except BlockingIOError:
            raise
        except OSError:
            return
        self._taken = True

    def is_broken(self) -> bool:
        """Return whether somebody has wanted to write since. The kernel makes him wait until the file is closed."""
        return self._taken and fcntl.fcntl(self._file, fcntl.F_GETLEASE) != fcntl.F_RDLCK


@contextmanager
def _beside(path: Path, content: bytes, like: os.stat_result) -> Iterator[Path]:
    """Give a complete and durable file beside another one, with the other's mode and owner; remove it at the end."""
    made = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), like.st_mode & 0o7777)
            if (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(file.fileno(), like.st_uid, like.st_gid)
            os.fsync(file.fileno())
        yield made
    finally:
        made.unlink(missing_ok=True)


def _exchange(one: Path, other: Path) -> None:
    """Exchange two files atomically (renameat2(2))."""
    library = ctypes.CDLL(None, use_errno=True)
    first, second = os.fsencode(one), os.fsencode(other)
    if library.renameat2(_AT_FDCWD, first, _AT_FDCWD, second, _RENAME_EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
