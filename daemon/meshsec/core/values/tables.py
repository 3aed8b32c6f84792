"""Reading a decoded TOML table: each problem is noted and reading goes on, so that all are reported at once.

A reader takes the value that was found and gives the value that is meant, or raises ``RefusedError`` with what is
allowed. It must refuse None: so it says what is allowed when nothing was found.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from typing import TypeVar

T = TypeVar("T")
Choice = TypeVar("Choice", bound=StrEnum)

SOCKET_PATH_MAX = 107
"""Bytes that fit sun_path."""

_INTERFACE_NAME_MAX = 15
"""IFNAMSIZ - 1."""
INTERFACE_RULE = f"1 to {_INTERFACE_NAME_MAX} octets without space, '/' and ':', not 'lo'"

_SHOWN_MAX = 80
"""Characters of a bad value that a message repeats."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong at one place: ``path`` leads through tables and arrays to the key."""

    path: tuple[str | int, ...]
    message: str

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.path))}: {self.message}" if self.path else self.message


class RefusedError(ValueError):
    """Raised by a reader: its text says what is allowed; ``where`` leads into the value."""

    def __init__(self, allowed: str, *where: str | int) -> None:
        super().__init__(allowed)
        self.where = where


@dataclass(slots=True)
class Table:
    """One table being read: takes known keys, notes problems, refuses what is left."""

    path: tuple[str | int, ...]
    values: Mapping[str, object]
    problems: list[Problem]
    known: list[str] = field(default_factory=list)

    def take(self, key: str, read: Callable[[object], T], default: T, *, required: bool = False) -> T:
        """Read the value of ``key``; return the default when it is missing or refused."""
        self.known.append(key)
        if key not in self.values:
            if required:
                self.problems.append(Problem((*self.path, key), f"is missing; allowed: {_allowed(read)}"))
            return default
        found = self.values[key]
        try:
            return read(found)
        except RefusedError as refused:
            for step in refused.where:
                found = found[step]  # type: ignore[index]
            self.refuse(found, refused, key, *refused.where)
            return default

    def refuse(self, found: object, allowed: Exception, *where: str | int) -> None:
        """Note a bad value."""
        self.problems.append(Problem((*self.path, *where), f"{shown(found)} is not allowed; allowed: {allowed}"))

    def table(self, key: str) -> "Table":
        """Return the table of that name. Where the value is no table, nothing below it is reported."""
        path, values = (*self.path, key), self.take(key, _read_table, None)
        return Table(path, values or {}, self.problems if values is not None or key not in self.values else [])

    def refuse_the_rest(self) -> None:
        """Note every key that was not taken."""
        for key in sorted(set(self.values) - set(self.known)):
            near = get_close_matches(key, self.known, n=1)
            hint = f"; perhaps {near[0]!r} is meant" if near else ""
            message = f"is not a known key{hint}; allowed here: {', '.join(self.known)}"
            self.problems.append(Problem((*self.path, key), message))


def text(value: object) -> str:
    """Reads a text that is not empty."""
    if not isinstance(value, str) or not value:
        raise RefusedError("a text in quotes, not empty")
    return value


def choice(choices: type[Choice]) -> Callable[[object], Choice]:
    """Reads one of an enumeration's values."""

    def read(value: object) -> Choice:
        for one in choices:
            if one == value:
                return one
        raise RefusedError(", ".join(choices))

    return read


def integer(low: int, high: int) -> Callable[[object], int]:
    """Reads a whole number from ``low`` to ``high``."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise RefusedError(f"a whole number, {low} to {high}")
        return value

    return read


def is_interface_name(name: object) -> bool:
    """Return whether Linux takes it as the name of an interface that is not the loopback device."""
    return (
        isinstance(name, str)
        and 1 <= len(name.encode()) <= _INTERFACE_NAME_MAX
        and name not in (".", "..", "lo")
        and not any(character.isspace() or character in "/:" or not character.isprintable() for character in name)
    )


def _read_table(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise RefusedError("a table")
    return value


def shown(value: object) -> str:
    """Return the value as a person would write it, cut where it is long."""
    shown = str(value).lower() if isinstance(value, bool) else repr(value)
    return shown if len(shown) <= _SHOWN_MAX else f"{shown[: _SHOWN_MAX - 3]}..."


def _allowed(read: Callable[[object], object]) -> str:
    """Return what a reader allows, taken from its refusal of None."""
    try:
        read(None)
    except RefusedError as refused:
        return str(refused)
    return "a value"
