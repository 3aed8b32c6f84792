"""Where hierarchies of control groups are mounted (proc(5), mountinfo)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Mount:
    """A hierarchy of control groups."""

    point: Path
    root: str
    """Which group stands there (cgroup_namespaces(7))."""
    controllers: frozenset[str]
    """Of v1, among other options of the mount; for v2 files tell."""
    unified: bool


def listed(root: Path = Path("/")) -> Sequence[Mount]:
    """Those of a file system. Raises OSError."""
    found = []
    for line in (root / "proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split(" ", 2)
        group, point = left.split()[3:5]
        if kind in ("cgroup", "cgroup2"):
            place = root / point.lstrip("/")
            found.append(Mount(place, group, frozenset(options.split(",")), kind == "cgroup2"))
    return found
