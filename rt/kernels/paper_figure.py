"""The paper's figures 8 and 9 by kernel and testbed, drawn from a result of bench-sa-setup-guest."""

from collections.abc import Sequence

from rt.measure import plot
from rt.measure.results import Cell, Result
from rt.sa_setup.plan import BOTH_LOADS, PLACES
from rt.sa_setup.policy import OURS, PAPERS

FIGURES = {"relay": "figure 8: the relay is loaded", "receiver": "figure 9: the receiver is loaded"}
"""By the place of the load, as the paper's captions have it."""
CLASSES = {PAPERS: "the paper's suite, IKE at nice 10", OURS: "our suite, governed"}
_UP = "response time, s (log scale, less is better)"
_NO_LOAD = "no load"


def draw(result: Result) -> None:
    """Write build/bench/sa-setup-guest.svg and .png: a panel for each place and suite, a mark for each boot."""
    cells = [cell for cell in result.cells if cell.key["what"] == "total"]
    width, height = plot.PANEL
    title = "Figures 8 and 9 of 2007 by kernel and testbed: response time by the load's nice value"
    about = f"{title}\nDeterministic time; median, bars from the least to the greatest"
    size = 2 * width, 2 * height
    footer = plot.footer(cells, result.guest)
    with plot.page(result.name, plot.marked(about, result), size, footer, nrows=2, ncols=2, sharey=True) as axes:
        panels = [(place, suite) for _, suite in BOTH_LOADS for place in PLACES]
        for one, (place, suite) in zip(axes, panels, strict=True):
            plot.points(one, series(cells, place, suite), "", _UP)
            one.set_title(f"{FIGURES[place]}\n{CLASSES[suite]}")
            one.set_yscale("log")
            plot.decimal(one.yaxis)


def series(cells: Sequence[Cell], place: str, suite: str) -> plot.Series:
    """Return seconds by nice value for each boot; without load first."""
    found: dict[str, dict[str, Sequence[float]]] = {}
    for cell in cells:
        key = cell.key
        if key["suite"] == suite and place in (key["place"], key.get("apart")):
            at = f"nice {key['nice']}" if "nice" in key else _NO_LOAD
            boot = f"{key['testbed']}, {key['kernel']}"
            found.setdefault(boot, {})[at] = [sample / 1000 for sample in cell.samples]
    return found
