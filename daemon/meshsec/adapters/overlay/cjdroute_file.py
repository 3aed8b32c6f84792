"""Read and check cjdns's cjdroute.conf, JSON with comments. A refusal names file, line and field."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import json5

from meshsec import files
from meshsec.core.config.settings import SettingsError
from meshsec.core.formats import cjdroute
from meshsec.core.formats.cjdroute import Imported
from meshsec.core.values.tables import Problem

_LIMIT = 65536
"""Limit of a file in bytes; ``cjdroute --genconf`` writes 10,000."""
_BETWEEN = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
"""What may be between two tokens."""
_BARE_KEY = re.compile(r"[^\s:/]+")


class CjdrouteError(Exception):
    """The file is refused: one line ``FILE:LINE: FIELD: what is wrong`` for each problem."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(lines)
        super().__init__("\n".join(self.lines))


@dataclass(frozen=True, slots=True)
class Found:
    """The meaning of a file, and one line ``FILE:LINE: FIELD: why`` for each part that was not taken over."""

    imported: Imported
    ignored: tuple[str, ...]


class _Object(tuple[tuple[str, object], ...]):
    """A JSON object with all its keys, because a key may occur twice."""

    __slots__ = ()


def load(path: Path) -> Found:
    """Return the meaning of the file. Raises CjdrouteError."""
    text = _read(path)
    problems: list[Problem] = []
    document = _plain(_parsed(path, text), (), problems)
    if problems:
        raise CjdrouteError(_located(path, text, problems))
    try:
        imported = cjdroute.decode(document)
    except SettingsError as error:
        raise CjdrouteError(_located(path, text, error.problems)) from None
    return Found(imported, tuple(_located(path, text, imported.ignored)))


def _read(path: Path) -> str:
    try:
        text = files.read(path, _LIMIT)
    except files.FileError as error:
        raise CjdrouteError([str(error)]) from None
    if not text.strip():
        raise CjdrouteError([f"{path}: is empty; allowed: a configuration of cjdroute"])
    return text


def _parsed(path: Path, text: str) -> object:
    try:
        return json5.loads(text, object_pairs_hook=_Object)
    except ValueError as error:
        match = re.match(r"<string>:(\d+) (.*)", str(error), re.DOTALL)
        line, message = (match[1], match[2]) if match else (1, str(error))
        hint = "`cjdroute --cleanconf` writes plain JSON"
        raise CjdrouteError([f"{path}:{line}: {message}; allowed: JSON with comments ({hint})"]) from None
    except RecursionError:
        raise CjdrouteError([f"{path}: too many brackets in each other"]) from None


def _plain(value: object, path: tuple[str | int, ...], problems: list[Problem]) -> object:
    """Return the value with dictionaries for objects. Note keys that occur twice, and what is no text."""
    if isinstance(value, str):
        return _text(value, path, problems)
    if isinstance(value, list):
        return [_plain(entry, (*path, index), problems) for index, entry in enumerate(value)]
    if not isinstance(value, _Object):
        return value
    found: dict[str, object] = {}
    for name, entry in value:
        key = _text(name, path, problems)
        if key in found:
            problems.append(Problem((*path, key), "is there twice; allowed: once"))
        found[key] = _plain(entry, (*path, key), problems)
    return found


def _text(text: str, path: tuple[str | int, ...], problems: list[Problem]) -> str:
    """Join the two halves that JSON's escapes make of a character beyond U+FFFF (RFC 8259, section 7)."""
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        problems.append(Problem(path, "has one half of a surrogate pair; allowed: Unicode characters"))
        return ""


def _located(path: Path, text: str, problems: Iterable[Problem]) -> list[str]:
    lines = ((_line(text, problem.path), problem) for problem in problems)
    return [f"{path}:{line}: {problem}" for line, problem in sorted(lines, key=lambda entry: entry[0])]


def _line(text: str, path: tuple[str | int, ...]) -> int:
    """Return the line, from 1, of the value at ``path``, or of its parent if the value is missing."""
    at = _skip(text, 0)
    for step in path:
        found = _member(text, at, step)
        if found is None:
            break
        at = found
    return text.count("\n", 0, at) + 1


def _member(text: str, at: int, step: str | int) -> int | None:
    """Return where an entry of the object or list at ``at`` begins: the last one of that key. The text must be
    well-formed.
    """
    if text[at] not in "{[":
        return None
    found: int | None = None
    is_object, index = text[at] == "{", 0
    at = _skip(text, at + 1)
    while text[at] not in "}]":
        key: object = index
        if is_object:
            key, at = _key(text, at)
            at = _skip(text, _skip(text, at) + 1)
        if key == step:
            found = at
        at = _skip(text, _end(text, at))
        if text[at] == ",":
            at = _skip(text, at + 1)
        index += 1
    return found


def _key(text: str, at: int) -> tuple[object, int]:
    if text[at] in "\"'":
        key, _, end = json5.parse(text, start=at, consume_trailing=False)
        return key, end
    bare = _BARE_KEY.match(text, at)
    return (bare[0], bare.end()) if bare else (None, at)


def _end(text: str, at: int) -> int:
    return json5.parse(text, start=at, consume_trailing=False)[2]


def _skip(text: str, at: int) -> int:
    between = _BETWEEN.match(text, at)
    return between.end() if between else at
