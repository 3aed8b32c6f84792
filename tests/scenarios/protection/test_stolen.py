"""A node is stolen: ``meshsec fleet revoke --stolen`` on a member puts it out at all members in reach, soon.

With free processors that takes less than 2 s. The limit leaves room for a machine that runs other tests.
"""

import re
import signal
import time
from collections.abc import Iterator

import pytest

from tests.lab.basics.patience import patient
from tests.lab.lab import Lab
from tests.lab.net.topology import line, names
from tests.lab.net.traffic import wait_arrivals
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.lab.observe.schemas import schema
from tests.scenarios.expectations import flow, states

NODES = 6
STOLEN = "d"
IN_FORCE = 4.0
"""Seconds."""
PLACE = "\n[position]\nlatitude = 53.54101\nlongitude = 9.98413\n"


@pytest.fixture
def fleet() -> Iterator[Lab]:
    """Start a - b - c - d - e - f as a fleet whose key is on a. All routes to e and f lead over d, and its place is
    known.
    """
    with Lab("stolen", line(names(NODES)), Options(policy={"unknown_nodes": "allow"})) as lab:
        nodes = lab.set_up().nodes.values()
        _found(lab["a"], list(nodes))
        with lab[STOLEN].config.open("a") as config:
            config.write(PLACE)
        lab.start()
        for node in nodes:
            for other in nodes:
                if node is not other:
                    node.wait_protected(other, 120)
        yield lab


def _found(office: Node, nodes: list[Node]) -> None:
    """Make a fleet of the nodes on one of them. Each knows the cards of all."""
    directory = _key(office)
    said = office.meshsec("fleet", "init", "rescue", "--directory", directory).stdout
    fleet = next(words.split()[-1] for words in said.splitlines() if words.startswith("fleet"))
    signed = [
        office.meshsec("fleet", "sign", node.card, "--no-networks", "--directory", directory).stdout.strip()
        for node in nodes
    ]
    for node, own in zip(nodes, signed, strict=True):
        node.meshsec("fleet", "join", fleet, own)
        node.meshsec("fleet", "take", *signed)


def _key(office: Node) -> str:
    return str(office.directory / "office")


def _revoke(office: Node, *arguments: str) -> tuple[int, str]:
    done = office.meshsec("fleet", "revoke", STOLEN, *arguments, "--directory", _key(office), check=False)
    return done.returncode, done.stdout


def test_a_stolen_node_is_out_at_all_members_in_reach_and_where_it_was_is_said(fleet: Lab) -> None:
    a, stolen = fleet["a"], fleet[STOLEN]
    others = [node for node in fleet.nodes.values() if node is not stolen]
    a.wait_for("where it is", lambda: STOLEN in a.meshsec("position", "--json").stdout, 60)
    assert all(states(node)[STOLEN] == "protected" for node in others)
    with flow(stolen, fleet["f"]) as running:
        wait_arrivals(running)
        began = time.monotonic()
        status, said = _revoke(a, "--stolen")
        took = time.monotonic() - began
        assert (status, "d was last at 53.541010 9.984130" in said) == (0, True), said
        found = re.search(r"in force here and on 4 of 4 members in reach, after (\d+\.\d) s", said)
        assert found, said
        assert float(found[1]) <= patient(IN_FORCE)
        assert not [node.name for node in others if STOLEN in states(node)], f"after {took:.1f} s"
        for node in others:
            node.wait_for("no SA with the stolen node", lambda one=node: not one.charon.sas_with(STOLEN), 10)  # type: ignore[misc]
    assert "stolen" in fleet["f"].meshsec("fleet", "status").stdout
    for node in others:
        for other in others:
            assert node is other or states(node)[other.name] == "protected", "over the stolen node, too"
    schema("meshsec-fleets-1").validate(a.control.ask("fleets"))


def test_who_does_not_have_the_list_yet_is_named_and_gets_it_later(fleet: Lab) -> None:
    """e's meshsecd is stopped, so that it is in reach and cannot take the list."""
    a, e = fleet["a"], fleet["e"]
    e.daemons.agent.send_signal(signal.SIGSTOP)
    try:
        status, said = _revoke(a, "--stolen", "--reason", "at the harbour")
    finally:
        e.daemons.agent.send_signal(signal.SIGCONT)
    assert (status, "in force here and on 3 of 4" in said, "not yet on: e." in said) == (3, True, True), said
    e.wait_for("it is out at e, too", lambda: STOLEN not in states(e), 90)
    assert "at the harbour" in e.meshsec("fleet", "status").stdout


def test_without_stolen_nothing_is_taken_and_who_is_no_member_revokes_nothing(fleet: Lab) -> None:
    a, b = fleet["a"], fleet["b"]
    b.meshsec("fleet", "leave", "rescue")
    before = a.meshsec("fleet", "show", "--json", "--directory", _key(a)).stdout
    refused = b.meshsec("fleet", "revoke", STOLEN, "--stolen", "--directory", _key(a), check=False)
    assert (refused.returncode, "this one has not" in refused.stderr) == (1, True), refused.stderr
    assert a.meshsec("fleet", "show", "--json", "--directory", _key(a)).stdout == before
    assert _revoke(a)[0] == 0
    assert a.meshsec("fleet", "show", "--json", "--directory", _key(a)).stdout != before
    assert states(a)[STOLEN] == "protected", "the printed list is not in force before a node takes it"
