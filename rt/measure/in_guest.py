"""What the guest is that a benchmark measures in. A result's machine and versions are those of the host around it."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from rt.measure.results import MeasurementError

_FILE = "versions"
_NAMES = {"charon-systemd": "strongswan", "wpasupplicant": "wpa_supplicant", "python3": "python"}
"""What a package's program is called; others are called like their package."""


def asking(*packages: str) -> str:
    """Return the shell commands that leave the guest's kernel, system and these packages' versions in /results."""
    wanted = " ".join(("python3", *packages))
    return f"""\
{{
    . /etc/os-release
    echo "kernel $(uname -r)"
    echo "system $PRETTY_NAME"
    dpkg-query -W -f='${{Package}} ${{Version}}\\n' {wanted}
}} >/results/{_FILE}
"""


def asked(folder: Path) -> dict[str, str]:
    """Return what the guest left in the folder. Raises MeasurementError if it did not say what it is."""
    found = left(folder)
    if missing := {"kernel", "system"} - set(found):
        raise MeasurementError(f"{folder / _FILE}: the guest's {' and '.join(sorted(missing))} is missing")
    return found


def left(folder: Path) -> dict[str, str]:
    """Return the same, or nothing if no guest has come so far."""
    path = folder / _FILE
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    pairs = (line.partition(" ") for line in lines)
    return {_NAMES.get(name, name): value for name, _, value in pairs if value}


def merged(guests: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return what several guests of one result were: where they differ, all of it, in their order."""
    found: dict[str, dict[str, None]] = {}
    for one in guests:
        for name, value in one.items():
            found.setdefault(name, {})[value] = None
    return {name: " and ".join(values) for name, values in found.items()}
