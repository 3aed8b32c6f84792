"""``make fleet NODES=n``: this many bare machines in a line become one mesh by a playbook; each step's time is
recorded."""

import json
import os
import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from tests.fleet import quick_start
from tests.lab.basics.places import BUILD
from tests.lab.machines.fleet import Fleet
from tests.lab.machines.fleet_controller import Controller, Played

NODES = int(os.environ.get("NODES") or "0")
SECONDS_PER_NODE, SECONDS_PER_PAIR = 60.0, 4.0
"""Bounds for two busy cores; build/fleet.json has the measured times."""


@pytest.mark.skipif(not NODES, reason="minutes: `make fleet` runs it")
@pytest.mark.timeout(900 + NODES * SECONDS_PER_NODE + NODES * NODES * SECONDS_PER_PAIR)
def test_bare_machines_become_one_mesh() -> None:
    quick_start.skip_without_fleet()
    took: dict[str, float] = {}
    played: list[Played] = []
    pairs = NODES * (NODES - 1) // 2

    def timed(name: str, work: Callable[[], object]) -> None:
        begun = time.monotonic()
        work()
        took[f"{name}_s"] = round(time.monotonic() - begun, 2)

    with ExitStack() as stack:
        booted = Fleet(NODES)
        timed("boot", lambda: stack.enter_context(booted))
        controller = Controller(booted)
        timed("site", lambda: controller.play("site"))
        booted.learn_cards()
        timed("mesh", lambda: booted.lab.wait_full_mesh(60 + pairs * SECONDS_PER_PAIR))
        timed("again", lambda: played.append(controller.play("site")))
        releases = sorted({machine.suite for machine in booted.nodes.values()})
    assert [again.changed for again in played] == [0], played[0].output
    report = {"schema": 1, "nodes": NODES, "releases": releases, "pairs": pairs, **took}
    (BUILD / "fleet.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
