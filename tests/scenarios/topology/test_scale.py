"""Many trusted nodes that start at once form a full mesh of SAs with exactly one IKE_SA for each pair.

Ten nodes by default; `make scale` takes 30, NODES=n any number.
"""

import json
import os
import time

import pytest

from tests.lab.basics.places import BUILD
from tests.lab.basics.waiting import wait_until
from tests.lab.lab import Lab
from tests.lab.net.topology import grid, names
from tests.lab.node.options import Options
from tests.lab.observe.charon import SaState

NODES = int(os.environ.get("NODES") or "10")
SECONDS_PER_PAIR = 2.0
"""A bound for two busy cores; build/scale.json has the measured time."""


@pytest.mark.timeout(240 + int(NODES * NODES * SECONDS_PER_PAIR))
def test_all_pairs_get_exactly_one_ike_sa_when_all_nodes_start_at_once() -> None:
    pairs = NODES * (NODES - 1) // 2
    with Lab("scale", grid(names(NODES)), Options(ipv4=True)) as lab:
        lab.set_up().trust_all()
        begun = time.monotonic()
        lab.start()
        started = time.monotonic()
        lab.wait_full_mesh(30 + pairs * SECONDS_PER_PAIR)
        meshed = time.monotonic()
        # Ends that started at once may hold two IKE_SAs for a moment; then one of them is closed.
        wait_until("all pairs agree", lambda: not _wrong(_sas(lab)), [], 120, last=lambda: _wrong(_sas(lab)))
        report = {
            "schema": 1,
            "nodes": NODES,
            "pairs": pairs,
            "start_s": round(started - begun, 2),
            "mesh_s": round(meshed - started, 2),
            "resident_mib": _resident(lab),
        }
    (BUILD / "scale.json").write_text(json.dumps(report, indent=1), encoding="utf-8")


def _sas(lab: Lab) -> dict[tuple[str, str], list[SaState]]:
    """Return the IKE_SAs by node and peer."""
    nodes = lab.nodes.values()
    return {
        (node.name, peer.name): node.charon.sas_with(peer.name) for node in nodes for peer in nodes if peer is not node
    }


def _wrong(found: dict[tuple[str, str], list[SaState]]) -> list[str]:
    """Return the pairs that lack exactly one IKE_SA, the same at both ends, with as many CHILD_SAs."""
    wrong = []
    for (name, peer), here in found.items():
        there = found[peer, name]
        if not len(here) == len(there) == 1:
            wrong.append(f"{name} - {peer}: {len(here)} and {len(there)} IKE_SAs")
        elif here[0].spis != there[0].spis:
            wrong.append(f"{name} and {peer} hold different IKE_SAs")
        elif not len(here[0].installed) == len(there[0].installed) >= 1:
            wrong.append(f"{name} - {peer}: {len(here[0].installed)} and {len(there[0].installed)} CHILD_SAs")
    return wrong


def _resident(lab: Lab) -> dict[str, float]:
    """Return the MiB over all nodes, by daemon."""
    totals: dict[str, float] = {}
    for node in lab.nodes.values():
        for daemon in node.daemons.all():
            totals[daemon.name] = totals.get(daemon.name, 0.0) + daemon.resident_bytes() / 2**20
    return {name: round(value, 1) for name, value in totals.items()}
