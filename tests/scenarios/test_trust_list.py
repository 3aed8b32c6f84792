"""Revocation takes effect on live SAs at once, reaches nodes that were away, and a revoked key stays out."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab import traffic
from tests.lab.lab import Lab
from tests.lab.node import Node, Options
from tests.lab.topology import line, names
from tests.scenarios.expectations import assert_nothing_clear, captured, flow, wait_arrivals


@pytest.fixture
def pair() -> Iterator[Lab]:
    """a - b - c, protected. Unknown nodes are allowed, so that only the revocation can be what drops."""
    with Lab("revoked", line(names(3)), Options(ipv4=True, policy={"unknown_nodes": "allow"})) as lab:
        yield lab.set_up().trust_all().start()


def test_a_revoked_peer_is_out_at_once_and_its_card_brings_it_back_only_when_that_is_taken_back(pair: Lab) -> None:
    a, c = pair["a"], pair["c"]
    a.wait_protected(c)
    c.wait_protected(a)
    with captured(pair, "revocation") as captures:
        with flow(a, c) as running:
            wait_arrivals(running)
            fingerprint = a.meshsec("peer", "revoke", "c", "--reason", "stolen").stdout.split()[-1]
            a.wait_for("no SA at a", lambda: not a.sas_with(c), 60)
            c.wait_for("c hears of it", lambda: not any(sa.installed for sa in c.sas_with(a)), 60)
        again = a.meshsec("peer", "add", "c", c.card, check=False)
        assert again.returncode == 1
        assert "revoked (c: stolen)" in again.stderr
        assert traffic.send((a.namespace, a.ipv4), c.ipv4, count=10) == 0
        assert_nothing_clear(captures)
        a.meshsec("peer", "unrevoke", fingerprint)
        a.trust(c)
        a.wait_protected(c)
        with flow(a, c) as running:
            wait_arrivals(running)


class Office:
    """The machine of a fleet's operator: node a's command line with a directory of its own."""

    def __init__(self, lab: Lab) -> None:
        self._node = lab["a"]
        self._directory = str(self._node.directory / "office")
        self.fleet = self._says("init", "rescue").splitlines()[0].split()[-1]

    def _says(self, *arguments: str) -> str:
        return self._node.meshsec("fleet", *arguments, "--directory", self._directory).stdout

    def sign(self, node: Node) -> str:
        return self._says("sign", node.card).strip()

    def revoke(self, node: Node) -> str:
        return self._says("revoke", node.card).strip()


def _fleet(node: Node) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(node.meshsec("fleet", "status", "--json").stdout)["fleets"][0]
    return found


def _knows(node: Node, listed: int) -> bool:
    known = _fleet(node)["list"]
    return known is not None and known["number"] == listed


@pytest.fixture
def fleet() -> Iterator[tuple[Lab, Office, dict[str, str]]]:
    """a - b - c - d, members of a fleet. All know b's card, and b those of all: nobody else knows another's."""
    with Lab("fleet", line(names(4)), Options(policy={"unknown_nodes": "allow"})) as lab:
        lab.set_up()
        office = Office(lab)
        signed = {name: office.sign(node) for name, node in lab.nodes.items()}
        for name, node in lab.nodes.items():
            node.meshsec("fleet", "join", office.fleet, signed[name])
            node.meshsec("fleet", "take", *(signed.values() if name == "b" else [signed["b"]]))
        yield lab.start(), office, signed


def test_a_revocation_reaches_a_node_that_was_away_and_the_revoked_key_stays_out(
    fleet: tuple[Lab, Office, dict[str, str]],
) -> None:
    lab, office, signed = fleet
    a, b, c, d = (lab[name] for name in "abcd")
    for one, other in ((a, c), (c, a), (a, d), (c, d), (d, c)):
        one.wait_protected(other, 120)

    lab.link("b", "c").down()
    a.wait_state(c, "held")
    a.meshsec("fleet", "take", office.revoke(d))
    number = _fleet(a)["list"]["number"]
    a.wait_for("no SA with the revoked", lambda: not a.sas_with(d), 60)
    b.wait_for("the list passes on", lambda: _knows(b, number), 90)
    assert _fleet(c)["list"] is None
    assert c.peer_status(d)["state"] == "protected", "nobody has told c, so the rest proves something"

    with captured(lab, "away") as captures, flow(d, c) as running:
        wait_arrivals(running)
        lab.link("b", "c").up()
        c.wait_for("the list is here", lambda: _knows(c, number), 120)
        c.wait_for("no SA with the revoked", lambda: not c.sas_with(d), 60)
        refused = c.meshsec("fleet", "take", signed["d"]).stdout
        assert "0 of 1 signed cards" in refused
        assert c.meshsec("peer", "add", "again", d.card, check=False).returncode == 1
        assert traffic.send((c.namespace, c.address), d.address, count=10) == 0
        assert_nothing_clear(captures)
    assert d.address not in {peer["address"] for peer in c.ask("status")["peers"]}
    c.wait_protected(a, 90)
