"""Bare machines of two releases become one mesh by the packages alone, with the commands of the quick start."""

import json
from collections.abc import Iterator

import pytest

from tests.fleet import quick_start
from tests.lab.fleet import Fleet
from tests.lab.fleet_root import SUITES
from tests.lab.packets import Kind
from tests.scenarios.expectations import assert_nothing_clear, captured, flow, wait_arrivals

pytestmark = pytest.mark.timeout(600, func_only=True)
"""Not the set-up, which builds the roots when nobody has done that before."""


@pytest.fixture(scope="module")
def line() -> Iterator[Fleet]:
    """a - b - c by the quick start; nobody trusts anybody yet."""
    quick_start.skip_without_ground()
    with Fleet(3) as booted:
        quick_start.install(booted)
        yield booted


def test_machines_of_two_releases_protect_their_traffic_once_they_trust_each_other(line: Fleet) -> None:
    a, c = line.lab["a"], line.lab["c"]
    assert {machine.suite for machine in line.nodes.values()} == set(SUITES)
    a.wait_route(c)
    assert not a.charon.sas()  # it is reached, and a stranger

    quick_start.trust_all(line)
    line.lab.wait_full_mesh()
    with captured(line.lab, "packages") as captures:
        with flow(a, c) as running:
            wait_arrivals(running, 50)
        assert captures["b"].counts[Kind.ESP] > 0
    assert_nothing_clear(captures)


def test_no_unit_of_a_node_has_failed_and_doctor_finds_nothing_wrong(line: Fleet) -> None:
    for name in line.nodes:
        assert line.ssh(name, "systemctl list-units --failed --plain --no-legend").stdout == ""
        checks = json.loads(line.ssh(name, "meshsec doctor --json", check=False).stdout)["checks"]
        assert checks
        assert [check for check in checks if check["level"] == "fail"] == []
