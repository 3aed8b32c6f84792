"""Bare machines of two releases become one mesh by the packages alone, with the commands of the quick start."""

import json
import shlex
from collections.abc import Iterator

import pytest

from tests.fleet import quick_start
from tests.lab.basics.waiting import wait_until
from tests.lab.machines import exposure
from tests.lab.machines.fleet import Fleet
from tests.lab.machines.fleet_root import SUITES
from tests.lab.net.packets import Kind
from tests.lab.net.traffic import wait_arrivals
from tests.scenarios.expectations import assert_nothing_clear, captured, flow

pytestmark = pytest.mark.timeout(600, func_only=True)
"""The time limit excludes the fixtures, because building the roots takes long."""

DAEMONS = ("olsrv2d", "overlayd", "meshsec-ike", "meshsecd")
_OVERLAY = """\
set -e
DEBIAN_FRONTEND=noninteractive apt-get -q -y install meshsec-overlayd
printf '[overlay]\\nenabled = true\\n' >>/etc/meshsec/meshsec.toml
install -d /etc/overlayd
meshsec export overlayd >/etc/overlayd/overlayd.toml
systemctl restart meshsecd overlayd"""


@pytest.fixture(scope="module")
def line() -> Iterator[Fleet]:
    """Start a - b - c by the quick start; no node trusts another yet."""
    quick_start.skip_without_fleet()
    with Fleet(3) as booted:
        quick_start.install(booted)
        yield booted


def test_machines_of_two_releases_protect_their_traffic_once_they_trust_each_other(line: Fleet) -> None:
    a, c = line.lab["a"], line.lab["c"]
    assert {machine.suite for machine in line.nodes.values()} == set(SUITES)
    a.wait_route(c)
    assert not a.charon.sas()  # It is reached as a stranger.

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


def test_the_installed_units_are_confined_by_the_systemd_of_either_release(line: Fleet) -> None:
    reasons = exposure.reasons()
    for name in _one_of_each_release(line):
        line.ssh(name, _OVERLAY)
        for unit in exposure.own_units():
            instance = f"{unit}mesh0" if unit.endswith("@") else unit
            looked = line.ssh(name, shlex.join((*exposure.LOOK, f"{instance}.service")), check=False)
            assert exposure.differences(exposure.charged(looked.stdout), reasons[unit]) == [], (name, unit)
            assert looked.returncode == 0, (name, unit)


def test_under_that_confinement_every_daemon_works_and_comes_back_when_it_is_killed(line: Fleet) -> None:
    """This includes the overlay that the test before has added, with libsodium's ciphers."""
    for name in _one_of_each_release(line):
        for unit in DAEMONS:
            _kill(line, name, unit)
        _wait_overlay(line, name)
        assert "libsodium" in line.ssh(name, f"cat /proc/{_main_pid(line, name, 'overlayd')}/maps").stdout
    line.lab.wait_full_mesh()
    for name in line.nodes:
        assert "status=31/SYS" not in line.ssh(name, "journalctl --no-pager --output=cat").stdout


def _one_of_each_release(line: Fleet) -> list[str]:
    return list({machine.suite: name for name, machine in line.nodes.items()}.values())


def _main_pid(line: Fleet, name: str, unit: str) -> int:
    return int(line.ssh(name, f"systemctl show --property MainPID --value {unit}").stdout)


def _kill(line: Fleet, name: str, unit: str) -> None:
    """Kill the main process of a unit. Return when the unit has a new one and is active."""
    before = _main_pid(line, name, unit)
    line.ssh(name, f"kill -9 {before}")

    def is_back() -> bool:
        active = line.ssh(name, f"systemctl is-active {unit}", check=False).returncode == 0
        return active and _main_pid(line, name, unit) not in (0, before)

    wait_until(f"{unit} of {name} is back", is_back, (), 120)


def _wait_overlay(line: Fleet, name: str) -> None:
    def is_up() -> bool:
        said = line.ssh(name, "meshsec mode --json", check=False).stdout
        return bool(said) and json.loads(said)["overlay"]["up"] is True

    wait_until(f"meshsecd of {name} works with overlayd", is_up, (), 120)
