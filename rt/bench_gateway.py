"""How long traffic to the outside pauses when a gateway fails, and what a planned change loses.

The mesh is a - b - g and a - b - r - h, with two gateways g and h. A host behind a sends to the outside. The nearer
gateway g dies silently, loses the carrier of its uplink, or is turned off; then g comes back. For comparison a sends no
echo requests, so that the routing alone has to notice the silent death.
"""

import sys
from collections.abc import Callable
from functools import partial
from itertools import product

from rt.measure.frame import Bench
from rt.measure.plot import boxes
from rt.measure.results import QUICK
from tests.lab.gateways import WaysOut, ways_out
from tests.lab.net.traffic import wait_arrivals
from tests.lab.node import capabilities

INTERVAL = 0.01
"""Seconds between datagrams: the resolution of a pause."""
ROUNDS = 2 if QUICK else 20
NO_REQUESTS, REQUESTS = "1 0", "0 2147483647"
"""Values of net.ipv4.ping_group_range that forbid echo requests and allow them."""


def silent(mesh: WaysOut) -> None:
    """Let everything be lost that g sends and receives in the mesh."""
    mesh.lab.link("b", "g").ends[1].filter("drop")


def without_carrier(mesh: WaysOut) -> None:
    """Take the carrier of g's uplink away."""
    mesh.uplinks["g"].link.ends[1].down()


def turned_off(mesh: WaysOut) -> None:
    """Turn the gateway off in order."""
    mesh.lab["g"].meshsec("gateway", "off")


Failure = tuple[str, Callable[[WaysOut], None]]
FAILURES: tuple[Failure, ...] = (
    ("silent death, watched", silent),
    ("silent death, routing alone", silent),
    ("uplink without carrier", without_carrier),
    ("gateway off", turned_off),
)


def main() -> int:
    """Let the nearer gateway fail in each way, one after the other."""
    bench = Bench("gateway", __doc__, rounds=ROUNDS)
    rounds = bench.parse().rounds
    with bench.measuring(), ways_out("gateway") as mesh:
        for number, ((name, fail), version) in bench.in_rounds([*product(FAILURES, (4, 6))]):
            watch(mesh, is_on="routing" not in name)
            measure = partial(_failure, mesh, fail, version)
            pause, lost = bench.visit(f"round {number + 1}, {name}, IPv{version}", measure)
            bench.take({"failure": name, "family": f"IPv{version}"}, "s", [pause])
            bench.take({"failure": name, "family": f"IPv{version}", "what": "lost"}, "datagrams", [lost])
    params = {"rounds": rounds, "interval_s": INTERVAL, "esp": capabilities.probe().esp}
    return bench.finish(bench.result(params), partial(boxes, title="From a gateway's failure to traffic again"))


def watch(mesh: WaysOut, *, is_on: bool) -> None:
    """Let a ask gateways whether they are alive, or not. meshsecd opens its socket when it starts."""
    a = mesh.lab["a"]
    a.run("sysctl", "-qw", f"net.ipv4.ping_group_range={REQUESTS if is_on else NO_REQUESTS}")
    a.daemons.agent.kill()
    mesh.heal()


def _failure(mesh: WaysOut, fail: Callable[[WaysOut], None], version: int) -> tuple[float, int]:
    """Return the longest pause in seconds, and the datagrams that were lost, until the other gateway carries."""
    repair(mesh)
    with mesh.flow(version, interval=INTERVAL) as flow:
        wait_arrivals(flow, 50)
        fail(mesh)
        mesh.wait_used("h")
        wait_arrivals(flow, 50)
    repair(mesh)
    return flow.result.longest_gap, flow.result.lost


def repair(mesh: WaysOut) -> None:
    """Bring the nearer gateway back."""
    mesh.lab.link("b", "g").ends[1].unfilter()
    mesh.heal()


if __name__ == "__main__":
    sys.exit(main())
