"""Read ``meshsec.toml`` without checking its values, where a value that is refused must be no obstacle."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

from meshsec import files

_LIMIT = 1 << 20
"""Limit of the file in bytes."""


def read(path: Path) -> Mapping[str, object]:
    """Return the file's tables. Raises FileError, also if the file is no TOML."""
    try:
        return tomllib.loads(files.read(path, _LIMIT))
    except tomllib.TOMLDecodeError as error:
        raise files.FileError(f"{path}: {error}") from error
