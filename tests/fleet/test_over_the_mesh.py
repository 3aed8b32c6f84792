"""``make fleet-more``: a controller that reaches a node only over the mesh takes back changes that break this
connection."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.longer import longer
from tests.lab.basics.waiting import wait_until
from tests.lab.machines.fleet import Fleet
from tests.lab.machines.fleet_controller import Controller

pytestmark = [
    longer,
    pytest.mark.timeout(900, func_only=True),
]
"""The time limit excludes the fixtures, because provisioning a fleet takes long."""

_UNCONFIRMED_SECONDS = 60
"""Longer than a play needs from arming the timer to where the connection breaks."""


@pytest.fixture
def far(controller: Controller, line: Fleet, tmp_path: Path) -> Iterator[Path]:
    """Return an inventory in which c is reached at its mesh address over a, two hops and the SAs away."""
    inventory = tmp_path / "far.json"
    jump = f"ssh -i {line.keys.client} {' '.join(line.keys.options())} -W [%h]:%p root@{line.nodes['a'].address}"
    reached = {
        "ansible_host": line.lab["c"].address,
        "ansible_ssh_common_args": " ".join(
            [*line.keys.options(), f"-o HostKeyAlias={line.nodes['c'].address}", f"-o 'ProxyCommand={jump}'"]
        ),
        "meshsec_deadman_seconds": _UNCONFIRMED_SECONDS,
    }
    inventory.write_text(json.dumps({"all": {"children": {"mesh": {"hosts": {"c": reached}}}}}), encoding="ascii")
    yield inventory
    line.ssh("c", "if test -e /usr/local/sbin/meshsec-deadman; then meshsec-deadman rollback; fi")
    line.lab.wait_full_mesh()


def test_a_change_that_breaks_the_mesh_is_taken_back(controller: Controller, line: Fleet, far: Path) -> None:
    before = _configuration(line)
    elsewhere = json.dumps({"meshsec_interfaces": ["nowhere0"]})
    _cut_off(controller, line, "provision", "-i", str(far), "--limit=c", "--tags=meshsec,olsr", "-e", elsewhere)
    assert _configuration(line) == before
    line.lab.wait_full_mesh()
    controller.play("facts", "-i", str(far), "--limit=c")


def test_a_router_that_leaves_the_mesh_comes_back(controller: Controller, line: Fleet, far: Path) -> None:
    """Only the router's configuration changes: a file written by hand keeps it in the mesh, meshsec.toml does not."""
    own, other = "/etc/olsrv2d/olsrv2d.toml", f"s/{line.lab['c'].interfaces[0]}/nowhere0/"
    line.ssh("c", f"meshsec export olsrv2d | sed 1d >{own} && systemctl reload olsrv2d")
    before = line.ssh("c", f"cat {own}").stdout
    line.ssh("c", f"cp -p /etc/meshsec/meshsec.toml /root/ && sed -i {other} /etc/meshsec/meshsec.toml")
    try:
        _cut_off(controller, line, "provision", "-i", str(far), "--limit=c", "--tags=olsr")
        assert line.ssh("c", f"cat {own}").stdout == before
    finally:
        line.ssh("c", f"mv /root/meshsec.toml /etc/meshsec/ && rm {own} && systemctl reload olsrv2d")
    line.lab.wait_full_mesh()


def test_the_node_that_the_controller_comes_in_by_is_trusted_again_by_all(
    controller: Controller, line: Fleet, far: Path
) -> None:
    """This includes b, which the controller reaches all the time."""
    seconds = f"meshsec_deadman_seconds={_UNCONFIRMED_SECONDS}"
    _cut_off(controller, line, "remove_node", "-i", str(far), "--limit=localhost,b,c", "-e", "node=a", "-e", seconds)
    assert _trusted(line, "c") == {"a", "b"}
    wait_until("b does as c does", lambda: _trusted(line, "b") == {"a", "c"}, (), _UNCONFIRMED_SECONDS + 120)
    line.lab.wait_full_mesh()
    controller.play("facts", "-i", str(far), "--limit=c")


def _cut_off(controller: Controller, line: Fleet, *play: str) -> None:
    """Run a play that cuts itself off from c. Return when c has restored what it had."""
    before = _taken_back(line)
    played = controller.play(*play, check=False)
    assert played.recap["c"]["unreachable"] + played.recap["c"]["failed"] == 1, played.output
    assert "taken back already" not in played.output, "it was slower than the timer: the way never broke"
    wait_until("c takes the change back", lambda: _taken_back(line) == before + 1, (), _UNCONFIRMED_SECONDS + 120)


def _taken_back(line: Fleet) -> int:
    said = line.nodes["c"].run("journalctl", "--unit=meshsec-deadman.service", "--output=cat").stdout
    return said.count("it is taken back")


def _trusted(line: Fleet, node: str) -> set[str]:
    return {peer["peer"] for peer in json.loads(line.ssh(node, "meshsec peer list --json").stdout)["peers"]}


def _configuration(line: Fleet) -> str:
    return line.ssh("c", "cat /etc/meshsec/meshsec.toml").stdout
