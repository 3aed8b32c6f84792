"""The quick start of README.md, over ssh, on all nodes of a fleet at once."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.lab.machines import fleet
from tests.lab.machines.fleet import PACKAGES, Fleet, FleetNode
from tests.lab.machines.fleet_root import SUITES

_INSTALL = "apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q -y install meshsec"
_CONFIGURE = (
    "set -e",
    "systemctl daemon-reload",
    "systemctl disable --now strongswan",
    "systemctl enable --now meshsec.target",
)


def skip_without_fleet() -> None:
    """Skip where there can be no fleet, or no packages to install on it."""
    if obstacle := fleet.obstacle():
        pytest.skip(obstacle)
    lacking = [suite for suite in SUITES if not list((PACKAGES / suite).glob("meshsec_*.deb"))]
    if lacking:
        pytest.skip(f"not installed: the project's packages for {', '.join(lacking)}: `make deb RELEASE=...`")


def install(booted: Fleet) -> None:
    """Install, configure and start all nodes and learn their cards. No node trusts another yet."""
    _each(booted, lambda machine: _install(booted, machine))
    booted.learn_cards()


def trust_all(booted: Fleet) -> None:
    """Give every node the cards of all others."""
    _each(booted, lambda machine: _trust(booted, machine))


def _each(booted: Fleet, work: Callable[[FleetNode], None]) -> None:
    with ThreadPoolExecutor(10) as together:
        list(together.map(work, booted.nodes.values()))


def _install(booted: Fleet, machine: FleetNode) -> None:
    node = machine.node
    booted.add_source(node.name)
    booted.ssh(node.name, _INSTALL)
    interfaces = " ".join(f"--interface {interface}" for interface in node.interfaces)
    booted.ssh(node.name, f"meshsec init --name {node.name} {interfaces}")
    booted.ssh(node.name, "\n".join(_CONFIGURE))


def _trust(booted: Fleet, machine: FleetNode) -> None:
    others = [other.node for other in booted.nodes.values() if other is not machine]
    booted.ssh(machine.node.name, "set -e\n" + "\n".join(f"meshsec peer add {o.name} {o.card}" for o in others))
