"""What ``systemd-analyze security`` charges a unit for, beside what daemon/systemd/waivers.toml says of it."""

import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.lab.basics.places import REPOSITORY

UNITS = REPOSITORY / "daemon/systemd"
IMAGE_UNITS = REPOSITORY / "kernel-config/image/files/usr/lib/systemd/system"
WAIVERS = UNITS / "waivers.toml"
THRESHOLD = "29"
"""Tenths: the look fails at an exposure of 3.0 and more."""
LOOK = ("systemd-analyze", "security", "--no-pager", "--json=short", f"--threshold={THRESHOLD}")
"""Followed by a unit, or by ``--offline=true`` and a unit's file; the status says whether the threshold is kept."""


class WaiverError(Exception):
    """The file of waivers is not as it has to be; the message names the entry."""


def own_units() -> list[str]:
    """The names of the services that are installed on a node, without ``.service``."""
    return _services(UNITS)


def image_units() -> list[str]:
    """Those that the vehicle image has besides."""
    return _services(IMAGE_UNITS)


def reasons() -> Mapping[str, frozenset[str]]:
    """The checks of each of these units for which the file has a reason."""
    return waived(WAIVERS.read_text(encoding="utf-8"), own_units() + image_units())


def _services(directory: Path) -> list[str]:
    return sorted(path.stem for path in directory.glob("*.service"))


def charged(said: str) -> frozenset[str]:
    """The checks that cost a unit exposure, by what the look printed."""
    return frozenset(str(check["name"]) for check in json.loads(said) if check["exposure"])


def waived(text: str, units: Iterable[str]) -> Mapping[str, frozenset[str]]:
    """The checks for which a reason stands in the file, by unit. Raises WaiverError."""
    found: dict[str, set[str]] = {unit: set() for unit in units}
    for number, entry in enumerate(tomllib.loads(text)["waiver"], 1):
        if set(entry) != {"checks", "units", "reason"} or not all(entry.values()):
            raise WaiverError(f"waiver {number} has {', '.join(entry)}; needed: checks, units, reason")
        for unit in entry["units"]:
            if unit not in found:
                raise WaiverError(f"waiver {number}: no unit of ours is called {unit!r}; there are: {', '.join(found)}")
            if twice := found[unit].intersection(entry["checks"]):
                raise WaiverError(f"waiver {number}: {unit} has a reason for {', '.join(sorted(twice))} already")
            found[unit].update(entry["checks"])
    return {unit: frozenset(checks) for unit, checks in found.items()}


def differences(charges: frozenset[str], reasons: frozenset[str]) -> list[str]:
    """What costs exposure without a reason, and reasons for what costs none."""
    unsaid = [f"{check} is charged, and no waiver says why" for check in sorted(charges - reasons)]
    return unsaid + [f"{check} has a waiver, and is not charged" for check in sorted(reasons - charges)]
