"""What signatures of routing messages cost a node: processor, octets and memory, at rest and in a flood.

Random meshes in virtual time, once without signatures, once where they are preferred and once where they are required.
The routers of a mesh share verified signatures, so that a thousand can be simulated. What each would have verified is
counted, and one verification is measured, so the share of a core is that of a node alone. A flood is sent to the router
in the middle of a line of five. Its figures contain what the other four take, which the rate 0 shows, and after how
many seconds a route was wrong. It lasts longer than a link (6 s) and a TC (15 s) are valid. The real line has ten nodes
in network namespaces, with the router's and the signer's processor time by the kernel's account.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from statistics import median
from typing import Any

from rt.measure.frame import Bench
from rt.measure.plot import boxes
from rt.measure.results import QUICK, Cell, MeasurementError
from tests.lab.basics.places import REPOSITORY
from tests.lab.basics.processes import Daemon
from tests.lab.lab import Lab
from tests.lab.net.topology import line, names
from tests.lab.node.options import Options

SMALL, LARGE = (10, 100), 1000
"""Nodes of the meshes. The large one is simulated once, and last, because each setting takes 20 minutes."""
SETTINGS = ("off", "prefer", "require")
KINDS = {
    "strangers": "false, from a new address for each message",
    "neighbour": "false, from a neighbour's address",
    "hellos": "false HELLOs, from a neighbour's address",
    "invented": "true, of a new router for each message, which does not exist",
    "small-order": "of such routers, with a key of small order",
    "cut": "from a neighbour's address, without the signature's last octet",
    "unknown": "from a neighbour's address, by an algorithm that nobody knows",
    "other-type": "HELLOs from a neighbour's address, with the signature of its TC",
    "replayed": "one of a neighbour, again and again",
    "last-counter": "false, from a neighbour's address, with the highest counter",
}
RATES = (1000, 10000)
"""Messages a second."""
ROUNDS = 1 if QUICK else 3
"""Each has a seed of its own: 1, 2, 3."""
DEGREE = 12
"""Neighbours of a node on the average."""
SETTLE, SECONDS = (20, 10) if QUICK else (30, 20)
"""Virtual seconds before the measurement, and of it."""
LARGE_SETTLE, LARGE_SECONDS = 15, 5
LINE = 10
LINE_SETTLE, LINE_SECONDS = (10, 10) if QUICK else (15, 60)
"""Seconds after the routes are there, and of the measurement."""
FLOOD_SECONDS = 20 if QUICK else 30
"""More than the validity of a TC, 15 s: what a flood silences is lost by then."""
GOAL = 3.0
"""Per cent of a core that a node's signatures may take."""
_CARGO = ("cargo", "run", "--release", "--locked", "--quiet", "--manifest-path", str(REPOSITORY / "daemon/Cargo.toml"))
_PROGRAM = (*_CARGO, "--package", "simulator", "--example", "routing_security", "--")
PER_CENT = "% of a core"
WRONG = "s with a wrong route"
Report = Mapping[str, Any]
Figure = tuple[Mapping[str, object], str, float]
"""What was measured, its unit, its value."""


def main() -> int:
    """Measure meshes of each size with each setting, and then each flood."""
    bench = Bench("routing-security", __doc__, ROUNDS, "how many random meshes of each size are simulated")
    seeds = tuple(range(1, bench.parse().rounds + 1))
    runs: Sequence[Callable[[int], list[Figure]]] = [
        *(partial(_at_rest, nodes, setting) for nodes, setting in product(SMALL, SETTINGS)),
        *(partial(_line_of_ten, setting) for setting in SETTINGS),
        partial(_flooded, "neighbour", 0),
        *(partial(_flooded, kind, rate) for kind, rate in product(KINDS, RATES)),
        *(partial(_at_rest, LARGE, setting) for setting in SETTINGS if not QUICK),
    ]
    with bench.measuring():
        for number, run in bench.in_rounds(runs):
            for key, unit, value in bench.visit(_about(run), partial(run, seeds[number])):
                bench.take(key, unit, [value])
    params = {
        "sizes": SMALL,
        "seeds": seeds,
        "degree": DEGREE,
        "settle_s": SETTLE,
        "seconds": SECONDS,
        "large": {"nodes": LARGE, "seeds": 1, "settle_s": LARGE_SETTLE, "seconds": LARGE_SECONDS},
        "line_s": LINE_SECONDS,
        "flood_s": FLOOD_SECONDS,
        "timers": "default",
        "loss": 0,
        "goal_percent_of_a_core": GOAL,
    }
    result = bench.result(params, sorted(bench.cells(), key=lambda cell: cell.unit))
    result.ratios = ratios(result.cells)
    title = "What signatures of routing messages cost a node"
    draw = partial(boxes, title=title, compare="signatures", unjudged=("verifications/s",))
    return bench.finish(result, draw, words(result.cells))


def _about(run: Callable[..., object]) -> str:
    return ", ".join(str(each) for each in getattr(run, "args", ()))


def _at_rest(nodes: int, setting: str, seed: int) -> list[Figure]:
    if nodes >= LARGE and seed > 1:
        return []
    settle, seconds = (LARGE_SETTLE, LARGE_SECONDS) if nodes >= LARGE else (SETTLE, SECONDS)
    given = {"nodes": nodes, "degree": DEGREE, "signatures": setting, "seed": seed, "settle": settle}
    report = _run("mesh", {**given, "seconds": seconds})
    key = {"what": "at rest", "nodes": nodes, "signatures": setting}
    each = nodes * seconds
    figures: list[Figure] = [
        (key, PER_CENT, share(report)),
        (key, "octets/s", report["octets_sent"] / each),
        (key, "KiB", report["resident_octets"] / nodes / 1024),
    ]
    if setting != "off":
        figures.append((key, "verifications/s", report["verified"] / each))
        figures.append(({"what": "one verification"}, "us", 1e6 * report["verify_seconds"]))
    return figures


def _line_of_ten(setting: str, _seed: int) -> list[Figure]:
    """Measure what the two programs of a node take, on the average of ten nodes in a line."""
    with Lab("line-of-ten", line(names(LINE)), Options(signatures=setting)) as lab:
        nodes = list(lab.set_up().nodes.values())
        for node in nodes:
            node.assign_addresses()
        lab.start("router")
        nodes[0].wait_route(nodes[-1])
        nodes[-1].wait_route(nodes[0])
        time.sleep(LINE_SETTLE)
        programs = {"olsrv2d": [node.daemons.router for node in nodes]}
        if setting != "off":
            programs["olsrv2-signer"] = [node.daemons.signer for node in nodes]
        before = {name: _spent(daemons) for name, daemons in programs.items()}
        time.sleep(LINE_SECONDS)
        return [
            (
                {"what": f"real line of {LINE}", "program": name, "signatures": setting},
                PER_CENT,
                100 * (_spent(daemons) - before[name]) / LINE_SECONDS / LINE,
            )
            for name, daemons in programs.items()
        ]


def _spent(daemons: Sequence[Daemon]) -> float:
    return sum(daemon.cpu_seconds() for daemon in daemons)


def _flooded(kind: str, rate: int, _seed: int) -> list[Figure]:
    report = _run("flood", {"kind": kind, "rate": rate, "seconds": FLOOD_SECONDS})
    key = {"what": KINDS[kind] if rate else "nothing", "messages/s": rate}
    return [
        (key, PER_CENT, 100 * report["cpu_seconds"] / FLOOD_SECONDS),
        (key, "verifications/s", report["verified"] / FLOOD_SECONDS),
        (key, "KiB", report["resident_octets"] / 1024),
        (key, WRONG, report["wrong_seconds"]),
    ]


def share(report: Report) -> float:
    """Return the per cent of a core that one node of a mesh takes, all of its verifications included."""
    others = report["verified"] - report["computed"]
    alone = report["cpu_seconds"] + others * report["verify_seconds"]
    return float(100 * alone / report["nodes"] / report["seconds"])


def ratios(cells: Sequence[Cell]) -> list[Mapping[str, object]]:
    """Return what a mesh with signatures costs divided by the same one without, for each unit."""
    at_rest = [cell for cell in cells if cell.key["what"] == "at rest"]
    without = {(cell.key["nodes"], cell.unit): cell.samples for cell in at_rest if cell.key["signatures"] == "off"}
    found: list[Mapping[str, object]] = []
    for cell in at_rest:
        plain = without.get((cell.key["nodes"], cell.unit))
        if plain and all(plain) and cell.key["signatures"] != "off":
            each = [signed / base for signed, base in zip(cell.samples, plain, strict=False)]
            key = {**cell.key, "unit": cell.unit, "to": "off"}
            found.append({"key": key, "median": median(each), "min": min(each), "max": max(each)})
    return found


def words(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield for each mesh with signatures how they compare with the goal."""
    at_rest = [cell for cell in cells if cell.key["what"] == "at rest" and cell.unit == PER_CENT]
    shares = {(cell.key["nodes"], cell.key["signatures"]): median(cell.samples) for cell in at_rest}
    for (nodes, setting), took in shares.items():
        if setting != "off" and (nodes, "off") in shares:
            added = took - shares[nodes, "off"]
            verdict = "within" if added <= GOAL else "above"
            yield f"{nodes} nodes, {setting}: signatures take {added:.2f} % of a core, {verdict} the goal of {GOAL:g} %"


def _run(what: str, options: Mapping[str, object]) -> Report:
    """Return the report of one run; raises MeasurementError when a mesh at rest did not have the right routes."""
    arguments = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    done = subprocess.run([*_PROGRAM, what, *arguments], stdout=subprocess.PIPE, check=True)
    report: Report = json.loads(done.stdout)
    if not report.get("right", True):
        raise MeasurementError(f"{what} {' '.join(arguments)}: not all routes were right")
    return report


if __name__ == "__main__":
    sys.exit(main())
