"""A pair of nodes of which one is booted: with systemd as process 1, set up by the README's quick start."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.lab.lab import Lab
from tests.lab.machines import nspawn
from tests.lab.machines.nspawn import Machine
from tests.lab.net.topology import line, names
from tests.lab.node.node import Node
from tests.lab.node.options import Options

IPV4 = "10.77.0.200"
"""The IPv4 mesh address of the booted node."""


@contextmanager
def pair(label: str, profile: str = "default") -> Iterator[tuple[Lab, Machine]]:
    """Boot node a and set it up; node b runs in the lab. Both trust each other. Skips where nothing can be booted.

    ``profile`` is the policy of both.
    """
    if obstacle := nspawn.obstacle():
        pytest.skip(obstacle)
    with Lab(label, line(names(2))) as lab, Machine(lab["a"]) as machine:
        quick_start(machine, lab["a"], profile)
        b = lab["b"]
        b.set_up(Options(ipv4=True, policy={"profile": profile}))
        b.install_card(lab["a"])
        lab.start(nodes=[b])
        machine.run("meshsec", "peer", "add", "b", b.card)
        yield lab, machine


def quick_start(machine: Machine, node: Node, profile: str = "default") -> None:
    """Do what the README says for real nodes, and note what the node announces."""
    (interface,) = node.interfaces
    machine.run("meshsec", "init", "--name", node.name, "--interface", interface, "--ipv4", IPV4)
    machine.run("sed", "-i", f'$a [policy]\\nprofile = "{profile}"', "/etc/meshsec/meshsec.toml")
    machine.run("systemd-sysusers")
    machine.run("sysctl", "--system", check=False)  # A sysctl outside its network is this machine's.
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "disable", "--now", "strongswan")
    machine.run("systemctl", "enable", "--now", "meshsec.target")
    shown = json.loads(machine.run("meshsec", "key", "show", "--json").stdout)
    node.card, node.address, node.locator, node.ipv4 = (shown[key] for key in ("card", "address", "locator", "ipv4"))
