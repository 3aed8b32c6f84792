"""The files that make a node: a tar archive of them, and putting them back.

An archive names each file by its absolute path. Its first member says which places belong to the node. Files are put
back as a whole: all are written beside their places first, so that a full disk changes nothing, and the node's key is
moved last, because there is no node without it.
"""

import io
import lzma
import os
import stat
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from meshsec import files

MANIFEST = "meshsec-backup.json"
SCHEMA = "meshsec-backup-1"

LIMIT = 32 * 1024 * 1024
"""Octets of an archive. A node's files take some 100 KiB, and with 10 000 cards 3 MiB."""
_MOST_FILES = 50_000
_MODES = 0o777
_STAGED = ".restoring"


class BackupError(Exception):
    """Files cannot be read, or cannot be put back. The message names the file; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Places:
    """What belongs to a node. All paths are absolute."""

    config: Path
    key: Path
    directories: tuple[Path, ...]
    """With all regular files in them and below."""
    files: tuple[Path, ...]
    """Files elsewhere, which may be missing."""
    own: tuple[Path, ...]
    """Those directories that hold nothing but the node's. Beside its configuration may be files of somebody else."""
    schema: str = SCHEMA

    def hold(self, path: Path) -> bool:
        """Return whether a file belongs to the node."""
        return ".." not in path.parts and (path in self.files or any(one in path.parents for one in self.directories))

    def present(self) -> Iterator[Path]:
        """Return the node's files that are there, each once. Raises OSError."""
        found = {path for directory in self.directories for path in directory.rglob("*") if _is_file(path)}
        found |= {path for path in self.files if _is_file(path)}
        # Hidden ones are locks, and what is being written.
        yield from sorted(path for path in found if not path.name.startswith(".") and path.suffix != ".log")


@dataclass(frozen=True, slots=True, repr=False)
class Kept:
    """A file as it was. It has no text representation, because it may be a key."""

    content: bytes
    mode: int


def pack(places: Places) -> bytes:
    """Return the archive of a node's files. Raises BackupError."""
    try:
        kept = {path: _read(path) for path in places.present()}
    except OSError as error:
        raise BackupError(f"{error.filename}: {error.strerror}") from error
    packed = io.BytesIO()
    manifest = Kept(msgspec.json.encode(places, enc_hook=str), 0o600)
    with tarfile.open(fileobj=packed, mode="w:xz", format=tarfile.PAX_FORMAT) as archive:
        for name, one in [(MANIFEST, manifest), *((str(path).lstrip("/"), one) for path, one in kept.items())]:
            member = tarfile.TarInfo(name)
            member.mode, member.size = one.mode, len(one.content)
            archive.addfile(member, io.BytesIO(one.content))
    if packed.tell() > LIMIT or sum(len(one.content) for one in kept.values()) > LIMIT:
        raise BackupError(f"the node's files are longer than {LIMIT} octets")
    return packed.getvalue()


def unpack(packed: bytes) -> tuple[Places, Mapping[Path, Kept]]:
    """Return the places of an archive's node, and its files by their paths. Raises BackupError."""
    kept: dict[Path, Kept] = {}
    left = LIMIT
    try:
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:xz") as archive:
            for member in archive:
                left -= member.size
                file = archive.extractfile(member) if left >= 0 and len(kept) <= _MOST_FILES else None
                if file is None:
                    raise BackupError(f"holds {member.name!r}, which is no file of a node, or too many files")
                kept[Path("/", member.name)] = Kept(file.read(), member.mode & _MODES)
        manifest = kept.pop(Path("/", MANIFEST), Kept(b"", 0))
        places = msgspec.json.decode(manifest.content, type=Places, dec_hook=lambda kind, text: kind(text))
    except (tarfile.TarError, EOFError, OSError, lzma.LZMAError, msgspec.MsgspecError) as error:
        raise BackupError(f"holds no backup of a node ({error})") from error
    if places.schema != SCHEMA:
        raise BackupError(f"has the schema {places.schema!r}; this meshsec knows {SCHEMA!r}")
    if strange := [path for path in kept if not places.hold(path)]:
        raise BackupError(f"holds {strange[0]}, which is no file of its node")
    return places, kept


def put_back(kept: Mapping[Path, Kept], places: Places) -> list[Path]:
    """Write the files, and remove the others of its own directories. Return what was removed. Raises BackupError.

    Until all files are written beside their places nothing is changed.
    """
    last = sorted(kept, key=lambda path: path == places.key)
    staged = {path: path.with_name(f".{path.name}{_STAGED}") for path in last}
    try:
        surplus = [path for path in places.present() if path not in kept and set(path.parents) & {*places.own}]
        for path, beside in staged.items():
            _make_parents(path, places)
            files.write(beside, kept[path].content, kept[path].mode)
    except (files.FileError, OSError) as error:
        _forget(staged.values())
        raise BackupError(f"{error}") from error
    try:
        for path, beside in staged.items():
            files.rename(beside, path)
        for path in surplus:
            files.remove(path)
    except files.FileError as error:
        raise BackupError(f"{error}; run the command again: it was not completed") from error
    return surplus


def _make_parents(path: Path, places: Places) -> None:
    """Make the directories above a file; where a secret may be, for its owner alone."""
    if path.parent.exists():
        return
    if path in places.files:
        path.parent.mkdir(mode=0o700, parents=True)
    else:
        files.make_directory(path.parent)


def _forget(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _is_file(path: Path) -> bool:
    return stat.S_ISREG(path.lstat().st_mode) if path.is_symlink() or path.exists() else False


def _read(path: Path) -> Kept:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        return Kept(file.read(LIMIT + 1), stat.S_IMODE(os.fstat(file.fileno()).st_mode))
