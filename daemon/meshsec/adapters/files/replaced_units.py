"""Which units of other IKE daemons `meshsec up` has disabled: a file in the state directory."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from meshsec import files

NAME = ".replaced-units.json"
"""It is hidden, so that a backup leaves it out: it is about this machine, and a node may move to another one."""
_LIMIT = 1 << 16
"""Bytes."""


class Was(NamedTuple):
    """What a unit was before."""

    enabled: bool
    active: bool


def path(state: Path) -> Path:
    """Return the file's path."""
    return state / NAME


def read(state: Path) -> Mapping[str, Was]:
    """Return the units by name; none without the file. Raises FileError."""
    where = path(state)
    if not files.exists(where):
        return {}
    try:
        return {str(unit): Was(bool(one["enabled"]), bool(one["active"])) for unit, one in _content(where).items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise files.FileError(f"{where}: is no record of units ({error}); `rm {where}` forgets them") from error


def add(state: Path, units: Mapping[str, Was]) -> None:
    """Write further units down durably. One that is written down already keeps what it was first. Raises FileError."""
    known = {**units, **read(state)}
    text = json.dumps({unit: was._asdict() for unit, was in sorted(known.items())}, indent=2)
    files.write(path(state), f"{text}\n".encode(), 0o644)


def _content(where: Path) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json.loads(files.read(where, _LIMIT))
    return found
