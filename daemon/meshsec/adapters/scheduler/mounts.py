"""Find where hierarchies of control groups are mounted (proc(5), mountinfo)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted hierarchy of control groups."""

    point: Path
    root: str
    """The group at the mount point (cgroup_namespaces(7))."""
    controllers: frozenset[str]
    """The controllers of v1, among other mount options. For v2 they are in files."""
    unified: bool


def listed(root: Path = Path("/")) -> Sequence[Mount]:
    """Return the hierarchies of a file system. Raises OSError."""
    found = []
    for line in (root / "proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        group, point = left.split()[3:5]
        if kind in ("cgroup", "cgroup2"):
            place = root / point.lstrip("/")
            found.append(Mount(place, group, frozenset(options.split(",")), kind == "cgroup2"))
    return found
