"""`meshsec up` makes a bare machine with the packages a node that runs."""

import json

import pytest

from tests.fleet import quick_start
from tests.lab.machines.fleet import Fleet

pytestmark = pytest.mark.timeout(1800)

INSTALL = "apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q -y install meshsec"
UNITS = ("meshsec.target", "meshsec-firewall", "meshsec-ike", "meshsecd", "olsrv2d")
FILES = "find /etc/meshsec /etc/systemd/system /var/lib/meshsec -type f -exec sha256sum {} + -o -type l -print | sort"


def test_one_command_leads_from_packages_to_a_running_node() -> None:
    """On a machine of each release. Before, the target fails at once and names the command; after, all is kept."""
    quick_start.skip_without_fleet()
    with Fleet(2) as fleet:
        for name, machine in fleet.nodes.items():
            fleet.add_source(name)
            fleet.ssh(name, INSTALL)
            early = fleet.ssh(name, "systemctl start meshsec.target", check=False)
            assert early.returncode != 0
            assert "`meshsec up`" in fleet.ssh(name, "systemctl status meshsec.target", check=False).stdout
            refused = fleet.ssh(name, "meshsec up", check=False)
            assert "--name is missing" in refused.stderr
            (interface,) = machine.node.interfaces
            made = fleet.ssh(name, f"meshsec up --name {name} --interface {interface}").stdout
            assert f"{name} runs. Its card:" in made
            for unit in UNITS:
                assert fleet.ssh(name, f"systemctl is-active {unit}").stdout == "active\n", unit
            assert fleet.ssh(name, "systemctl is-enabled strongswan", check=False).stdout.strip() == "disabled"
            assert json.loads(fleet.ssh(name, "meshsec status --json", check=False).stdout)["node"]["name"] == name
            kept = fleet.ssh(name, FILES).stdout
            process = fleet.ssh(name, "systemctl show --property=MainPID meshsecd olsrv2d meshsec-ike").stdout
            assert f"{name} runs" in fleet.ssh(name, "meshsec up").stdout
            assert fleet.ssh(name, FILES).stdout == kept
            assert fleet.ssh(name, "systemctl show --property=MainPID meshsecd olsrv2d meshsec-ike").stdout == process
        fleet.learn_cards()
        quick_start.trust_all(fleet)
        fleet.lab.wait_full_mesh()
