"""New nodes join a fleet over the mesh: they ask, its operator says yes once, and all members know (ADR 0070)."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.lab.lab import Lab
from tests.lab.net.topology import line, names
from tests.lab.net.traffic import wait_arrivals
from tests.lab.node.node import Node
from tests.scenarios.expectations import assert_nothing_clear, captured, flow, states
from tests.scenarios.networks.sites import is_routed

NETWORK = "2001:db8:9::/48"
"""Behind d."""


@pytest.fixture
def chain() -> Iterator[Lab]:
    """Start a - b - c - d. Nobody trusts anybody."""
    with Lab("joining", line(names(4))) as lab:
        yield lab.set_up({"d": replace(lab.options, attached=[NETWORK])}).start()


def requests(node: Node) -> dict[str, dict[str, Any]]:
    """Return the requests that a node keeps, by name."""
    view = json.loads(node.meshsec("fleet", "requests", "--json").stdout)
    return {one["name"]: one for one in view["requests"]}


def waiting(node: Node) -> list[dict[str, Any]]:
    """Return what a node says of its own joining."""
    found: list[dict[str, Any]] = json.loads(node.meshsec("status", "--json", check=False).stdout)["joining"]
    return found


def test_nodes_join_over_strangers_by_one_approval_each(chain: Lab, tmp_path: Path) -> None:
    a, b, c, d = (chain[name] for name in "abcd")
    office = str(tmp_path / "office")
    made = a.meshsec("fleet", "init", "rescue", "--directory", office).stdout
    fleet = next(line.split()[-1] for line in made.splitlines() if line.startswith("fleet"))

    a.meshsec("fleet", "join", fleet)
    (own,) = requests(a).values()
    a.meshsec("fleet", "approve", *own["words"], "--directory", office)
    assert not waiting(a)

    words = next(line for line in made.splitlines() if line.startswith("words")).removeprefix("words").strip()
    for node, wanted in ((b, fleet), (d, words)):  # d is three hops away, behind the stranger c
        node.meshsec("fleet", "join", wanted)
        asked = a.wait_for("the request is here", lambda at=node: requests(a).get(at.name), 90)  # type: ignore[misc]
        (stated,) = node.wait_for("it is told so", lambda at=node: [w for w in waiting(at) if w["kept_by"]], 60)  # type: ignore[misc]
        assert stated["words"] == asked["words"]
        assert " ".join(asked["words"]) in node.meshsec("status", check=False).stdout
        assert asked["namesake"] is None
        assert node.name not in states(a), "nobody is trusted before somebody said yes"
        decision = _decided(a, asked, office)
        a.meshsec("fleet", "approve", *asked["words"], *decision, "--directory", office)
        node.wait_protected(a, 60)
        assert not waiting(node)
    for one, other in ((a, d), (d, a), (b, d), (d, b), (b, a)):
        one.wait_protected(other, 120)
    assert not requests(a)
    a.wait_for("the network of d", lambda: is_routed(a, NETWORK), 60)
    assert "c" not in states(a), "c asked for nothing"
    assert states(c) == {}

    with captured(chain, "joined") as captures, flow(d, a) as running:
        wait_arrivals(running)
        assert_nothing_clear(captures)

    listed = a.meshsec("fleet", "revoke", "d", "--reason", "stolen", "--directory", office).stdout
    a.meshsec("fleet", "take", *listed.split())
    b.wait_for("b closes d", lambda: "d" not in states(b), 60)
    b.wait_for("b shows why", lambda: "stolen" in b.meshsec("fleet", "status").stdout, 60)
    assert "d: stolen" in b.meshsec("peer", "list").stdout


def _decided(operator: Node, asked: dict[str, Any], office: str) -> list[str]:
    """Return the operator's decision about networks. Only d asks for one, and without a decision it is not approved."""
    assert asked["networks"] == ([NETWORK] if asked["name"] == "d" else [])
    if not asked["networks"]:
        return []
    refused = operator.meshsec("fleet", "approve", *asked["words"], "--directory", office, check=False)
    assert refused.returncode == 2
    assert NETWORK in refused.stderr
    assert f"d asks to speak for {NETWORK}" in operator.meshsec("fleet", "requests").stdout
    return ["--networks"]
