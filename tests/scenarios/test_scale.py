"""Many trusted nodes started at once: a full mesh of SAs, and exactly one IKE_SA for each pair.

Ten by default; `make scale` takes 30, NODES=n any number.
"""

import json
import os
import time

import pytest

from tests.lab.lab import BUILD, Lab
from tests.lab.node import Node, Options
from tests.lab.topology import grid, names

NODES = int(os.environ.get("NODES") or "10")
SECONDS_PER_PAIR = 2.0
"""A bound for two busy cores; what it really took is in build/scale.json."""


@pytest.mark.timeout(60 + int(NODES * NODES * SECONDS_PER_PAIR))
def test_all_pairs_get_exactly_one_ike_sa_when_all_nodes_start_at_once() -> None:
    pairs = NODES * (NODES - 1) // 2
    with Lab("scale", grid(names(NODES)), Options(ipv4=True)) as lab:
        lab.set_up().trust_all()
        begun = time.monotonic()
        lab.start()
        started = time.monotonic()
        lab.wait_full_mesh(30 + pairs * SECONDS_PER_PAIR)
        meshed = time.monotonic()
        for node in lab.nodes.values():
            _wait_without_duplicates(node)
        seen = {(node.name, sa.peer): sa for node in lab.nodes.values() for sa in node.charon.sas()}
        total = sum(len(node.charon.sas()) for node in lab.nodes.values())
        report = {
            "schema": 1,
            "nodes": NODES,
            "pairs": pairs,
            "start_s": round(started - begun, 2),
            "mesh_s": round(meshed - started, 2),
            "resident_mib": _resident(lab),
        }
    (BUILD / "scale.json").write_text(json.dumps(report, indent=1), encoding="utf-8")
    assert total == len(seen) == 2 * pairs
    for (name, peer), sa in seen.items():
        assert sa.spis == seen[peer, name].spis, f"{name} and {peer} hold different IKE_SAs"
        assert len(sa.installed) == len(seen[peer, name].installed) >= 1


def _wait_without_duplicates(node: Node) -> None:
    """Ends that started at once may hold two IKE_SAs for a moment; one of them is closed."""
    node.wait_for("one IKE_SA for each peer", lambda: len(node.charon.sas()) == NODES - 1, 20)


def _resident(lab: Lab) -> dict[str, float]:
    """MiB over all nodes, by daemon."""
    totals: dict[str, float] = {}
    for node in lab.nodes.values():
        for daemon in node.daemons:
            totals[daemon.name] = totals.get(daemon.name, 0.0) + daemon.resident_bytes() / 2**20
    return {name: round(value, 1) for name, value in totals.items()}
