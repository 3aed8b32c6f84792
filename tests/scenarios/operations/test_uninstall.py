"""`meshsec uninstall` on a Debian 13 node with systemd as process 1: the machine is what it was before."""

import difflib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.basics.waiting import wait_until
from tests.lab.lab import Lab
from tests.lab.machines import nspawn
from tests.lab.machines.nspawn import Machine
from tests.lab.net.topology import line, names
from tests.lab.node.options import Options

pytestmark = pytest.mark.timeout(900)

SYSCTLS, LATER = "usr/local/lib/sysctl.d", "usr/local/lib/sysctl.d.later"
KEYS = r"/\(forwarding\|ip_forward\|ping_group_range\|rp_filter\|send_redirects\|accept_redirects\)$"
DEFAULTS = (
    *("net.ipv4.ip_forward=0", "net.ipv6.conf.all.forwarding=0", "net.ipv4.conf.all.rp_filter=0"),
    *(f"net.ipv4.conf.{one}.{key}_redirects=1" for one in ("all", "default") for key in ("send", "accept")),
    *(f"net.ipv6.conf.{one}.accept_redirects=1" for one in ("all", "default")),
)
"""The kernel's defaults. This machine's values may be others, and a new network takes them over."""
DEBIAN = "/usr/lib/sysctl.d/50-default.conf"
DEBIANS = """\
net.ipv4.conf.default.rp_filter = 2
net.ipv4.conf.*.rp_filter = 2
-net.ipv4.conf.all.rp_filter
-net.ipv4.ping_group_range = 0 2147483647
"""
"""What Debian's package linux-sysctl-defaults says of the same keys."""
FOREIGN = (
    "nft add table inet meshsec_of_somebody",
    "nft add chain inet meshsec_of_somebody input '{ type filter hook input priority 0; }'",
    "nft add rule inet meshsec_of_somebody input tcp dport 23 drop",
    "ip address add 10.66.0.1/32 dev lo",
    "ip route add 10.67.0.0/24 dev lo proto static",
    "ip rule add from 10.66.0.1 lookup 66 priority 300",
    "mkdir -p /etc/systemd/system/meshsecd.service.d",
    "printf '[Service]\\nNice=0\\n' >/etc/systemd/system/meshsecd.service.d/90-mine.conf",
    "echo 10.66.0.1 mine >>/etc/hosts",
)
"""What the machine's owner has, in the same places."""
CONTAINERS = (
    "nft add table ip nat",
    "nft add chain ip nat POSTROUTING '{ type nat hook postrouting priority srcnat; }'",
)
"""What a program that runs containers adds. It has set ip_forward to 1, as meshsec did, and wrote it down nowhere."""
LOOKS = {
    "nftables": "nft --stateless list ruleset",
    "addresses": "ip -oneline address | sed 's/valid_lft.*//'",
    "routes": "ip -4 route show table all; ip -6 route show table all",
    "rules": "ip -4 rule; ip -6 rule",
    "policies": "ip xfrm policy; ip xfrm state",
    "sysctls": f"find /proc/sys/net/ipv[46] -type f | grep '{KEYS}' | sort | xargs grep -H .",
    "names": "cat /etc/hosts",
    "other IKE daemon": "systemctl is-enabled strongswan; systemctl is-active strongswan",
    "units": "find /etc/systemd/system | sort; systemctl list-units --plain --no-legend 'meshsec*' 'olsr*'",
}
CHANGED = {"nftables", "addresses", "routes", "sysctls", "names", "other IKE daemon", "units"}
"""What a running node has changed."""


class NotYetInstalled(Machine):
    """A node whose sysctls wait for the installation, as those in a package do."""

    def _install(self, layer: Path) -> None:
        super()._install(layer)
        (layer / SYSCTLS).rename(layer / LATER)


@pytest.fixture
def lab() -> Iterator[tuple[Lab, Machine]]:
    """Boot node a with foreign things on it, and prepare b."""
    if obstacle := nspawn.obstacle():
        pytest.skip(obstacle)
    with Lab("uninstall", line(names(2))) as lab, NotYetInstalled(lab["a"]) as machine:
        machine.run("sysctl", "-qw", *DEFAULTS)
        machine.write(DEBIAN, DEBIANS)
        machine.run("/usr/lib/systemd/systemd-sysctl", DEBIAN)
        for command in FOREIGN:
            machine.run("sh", "-c", command)
        yield lab, machine


def look(machine: Machine) -> dict[str, str]:
    return {name: machine.run("sh", "-c", command, check=False).stdout for name, command in LOOKS.items()}


def differences(one: dict[str, str], other: dict[str, str]) -> set[str]:
    return {name for name in one if one[name] != other[name]}


def lines(one: dict[str, str], other: dict[str, str]) -> dict[str, list[str]]:
    """Return the lines that only one of two looks has, with a mark of which."""
    return {
        name: [line for line in difflib.ndiff(one[name].splitlines(), other[name].splitlines()) if line[0] in "+-"]
        for name in differences(one, other)
    }


def go_up(lab: Lab, machine: Machine) -> None:
    """Do what an installation and an operator do, until the channel to b is protected."""
    a, b = lab["a"], lab["b"]
    machine.run("mv", f"/{LATER}", f"/{SYSCTLS}")
    machine.run("meshsec", "up", "--name", "a", "--interface", *a.interfaces, "--ipv4", "10.77.0.200")
    machine.run("meshsec", "export", "systemd", "--into", "/etc/systemd/system")
    shown = json.loads(machine.run("meshsec", "key", "show", "--json").stdout)
    a.card, a.address, a.locator, a.ipv4 = (shown[key] for key in ("card", "address", "locator", "ipv4"))
    b.set_up(Options(ipv4=True))
    b.install_card(a)
    lab.start(nodes=[b])
    machine.run("meshsec", "peer", "add", "b", b.card)
    a.wait_protected(b, 120)
    wait_until("b has a name", lambda: "b.mesh" in machine.run("cat", "/etc/hosts").stdout, (), 10)


def test_the_machine_is_what_it_was_before(lab: tuple[Lab, Machine]) -> None:
    machine = lab[1]
    before = look(machine)
    assert "/lo/rp_filter:2" in before["sysctls"]
    assert before["other IKE daemon"] == "enabled\nactive\n"
    go_up(*lab)
    running = look(machine)
    assert differences(before, running) >= CHANGED

    said = machine.run("meshsec", "uninstall")
    assert "`meshsec uninstall --yes` does this." in said.stdout
    assert differences(running, look(machine)) <= {"policies"}, "without --yes nothing changes"

    # The negative case: what `apt remove` ends is not enough.
    machine.run("systemctl", "stop", "meshsec.target", "meshsec-firewall")
    machine.run("meshsec", "hosts", "--remove")
    assert differences(before, look(machine)) >= {"nftables", "addresses", "sysctls", "other IKE daemon", "units"}
    machine.run("systemctl", "start", "meshsec.target")
    lab[0]["a"].wait_protected(lab[0]["b"], 120)

    done = machine.run("meshsec", "uninstall", "--yes", check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert lines(before, look(machine)) == {}, done.stdout
    assert machine.run("test", "-e", "/var/lib/meshsec/node.key", check=False).returncode == 0, "the key stays"
    again = machine.run("meshsec", "uninstall", "--yes")
    assert "done:" not in again.stdout
    machine.run("meshsec", "up")
    assert machine.run("systemctl", "is-active", "meshsecd").stdout == "active\n", "the node comes back as it was"

    for command in CONTAINERS:
        machine.run("sh", "-c", command)
    kept = machine.run("meshsec", "uninstall", "--yes").stdout
    assert "stays: net/ipv4/ip_forward is 1, because others translate addresses here (nftables: ip nat)" in kept
    assert machine.run("cat", "/proc/sys/net/ipv4/ip_forward").stdout == "1\n"
