"""Nodes with cards whose routers require signatures: channels come as without, and who does not sign has no route."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.lab import Lab
from tests.lab.net.topology import line, names
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.lab.node.routers import TextInterface


@pytest.fixture(name="mesh", scope="module")
def four_of_which_the_last_does_not_sign() -> Iterator[Lab]:
    with Lab("signed", line(names(4)), Options(ipv4=True, signatures="require")) as lab:
        lab.set_up({"d": Options(ipv4=True, signatures="off")}).trust_all().start()
        yield lab


def _signatures(node: Node) -> dict[str, Any]:
    text = TextInterface(node.namespace, node.run_directory / "query.sock").ask("/signatures")
    found: dict[str, Any] = json.loads(text)
    return found


def test_signed_routes_carry_channels_of_both_families(mesh: Lab) -> None:
    a, c = mesh["a"], mesh["c"]
    a.wait_protected(c)
    c.wait_protected(a)
    found = _signatures(mesh["b"])
    assert (found["signatures"], found["signer"]) == ("require", "connected")
    assert found["verified"] > 0
    assert found["forged"] + found["replayed"] == 0


def test_a_trusted_node_that_does_not_sign_is_not_routed_to(mesh: Lab) -> None:
    a, c, d = mesh["a"], mesh["c"], mesh["d"]
    a.wait_protected(c)
    c.wait_for("d is heard, and is no neighbour", lambda: _signatures(c)["not_signed"] > 10, 60)
    for node in (a, c):
        node.wait_state(d, "no-route")
