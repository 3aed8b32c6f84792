"""Secrets in files: overwritten when they go, and sealed by the machine's TPM if the operator asked for it (ADR 0102).

A secret that is not sealed is a file with mode 0600. Of a sealed one the disk has ``NAME.sealed``, which only this
machine's TPM opens, and under its own name a symbolic link to the opened secret, which is in memory alone (``OPENED``,
a ramfs, which is never swapped). So the name decides which of the two is in force, and one rename changes it. What an
interruption leaves besides is surplus, and ``open_all`` removes it.

A directory seals its new secrets if its ``node.key`` is sealed.
"""

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from meshsec import files
from meshsec.adapters.files import systemd_creds
from meshsec.adapters.files.destroying import destroy, overwriting
from meshsec.files import FileError

OPENED = Path("/run/meshsec/keys")
"""Where opened secrets are; a mount unit makes it."""
KEY = "node.key"
_SEALED, _PLAIN = ".sealed", ".unsealed"
SURPLUS = (_SEALED, _PLAIN)
"""Ends of the names of files that are worth nothing on another machine."""
_MODE = 0o600
_LIMIT = 65536
"""Limit of a secret in bytes, and of what is sealed."""


def is_sealed(path: Path) -> bool:
    """Return whether the secret of that name is sealed."""
    return path.is_symlink() and path.readlink() == _opened(path)


def exists(path: Path) -> bool:
    """Return whether there is such a secret, also one that is sealed and was not opened. Raises FileError."""
    return files.exists(path) or is_sealed(path)


def place(path: Path) -> Path:
    """Return the file that has the secret. Raises FileError if it is sealed and was not opened."""
    if not is_sealed(path):
        return path
    if not files.exists(_opened(path)):
        raise FileError(
            f"{path}: is sealed, and this machine's TPM has not opened it: `systemctl restart meshsec-keys` tries "
            "again, `journalctl -u meshsec-keys` says why not; `meshsec restore FILE --replace` takes the node from "
            "its backup"
        )
    return _opened(path)


def write(path: Path, content: bytes, *, replace: bool = True) -> None:
    """Write a secret, sealed if its directory seals; what was there is overwritten. Raises FileError.

    An error leaves the old secret in force. Without ``replace`` an existing secret is an error.
    """
    if is_sealed(path) or is_sealed(path.with_name(KEY)):
        if not replace and exists(path):
            raise FileError(f"{path}: exists; nothing was changed")
        _put(path, content, systemd_creds.seal(content))
        return
    with overwriting(path):
        files.write(path, content, _MODE, replace=replace)


def remove(path: Path) -> None:
    """Destroy a secret, durably. Raises FileError."""
    if not is_sealed(path):
        with overwriting(path):
            files.remove(path)
        return
    _remove(_blob(path))
    _remove(_opened(path))
    files.remove(path)


def move(path: Path, target: Path) -> None:
    """Put one secret in the place of another, which is overwritten. Raises FileError. A second call continues."""
    moved = [(path, target)]
    if exists(target) and is_sealed(path) != is_sealed(target):
        raise FileError(
            f"{path}: one of it and {target} is sealed; `meshsec key seal` seals both, `meshsec key unseal` none"
        )
    if is_sealed(path):
        moved = [(_blob(path), _blob(target)), (_opened(path), _opened(target))]
    for old, new in moved:
        if files.exists(old):
            with overwriting(new):
                files.rename(old, new)
    if is_sealed(path):
        files.remove(path)


def seal(paths: Iterable[Path]) -> list[Path]:
    """Seal those of the secrets that are there and not sealed; return them. Raises FileError.

    Nothing is changed before the TPM has sealed all of them, and opened them again. The directory's key is first.
    """
    found = sorted(
        (path for path in paths if files.exists(path) and not is_sealed(path)), key=lambda path: path.name != KEY
    )
    ready = {path: (content := _read(path), systemd_creds.seal(content)) for path in found}
    for path, (content, sealed) in ready.items():
        if systemd_creds.unseal(sealed) != content:
            raise systemd_creds.SealError(f"{path}: the TPM does not give back what it sealed")
    for path, (content, sealed) in ready.items():
        _put(path, content, sealed)
    return found


def unseal(paths: Iterable[Path]) -> list[Path]:
    """Write those of the secrets that are sealed as ordinary files; return them. Raises FileError.

    Nothing is changed before all can be read. The directory's key is first, so that it seals nothing new.
    """
    found = _key_first(path for path in paths if is_sealed(path))
    for path, content in {path: _read(place(path)) for path in found}.items():
        files.write(path, content, _MODE)
        forget(path)
    return found


def forget(path: Path) -> None:
    """Destroy the sealed form of a secret that is an ordinary file now. Raises FileError."""
    for surplus in (_blob(path), _opened(path)):
        _remove(surplus)


def open_all(directory: Path) -> list[Path]:
    """Open the sealed secrets of a directory and remove what an interruption left. Return what was opened.

    Raises FileError, and then has opened nothing.
    """
    blobs = {path.with_suffix(""): path for path in sorted(directory.glob(f"*{_SEALED}"))}
    sealed = {path: blob for path, blob in blobs.items() if is_sealed(path) or not os.path.lexists(path)}
    opened = {
        path: systemd_creds.unseal(_read(blob)) for path, blob in sealed.items() if not files.exists(_opened(path))
    }
    for path, content in opened.items():
        files.write(_opened(path), content, _MODE)
    for path in sealed:
        _link(path)
    for path in blobs.keys() - sealed.keys():
        _remove(blobs[path])
    for plain in directory.glob(f"*{_PLAIN}"):
        _drop(plain, plain.with_suffix(""))
    for path in directory.iterdir():
        if is_sealed(path) and path not in sealed:
            files.remove(path)
    return list(opened)


def _key_first(paths: Iterable[Path]) -> list[Path]:
    return sorted(paths, key=lambda path: path.name != KEY)


def _put(path: Path, content: bytes, sealed: bytes) -> None:
    """Bring a sealed secret into force: first what opens after a boot, then what is read until then."""
    for target, octets in ((_blob(path), sealed), (_opened(path), content)):
        with overwriting(target):
            files.write(target, octets, _MODE)
    _link(path)


def _link(path: Path) -> None:
    """Put the link in the place of the secret's ordinary file, which keeps another name until it is overwritten."""
    if is_sealed(path):
        return
    plain, link = path.with_name(f"{path.name}{_PLAIN}"), path.with_name(f".{path.name}.link")
    _drop(plain, path)
    try:
        if path.exists():
            plain.hardlink_to(path)
        link.unlink(missing_ok=True)
        link.symlink_to(_opened(path))
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from error
    files.rename(link, path)
    _remove(plain)


def _drop(plain: Path, path: Path) -> None:
    """Destroy what was left of an ordinary file, unless that is still in force under its own name."""
    if plain.exists() and path.exists() and plain.samefile(path):
        files.remove(plain)
    else:
        _remove(plain)


def _remove(path: Path) -> None:
    """Overwrite and remove a file, if there is one. Raises FileError."""
    _, failures = destroy([], [str(path)])
    if failures:
        raise FileError("; ".join(f"{one.what}: {one.why}" for one in failures))


def _read(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            content = file.read(_LIMIT + 1)
            is_regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from error
    if not is_regular or len(content) > _LIMIT:
        raise FileError(f"{path}: is no regular file of at most {_LIMIT} octets")
    return content


def _blob(path: Path) -> Path:
    return path.with_name(f"{path.name}{_SEALED}")


def _opened(path: Path) -> Path:
    return OPENED / path.name
