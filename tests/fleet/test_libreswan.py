"""The role ike installs libreswan instead of strongSwan on nodes of both releases, and they authenticate each other.

Where the kernel has no ESP nothing passes: tests/scenarios/ike/test_libreswan_driven.py shows in the guest that user
data is protected.
"""

import json
from collections.abc import Iterator

import pytest

from tests.fleet import quick_start
from tests.fleet.longer import longer
from tests.lab.basics.waiting import wait_until
from tests.lab.machines.fleet import Fleet
from tests.lab.machines.fleet_controller import Controller

pytestmark = [longer, pytest.mark.timeout(900, func_only=True)]

LIBRESWAN = json.dumps({"ike_daemon": "libreswan"})
AUTHENTICATED = "authenticated peer using authby=secret"


@pytest.fixture(scope="module")
def pair() -> Iterator[Controller]:
    """Provision a - b with one playbook."""
    quick_start.skip_without_fleet()
    with Fleet(2) as booted:
        made = Controller(booted)
        made.play("site", "-e", LIBRESWAN)
        yield made


@pytest.mark.parametrize("name", ["a", "b"])
def test_meshsecd_drives_pluto_and_pluto_authenticates_the_peer(pair: Controller, name: str) -> None:
    fleet = pair.fleet
    active = fleet.ssh(name, "systemctl is-active meshsec-pluto meshsec-ike ipsec meshsecd", check=False).stdout.split()
    assert active == ["active", "inactive", "inactive", "active"]
    assert fleet.ssh(name, "systemctl list-units --failed --plain --no-legend").stdout == ""
    checks = json.loads(fleet.ssh(name, "meshsec doctor --json", check=False).stdout)["checks"]
    found = {check["name"]: check for check in checks}
    assert found["IKE daemon"]["level"] == "ok"
    assert found["IKE daemon"]["found"].startswith("libreswan ")
    assert {check["name"] for check in checks if check["level"] == "fail"} <= {"ESP"}, "the kernel may have none"

    def authenticated() -> bool:
        return AUTHENTICATED in fleet.ssh(name, "journalctl -b -u meshsec-pluto --no-pager").stdout

    wait_until(f"{name}: pluto has authenticated the peer", authenticated, [], 120)


def test_a_second_run_changes_nothing(pair: Controller) -> None:
    again = pair.play("site", "-e", LIBRESWAN)
    assert again.changed == 0, again.output
