"""Ten machines, ten times `meshsec up`, ten approvals and nothing else: then all protect each other (ADR 0070).

The fleet's operator gives his own node the fleet's card; all others have its six words alone.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from tests.fleet.longer import longer
from tests.lab.basics.waiting import wait_until
from tests.lab.lab import Lab
from tests.lab.machines import nspawn
from tests.lab.machines.nspawn import Machine
from tests.lab.net.topology import grid, names

NODES = 10

pytestmark = [
    longer,
    pytest.mark.timeout(1800),
]


def _meshsec(machine: Machine, *arguments: str) -> str:
    """Return the output of a command, whatever its status: `status` is 3 while a peer is not protected yet."""
    return machine.run("meshsec", *arguments, check=False).stdout


def _up(machine: Machine, fleet: str) -> None:
    interfaces = [option for name in machine.node.interfaces for option in ("--interface", name)]
    machine.run("meshsec", "up", "--name", machine.node.name, *interfaces, "--join", fleet, timeout=600)


def _approve_all(operator: Machine) -> int:
    """Approve whoever asks by its six words. Return the number of approvals."""
    waiting = json.loads(_meshsec(operator, "fleet", "requests", "--json"))["requests"]
    for one in waiting:
        operator.run("meshsec", "fleet", "approve", *one["words"])
    return len(waiting)


def _protected(machine: Machine) -> int:
    peers = json.loads(_meshsec(machine, "status", "--json"))["peers"]
    return sum(peer["state"] == "protected" for peer in peers)


def test_ten_nodes_take_ten_commands_and_ten_approvals() -> None:
    if obstacle := nspawn.obstacle():
        pytest.skip(obstacle)
    with Lab("joining", grid(names(NODES))) as lab, ThreadPoolExecutor(4) as pool, ExitStack() as stack:
        machines = [Machine(node) for node in lab.nodes.values()]
        list(pool.map(stack.enter_context, machines))  # a machine ends with the thread that booted it
        operator = machines[0]
        made = operator.run("meshsec", "fleet", "init", "rescue").stdout
        said = dict(line.split(maxsplit=1) for line in made.splitlines() if line.startswith(("fleet", "words")))
        list(pool.map(lambda machine: _up(machine, said["fleet" if machine is operator else "words"]), machines))

        approved = 0

        def all_approved() -> bool:
            nonlocal approved
            approved += _approve_all(operator)
            return approved >= NODES

        wait_until("ten approvals", all_approved, [], 600, last=lambda: approved)
        for machine in machines:
            wait_until(
                f"{machine.node.name} is protected with all",
                lambda at=machine: _protected(at) == NODES - 1,  # type: ignore[misc]
                [],
                600,
                last=lambda at=machine: _meshsec(at, "status"),  # type: ignore[misc]
            )
        assert approved == NODES
