"""Whose routes lead to a client, and how they follow it: the routing tables of SMesh's figures 6 and 7, of our nodes.

The network is the paper's (Kaplan, 2006): a gateway, a relay and two access nodes; a client moves between the access
nodes by cable in place of radio. Counted are each node's routes to other nodes, to the client and to the outside, while
the client is at one place. For each move it measures how long the routes of the relay and of the gateway take to
follow, and how many routes to the client each of them has at once: figure 6 is the relay's table, with two.
`make bench-handoff` measures what the client's data loses.
"""

import sys
import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from rt.measure.frame import Bench
from rt.measure.plot import footer, marked, page
from rt.measure.results import QUICK, MeasurementError, Result
from rt.smesh import paper, tables
from rt.smesh.network import THEIRS, network
from rt.smesh.tables import KINDS, Names, Row
from tests.lab.node import capabilities
from tests.lab.roaming import Roaming

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROUNDS = 2 if QUICK else 20
MOVES = (("b", "a to b"), ("a", "b to a"))
WATCHED = ("r", "g")
"""The relay that all of the client's traffic crosses, and the gateway."""
FOLLOWED = 60.0
"""Seconds after which all watched routes must have followed."""
BETWEEN = 0.002
"""Seconds between two looks at the tables; each look takes some milliseconds more."""
SIZE = (13.0, 9.3)
COLUMNS = 2
"""Nodes side by side, so that the letters of the tables can be read on a page."""


def main() -> int:
    """Count routes while the client is at a, and move it to b and back."""
    bench = Bench("client-routes", __doc__, rounds=ROUNDS, rounds_are="moves there and back")
    rounds = bench.parse().rounds
    if missing := capabilities.probe().missing_for_all():
        bench.need(f"it needs {', '.join(missing)}")
    shown: Mapping[str, Sequence[Row]] = {}
    with bench.measuring(), network() as mesh:
        mesh.join("a")
        known = tables.names(mesh.lab.nodes.values(), mesh.own(mesh.station))
        for number, _ in bench.in_rounds([network.__name__], visits=len(MOVES)):
            for place, came in MOVES:
                found = bench.visit(f"round {number + 1}, {came}", partial(_moved, mesh, known, place))
                for name, (follows, at_once) in found.items():
                    for move in (came, "all"):
                        bench.take({"what": "the route follows", "node": name, "move": move}, "s", [follows])
                    bench.take({"what": "routes to the client at once", "node": name}, "routes", [at_once])
                mesh.move(place)
            shown = {name: tables.read(mesh.lab[name], known) for name in THEIRS}
            _count(bench, shown)
    kept = {name: [row._asdict() for row in table] for name, table in shown.items()}
    result = bench.result({"rounds": rounds, "tables": kept, "esp": capabilities.probe().esp})
    return bench.finish(result, partial(draw, shown=shown), _words(shown))


def _count(bench: Bench, shown: Mapping[str, Sequence[Row]]) -> None:
    for name, table in shown.items():
        for kind in KINDS:
            key = {"what": "destinations with a route", "node": name, "kind": kind}
            bench.take(key, "destinations", [tables.count(table, kind)])


def _moved(mesh: Roaming, known: Names, place: str) -> Mapping[str, tuple[float, float]]:
    """Move the client. Return for each watched node the seconds until its route has followed, and its most routes to
    the client at once.
    """
    moved = threading.Event()
    at: list[float] = []

    def move() -> None:
        at.append(time.monotonic())
        mesh.station.move(place)
        moved.set()

    thread = threading.Thread(target=move)
    follows: dict[str, float] = {}
    most = dict.fromkeys(WATCHED, 0)
    thread.start()
    try:
        while not at or time.monotonic() < at[0] + FOLLOWED:
            for name in WATCHED:
                rows = [row for row in tables.read_family(mesh.lab[name], known, "-4") if row.kind == tables.CLIENT]
                most[name] = max(most[name], len(rows))
                if moved.is_set() and {row.gateway for row in rows} == {place}:
                    follows.setdefault(name, time.monotonic() - at[0])
            if len(follows) == len(WATCHED):
                return {name: (follows[name], float(most[name])) for name in WATCHED}
            time.sleep(BETWEEN)
    finally:
        thread.join()
    late = ", ".join(name for name in WATCHED if name not in follows)
    raise MeasurementError(f"no route to the client at {place} within {FOLLOWED:g} s: {late}")


def _words(shown: Mapping[str, Sequence[Row]]) -> list[str]:
    found = []
    for name, table in shown.items():
        found += ["", f"{name}, which is {THEIRS[name]} in the paper; the client is at a:", *tables.lines(table)]
    return found


def draw(result: Result, shown: Mapping[str, Sequence[Row]]) -> None:
    """Draw the paper's tables in a row above ours, node by node."""
    if not shown:
        return
    title = "Routing tables while the client is at the third router: 2006 above, ours below"
    rows = -(-len(shown) // COLUMNS)
    layout = {"nrows": 2 * rows, "ncols": COLUMNS, "height_ratios": (8, 15) * rows}
    with page(result.name, marked(title, result), SIZE, footer(result.cells), **layout) as axes:
        for one in axes:
            one.set_axis_off()
        for number, (name, table) in enumerate(shown.items()):
            first = number // COLUMNS * 2 * COLUMNS + number % COLUMNS
            above, below = axes[first], axes[first + COLUMNS]
            _text(above, f"{THEIRS[name]} (2006)", tables.lines(paper.FIGURE_7[THEIRS[name]], columns=3))
            _text(below, f"{name}, {paper.ROLES[THEIRS[name]]}", tables.lines(table))


def _text(axes: "Axes", title: str, lines: list[str]) -> None:
    axes.set_axis_off()
    axes.set_title(title, loc="left")
    axes.text(0, 1, "\n".join(lines), family="monospace", fontsize=9, va="top", transform=axes.transAxes)


if __name__ == "__main__":
    sys.exit(main())
