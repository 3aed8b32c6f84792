"""Nodes with cards whose routers sign: channels come as without, and who must sign and does not has no route.

A relay that does not sign passes on what is signed; olsrd2 is one where it is on PATH.
"""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.lab.basics import programs
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


@pytest.mark.parametrize(
    "relay",
    [
        pytest.param(Options(signatures="off"), id="olsrv2d"),
        pytest.param(
            Options("olsrd2"),
            id="olsrd2",
            marks=pytest.mark.skipif(not programs.find("olsrd2"), reason="olsrd2 is not on PATH"),
        ),
    ],
)
def test_what_is_signed_passes_whole_through_a_relay_that_does_not_sign(relay: Options) -> None:
    """The ends hear nothing else that is signed: what they verify has gone through the relay."""
    with Lab("unsigned-relay", line(names(3)), Options(signatures="prefer")) as lab:
        lab.set_up({"b": relay}).trust("a", "c").start()
        for node, other in ((lab["a"], lab["c"]), (lab["c"], lab["a"])):
            node.wait_protected(other, 90)
            node.wait_for("two messages of the other end are verified", partial(_has_verified, node, 2), 60)
            found = _signatures(node)
            assert found["forged"] + found["replayed"] == 0


def _has_verified(node: Node, least: int) -> bool:
    return int(_signatures(node)["verified"]) >= least
