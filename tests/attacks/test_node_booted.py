"""On a booted node a crash leaves no keys on the disk, and a login session cannot take charon's port."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.lab.forge.account import Held, bound
from tests.lab.lab import Lab
from tests.lab.machines import booted
from tests.lab.machines.nspawn import Machine

KEEPERS = ("meshsecd.service", "meshsec-ike.service")
"""Services with keys in memory that run here. The other units have the same settings and are checked as files."""
ALL = (*KEEPERS, "meshsec-pluto.service", "overlayd.service", "meshsec-radio@mesh0.service")

pytestmark = pytest.mark.timeout(600, func_only=True)
"""The time limit excludes the fixtures, because building the guest's root takes minutes."""


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Lab, Machine]]:
    """Yield node a, booted by the quick start, and b, which runs in the lab."""
    with booted.pair("booted") as (lab, machine):
        lab["a"].wait_protected(lab["b"], 120)
        yield lab, machine


def died(machine: Machine, unit: str) -> str:
    """Return what systemd reports of a service's death by SIGQUIT, which leaves a core file where that is allowed."""
    log = machine.run("journalctl", "--unit", unit, "--output", "cat", "--no-pager").stdout
    found = re.findall(r"Main process exited, code=(\w+), status=3/QUIT", log)
    return found[-1] if found else ""


def test_no_unit_with_keys_may_leave_a_core_or_swap(pair: tuple[Lab, Machine]) -> None:
    _, machine = pair
    for unit in ALL:
        assert machine.show(unit, "LimitCORE", "MemorySwapMax") == {"LimitCORE": "1", "MemorySwapMax": "0"}, unit
    assert machine.show("overlayd.service", "LimitMEMLOCK") == {"LimitMEMLOCK": "infinity"}
    for unit in KEEPERS:
        limits = Path(f"/proc/{machine.pid(unit)}/limits").read_text(encoding="ascii")
        assert re.search(r"Max core file size +1 +1 +bytes", limits), unit


def test_a_crash_leaves_no_core(pair: tuple[Lab, Machine]) -> None:
    """The control: the same death of a service without these limits leaves one."""
    lab, machine = pair
    if not Path("/proc/sys/kernel/core_pattern").read_text(encoding="ascii").startswith("core"):
        pytest.skip("this machine gives cores to a program: the control would not see one")
    machine.run("systemd-run", "--unit=victim", "-pLimitCORE=infinity", "-pWorkingDirectory=/tmp", "sleep", "600")
    for unit in ("victim.service", *KEEPERS):
        machine.run("systemctl", "kill", "--kill-whom=main", "--signal=QUIT", unit)
    a = machine.node
    a.wait_for("the control left a core", lambda: died(machine, "victim.service") == "dumped", 60)
    for unit in KEEPERS:
        a.wait_for(f"{unit} died", partial(died, machine, unit), 60)
        assert died(machine, unit) == "killed"
    a.wait_protected(lab["b"], 120)


def test_charon_has_its_port_back_within_seconds_after_it_is_free(pair: tuple[Lab, Machine]) -> None:
    lab, machine = pair
    a, b = machine.node, lab["b"]
    machine.run("systemctl", "stop", "meshsec-ike")
    with Held(a, bound("")):
        machine.run("systemctl", "start", "meshsec-ike")
        a.wait_for(
            "it is known that charon lacks the port",
            lambda: "without UDP port 4500" in machine.run("meshsec", "doctor", check=False).stdout,
            60,
        )
        before = machine.pid("meshsec-ike")
        assert "user 65534" in machine.run("meshsec", "doctor", check=False).stdout
    a.wait_protected(b, 60)
    assert machine.pid("meshsec-ike") != before
    assert "without UDP port" not in machine.run("meshsec", "doctor", check=False).stdout


def test_login_sessions_are_denied_the_ports_of_ike(pair: tuple[Lab, Machine]) -> None:
    """Only the unit is checked: in a container systemd cannot attach the program that enforces it."""
    _, machine = pair
    said = machine.run("systemctl", "show", "user.slice", "--property=SocketBindDeny").stdout
    assert sorted(re.findall(r"udp:?(\d+)", said)) == ["4500", "500"]
