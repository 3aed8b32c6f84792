"""How long random meshes of many routers take from a cold start to all routes, in virtual time, and what that costs."""

import json
import subprocess
from typing import Any

from rt.measure.results import QUICK, Cell, Result
from tests.lab.basics.places import REPOSITORY

SIZES = (100,) if QUICK else (100, 300, 1000)
SEEDS = (1,) if QUICK else (1, 2, 3)
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


def main() -> None:
    """Measure, write, print."""
    result = Result("simulator", {"sizes": SIZES, "seeds": SEEDS, "degree": DEGREE, "timers": "default", "loss": 0})
    for nodes in SIZES:
        reports = [_simulate(nodes, seed) for seed in SEEDS]
        for what, (key, unit) in _FIGURES.items():
            share = nodes if unit == "octets" else 1
            samples = [report[key] / share for report in reports]
            result.cells.append(Cell({"what": what, "nodes": nodes}, unit, samples))
    path = result.write()
    print("\n".join([*result.lines(), str(path)]))


def _simulate(nodes: int, seed: int) -> dict[str, Any]:
    """The report of one run; raises CalledProcessError when it did not converge."""
    arguments = ["--nodes", str(nodes), "--degree", str(DEGREE), "--seed", str(seed), "--json"]
    done = subprocess.run([*_CARGO, "--package", "simulator", "--", *arguments], stdout=subprocess.PIPE, check=True)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


if __name__ == "__main__":
    main()
