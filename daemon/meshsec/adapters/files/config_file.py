"""``meshsec.toml`` and its profiles: read, decoded and checked; a refusal names file, line and field."""

import os
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address
from pathlib import Path

import meshsec
from meshsec import files
from meshsec.core.config.settings import Settings, SettingsError, decode
from meshsec.core.policy.policy import Policy, PolicyError, decode_policy
from meshsec.core.scheduling.profiles import STOCK, Profile, ProfileError, decode_profile
from meshsec.core.values.tables import Problem

DEFAULT_PATH = Path("/etc/meshsec/meshsec.toml")

DEFAULT_PATH = Path("/etc/meshsec/meshsec.toml")
"""Where the packages and the units have it."""
_LIMIT = 65536
"""Octets of a configuration file."""
_MODE = 0o644
_INSTALLED = (
    Path("/etc/meshsec"),
    Path(sys.prefix, "share/meshsec"),
    Path("/usr/local/share/meshsec"),
    Path("/usr/share/meshsec"),
)
_SOURCE = Path(meshsec.__file__).parents[2]
"""Where profiles are looked for, in ``policies/`` and ``scheduling/``: beside the configuration file, then in the
directories of an installation, then in the source tree."""

LAB, IN_LAB = "MESHSEC_LAB_BROKEN_ALGORITHMS", "for-measurements-alone"
"""The environment in which profiles may have broken algorithms, and those of ``policies/lab`` are there
(docs/guide/policies.md)."""

LAB_PACING = "MESHSEC_LAB_PACING"
"""With the same value, ``[policy]`` takes the constants of pacing, too: benchmarks measure set-ups, not patience."""

_BUILT_IN = "default"
"""The profile that needs no file: ``Policy`` itself."""


class ConfigError(Exception):
    """A configuration that is refused: one line ``FILE:LINE: FIELD: what is wrong`` for each problem."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(lines)
        super().__init__("\n".join(self.lines))


def load(path: Path) -> Settings:
    """Return the settings in ``path``. Raises ConfigError."""
    text = _read(path)
    base = path.absolute().parent
    try:
        return decode(
            _parsed(path, text),
            str(base),
            lambda name: _profile(name, base),
            lambda name: _schedule(name, base),
            pacing=os.environ.get(LAB_PACING) == IN_LAB,
        )
    except SettingsError as error:
        raise ConfigError(_located(path, text, error.problems)) from None


def create(path: Path, name: str, interfaces: tuple[str, ...], ipv4: IPv4Address | None) -> None:
    """Write a first configuration. Raises ConfigError when it would be refused or there is one already."""
    text = _initial(name, interfaces, ipv4)
    try:
        decode(_parsed(path, text), str(path.parent), lambda _: Policy())
        files.write(path, text.encode(), _MODE, replace=False)
    except SettingsError as error:
        raise ConfigError(map(str, error.problems)) from None
    except files.FileError as error:
        raise ConfigError([str(error)]) from None


def _initial(name: str, interfaces: tuple[str, ...], ipv4: IPv4Address | None) -> str:
    node = ["[node]", f'name = "{name}"', *([f'ipv4 = "{ipv4}"'] if ipv4 else [])]
    quoted = ", ".join(f'"{interface}"' for interface in interfaces)
    comment = "# Every key is described in docs/reference/meshsec.toml.md."
    return "\n".join([comment, "", *node, "", "[routing]", f"interfaces = [{quoted}]", ""])


def _read(path: Path) -> str:
    try:
        return files.read(path, _LIMIT)
    except files.FileError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            command = "meshsec init" if path == DEFAULT_PATH else f"meshsec --config {path} init"
            raise ConfigError([f"{path}: there is no configuration; `{command}` makes one"]) from None
        raise ConfigError([str(error)]) from None


def _parsed(path: Path, text: str) -> Mapping[str, object]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([_syntax(path, text, str(error))]) from None


def _syntax(path: Path, text: str, message: str) -> str:
    """tomllib tells the place in its message only."""
    at = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", message)
    lines = text.splitlines()
    number = int(at[1]) if at and at[1] else len(lines)
    found = lines[number - 1].strip() if 0 < number <= len(lines) else ""
    return f"{path}:{number}: {message[: at.start()] if at else message}; found: {found[:80]}"


def _profile(name: str, base: Path) -> Policy:
    """The policy profile of that name. Raises ValueError with the names that there are."""
    found = _profiles(base, "policies", _SOURCE / "policies")
    path = found.get(name)
    if path is None and name == _BUILT_IN:
        return Policy()
    if path is None:
        raise ValueError(", ".join(sorted({_BUILT_IN, *found})))
    return load_policy(path)


def policies(config: Path) -> Mapping[str, Path]:
    """The files of the policy profiles that a configuration there may name, by name."""
    return dict(sorted(_profiles(config.absolute().parent, "policies", _SOURCE / "policies").items()))


def load_policy(path: Path) -> Policy:
    """The policy profile in a file. Raises ConfigError."""
    text = _read(path)
    try:
        return decode_policy(_parsed(path, text), broken=_in_lab())
    except PolicyError as error:
        raise ConfigError(_located(path, text, error.problems)) from None


def _schedule(name: str, base: Path) -> Profile:
    """The scheduling profile of that name. Raises ValueError with the names that there are."""
    found = _profiles(base, "scheduling", _SOURCE / "rt/profiles")
    path = found.get(name)
    if path is None and name == STOCK.name:
        return STOCK
    if path is None:
        raise ValueError(", ".join(sorted({STOCK.name, *found})))
    text = _read(path)
    try:
        return decode_profile(name, _parsed(path, text))
    except ProfileError as error:
        raise ConfigError(_located(path, text, error.problems)) from None


def _in_lab() -> bool:
    return os.environ.get(LAB) == IN_LAB


def _profiles(base: Path, kind: str, source: Path) -> Mapping[str, Path]:
    """The files of profiles by name; of two with one name that counts which is nearer to the configuration file."""
    directories = (base / kind, *(directory / kind for directory in _INSTALLED), source)
    if _in_lab():
        directories += (source / "lab",)
    return {path.stem: path for directory in reversed(directories) for path in directory.glob("*.toml")}


def _located(path: Path, text: str, problems: Iterable[Problem]) -> list[str]:
    lines = ((_line(text, problem.path), problem) for problem in problems)
    return [f"{path}:{line}: {problem}" for line, problem in sorted(lines, key=lambda entry: entry[0])]


def _line(text: str, path: tuple[str | int, ...]) -> int:
    """The line, from 1, of the value that ``path`` leads to; of what should hold it when it is missing.

    It is the last line of the shortest beginning of the document that has the value. tomllib so decides what is a key,
    whatever way it is written. An array may be open at that place: it is tried with an end as well.
    """
    lines = text.splitlines()
    for end in range(1, len(lines) + 1):
        beginning = "\n".join(lines[:end])
        if _has(_document(beginning), path) or _has(_document(f"{beginning}\n]"), path):
            return end
    return _line(text, path[:-1]) if path else 1


def _document(text: str) -> Mapping[str, object] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _has(value: object, path: tuple[str | int, ...]) -> bool:
    for step in path:
        try:
            value = value[step]  # type: ignore[index]
        except (LookupError, TypeError):
            return False
    return True
