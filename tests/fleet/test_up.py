"""`meshsec up` makes a bare machine with the packages a node that runs, on both releases.

When the package goes again, Debian's IKE daemon runs as before.
"""

import pytest

from tests.fleet import quick_start
from tests.lab.machines.fleet import Fleet
from tests.scenarios.going_up import assert_goes_up

pytestmark = pytest.mark.timeout(1800)

INSTALL = "apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q -y install meshsec"
REMOVE = "DEBIAN_FRONTEND=noninteractive apt-get -q -y remove meshsec"
STATE = "systemctl is-enabled strongswan; systemctl is-active strongswan"
RIVAL_RUNS = (
    "set -e; systemctl stop meshsec.target meshsec-ike; rm /var/lib/meshsec/.replaced-units.json\n"
    "systemctl enable --now strongswan"
)
"""Debian's IKE daemon runs again when `meshsec up` comes. What was refused before has stopped it."""


def test_one_command_leads_from_packages_to_nodes_that_protect_each_other() -> None:
    quick_start.skip_without_fleet()
    with Fleet(2) as fleet:
        for name, machine in fleet.nodes.items():
            fleet.add_source(name)
            fleet.ssh(name, INSTALL)
            (interface,) = machine.node.interfaces
            assert_goes_up(lambda command, at=name: fleet.ssh(at, command, check=False), name, interface)  # type: ignore[misc]
        fleet.learn_cards()
        quick_start.trust_all(fleet)
        fleet.lab.wait_full_mesh()
        for name in fleet.nodes:
            fleet.ssh(name, RIVAL_RUNS)
            fleet.ssh(name, "meshsec up </dev/null")
            assert fleet.ssh(name, STATE, check=False).stdout == "disabled\ninactive\n"
            fleet.ssh(name, REMOVE)
            assert fleet.ssh(name, STATE, check=False).stdout == "enabled\nactive\n"
            assert "hook output" in fleet.ssh(name, "nft list table inet meshsec").stdout, "the machine stays closed"
