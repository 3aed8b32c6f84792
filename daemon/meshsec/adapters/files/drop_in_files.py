"""The drop-ins that `meshsec export systemd` wrote for meshsec's units."""

from pathlib import Path

from meshsec import files
from meshsec.core.formats.drop_ins import FILE, PROBING_FILE, UNITS, WRITTEN

DIRECTORY = Path("/etc/systemd/system")
_LIMIT = 1 << 16
"""Bytes."""


def written() -> list[Path]:
    """Return the drop-ins. One that somebody else wrote under the same name is not among them. Raises FileError."""
    units = sorted(unit for group in UNITS.values() for unit in group)
    paths = [DIRECTORY / f"{unit}.d" / name for unit in units for name in (FILE, PROBING_FILE)]
    return [path for path in paths if path.is_file() and files.read(path, _LIMIT).partition("\n")[0] == WRITTEN]


def remove(path: Path) -> None:
    """Remove a file, and its directory if that is one of drop-ins without any more. Raises FileError."""
    if files.exists(path):
        files.remove(path)
    if path.parent.suffix == ".d" and path.parent.is_dir() and not any(path.parent.iterdir()):
        path.parent.rmdir()
