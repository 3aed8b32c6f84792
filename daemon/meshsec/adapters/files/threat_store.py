"""The operator's word that the threat is high, in a file of the state directory, so that it outlives meshsecd."""

from pathlib import Path

from meshsec import files
from meshsec.files import FileError

_HIGH = "high\n"
_MODE = 0o644
_LIMIT = 64
_FIX = "`meshsec threat normal` removes it"


def is_high(path: Path) -> bool:
    """Return whether the operator has said that the threat is high. Raises FileError."""
    if not files.exists(path):
        return False
    try:
        found = files.read(path, _LIMIT)
    except FileError as error:
        raise FileError(f"{error}; {_FIX}") from error
    if found != _HIGH:
        raise FileError(f"{path}: {found[:20]!r}; allowed: {_HIGH.strip()!r}; {_FIX}")
    return True


def save(path: Path, *, high: bool) -> None:
    """Write down durably that the threat is high, or that it is not. Raises FileError and then changes nothing."""
    if high:
        files.write(path, _HIGH.encode("ascii"), _MODE)
    elif files.exists(path):
        files.remove(path)
