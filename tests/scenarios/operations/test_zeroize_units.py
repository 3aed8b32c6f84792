"""On a machine with systemd the unit destroys what the units have, in spite of those that are started again at once."""

import json
import time
from collections.abc import Iterator

import pytest

from tests.lab.basics.patience import patient
from tests.lab.basics.waiting import wait_until
from tests.lab.lab import Lab
from tests.lab.machines import booted
from tests.lab.machines.nspawn import Machine

CONFIG, STATE = "/etc/meshsec/meshsec.toml", "/var/lib/meshsec"
PASSWORD = "/etc/credstore/meshsec.sae-password"  # noqa: S105  # the name of a file
OPERATOR, FLEET = "31001", "/home/operator/.meshsec-fleet/fleet.key"
"""An ordinary user, and the key of the fleet that is his."""
UNIT = "meshsec-zeroize.service"
HOLDERS = ("meshsec-ike.service", "meshsecd.service", "olsrv2-signer.service", "olsrv2d.service")

pytestmark = pytest.mark.timeout(600, func_only=True)


@pytest.fixture
def pair() -> Iterator[tuple[Lab, Machine]]:
    """Yield node a, booted by the quick start, and b."""
    with booted.pair("zeroized") as started:
        started[0]["a"].wait_protected(started[0]["b"], 120)
        yield started


def test_a_node_that_nobody_touched_destroys_itself_and_another_key_begins_anew(pair: tuple[Lab, Machine]) -> None:
    lab, machine = pair
    machine.run("install", "-D", "-m", "0600", "/dev/null", PASSWORD)
    machine.run("install", "-d", "-o", OPERATOR, "/home/operator", "/home/operator/.meshsec-fleet")
    machine.run("install", "-m", "0600", "-o", OPERATOR, CONFIG, FLEET)
    machine.run("systemctl", "start", "olsrv2-signer.service")
    machine.run("sh", "-c", f"printf '[zeroize]\\ndead_man_h = 1\\n' >> {CONFIG}")
    # The negative case: a node that was touched keeps its key.
    machine.run("meshsec", "alive")
    machine.run("systemctl", "try-restart", UNIT)
    assert machine.show(UNIT, "ActiveState") == {"ActiveState": "active"}
    machine.run("test", "-e", f"{STATE}/node.key")
    assert _credentials(machine)
    record = json.loads(machine.run("cat", f"{STATE}/untouched").stdout)
    machine.write(f"{STATE}/untouched", json.dumps({**record, "used": 3600.0, "mark": record["mark"] + 1}))
    wait_until("the unit has ended", lambda: _has_ended(machine, UNIT), (), 30)
    for path in (f"{STATE}/node.key", PASSWORD, f"{STATE}/untouched", FLEET):
        assert machine.run("test", "-e", path, check=False).returncode != 0, path
    assert _credentials(machine) == []
    for unit in HOLDERS:
        assert machine.show(unit, "MainPID") == {"MainPID": "0"}, unit
    # A unit that was killed may have something to restore.
    wait_until("all units have ended", lambda: all(_has_ended(machine, unit) for unit in HOLDERS), (), 30)
    said = machine.run("journalctl", "--no-pager", f"--unit={UNIT}").stdout
    assert "nobody has said `meshsec alive` for 1 h" in said
    assert "Files destroyed: " in said
    assert "NOT DESTROYED" not in said
    b = lab["b"]
    b.wait_for("no SA with a", lambda: not b.charon.sas_with("a"), 30)
    time.sleep(patient(1.0))  # longer than the units take to start again
    assert machine.show("meshsecd.service", "MainPID") == {"MainPID": "0"}
    machine.run("meshsec", "init")
    machine.run("systemctl", "restart", UNIT)
    assert machine.show(UNIT, "ActiveState") == {"ActiveState": "active"}
    machine.run("test", "-e", f"{STATE}/node.key")


def _has_ended(machine: Machine, unit: str) -> bool:
    return machine.show(unit, "ActiveState")["ActiveState"] in ("failed", "inactive")


def _credentials(machine: Machine) -> list[str]:
    found = machine.run("sh", "-c", "find /run/credentials -name 'node.key' 2>/dev/null", check=False)
    return found.stdout.split()
