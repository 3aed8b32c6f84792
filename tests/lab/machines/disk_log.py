"""What a machine wrote to a disk and when it flushed, and the disk as a power cut at any moment of it may leave it.

A disk with a cache keeps what was written before the last flush. Of what came later it may keep any sectors, in any
order, and a cut tears what is being written. QEMU's driver blklogwrites keeps the log, in the form of the kernel's
dm-log-writes (Documentation/admin-guide/device-mapper/log-writes.rst).
"""

import random
import struct
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_SECTOR = 512
_SUPER = struct.Struct("<QQQL")
_ENTRY = struct.Struct("<QQQQ")
_MAGIC = 0x6A736677736872
_FLUSH, _DISCARD = 1, 4
_UNFINISHED = 1 << 24
"""Bytes at the end of a log that may not be whole when QEMU was killed."""


@dataclass(frozen=True)
class Entry:
    """One write, or a flush."""

    start: int
    """Byte of the disk."""
    size: int
    at: int
    """Byte of the log where the content begins."""
    is_flush: bool


@dataclass(frozen=True)
class Log:
    """The disk before, the file that QEMU wrote, and what that lists."""

    before: Path
    path: Path
    entries: tuple[Entry, ...]


def options(disk: Path, log: Path, interface: str) -> list[str]:
    """Return QEMU's options for a disk whose writes are logged in a new file. ``interface`` is the begin of `-drive`'s.

    Zeroes have no command of their own, because QEMU 7.2 misplaces them in the log when another write comes at the same
    time. Nor are requests put together: a log's entry must fit into 1024 parts of memory.
    """
    log.touch()
    files = f"file.driver=file,file.filename={disk},log.driver=file,log.filename={log}"
    off = [f"virtio-blk-device.{one}=off" for one in ("discard", "write-zeroes", "request-merging")]
    return ["-drive", f"{interface},driver=blklogwrites,{files}", *(word for one in off for word in ("-global", one))]


def read(before: Path, path: Path) -> Log:
    """Read the log of a machine that is off. Where it was killed, the log's head does not know the last entries."""
    with path.open("rb") as file:
        magic, _, _, sector = _SUPER.unpack(file.read(_SUPER.size))
        assert (magic, sector) == (_MAGIC, _SECTOR), "not a log, or one of other sectors"
        return Log(before, path, tuple(_entries(file, path.stat().st_size)))


def _entries(file: BinaryIO, end: int) -> Iterator[Entry]:
    place = _SECTOR
    while place + _SECTOR <= end:
        file.seek(place)
        sector, sectors, flags, _ = _ENTRY.unpack(file.read(_ENTRY.size))
        size = 0 if flags & _DISCARD else sectors * _SECTOR
        place += _SECTOR + size
        if place > end or not sectors + flags:
            assert end - place < _UNFINISHED, "the log has a gap"
            return
        yield Entry(sector * _SECTOR, size, place - size, bool(flags & _FLUSH))


def cuts(
    log: Log, moments: Iterable[int], chance: random.Random, target: Path, *, is_flushed: bool = True
) -> Iterator[int]:
    """Make the disk ``target`` for each moment, a number of entries; give the moment when the disk is there.

    Without ``is_flushed`` the disk does not heed flushes.
    """
    copy(log.before, target)
    done = 0
    with log.path.open("rb") as content, target.open("r+b") as disk:
        for moment in sorted(moments):
            flushed = _last_flush(log.entries, moment) if is_flushed else 0
            for entry in log.entries[done:flushed]:
                _write(disk, content, entry, 0, entry.size)
            done = max(done, flushed)
            torn = [_tear(disk, content, entry, chance) for entry in log.entries[done:moment]]
            disk.flush()
            yield moment
            for start, before in reversed([one for parts in torn for one in parts]):
                disk.seek(start)
                disk.write(before)
    target.unlink()


def _last_flush(entries: Sequence[Entry], moment: int) -> int:
    return next((one for one in range(moment, 0, -1) if entries[one - 1].is_flush), 0)


def _tear(disk: BinaryIO, content: BinaryIO, entry: Entry, chance: random.Random) -> list[tuple[int, bytes]]:
    """Write all of it, nothing, or some of its sectors; return what was there before, and where."""
    fate = chance.randrange(3)
    if fate == 0:
        return [_write(disk, content, entry, 0, entry.size)]
    kept = [at for at in range(0, entry.size, _SECTOR) if fate == 1 and chance.randrange(2)]
    return [_write(disk, content, entry, at, _SECTOR) for at in kept]


def _write(disk: BinaryIO, content: BinaryIO, entry: Entry, at: int, size: int) -> tuple[int, bytes]:
    content.seek(entry.at + at)
    start = entry.start + at
    disk.seek(start)
    before = disk.read(size)
    disk.seek(start)
    disk.write(content.read(size))
    return start, before


def copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", "--sparse=always", "--reflink=auto", source, target], check=True)
