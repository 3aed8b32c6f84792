"""What ``systemd-analyze security`` finds in a unit, compared with the reasons in daemon/systemd/waivers.toml."""

import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.lab.basics.places import REPOSITORY

UNITS = REPOSITORY / "daemon/systemd"
IMAGE_UNITS = REPOSITORY / "kernel-config/image/files/usr/lib/systemd/system"
WAIVERS = UNITS / "waivers.toml"
THRESHOLD = "29"
"""Exposure in tenths: the check fails at 3.0 and more."""
LOOK = ("systemd-analyze", "security", "--no-pager", "--json=short", f"--threshold={THRESHOLD}")
"""The check, followed by a unit, or by ``--offline=true`` and a unit's file. Its status says whether it passed."""


class WaiverError(Exception):
    """The waivers' file is malformed; the message names the entry."""


def own_units() -> list[str]:
    """Return the names of the services that are installed on a node, without ``.service``."""
    return _services(UNITS)


def image_units() -> list[str]:
    """Return the names of those that only the vehicle image has."""
    return _services(IMAGE_UNITS)


def reasons() -> Mapping[str, frozenset[str]]:
    """Return for each of these units the checks for which the file has a reason."""
    return waived(WAIVERS.read_text(encoding="utf-8"), own_units() + image_units())


def _services(directory: Path) -> list[str]:
    return sorted(path.stem for path in directory.glob("*.service"))


def charged(said: str) -> frozenset[str]:
    """Return the checks that add to a unit's exposure, from the output of the check."""
    return frozenset(str(check["name"]) for check in json.loads(said) if check["exposure"])


def waived(text: str, units: Iterable[str]) -> Mapping[str, frozenset[str]]:
    """Return for each unit the checks for which the text has a reason. Raises WaiverError."""
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
    """Return what adds to the exposure without a reason, and the reasons for what adds nothing."""
    unsaid = [f"{check} is charged, and no waiver says why" for check in sorted(charges - reasons)]
    return unsaid + [f"{check} has a waiver, and is not charged" for check in sorted(reasons - charges)]
