"""Read, decode and check ``meshsec.toml`` and its profiles. A refusal names file, line and field."""

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
from meshsec.core.formats import toml
from meshsec.core.policy.policy import Policy, PolicyError, decode_policy
from meshsec.core.scheduling.profiles import STOCK, Profile, ProfileError, decode_profile
from meshsec.core.values.tables import Problem

DEFAULT_PATH = Path("/etc/meshsec/meshsec.toml")
"""The configuration file that the packages and units use."""
_LIMIT = 65536
"""Limit of a configuration file in bytes."""
_MODE = 0o644
_INSTALLED = (
    Path("/etc/meshsec"),
    Path(sys.prefix, "share/meshsec"),
    Path("/usr/local/share/meshsec"),
    Path("/usr/share/meshsec"),
)
_SOURCE = Path(meshsec.__file__).parents[2]
"""Profiles are looked for in ``policies/`` and ``scheduling/``: first beside the configuration file, then in the
installed directories, then in the source tree."""

LAB, IN_LAB = "MESHSEC_LAB_BROKEN_ALGORITHMS", "for-measurements-alone"
"""With this variable and value in the environment, profiles may contain broken algorithms, and those of
``policies/lab`` can be chosen (docs/guide/policies.md)."""

LAB_PACING = "MESHSEC_LAB_PACING"
"""With the value ``IN_LAB``, ``[policy]`` may also set the pacing constants, so that benchmarks measure set-ups and not
waiting times."""

_BUILT_IN = "default"
"""Name of the profile that needs no file: the defaults of ``Policy``."""


class ConfigError(Exception):
    """The configuration is refused: one line ``FILE:LINE: FIELD: what is wrong`` for each problem."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(lines)
        super().__init__("\n".join(self.lines))


def load(path: Path, place: Path | None = None) -> Settings:
    """Return the settings in ``path``. Raises ConfigError.

    A copy of a configuration that belongs to the directory ``place`` has its profiles beside it.
    """
    text = _read(path)
    base = path.absolute().parent
    try:
        return decode(
            _parsed(path, text),
            str(place or base),
            lambda name: _profile(name, base),
            lambda name: _schedule(name, base),
            pacing=os.environ.get(LAB_PACING) == IN_LAB,
        )
    except SettingsError as error:
        raise ConfigError(_located(path, text, error.problems)) from None


def create(
    path: Path,
    name: str,
    interfaces: tuple[str, ...],
    ipv4: IPv4Address | None,
    radio: Mapping[str, str | int] | None = None,
) -> None:
    """Write a first configuration. Raises ConfigError if it would be refused or a file exists already."""
    text = _initial(name, interfaces, ipv4, radio or {})
    try:
        decode(_parsed(path, text), str(path.parent), lambda _: Policy())
        files.write(path, text.encode(), _MODE, replace=False)
    except SettingsError as error:
        raise ConfigError(map(str, error.problems)) from None
    except files.FileError as error:
        raise ConfigError([str(error)]) from None


def _initial(name: str, interfaces: tuple[str, ...], ipv4: IPv4Address | None, radio: Mapping[str, str | int]) -> str:
    node = ["[node]", f"name = {toml.encode(name)}", *([f'ipv4 = "{ipv4}"'] if ipv4 else [])]
    routing = ["", "[routing]", f"interfaces = {toml.encode(interfaces)}"]
    radios = ["", "[radio]", *(f"{key} = {toml.encode(value)}" for key, value in radio.items())] if radio else []
    comment = "# Every key is described in docs/reference/meshsec.toml.md."
    return "\n".join([comment, "", *node, *routing, *radios, ""])


def _read(path: Path) -> str:
    try:
        return files.read(path, _LIMIT)
    except files.FileError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            command = "meshsec up" if path == DEFAULT_PATH else f"meshsec --config {path} init"
            raise ConfigError([f"{path}: there is no configuration; `{command}` makes one"]) from None
        raise ConfigError([str(error)]) from None


def _parsed(path: Path, text: str) -> Mapping[str, object]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([_syntax(path, text, str(error))]) from None


def _syntax(path: Path, text: str, message: str) -> str:
    """Return the refusal of a syntax error. tomllib reports the position only in its message."""
    at = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", message)
    lines = text.splitlines()
    number = int(at[1]) if at and at[1] else len(lines)
    found = lines[number - 1].strip() if 0 < number <= len(lines) else ""
    return f"{path}:{number}: {message[: at.start()] if at else message}; found: {found[:80]}"


def _profile(name: str, base: Path) -> Policy:
    """Return the policy profile of that name. Raises ValueError with the names that exist."""
    found = _profiles(base, "policies", _SOURCE / "policies")
    path = found.get(name)
    if path is None and name == _BUILT_IN:
        return Policy()
    if path is None:
        raise ValueError(", ".join(sorted({_BUILT_IN, *found})))
    return load_policy(path)


def policies(config: Path) -> Mapping[str, Path]:
    """Return the files of the policy profiles that this configuration may name, by name."""
    return dict(sorted(_profiles(config.absolute().parent, "policies", _SOURCE / "policies").items()))


def load_policy(path: Path) -> Policy:
    """Read a policy profile from a file. Raises ConfigError."""
    text = _read(path)
    try:
        return decode_policy(_parsed(path, text), broken=_in_lab())
    except PolicyError as error:
        raise ConfigError(_located(path, text, error.problems)) from None


def _schedule(name: str, base: Path) -> Profile:
    """Return the scheduling profile of that name. Raises ValueError with the names that exist."""
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
    """Return the files of profiles by name. If two have one name, the one nearer to the configuration file wins."""
    directories = (base / kind, *(directory / kind for directory in _INSTALLED), source)
    if _in_lab():
        directories += (source / "lab",)
    return {path.stem: path for directory in reversed(directories) for path in directory.glob("*.toml")}


def _located(path: Path, text: str, problems: Iterable[Problem]) -> list[str]:
    lines = ((_line(text, problem.path), problem) for problem in problems)
    return [f"{path}:{line}: {problem}" for line, problem in sorted(lines, key=lambda entry: entry[0])]


def _line(text: str, path: tuple[str | int, ...]) -> int:
    """Return the line, from 1, of the value at ``path``, or of its parent if the value is missing.

    The line is the last one of the shortest beginning of the document in which tomllib finds the value. So tomllib
    decides what a key is. An array may be cut in the middle, so each beginning is also tried with a closing bracket.
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
