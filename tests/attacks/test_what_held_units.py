"""A unit bounds what our daemon can take of a machine, whatever it receives."""

from collections.abc import Iterator

import pytest

from tests.lab.lab import Lab
from tests.lab.machines import nspawn
from tests.lab.machines.nspawn import Machine
from tests.lab.net.topology import line, names

UNITS = {
    "olsrv2d.service": (512, 32),
    "olsrv2-signer.service": (32, 4),
    "overlayd.service": (256, 32),
    "meshsecd.service": (512, 128),
    "meshsec-ike.service": (512, 64),
    "meshsec-pluto.service": (512, 128),
    "meshsec-radio@mesh0.service": (256, 64),
}
"""Megabytes and tasks."""

pytestmark = pytest.mark.timeout(600, func_only=True)


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    """Boot a node without a configuration."""
    if obstacle := nspawn.obstacle():
        pytest.skip(obstacle)
    with Lab("limits", line(names(2))) as lab, Machine(lab["a"]) as booted:
        yield booted


@pytest.mark.parametrize("unit", UNITS)
def test_memory_and_tasks_of_a_daemon_are_limited(machine: Machine, unit: str) -> None:
    megabytes, tasks = UNITS[unit]
    shown = machine.show(unit, "MemoryMax", "TasksMax", "LimitNOFILE", "NoNewPrivileges")
    assert shown["MemoryMax"] == str(megabytes << 20)
    assert shown["TasksMax"] == str(tasks)
    assert int(shown["LimitNOFILE"]) <= 1 << 20
    assert shown["NoNewPrivileges"] == "yes"


def test_the_detector_sees_a_unit_without_limits(machine: Machine) -> None:
    shown = machine.show("systemd-journald.service", "MemoryMax")
    assert shown["MemoryMax"] == "infinity"
