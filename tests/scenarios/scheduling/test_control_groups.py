"""meshsec sets weight and processors of a service's control group v2 (controllers cpu and cpuset), and restores them.

daemon/tests/adapters covers machines that keep these controllers in v1.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from meshsec.adapters.scheduler import Scheduler, groups, threads
from meshsec.core.scheduling.profiles import (
    BEST_WITHOUT_REALTIME,
    Placement,
    SchedulingClass,
    SchedulingPolicy,
    weight_of,
)

NICE = SchedulingClass(nice=-10)
RR3 = SchedulingClass(SchedulingPolicy.RR, priority=3)
SERVICE = """
import threading
for _ in range(3):
    threading.Thread(target=threading.Event().wait).start()
print(flush=True)
"""


@pytest.fixture
def service() -> Iterator[int]:
    """Start a process with four threads. Yield its PID."""
    with started() as pid:
        yield pid


@contextmanager
def started() -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-c", SERVICE], stdout=subprocess.PIPE)
    try:
        assert process.stdout
        process.stdout.readline()
        yield process.pid
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def group(service: int) -> Iterator[Path]:
    """Make a group for the service, like that of a unit, with a weight."""
    root = hierarchy("cpu")
    directory = root / f"meshsec-test-{os.getpid()}"
    with enabled(root, "cpu"):
        directory.mkdir()
        try:
            (directory / "cgroup.procs").write_text(str(service))
            yield directory
        finally:
            (root / "cgroup.procs").write_text(str(service))
            directory.rmdir()


@pytest.fixture
def processors(group: Path) -> Iterator[Path]:
    """Yield the file with the processors of that group."""
    with enabled(hierarchy("cpuset"), "cpuset"):
        yield group / "cpuset.cpus"


def hierarchy(controller: str) -> Path:
    """Return the root of v2 where it has the controller."""
    root = next((mount.point for mount in groups.mounts() if mount.unified), None)
    if root is None:
        pytest.skip("no hierarchy v2 is mounted")
    if controller not in (root / "cgroup.controllers").read_text(encoding="ascii").split():
        pytest.skip(f"the hierarchy v2 has no controller {controller}")
    return root


@contextmanager
def enabled(root: Path, controller: str) -> Iterator[None]:
    """Enable the controller below the root group."""
    switch = root / "cgroup.subtree_control"
    if controller in switch.read_text(encoding="ascii").split():
        yield
        return
    switch.write_text(f"+{controller}")
    try:
        yield
    finally:
        switch.write_text(f"-{controller}")


def test_weight_follows_the_nice_value_and_comes_back(service: int, group: Path, tmp_path: Path) -> None:
    scheduler, weight = Scheduler(tmp_path / "journal"), group / "cpu.weight"
    assert weight.read_text() == "100\n"
    assert scheduler.apply("charon", service, NICE).group == ""
    assert weight.read_text() == f"{weight_of(-10)}\n"
    assert scheduler.place("charon", service, Placement(NICE, weight=500)).group == ""
    assert weight.read_text() == "500\n"
    assert scheduler.restore() == []
    assert weight.read_text() == "100\n"


def test_processors_are_those_of_the_group_and_come_back(service: int, processors: Path, tmp_path: Path) -> None:
    scheduler = Scheduler(tmp_path / "journal")
    one = max(os.sched_getaffinity(service))
    assert processors.read_text() == "\n", "it has those of its parent"
    assert scheduler.place("charon", service, Placement(NICE, cpus=(one,))).problem == ""
    assert processors.with_name("cpuset.cpus.effective").read_text() == f"{one}\n"
    assert {frozenset(os.sched_getaffinity(each.tid)) for each in threads.threads_of(service)} == {frozenset({one})}
    assert scheduler.restore() == []
    above = processors.parent.with_name("cpuset.cpus.effective").read_text()
    assert processors.with_name("cpuset.cpus.effective").read_text() == above


def test_what_a_killed_one_changed_is_put_back_by_a_successor(service: int, group: Path, tmp_path: Path) -> None:
    Scheduler(tmp_path / "journal").place("charon", service, Placement(NICE, weight=500))
    assert (group / "cpu.weight").read_text() == "500\n"
    assert Scheduler(tmp_path / "journal").restore() == []
    assert (group / "cpu.weight").read_text() == "100\n"


def test_a_group_that_others_share_is_left_alone(service: int, group: Path, tmp_path: Path) -> None:
    """The negative case, with the same checks."""
    with started() as other:
        (group / "cgroup.procs").write_text(str(other))
        applied = Scheduler(tmp_path / "journal").apply("charon", service, NICE)
        assert f"it shares the control group {group} with others" in applied.group
        assert (group / "cpu.weight").read_text() == "100\n"


def test_a_real_time_class_or_where_the_kernel_refuses_it_the_best_nice_value_with_its_weight(
    service: int, group: Path, tmp_path: Path
) -> None:
    """RT_GROUP_SCHED (off in Debian) refuses it to every group of v2, and no budget can be set."""
    facts = groups.membership(service).facts()
    assert (facts.path, facts.own, facts.problem) == (str(group), True, "")
    scheduler = Scheduler(tmp_path / "journal")
    applied = scheduler.apply("charon", service, RR3)
    weight = int((group / "cpu.weight").read_text())
    if applied.in_force == RR3:
        assert (applied.problem + applied.group, weight) == ("", 100)
    else:
        assert (applied.in_force, weight) == (BEST_WITHOUT_REALTIME, weight_of(-20))
        assert "rr 3 is refused" in applied.problem
    assert scheduler.restore() == []
    assert (group / "cpu.weight").read_text() == "100\n"
