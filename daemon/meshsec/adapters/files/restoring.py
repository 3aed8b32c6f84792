"""Put a node's files back as a whole (``backup`` takes them), and destroy those of the node that was here.

All files are written beside their places first, so that a full disk changes nothing. Then a mark is made beside the
node's key, one file after the other is renamed to its place, and the mark is removed. A power cut in between leaves the
name and the trust of one node with the key of another: with the mark nobody uses or makes a key there (``key_store``),
until ``meshsec restore`` is run again and completes.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path

from meshsec import files
from meshsec.adapters.files import key_store, second_secret_store, secret_file
from meshsec.adapters.files.backup import BackupError, Kept, Places
from meshsec.adapters.files.destroying import destroy, overwriting

_STAGED = ".restoring"
_CARD = ".card"
"""End of the name of a file that has no secret, and of which there may be thousands."""
_PUBLIC = ".pub"


def surplus(kept: Collection[Path], places: Places) -> list[Path]:
    """Return the files in the node's own directories that a backup does not have. Raises BackupError."""
    try:
        return [path for path in places.present() if path not in kept and set(path.parents) & {*places.own}]
    except OSError as error:
        raise BackupError(f"{error.filename}: {error.strerror}") from error


def put_back(kept: Mapping[Path, Kept], places: Places, unwanted: Iterable[Path], keys: Collection[Path]) -> None:
    """Write the files and destroy the unwanted ones. Raises BackupError.

    ``keys`` are the places where a node of before has its key. Its secrets are destroyed where the backup has no file.
    """
    staged = {path: path.with_name(f".{path.name}{_STAGED}") for path in sorted(kept)}
    try:
        for path, beside in staged.items():
            _make_parents(path, places)
            files.write(beside, kept[path].content, kept[path].mode)
    except (files.FileError, OSError) as error:
        _forget(staged.values())
        raise BackupError(f"{error}") from error
    marks = [key_store.mark_path(key) for key in dict.fromkeys((places.key, *keys)) if key.parent.is_dir()]
    try:
        for mark in marks:
            files.write(mark, b"`meshsec restore FILE` was interrupted. Run it again.\n", 0o644)
    except files.FileError as error:
        _forget([*staged.values(), *marks])
        raise BackupError(f"{error}") from error
    try:
        for path, beside in staged.items():
            _move(beside, path)
        for path in dict.fromkeys((*unwanted, *_former(keys, kept))):
            _remove(path)
        _clean({path.parent for path in (*kept, *places.files)}, (places.key, *keys))
        for mark in marks:
            files.remove(mark)
    except (files.FileError, OSError) as error:
        raise BackupError(f"{error}; run the command again: it was not completed") from error


def _move(beside: Path, path: Path) -> None:
    """Rename a file over another, whose content is overwritten if it may be a secret."""
    was_sealed = secret_file.is_sealed(path)
    with nullcontext() if path.is_symlink() or path.suffix == _CARD else overwriting(path):
        files.rename(beside, path)
    if was_sealed:
        secret_file.forget(path)


def _remove(path: Path) -> None:
    if path.suffix == _CARD:
        files.remove(path)
    else:
        secret_file.remove(path)


def _former(keys: Iterable[Path], kept: Collection[Path]) -> Iterator[Path]:
    """Yield the secrets of a node that was here, and the public halves of its keys."""
    for secret in (one for key in keys for one in _secrets(key)):
        for path in (secret, secret.with_suffix(_PUBLIC)):
            if path not in kept and secret_file.exists(path):
                yield path


def _secrets(key: Path) -> tuple[Path, ...]:
    return key, key_store.next_path(key), key.with_name(second_secret_store.NAME)


def _clean(directories: Iterable[Path], keys: Iterable[Path]) -> None:
    """Destroy what interrupted runs have left: files beside their places, and other forms of the secrets."""
    left = [path for directory in directories for path in directory.glob(f".*{_STAGED}")]
    for secret in (one for key in keys for one in _secrets(key)):
        left += secret.parent.glob(f".{secret.name}.*")
        surplus = [secret.with_name(f"{secret.name}{end}") for end in secret_file.SURPLUS]
        left += [] if secret_file.is_sealed(secret) else surplus
    _, failures = destroy([], map(str, left))
    if failures:
        raise files.FileError("; ".join(f"{one.what}: {one.why}" for one in failures))


def _make_parents(path: Path, places: Places) -> None:
    """Make the directories above a file; where a secret may be, for its owner alone. Refuse a link among them."""
    for parent in path.parents:
        if parent in places.directories or path in places.files:
            break
        if parent.is_symlink():
            raise files.FileError(f"{parent}: is a symbolic link; allowed: a directory. Nothing was changed")
    if path.parent.exists():
        return
    if path in places.files:
        path.parent.mkdir(mode=0o700, parents=True)
    else:
        files.make_directory(path.parent)


def _forget(paths: Iterable[Path]) -> None:
    destroy([], map(str, paths))
