"""A mesh that carries user data goes from unsigned to required signatures, node by node, without a lost packet.

Two ways lead from a to f: over b and c, which learn to sign, and over d and e, which never do. Those two run olsrd2
where it is on PATH. Elsewhere they are olsrv2d with ``off``, and the claim about olsrd2 is not tested.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.lab.basics import programs
from tests.lab.lab import Lab
from tests.lab.net.traffic import Flow, wait_arrivals
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.lab.node.routers import TextInterface
from tests.scenarios.expectations import flow, flow_without_loss, restart_for_keys

PAIRS = [("a", "b"), ("b", "c"), ("c", "f"), ("a", "d"), ("d", "e"), ("e", "f")]
SIGNING, OLD = ("b", "f", "a", "c"), ("d", "e")
"""Those that are changed, in an order in which each has neighbours before and behind it, and those that are left."""
CONVERGED = 90.0
SETTLED = 50
"""Datagrams of the flow, a second of it, that arrive after a change before the next one."""

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(name="mesh")
def six_that_do_not_sign() -> Iterator[Lab]:
    """Give the mesh as it was before signatures. As on a machine with systemd, signers run and nobody asks them."""
    with Lab("migration", PAIRS, Options(signatures="prefer")) as lab:
        old = Options("olsrd2") if programs.find("olsrd2") else Options(signatures="off")
        lab.set_up(dict.fromkeys(OLD, old)).trust("a", "d", "f")
        for name in SIGNING:
            lab[name].reconfigure(replace(lab[name].options, signatures="off"))
            (lab[name].etc / "olsrv2d.conf").write_text(lab[name].meshsec("export", "olsrv2d").stdout, encoding="utf-8")
        lab.start()
        for first, second in (("a", "f"), ("f", "a"), ("a", "d")):
            lab[first].wait_protected(lab[second], CONVERGED)
        yield lab


def _signatures(node: Node) -> dict[str, Any]:
    text = TextInterface(node.namespace, node.run_directory / "query.sock").ask("/signatures")
    found: dict[str, Any] = json.loads(text)
    return found


def _switch(node: Node, signatures: str) -> None:
    """Do what the guide says, on one node."""
    node.reconfigure(replace(node.options, signatures=signatures))
    restart_for_keys(node)

    def is_changed() -> bool:
        found = _signatures(node)
        return (found["signatures"], found["signer"]) == (signatures, "connected")

    node.wait_for(f"the router has {signatures} and its signer", is_changed, 60)


def _change(mesh: Lab, name: str, signatures: str, running: Flow) -> None:
    """Switch one node, and look at what the guide names before the next one."""
    _switch(mesh[name], signatures)
    mesh["a"].wait_protected(mesh["f"])
    mesh["f"].wait_protected(mesh["a"])
    wait_arrivals(running, SETTLED)


def _routes(node: Node, peer: Node) -> list[bool]:
    """Return whether the routes to a peer rest on links that both ends have signed."""
    found = node.control.ask("topology")["routes"]
    return [one["confirmed"] for one in found if one["destination"].split("/")[0] in (peer.address, peer.locator)]


def _wait_signed(node: Node, peer: Node) -> None:
    node.wait_for(f"the way to {peer.name} is signed", lambda: _routes(node, peer) == [True], CONVERGED)


def _change_all(mesh: Lab, names: Sequence[str], signatures: str) -> None:
    with flow(mesh["a"], mesh["f"]) as before:
        wait_arrivals(before, SETTLED)
    with flow_without_loss(mesh["a"], mesh["f"]) as running:
        wait_arrivals(running, SETTLED)
        for name in names:
            _change(mesh, name, signatures, running)
        result = running.end()
    gone = sorted(set(range(result.sent)) - {number for number, _ in result.arrivals})
    assert result.lost == 0, f"{gone} of {result.sent} datagrams were lost on the way to {signatures}"


def test_a_mesh_comes_to_require_without_a_lost_packet_and_prefer_keeps_relays_that_do_not_sign(mesh: Lab) -> None:
    a, d, f = mesh["a"], mesh["d"], mesh["f"]
    assert not any(_signatures(mesh[name])["verified"] for name in SIGNING), "nobody signs at first"
    _change_all(mesh, SIGNING, "prefer")
    _wait_signed(a, f)
    a.wait_protected(d)

    mesh.link("b", "c").down()
    a.wait_for("f is reached over those that do not sign", lambda: _routes(a, f) == [False], CONVERGED)
    with flow(a, f) as running:
        wait_arrivals(running, SETTLED)
    _switch(a, "require")
    a.wait_for("a, too early, loses d, and f behind it", lambda: not _routes(a, d) and not _routes(a, f), CONVERGED)
    _switch(a, "prefer")
    a.wait_for("a, back at prefer, reaches f over d", lambda: _routes(a, f) == [False], CONVERGED)
    mesh.link("b", "c").up()
    _wait_signed(a, f)
    _wait_signed(f, a)

    _change_all(mesh, SIGNING, "require")
    a.wait_for("d is not reached", lambda: not _routes(a, d), CONVERGED)
    mesh.link("b", "c").down()
    a.wait_for("f is not reached over those that do not sign", lambda: not _routes(a, f), CONVERGED)
    mesh.link("b", "c").up()
    a.wait_protected(f, CONVERGED)
    assert all(_signatures(mesh[name])["forged"] == 0 for name in SIGNING)
