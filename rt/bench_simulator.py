"""How long random meshes of many routers take from a cold start to all routes, in virtual time, and what that costs."""

import json
import subprocess
import sys
from functools import partial
from typing import Any

from rt.measure.frame import Bench
from rt.measure.plot import boxes
from rt.measure.results import QUICK
from tests.lab.basics.places import REPOSITORY

SIZES = (100,) if QUICK else (100, 300, 1000)
ROUNDS = 1 if QUICK else 3
"""Each has a seed of its own: 1, 2, 3."""
DEGREE = 12
"""Neighbours of a node on the average."""
_CARGO = (
    "cargo",
    "run",
    "--release",
    "--locked",
    "--quiet",
    "--manifest-path",
    str(REPOSITORY / "daemon" / "Cargo.toml"),
)
_FIGURES = {
    "converged after": ("convergence_seconds", "s, virtual"),
    "computing time of the simulation": ("wall_seconds", "s"),
    "octets that a router sent": ("octets_sent", "octets"),
}


def main() -> int:
    """Simulate meshes of each size."""
    bench = Bench("simulator", __doc__, ROUNDS, "how many random meshes of each size are simulated")
    seeds = tuple(range(1, bench.parse().rounds + 1))
    with bench.measuring():
        for number, nodes in bench.in_rounds(SIZES):
            report = bench.visit(f"{nodes} nodes, seed {seeds[number]}", partial(_simulate, nodes, seeds[number]))
            for what, (key, unit) in _FIGURES.items():
                share = nodes if unit == "octets" else 1
                bench.take({"what": what, "nodes": nodes}, unit, [report[key] / share])
    params = {"sizes": SIZES, "seeds": seeds, "degree": DEGREE, "timers": "default", "loss": 0}
    result = bench.result(params, sorted(bench.cells(), key=lambda cell: SIZES.index(cell.key["nodes"])))
    return bench.finish(result, partial(boxes, title="Cold start of random meshes in the simulator", compare="nodes"))


def _simulate(nodes: int, seed: int) -> dict[str, Any]:
    """Return the report of one run; raises CalledProcessError when it did not converge."""
    arguments = ["--nodes", str(nodes), "--degree", str(DEGREE), "--seed", str(seed), "--json"]
    done = subprocess.run([*_CARGO, "--package", "simulator", "--", *arguments], stdout=subprocess.PIPE, check=True)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


if __name__ == "__main__":
    sys.exit(main())
