"""Set control groups (v1 and v2) and autogroups, which outrank nice values and so must agree with them.

A nice value only compares threads of one group. If a service has its own group, the group's weight is set too; if it
has an autogroup (sched(7)), the autogroup's nice value. A group that is shared with others is not changed.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from meshsec.adapters.scheduler import realtime_groups
from meshsec.adapters.scheduler.mounts import Mount, listed
from meshsec.core.explain.scheduling_doctor import GroupFacts
from meshsec.core.scheduling.profiles import Placement, SchedulingClass

_PROC = Path("/proc")
_SHARES_PER_WEIGHT = 1024 / 100
"""v1's default share is 1024 where v2's default weight is 100."""

_TRIES = 30
_TRY_AFTER = 0.03
"""Seconds until the next attempt. Without CAP_SYS_ADMIN the kernel accepts one autogroup change in 0.1 s from all
processes together."""


@dataclass(frozen=True, slots=True)
class Change:
    """A file and the text that must be written to it."""

    path: Path
    text: str


@dataclass(frozen=True)
class Membership:
    """The groups of one process."""

    pid: int
    mounts: Sequence[Mount]

    @cached_property
    def cpu(self) -> Path | None:
        """The directory of its group of the controller cpu; None in the root group."""
        return self._group("cpu", ("cpu.weight", "cpu.shares"))

    @cached_property
    def cpuset(self) -> Path | None:
        """The directory of its group of the controller cpuset; None in the root group."""
        return self._group("cpuset", ("cpuset.cpus",))

    def owns(self, group: Path) -> bool:
        """Return whether only the process and its children are in a group."""
        try:
            members = {int(line) for line in (group / "cgroup.procs").read_text(encoding="ascii").split()}
        except (OSError, ValueError):
            return False
        return bool(members) and all(member == self.pid or _parent(member) == self.pid for member in members)

    def changes(self, wanted: SchedulingClass, weight: int | None) -> tuple[list[Change], str]:
        """Return what to write so that the class also counts between groups, and why that is impossible, if it is."""
        if self.cpu is None:
            return self._autogroup(wanted)
        counts = Placement(wanted, weight).group_weight
        if counts is None:
            return [], ""
        if not self.owns(self.cpu):
            return [], f"it shares the control group {self.cpu} with others, so its nice value counts inside only"
        return [_change_of_weight(self.cpu, counts)], ""

    def cpuset_change(self, cpus: Sequence[int]) -> Change | None:
        """Return the change that sets the processors of its own group; None if it has none."""
        if self.cpuset is None or not self.owns(self.cpuset):
            return None
        return Change(self.cpuset / "cpuset.cpus", ",".join(map(str, cpus)))

    def facts(self) -> GroupFacts:
        """Return what doctor checks."""
        _, problem = self.changes(SchedulingClass(), None)
        if self.cpu is None:
            return GroupFacts("/", own=False, problem=problem)
        return GroupFacts(
            path=str(self.cpu),
            own=self.owns(self.cpu),
            problem=problem,
            weight=_weight(self.cpu),
            unwritable=_unwritable(self.cpu),
            forbids_realtime=realtime_groups.forbid(self.cpu),
            has_budget=(self.cpu / realtime_groups.BUDGET).exists(),
        )

    def _autogroup(self, wanted: SchedulingClass) -> tuple[list[Change], str]:
        """Return the change of a session's autogroup, which exists if the kernel makes autogroups."""
        path = _PROC / str(self.pid) / "autogroup"
        if wanted.is_realtime or not _autogroups() or not path.exists():
            return [], ""
        if _session(self.pid) != self.pid:
            return (
                [],
                "it shares its session with others, whose autogroup ranks above its nice value: start it by setsid",
            )
        return [Change(path, str(wanted.nice))], ""

    def _group(self, controller: str, files: Sequence[str]) -> Path | None:
        """Return the nearest group that has one of the files. Below it the controller is off."""
        for mount, path in self._paths(controller):
            group = mount.point / path
            while group != mount.point:
                if any((group / name).exists() for name in files):
                    return group
                group = group.parent
        return None

    def _paths(self, controller: str) -> Iterator[tuple[Mount, str]]:
        try:
            lines = (_PROC / str(self.pid) / "cgroup").read_text(encoding="utf-8").splitlines()
        except OSError:
            return
        listed: Mapping[str, str] = {names: path for _, names, path in (line.split(":", 2) for line in lines)}
        for mount in self.mounts:
            for names, path in listed.items():
                fits = (
                    not names if mount.unified else controller in names.split(",") and controller in mount.controllers
                )
                inside = _below(path, mount.root) if fits else None
                if inside is not None:
                    yield mount, inside


def membership(pid: int) -> Membership:
    """Return the groups of a process."""
    return Membership(pid, mounts())


@cache
def mounts() -> Sequence[Mount]:
    """Return the hierarchies that are mounted here. They exist before any service."""
    return listed()


def text_of(path: Path) -> str:
    """Return the content of a group's file in a form that can be written back. Raises OSError."""
    text = path.read_text(encoding="ascii").strip()
    return text.rpartition("nice ")[2] if path.name == "autogroup" else text


def write_back(path: Path, text: str) -> None:
    """Write a file at shutdown, when it cannot be tried again later. Raises OSError."""
    line = f"{text or _processors_above(path)}\n"
    for _ in range(_TRIES):
        try:
            path.write_text(line, encoding="ascii")
        except BlockingIOError:
            time.sleep(_TRY_AFTER)
        else:
            return
    path.write_text(line, encoding="ascii")


def _processors_above(path: Path) -> str:
    """Return the processors that a v2 cpuset inherits. While it has tasks it cannot be set empty again."""
    return (path.parent.parent / f"{path.name}.effective").read_text(encoding="ascii").strip()


def _below(path: str, root: str) -> str | None:
    """Return ``path`` relative to ``root``; None if it is outside."""
    if "/.." in path:
        return None
    if root == "/":
        return path.lstrip("/")
    return path[len(root) :].lstrip("/") if path == root or path.startswith(f"{root}/") else None


def _weight_file(group: Path) -> Path:
    """Return the weight file of v2, else of v1."""
    weight = group / "cpu.weight"
    return weight if weight.exists() else group / "cpu.shares"


def _change_of_weight(group: Path, weight: int) -> Change:
    path = _weight_file(group)
    is_v2 = path.name == "cpu.weight"
    return Change(path, str(weight if is_v2 else max(2, round(weight * _SHARES_PER_WEIGHT))))


def _weight(group: Path) -> int | None:
    """Return the weight in v2's scale; None if it is not known."""
    path = _weight_file(group)
    try:
        found = int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return found if path.name == "cpu.weight" else round(found / _SHARES_PER_WEIGHT)


def _unwritable(group: Path) -> str:
    """Return why we cannot set a group's weight; empty if we can."""
    path = _weight_file(group)
    try:
        with path.open("r+"):
            return ""
    except OSError as error:
        return f"{path}: {error.strerror}"


def _autogroups() -> bool:
    try:
        return Path("/proc/sys/kernel/sched_autogroup_enabled").read_text(encoding="ascii").strip() == "1"
    except OSError:
        return False


def _stat(pid: int) -> list[str]:
    text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    return text[text.rindex(")") + 2 :].split()


def _parent(pid: int) -> int | None:
    try:
        return int(_stat(pid)[1])
    except OSError:
        return None


def _session(pid: int) -> int | None:
    try:
        return int(_stat(pid)[3])
    except OSError:
        return None
