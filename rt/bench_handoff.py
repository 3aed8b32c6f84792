"""How long user data of a client pauses when the client moves to another access node.

The mesh is g - a - r - b - h (``tests/lab/roaming.py``). A client moves between the access nodes a and b, by cable in
place of radio: what is measured is the mesh's part, beyond the association. Its own datagrams go to the outside (up),
and a second client, which stays at b, sends to it (down). Kaplan's SMesh (2006) lost about 5 s with routes of the
kernel at its clients' access points.
"""

import sys
import time
from functools import partial
from itertools import product

from rt.measure.frame import Bench
from rt.measure.plot import boxes
from rt.measure.results import QUICK
from tests.lab.net.traffic import Flow, wait_arrivals
from tests.lab.node import capabilities
from tests.lab.roaming import Roaming, Station, roaming

PUBLISHED_S = {"SMesh with routes of the kernel (Kaplan, 2006)": [5.0], "LibreMesh (community reports)": [15.0, 20.0]}
"""What others lose at a hand-off; the paper says "approximately 5 seconds" of most."""
INTERVAL = 0.005
"""Seconds between datagrams: the resolution of a pause."""
ROUNDS = 2 if QUICK else 20
TITLE = "Pause of user data beyond the association\n(SMesh with routes of the kernel, 2006: about 5 s)"
UP, DOWN = "client to outside", "client to client"
TO_A, TO_B = "b to a", "a to b"


def main() -> int:
    """Move there and back, with datagrams of each kind."""
    bench = Bench("handoff", __doc__, rounds=ROUNDS)
    rounds = bench.parse().rounds
    with bench.measuring(), roaming("handoff") as mesh:
        mesh.join("a")
        other = mesh.join("b", Station.create(mesh.lab, 2, "a", "b"))
        for number, (direction, version) in bench.in_rounds([*product((UP, DOWN), (4, 6))], visits=2):
            for way, place in ((TO_B, "b"), (TO_A, "a")):
                measure = partial(_pause, mesh, _flow(mesh, other, direction, version), place)
                pause, association, lost = bench.visit(f"round {number + 1}, {direction}, IPv{version}, {way}", measure)
                beyond = max(0.0, pause - association)
                bench.take({"direction": "all moves", "what": "pause"}, "s", [beyond])
                labels = {"direction": direction, "family": f"IPv{version}", "move": way}
                bench.take({**labels, "what": "pause"}, "s", [beyond])
                bench.take({**labels, "what": "lost"}, "datagrams", [lost])
    published = {"published_s": PUBLISHED_S}
    params = {"rounds": rounds, "interval_s": INTERVAL, "esp": capabilities.probe().esp, **published}
    return bench.finish(bench.result(params), partial(boxes, title=TITLE), [f"published, s: {PUBLISHED_S}"])


def _flow(mesh: Roaming, other: Station, direction: str, version: int) -> Flow:
    if direction == UP:
        return mesh.flow(version, interval=INTERVAL)
    return Flow(other.end(version), mesh.station.end(version), INTERVAL, 7021)


def _pause(mesh: Roaming, flow: Flow, place: str) -> tuple[float, float, int]:
    """Return the longest pause of a flow while the client moves, the seconds of the association, and what was lost."""
    with flow:
        wait_arrivals(flow, 100)
        began = time.monotonic()
        mesh.station.move(place)
        association = time.monotonic() - began
        wait_arrivals(flow, 200)
    mesh.move(place)
    return flow.result.longest_gap, association, flow.result.lost


if __name__ == "__main__":
    sys.exit(main())
