"""`meshsec up` makes a bare machine with the packages a node that runs, on both releases."""

import pytest

from tests.fleet import quick_start
from tests.lab.machines.fleet import Fleet
from tests.scenarios.going_up import assert_goes_up

pytestmark = pytest.mark.timeout(1800)

INSTALL = "apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q -y install meshsec"


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
