"""The files that make a node, and a tar archive of them. ``restoring`` puts them back.

An archive names each file by its path from the root. Its first member lists the places of the node that was saved. An
archive may be somebody's forgery, so that list is only compared with the places that its configuration names.
"""

import io
import lzma
import os
import stat
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from meshsec import files
from meshsec.adapters.files import secret_file

MANIFEST = "meshsec-backup.json"
SCHEMA = "meshsec-backup-1"

LIMIT = 32 * 1024 * 1024
"""Octets of an archive. A node's files take some 100 KiB, and with 10 000 cards 3 MiB."""
_MOST_FILES = 50_000
_MODES = 0o755
"""Rights that a file gets back. Nobody but its owner, who is root, may write it."""
_LEFT_OUT = (".log", *secret_file.SURPLUS)


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
        return path in self.files or any(one in path.parents for one in self.directories)

    def present(self) -> Iterator[Path]:
        """Return the node's files that are there, each once. Raises OSError."""
        found = {path for directory in self.directories for path in directory.rglob("*") if _is_file(path)}
        found |= {path for path in self.files if _is_file(path)}
        yield from sorted(path for path in found if not is_left_out(path))


@dataclass(frozen=True, slots=True, repr=False)
class Kept:
    """A file as it was. It has no text representation, because it may be a key."""

    content: bytes
    mode: int


def pack(places: Places) -> bytes:
    """Return the archive of a node's files. Raises BackupError."""
    try:
        kept = {path: _read(path) for path in places.present()}
    except files.FileError as error:
        raise BackupError(str(error)) from error
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
    """Return the places that an archive claims, and its files by their paths. Raises BackupError.

    Whether the files are in places of a node is checked by ``check``.
    """
    kept: dict[Path, Kept] = {}
    left = LIMIT
    try:
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:xz") as archive:
            for member in archive:
                left -= member.size
                path = _path(member)
                file = archive.extractfile(member) if left >= 0 and len(kept) <= _MOST_FILES else None
                if file is None or path in kept:
                    raise BackupError(
                        f"holds {member.name!r} twice, more than {_MOST_FILES} files, or more than {LIMIT} octets"
                    )
                kept[path] = Kept(file.read(), member.mode & _MODES)
        manifest = kept.pop(Path("/", MANIFEST), Kept(b"", 0))
        places = msgspec.json.decode(manifest.content, type=Places, dec_hook=lambda kind, text: kind(text))
    except (tarfile.TarError, EOFError, OSError, lzma.LZMAError, msgspec.MsgspecError) as error:
        raise BackupError(f"holds no backup of a node ({error})") from error
    if places.schema != SCHEMA:
        raise BackupError(f"has the schema {places.schema!r}; this meshsec knows {SCHEMA!r}")
    return places, kept


def check(claimed: Places, kept: Mapping[Path, Kept], places: Places) -> None:
    """Refuse an archive that has more than what ``pack`` takes from the node with these places. Raises BackupError."""
    if claimed.key != places.key:
        raise BackupError(f"{MANIFEST} says that the key is {claimed.key}; its configuration says {places.key}")
    for field in ("directories", "files", "own"):
        allowed = getattr(places, field)
        for path in getattr(claimed, field):
            if path not in allowed:
                named = ", ".join(map(str, allowed))
                raise BackupError(f"{MANIFEST} has {path} in {field!r}; its configuration and meshsec allow: {named}")
    for path in kept:
        if not places.hold(path):
            where = ", ".join(map(str, (*places.directories, *places.files)))
            raise BackupError(f"holds {path}, which is no file of its node; allowed: files of {where}")
        if is_left_out(path):
            raise BackupError(f"holds {path}; `meshsec backup` takes no hidden file, log, or sealed key")


def is_left_out(path: Path) -> bool:
    """Return whether no backup has a file of this name.

    Hidden ones are locks, what is being written, and what is about this machine. Sealed keys are of this machine, too.
    """
    return path.name.startswith(".") or path.suffix in _LEFT_OUT


def _path(member: tarfile.TarInfo) -> Path:
    """Return where a member belongs. Raises BackupError if it is no file, or its name is no plain path."""
    if not member.isreg():
        raise BackupError(f"holds {member.name!r}, which is a link, a directory or a device; allowed: regular files")
    if any(part in {"", ".", ".."} or "\0" in part for part in member.name.split("/")):
        raise BackupError(f"holds {member.name!r}; allowed: paths from the root without a leading /, '.' and '..'")
    return Path("/", member.name)


def _is_file(path: Path) -> bool:
    if secret_file.is_sealed(path):
        return True
    return stat.S_ISREG(path.lstat().st_mode) if path.is_symlink() or path.exists() else False


def _read(path: Path) -> Kept:
    descriptor = os.open(secret_file.place(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        return Kept(file.read(LIMIT + 1), stat.S_IMODE(os.fstat(file.fileno()).st_mode))
