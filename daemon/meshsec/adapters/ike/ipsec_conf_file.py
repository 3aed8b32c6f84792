"""Read libreswan's ipsec.conf with the files that it includes (ipsec.conf(5)), within limits of size and depth."""

import glob
from collections.abc import Iterator
from pathlib import Path

from meshsec import files
from meshsec.core.formats.ipsec_conf import IpsecConfError, Line

DEEPEST = 8
"""Deepest nesting of includes."""
MOST_FILES = 256
MOST_OCTETS = 256 * 1024
"""Limit of each file in bytes; Debian's has 2,000."""
MOST_LINES = 20_000
"""Limit of lines in all files together."""


def load(path: Path) -> tuple[Line, ...]:
    """Return all lines, with those of an included file in place of its ``include``. Raises IpsecConfError."""
    reader = _Reader()
    lines: list[Line] = []
    for line in reader.lines(path, 1):
        lines.append(line)
        if len(lines) > MOST_LINES:
            raise IpsecConfError(f"{line.where}: the configuration has more than {MOST_LINES} lines")
    return tuple(lines)


class _Reader:
    def __init__(self) -> None:
        self._files = 0

    def lines(self, path: Path, depth: int) -> Iterator[Line]:
        self._files += 1
        if self._files > MOST_FILES:
            raise IpsecConfError(f"{path}: is one of more than {MOST_FILES} files that are included")
        for number, text in enumerate(_read(path).split("\n"), 1):
            line = Line(str(path), number, text)
            words = text.split()
            if words[:1] == ["include"] and not text[:1].isspace():
                yield from self._included(line, words[1:], path.parent, depth)
            else:
                yield line

    def _included(self, line: Line, words: list[str], base: Path, depth: int) -> Iterator[Line]:
        """Return the lines of the files that a pattern matches, in the order of their names. As in libreswan, it may
        match none.
        """
        if len(words) != 1 or "\0" in words[0]:
            raise IpsecConfError(f"{line.where}: include: allowed: one name without NUL, which may have wildcards")
        if depth == DEEPEST:
            raise IpsecConfError(f"{line.where}: include: more than {DEEPEST} files that include each other")
        for name in sorted(glob.glob(str(base / words[0]))):  # noqa: PTH207  # absolute patterns, too
            yield from self.lines(Path(name), depth + 1)


def _read(path: Path) -> str:
    try:
        return files.read(path, MOST_OCTETS)
    except files.FileError as error:
        raise IpsecConfError(str(error)) from error
