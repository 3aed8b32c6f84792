"""``make fleet-more``: `meshsec up` makes a bare machine with a radio a node that has a neighbour in the air."""

import tomllib

import pytest

from tests.fleet import radio_neighbour
from tests.fleet.longer import longer
from tests.fleet.radio_neighbour import JOIN_SECONDS
from tests.fleet.test_up import INSTALL
from tests.lab.machines import board
from tests.lab.machines.board import Board
from tests.lab.machines.fleet import PACKAGES

pytestmark = [
    longer,
    pytest.mark.timeout(3600, func_only=True),
]

SUITE = "trixie"
PASSWORD = "only the crew knows"  # noqa: S105  # a test's own
UP = "meshsec up --name alpha --interface wlan0 --mesh-id rescue --frequency 2412 --security sae </dev/null"


def test_one_command_makes_a_machine_with_a_radio_a_node_with_a_neighbour() -> None:
    if obstacle := board.obstacle():
        pytest.skip(obstacle)
    if not list((PACKAGES / SUITE).glob("meshsec_*.deb")):
        pytest.skip(f"not installed: the project's packages for {SUITE}: `make deb RELEASE={SUITE}`")
    with Board(SUITE) as machine:
        machine.add_source()
        machine.ssh(INSTALL)
        radio_neighbour.load_radios(machine)
        _refuse_without_password(machine)
        _go_up(machine)
        radio_neighbour.move(machine)
        radio_neighbour.join(machine, PASSWORD)
        radio_neighbour.wait_peering(machine, JOIN_SECONDS)
        assert machine.ssh("systemctl is-active meshsec-radio@wlan0 meshsecd olsrv2d").stdout.split() == ["active"] * 3


def _refuse_without_password(machine: Board) -> None:
    """What the refusal says is what puts the password in place."""
    refused = machine.ssh(UP, check=False)
    assert refused.returncode == 2
    assert "the password of the mesh is missing" in refused.stderr
    assert machine.ssh("test -e /etc/meshsec/meshsec.toml", check=False).returncode != 0, "a refusal writes nothing"
    (command,) = [part for part in refused.stderr.replace("\n", " ").split("`") if part.startswith("install")]
    machine.ssh(command, stdin=f"{PASSWORD}\n")


def _go_up(machine: Board) -> None:
    made = machine.ssh(UP)
    assert "alpha runs. Its card:" in made.stdout
    assert PASSWORD not in made.stdout + made.stderr
    written = tomllib.loads(machine.ssh("cat /etc/meshsec/meshsec.toml").stdout)
    assert written["radio"] == {"mesh_id": "rescue", "frequency": 2412, "security": "sae"}
    assert machine.ssh("systemctl is-enabled meshsec-radio@wlan0").stdout == "enabled\n"
    assert "alpha runs" in machine.ssh(UP.partition(" --")[0] + " </dev/null").stdout
