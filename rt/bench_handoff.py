"""How long user data of a client pauses when the client moves to another access node.

The mesh is g - a - r - b - h (``tests/lab/roaming.py``). A client moves between the access nodes a and b, by cable in
place of radio: what is measured is the mesh's part, beyond the association. Two flows pass during each move: the
client's own datagrams to the outside, and what the outside answers to others of them; or what a second client, which
stays at b, and a camera behind h send to the client. The gateways and h are no access nodes: they go by what is
announced, the access nodes by what they tell each other. Kaplan's SMesh (2006) lost about 5 s with routes of the kernel
at its clients' access points.
"""

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
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
UP, ANSWERS = "client to outside", "outside to client"
BETWEEN, FILM = "client to client", "camera to client"
AT_ONCE = (UP, ANSWERS), (BETWEEN, FILM)
"""The flows of one move: more of them take no more time, and the two of a pair load different nodes."""
TO_A, TO_B = "b to a", "a to b"


def main() -> int:
    """Move there and back, with datagrams of each kind."""
    bench = Bench("handoff", __doc__, rounds=ROUNDS)
    rounds = bench.parse().rounds
    with bench.measuring(), roaming("handoff") as mesh:
        mesh.join("a")
        other = mesh.join("b", Station.create(mesh.lab, 2, "a", "b"))
        for number, (pair, version) in bench.in_rounds([*product(AT_ONCE, (4, 6))], visits=2):
            for way, place in ((TO_B, "b"), (TO_A, "a")):
                measure = partial(_pauses, mesh, partial(_flow, mesh, other, version), pair, place)
                what = f"round {number + 1}, {' and '.join(pair)}, IPv{version}, {way}"
                for direction, (pause, lost) in bench.visit(what, measure).items():
                    bench.take({"direction": "all flows", "what": "pause"}, "s", [pause])
                    labels = {"direction": direction, "family": f"IPv{version}", "move": way}
                    bench.take({**labels, "what": "pause"}, "s", [pause])
                    bench.take({**labels, "what": "lost"}, "datagrams", [lost])
    published = {"published_s": PUBLISHED_S}
    params = {"rounds": rounds, "interval_s": INTERVAL, "esp": capabilities.probe().esp, **published}
    return bench.finish(bench.result(params), partial(boxes, title=TITLE), [f"published, s: {PUBLISHED_S}"])


def _flow(mesh: Roaming, other: Station, version: int, direction: str) -> Flow:
    if direction == UP:
        return mesh.flow(version, interval=INTERVAL)
    if direction == ANSWERS:
        return mesh.answers(version, 7022, INTERVAL)
    if direction == FILM:
        return mesh.film(version, 7023, INTERVAL)
    return Flow(other.end(version), mesh.station.end(version), INTERVAL, 7021)


def _pauses(
    mesh: Roaming, flow: Callable[[str], Flow], directions: Sequence[str], place: str
) -> dict[str, tuple[float, int]]:
    """Return the longest pause of each flow beyond the association while the client moves, and what was lost."""
    with ExitStack() as stack:
        flows = {direction: stack.enter_context(flow(direction)) for direction in directions}
        for one in flows.values():
            wait_arrivals(one, 100)
        began = time.monotonic()
        mesh.station.move(place)
        association = time.monotonic() - began
        for one in flows.values():
            wait_arrivals(one, 200)
    mesh.move(place)
    return {name: (max(0.0, one.result.longest_gap - association), one.result.lost) for name, one in flows.items()}


if __name__ == "__main__":
    sys.exit(main())
