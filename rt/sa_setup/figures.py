"""The paper's figures 8 and 9, redrawn from a result of bench-sa-setup, beside the frames that did not arrive."""

from collections.abc import Sequence
from dataclasses import replace

from rt.measure import plot
from rt.measure.results import Cell, Result

FIGURES = {"receiver": "figure-8-receiver", "relay": "figure-9-relay"}
_BESIDE = ("total", "total beyond two round trips", "frames missing")
"""What is drawn of cells that are not in figures 8 and 9; the phases are in the JSON only."""


def draw(result: Result) -> None:
    """Write figure 8 or 9 for each place that was loaded, and a plot of all that is in neither."""
    for place, name in FIGURES.items():
        loaded = [cell for cell in result.cells if cell.key.get("part") == "priority" and cell.key["place"] == place]
        if loaded:
            _by_priority(f"{result.name}-{name}", place, loaded)
    others = [cell for cell in result.cells if cell.key["what"] in _BESIDE and not _in_a_figure(cell)]
    if others:
        title = "Cold set-ups without load, with loss and by suite; a stream beside set-ups"
        plot.boxes(replace(result, cells=others), title, compare="part")


def _in_a_figure(cell: Cell) -> bool:
    return cell.key["part"] == "priority" and cell.key["place"] in FIGURES


def _by_priority(name: str, place: str, cells: Sequence[Cell]) -> None:
    width, height = plot.PANEL
    title = f"Set-ups by the priority of the load on the {place}: median, bars from the least to the greatest"
    with plot.page(name, title, (2 * width, height), ncols=2) as (times, frames):
        across = "nice value of the encoder"
        plot.points(times, _series(cells, "total"), across, "set-up of IKE_SA and CHILD_SA, ms (less is better)")
        times.set_yscale("log")
        plot.decimal(times.yaxis)
        plot.points(frames, _series(cells, "frames missing"), across, "frames that did not arrive, % (less is better)")


def _series(cells: Sequence[Cell], what: str) -> plot.Series:
    found: dict[str, dict[int, Sequence[float]]] = {}
    for cell in sorted(cells, key=lambda cell: int(str(cell.key["nice"]))):
        if cell.key["what"] == what and cell.key.get("source", "capture") == "capture":
            found.setdefault(str(cell.key["profile"]), {})[int(str(cell.key["nice"]))] = cell.samples
    return found
