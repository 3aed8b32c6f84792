"""Tables that are declared once: a msgspec ``Struct`` says a table's keys, types, bounds, defaults and meaning.

Reading, messages, the JSON schema and the reference page follow from the Struct (``core/config/reference.py``).
msgspec itself stops at the first problem. Here every value is tried and each problem is noted.

A key's type is ``Annotated`` with ``msgspec.Meta``: bounds, ``description``, and in ``extra`` a ``unit``, the words for
what is ``allowed``, or those for its ``default``. A ``Rule`` reads what TOML has no type for. ``Once`` refuses an entry
that a list has twice. A Struct may have a method ``wrong`` for what only several keys together show, and a mapping
``removed`` for the keys of earlier versions.
"""

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Meta
from msgspec.structs import FieldInfo

from meshsec.core.values import tables
from meshsec.core.values.tables import Problem, RefusedError

S = TypeVar("S", bound=msgspec.Struct)
Path = tuple[str | int, ...]
Wrong = Iterator[tuple[Path, str]]
"""Result of ``wrong``: paths below its table, each with what is allowed there."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How a value is read that TOML has no type for.

    ``parse`` raises ValueError for everything but ``allowed``, or RefusedError with a closer description.
    """

    allowed: str
    parse: Callable[[Any], object]
    schema: Mapping[str, object] = field(default_factory=lambda: {"type": "string"})


@dataclass(frozen=True, slots=True)
class PathRule:
    """A path, relative to the directory of the file; ``longest`` counts its bytes together with that directory."""

    longest: int
    allowed: str = "a text in quotes, not empty"


@dataclass(frozen=True, slots=True)
class Once:
    """No two entries of a list are equal, or have an equal ``key``."""

    allowed: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class Inherits:
    """Where a table below leaves a key out, the key of the table above holds."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a table, taken from the field of a Struct."""

    name: str
    attribute: str
    kind: Any
    """Without ``Annotated`` and without None."""
    notes: tuple[Any, ...]
    """The other arguments of ``Annotated``."""
    info: FieldInfo

    @property
    def required(self) -> bool:
        """Whether the table must have it."""
        return self.info.required and not self.is_table

    @property
    def default(self) -> Any:
        """What holds where the key is left out; None where it is required."""
        if self.info.default_factory is not NODEFAULT:
            return self.info.default_factory()
        return None if self.info.default is NODEFAULT else self.info.default

    @property
    def is_table(self) -> bool:
        """Whether it is a table of its own."""
        return isinstance(self.kind, type) and issubclass(self.kind, msgspec.Struct)

    def note(self, kind: type[Any]) -> Any:
        """Return the note of that kind, or None."""
        return next((note for note in self.notes if isinstance(note, kind)), None)

    def words(self, name: str) -> str:
        """Return a word from ``extra``, empty when there is none."""
        found = (note.extra or {} for note in self.notes if isinstance(note, Meta))
        return next((one[name] for one in found if name in one), "")

    def meta(self, name: str) -> Any:
        """Return a bound or the description, None when there is none."""
        found = (getattr(note, name) for note in self.notes if isinstance(note, Meta))
        return next((one for one in found if one is not None), None)

    def item(self) -> "Key":
        """Return what each entry of a list, or each value of a table of tables, is."""
        arguments = get_args(self.kind)
        inner, notes = _split(arguments[1] if self.is_a(Mapping) else arguments[0])
        return Key(self.name, self.attribute, inner, notes, self.info)

    def is_a(self, kind: type[Any]) -> bool:
        """Return whether the value is a collection of that kind."""
        origin = get_origin(self.kind)
        return origin is not None and issubclass(origin, kind)


def keys(kind: type[msgspec.Struct]) -> list[Key]:
    """Return the keys of a table in the order of its Struct."""
    found = []
    for info in msgspec.structs.fields(kind):
        inner, notes = _split(info.type)
        found.append(Key(info.encode_name, info.name, inner, notes, info))
    return found


def removed(kind: type[msgspec.Struct]) -> Mapping[str, str]:
    """Return the keys that earlier versions had, with what applies now."""
    found: Mapping[str, str] = getattr(kind, "removed", {})
    return found


def allowed(key: Key) -> str:
    """Return the words for what a key may have."""
    rule = key.note(Rule) or key.note(PathRule)
    if rule or key.words("allowed"):
        return str(key.words("allowed") or rule.allowed)
    if key.is_table or key.is_a(Mapping):
        return "a table"
    if isinstance(key.kind, type) and issubclass(key.kind, StrEnum):
        return _either([f'"{one}"' for one in key.kind])
    return _plain(key)


def _plain(key: Key) -> str:
    """Return the words for a type that TOML has."""
    if key.kind is bool:
        return "true or false"
    if key.kind is str:
        return "a text in quotes, not empty"
    whole = "a whole number" if key.kind is int else "a number"
    unit = f" ({key.words('unit')})" if key.words("unit") else ""
    return f"{whole} from {_number(key.meta('ge'))} to {_number(key.meta('le'))}{unit}"


@dataclass(slots=True)
class Reading:
    """Reads tables and notes their problems. Relative paths start from the directory ``base``."""

    base: str
    problems: list[Problem] = field(default_factory=list)

    def table(self, kind: type[S], found: object, path: Path = (), defaults: Mapping[str, object] | None = None) -> S:
        """Return the table that ``found`` is. A key that is refused has its default, or None where it has none.

        ``defaults`` (by attribute) hold in place of the Struct's own, and with them no key is required.
        """
        is_table = isinstance(found, Mapping)
        if not is_table:
            self.refuse(path, found, "a table")
        given: Mapping[str, object] = found if isinstance(found, Mapping) else {}
        values: dict[str, Any] = {}
        for key in keys(kind):
            above = values if key.note(Inherits) else None
            default = key.default if defaults is None else defaults.get(key.attribute, key.default)
            if key.name in given:
                values[key.attribute] = self._value(key, given[key.name], (*path, key.name), default, above)
            elif key.is_table and key.info.required:
                values[key.attribute] = self.table(key.kind, {}, (*path, key.name)) if is_table else None
            else:
                values[key.attribute] = default
                if key.required and defaults is None and is_table:
                    self.note((*path, key.name), f"is missing; allowed: {allowed(key)}")
        self._unknown(kind, given, path)
        made = kind(**values)
        if is_table:
            self._compare(made, given, path)
        return made

    def _compare(self, made: msgspec.Struct, given: Mapping[str, object], path: Path) -> None:
        """Note what only several keys together show, but for keys that are refused already."""
        refused = {problem.path for problem in self.problems}
        for below, rule in made.wrong(given) if hasattr(made, "wrong") else ():
            if (*path, *below) not in refused:
                self.refuse((*path, *below), _descend(given, below), rule)

    def _unknown(self, kind: type[msgspec.Struct], given: Mapping[str, object], path: Path) -> None:
        known, gone = [key.name for key in keys(kind)], removed(kind)
        for name in sorted(given.keys() - set(known)):
            if name in gone:
                message = f"is no longer a key; {gone[name]}; delete it"
            else:
                near = get_close_matches(name, known, n=1)
                hint = f"; perhaps {near[0]!r} is meant" if near else ""
                message = f"is not a known key{hint}; allowed here: {', '.join(known)}"
            self.note((*path, name), message)

    def _value(
        self, key: Key, found: object, path: Path, default: object = None, above: Mapping[str, object] | None = None
    ) -> object:
        """Return one value, or the default after noting why it is refused."""
        try:
            return self._read(key, found, path, default, above)
        except RefusedError as refused:
            self.refuse((*path, *refused.where), _descend(found, refused.where), str(refused))
        except (ValueError, TypeError):
            self.refuse(path, found, allowed(key))
        return default

    def _read(self, key: Key, found: object, path: Path, default: object, above: Mapping[str, object] | None) -> object:
        """Return one value. Raises ValueError, TypeError or RefusedError."""
        if key.is_table:
            return self.table(key.kind, found, path)
        if key.is_a(dict):
            return self._tables(key, found, path, above)
        if key.is_a(tuple):
            return self._list(key, found, path, default)
        rule = key.note(Rule)
        if rule is None and key.note(PathRule):
            return self._path(key.note(PathRule), found)
        return rule.parse(found) if rule else _scalar(key, found)

    def _path(self, rule: PathRule, found: object) -> str:
        if not isinstance(found, str) or not found:
            raise ValueError
        joined = posixpath.normpath(posixpath.join(self.base, found))
        if "\0" in joined or len(joined.encode()) > rule.longest:
            raise RefusedError(f"a path of at most {rule.longest} octets, with its directory, and without NUL")
        return joined

    def _tables(self, key: Key, found: object, path: Path, above: Mapping[str, object] | None) -> dict[str, Any]:
        if not isinstance(found, Mapping):
            raise RefusedError("a table")
        most = key.meta("max_length")
        if most is not None and len(found) > most:
            raise RefusedError(f"at most {most} tables")
        kind = key.item().kind
        return {name: self.table(kind, value, (*path, name), above) for name, value in found.items()}

    def _list(self, key: Key, found: object, path: Path, default: object) -> object:
        low, most = key.meta("min_length") or 0, key.meta("max_length")
        if not isinstance(found, list | tuple) or len(found) < low:
            raise ValueError
        if most is not None and len(found) > most:
            raise RefusedError(f"at most {most} entries", most)
        item, entries, before = key.item(), list[object](), len(self.problems)
        for index, entry in enumerate(found):
            value = self._value(item, entry, (*path, index))
            self._refuse_twice(key.note(Once), value, entries, (*path, index), entry)
            entries.append(value)
        return tuple(entries) if item.is_table or len(self.problems) == before else default

    def _refuse_twice(
        self, once: Once | None, value: object, before: Sequence[object], path: Path, found: object
    ) -> None:
        if once is None:
            return
        one = getattr(value, once.key, None) if once.key else value
        if one is not None and one in [getattr(other, once.key, None) if once.key else other for other in before]:
            below = (once.key,) if isinstance(found, Mapping) and once.key in found else ()
            self.refuse((*path, *below), _descend(found, below), once.allowed)

    def refuse(self, path: Path, found: object, rule: str) -> None:
        """Note a value that is not allowed, and what is."""
        self.note(path, f"{tables.shown(found)} is not allowed; allowed: {rule}")

    def note(self, path: Path, message: str) -> None:
        """Note what is wrong at one place."""
        self.problems.append(Problem(path, message))


def _scalar(key: Key, found: object) -> object:
    """Return a text, number, truth value or choice. Raises ValueError."""
    value: object = msgspec.convert(found, Annotated[key.kind, *(n for n in key.notes if isinstance(n, Meta))])
    if key.kind is str and not value:
        raise ValueError
    return value


def _descend(found: object, path: Path) -> object:
    """Return the value below ``found``; of a table its name, because its content would hide it."""
    for step in path:
        found = found[step]  # type: ignore[index]
    return path[-1] if path and isinstance(found, Mapping) else found


def _split(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return a type without ``Annotated`` and None, and the notes of all of its ``Annotated``."""
    notes: tuple[Any, ...] = ()
    while True:
        if get_origin(hint) is Annotated:
            hint, *more = get_args(hint)
            notes += tuple(more)
        elif NoneType in get_args(hint):
            others = [one for one in get_args(hint) if one is not NoneType]
            if len(others) > 1:
                return hint, notes
            (hint,) = others
        else:
            return hint, notes


def _either(words: Sequence[str]) -> str:
    """Return words as a choice in a sentence."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _number(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:g}"
