"""`meshsec up` on a Debian 13 node with systemd as process 1. tests/fleet does the same with the packages."""

import pytest

from tests.lab.lab import Lab
from tests.lab.machines import nspawn
from tests.lab.machines.nspawn import Machine
from tests.lab.net.topology import line, names
from tests.scenarios.going_up import assert_goes_up

pytestmark = pytest.mark.timeout(900)


def test_one_command_makes_a_node_that_runs() -> None:
    if obstacle := nspawn.obstacle():
        pytest.skip(obstacle)
    with Lab("up", line(names(2))) as lab, Machine(lab["a"]) as machine:
        (interface,) = lab["a"].interfaces
        assert_goes_up(lambda command: machine.run("sh", "-c", command, check=False), "alpha", interface)
