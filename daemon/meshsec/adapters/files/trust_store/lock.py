"""Lock the trust store with a private file, because any account that can open a file can lock it (flock(2))."""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

NAME = ".lock"
SECONDS = 4.0
"""Longest wait for another writer, in seconds. A change takes milliseconds, and `meshsec` waits 10 s for an answer to
one that waits behind another of meshsecd's own."""
_MODE = 0o600
_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PAUSE = 0.02
"""Seconds between two attempts: flock(2) has no time limit of its own."""
_LOCKS = Path("/proc/locks")


class LockError(Exception):
    """The lock cannot be taken. The message names its file, what is wrong with it and what to do."""


def prepare(directory: Path) -> None:
    """Make the lock file while the disk has room, so that a full disk does not prevent a removal later.

    Errors are ignored here; the next change reports them.
    """
    with suppress(OSError):
        os.close(os.open(directory / NAME, _OPEN, _MODE))


@contextmanager
def locked(directory: Path, seconds: float = SECONDS) -> Iterator[None]:
    """Exclude other writers from a directory. Raises LockError after ``seconds``, and if the lock file is not
    private.
    """
    path = directory / NAME
    try:
        descriptor = os.open(path, _OPEN, _MODE)
    except OSError as error:
        raise LockError(f"{path}: {_reason(path, error)}; nothing was changed") from error
    try:
        _refuse_shared(path, os.fstat(descriptor))
        _wait(path, descriptor, seconds)
        yield
    finally:
        os.close(descriptor)


def _reason(path: Path, error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return f"is a symbolic link; allowed: a file of root's with mode 0600 (`rm {path}`)"
    return error.strerror or str(error)


def _refuse_shared(path: Path, status: os.stat_result) -> None:
    """Refuse a lock file that another account can open, and so could lock for as long as it likes."""
    found = ""
    if not stat.S_ISREG(status.st_mode):
        found = "is no regular file"
    elif status.st_uid not in (0, os.geteuid()):
        found = f"belongs to user {status.st_uid}"
    elif status.st_mode & 0o077:
        found = f"has mode {stat.S_IMODE(status.st_mode):04o}"
    if found:
        raise LockError(f"{path}: {found}; allowed: a file of root's with mode 0600 (`rm {path}`); nothing was changed")


def _wait(path: Path, descriptor: int, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise LockError(_held(path, os.fstat(descriptor), seconds)) from None
        time.sleep(_PAUSE)


def _held(path: Path, status: os.stat_result, seconds: float) -> str:
    pid = holder(_text(_LOCKS), status.st_dev, status.st_ino)
    program = _text(Path(f"/proc/{pid}/comm")).strip()
    who = f"process {pid} ({program or 'unknown'})" if pid else "a process that the kernel does not name"
    cure = f"end it (`kill {pid}`)" if pid else f"end it (`fuser {path}` names it)"
    return f"{path}: has been locked by {who} for {seconds:g} s: {cure} and repeat the command; nothing was changed"


def holder(locks: str, device: int, inode: int) -> int | None:
    """Return the PID that holds the lock of a file, from the text of ``/proc/locks`` (proc_locks(5))."""
    wanted = f"{os.major(device):02x}:{os.minor(device):02x}:{inode}"
    for line in locks.splitlines():
        fields = line.split()
        if len(fields) > 5 and fields[1] == "FLOCK" and fields[5] == wanted and fields[4].isdigit():
            return int(fields[4]) or None
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
