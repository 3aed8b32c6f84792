"""How long routers need to find the routes, and to find others when a link goes; olsrv2d and olsrd2 alternately.

A time ends when the kernel of each node concerned has the routes of both families. Routers run with default timers.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from itertools import product
from statistics import median

from rt.measure.frame import Bench
from rt.measure.plot import boxes
from rt.measure.results import QUICK, Cell
from tests.lab.basics.programs import find
from tests.lab.basics.waiting import wait_until
from tests.lab.foreign.olsrd2 import Olsrd2
from tests.lab.net import topology
from tests.lab.net.topology import Pair
from tests.lab.node.routers import Mesh, Router
from tests.lab.observe.kernel_events import RouteEvents

REST_SECONDS = 15.0
"""Before the look at idle CPU: the triggered messages of the start are over, however soon the routes were there."""
IDLE_SECONDS = 10.0 if QUICK else 60.0
PATIENCE = 60.0
"""Seconds; twice what the slowest of them needs."""
Figure = tuple[str, str, float]
"""What was measured, its unit, its value."""


def main() -> int:
    """Measure olsrv2d, and olsrd2 beside it where it is on PATH."""
    bench = Bench("convergence", __doc__, rounds=1 if QUICK else 5)
    rounds = bench.parse().rounds
    peer = find("olsrd2")
    makes: Sequence[type[Router]] = [Router, Olsrd2] if peer else [Router]
    with bench.measuring():
        for number, (measure, make) in bench.in_rounds(list(product(MEASURES, makes))):
            about = f"round {number + 1}: {make.make}, {measure.__name__.strip('_')}"
            for what, unit, value in bench.visit(about, partial(measure, make)):
                bench.take({"what": what, "daemon": make.make}, unit, [value])
    cells = sorted(bench.cells(), key=lambda cell: (cell.key["what"], cell.unit, cell.key["daemon"]))
    params = {"rounds": rounds, "rest_s": REST_SECONDS, "idle_s": IDLE_SECONDS, "timers": "default"}
    result = bench.result(params, cells)
    result.ratios = _ratios(result.cells)
    result.peers = {"olsrd2": _version(peer) if peer else "not on PATH"}
    title = "From a cold start, or from a fault, to all routes; and what the router costs at rest"
    return bench.finish(result, partial(boxes, title=title, compare="daemon"))


def _line_of_3(make: type[Router]) -> list[Figure]:
    return list(_line(3, make))


def _line_of_10(make: type[Router]) -> list[Figure]:
    return list(_line(10, make))


def _line(count: int, make: type[Router]) -> Iterator[Figure]:
    with _mesh(topology.line(topology.names(count)), make) as mesh:
        yield f"line of {count}, start to all routes", "s", _cold_start(mesh)
        yield from _idle(mesh, f"line of {count}")


def _link_down(make: type[Router]) -> list[Figure]:
    with _mesh(topology.ring(topology.names(4)), make) as mesh:
        start = _cold_start(mesh)
        near, far = _detour(mesh, mesh.end("a", "b").down)
    return [
        ("ring of 4, start to all routes", "s", start),
        ("ring of 4, link down, that end", "s", near),
        ("ring of 4, link down, the other end (carrier lost)", "s", far),
    ]


def _silent_cut(make: type[Router]) -> list[Figure]:
    with _mesh(topology.ring(topology.names(4)), make) as mesh:
        _cold_start(mesh)
        return [("ring of 4, silent cut, both ends", "s", max(_detour(mesh, mesh.links[frozenset("ab")].cut)))]


MEASURES: Sequence[Callable[[type[Router]], list[Figure]]] = (_line_of_3, _line_of_10, _link_down, _silent_cut)


def _mesh(pairs: Sequence[Pair], make: type[Router]) -> Mesh:
    """Return a mesh of the routers that are measured, not started."""
    return Mesh(pairs, makes={name: make for pair in pairs for name in pair})


def _cold_start(mesh: Mesh) -> float:
    def start() -> None:
        for router in mesh.routers.values():
            router.daemon.start()

    complete = {router: _complete(router, mesh.others(router.name)) for router in mesh.routers.values()}
    return max(_await_all("all routes", complete, start).values())


def _complete(router: Router, destinations: set[str]) -> Callable[[], bool]:
    return lambda: destinations <= router.kernel.destinations()


def _detour(mesh: Mesh, fault: Callable[[], None]) -> tuple[float, float]:
    """From the fault of link a - b until ``a`` and until ``b`` uses the long way."""
    conditions = {mesh["a"]: _uses(mesh, "a", "b", "mesh-d"), mesh["b"]: _uses(mesh, "b", "a", "mesh-c")}
    taken = _await_all("the long way", conditions, fault)
    return taken[mesh["a"]], taken[mesh["b"]]


def _uses(mesh: Mesh, router: str, to: str, interface: str) -> Callable[[], bool]:
    """Return whether a router sends to another over an interface, in both families."""
    addresses = {mesh[to].ipv4, mesh[to].ipv6}

    def holds() -> bool:
        used = {route["dst"]: route["dev"] for route in mesh[router].kernel.routes() if route["dst"] in addresses}
        return used == dict.fromkeys(addresses, interface)

    return holds


def _await_all(
    what: str, conditions: Mapping[Router, Callable[[], bool]], cause: Callable[[], None]
) -> dict[Router, float]:
    """Seconds from ``cause`` until each router's condition held first; looked at when its kernel's routes change."""
    taken: dict[Router, float] = {}
    with ExitStack() as stack:
        events = {router: stack.enter_context(closing(RouteEvents(router.namespace))) for router in conditions}
        start = time.monotonic()
        cause()

        def look() -> bool:
            for router in conditions.keys() - taken.keys():
                seen = time.monotonic()
                if conditions[router]():
                    taken[router] = seen - start
            return taken.keys() == conditions.keys()

        wait_until(what, look, list(events.values()), PATIENCE)
    return taken


def _idle(mesh: Mesh, shape: str) -> Iterator[Figure]:
    """Return what the relay in the middle costs at rest."""
    daemon = list(mesh.routers.values())[len(mesh.routers) // 2].daemon
    yield f"{shape}, resident memory", "MiB", daemon.resident_bytes() / 2**20
    time.sleep(REST_SECONDS)
    before = daemon.cpu_seconds()
    time.sleep(IDLE_SECONDS)
    yield f"{shape}, idle CPU", "% of a core", (daemon.cpu_seconds() - before) / IDLE_SECONDS * 100


def _ratios(cells: Sequence[Cell]) -> list[Mapping[str, object]]:
    """Return olsrd2's figures divided by olsrv2d's of the same round."""
    samples = {(cell.key["what"], cell.unit, cell.key["daemon"]): cell.samples for cell in cells}
    ratios: list[Mapping[str, object]] = []
    for (what, unit, daemon), ours in samples.items():
        theirs = samples.get((what, unit, "olsrd2"), [])
        if daemon == "olsrv2d" and theirs and all(ours):
            # A run that was cut short may have a sample more of one.
            each = [other / own for own, other in zip(ours, theirs, strict=False)]
            ratios.append({"key": {"what": what}, "median": median(each), "min": min(each), "max": max(each)})
    return ratios


def _version(program: str) -> str:
    shown = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return next(iter((shown.stdout + shown.stderr).strip().splitlines()), "unknown").strip()


if __name__ == "__main__":
    sys.exit(main())
