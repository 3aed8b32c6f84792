"""The files that are read: configurations (plain or gzip), fragments, the Kconfig files of a kernel's source."""

import gzip
import os
import zlib
from pathlib import Path

from kernelconfig import fragments, syntax
from kernelconfig.dependencies import Entry, entries
from kernelconfig.fragments import Setting, Want
from kernelconfig.syntax import Configuration

FRAGMENTS = Path(__file__).parent.parent / "fragments"
_LIMIT = 4 << 20
"""Octets of a configuration; Debian's have a third of a million."""
_GZIP = b"\x1f\x8b"


class UnreadableError(Exception):
    """A file that cannot be read. The message names it and says why."""


def running_kernel() -> Path:
    """Return the path of the running kernel's configuration. Raises UnreadableError when there is none."""
    candidates = [Path("/proc/config.gz"), Path(f"/boot/config-{os.uname().release}")]
    for path in candidates:
        if path.exists():
            return path
    places = " nor ".join(map(str, candidates))
    raise UnreadableError(f"the running kernel's configuration is neither at {places}; name a file: CONFIG=path")


def read_configuration(path: Path) -> Configuration:
    """Return a kernel's configuration. Raises UnreadableError and ConfigSyntaxError."""
    return syntax.parse(_text(path), str(path))


def read_fragments(directory: Path = FRAGMENTS) -> tuple[Want, ...]:
    """Return all fragments of a directory. Raises UnreadableError and ConfigSyntaxError."""
    paths = sorted(directory.glob("*.config"))
    if not paths:
        raise UnreadableError(f"{directory}: there are no fragments (*.config)")
    return fragments.union(fragments.parse(_text(path), path.name) for path in paths)


def read_settings(path: Path) -> tuple[Setting, ...]:
    """Return a file of free form that is merged too. Raises UnreadableError and ConfigSyntaxError."""
    return fragments.parse_settings(_text(path), path.name)


def read_definitions(source: Path) -> list[Entry]:
    """Return the symbols that a kernel's source defines. Raises UnreadableError."""
    paths = [path for path in sorted(source.rglob("Kconfig*")) if path.is_file()]
    if not paths:
        raise UnreadableError(f"{source}: is not a kernel's source, there is no Kconfig file")
    return [entry for path in paths for entry in entries(path.read_text(encoding="utf-8", errors="replace"))]


def _text(path: Path) -> str:
    """Return the text of a file, unpacked when it is gzip. Raises UnreadableError."""
    try:
        content = _unpacked(path)
    except (OSError, EOFError, zlib.error) as error:
        raise UnreadableError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    if len(content) > _LIMIT:
        raise UnreadableError(f"{path}: is longer than {_LIMIT} octets; this is not a kernel's configuration")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UnreadableError(f"{path}:{line}: octet {content[error.start]:#04x} is not UTF-8") from error


def _unpacked(path: Path) -> bytes:
    with path.open("rb") as file:
        packed = file.read(2) == _GZIP
    with gzip.open(path) if packed else path.open("rb") as file:
        return file.read(_LIMIT + 1)
