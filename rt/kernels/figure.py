"""Set-up time and the latest wake-up by kernel, drawn from a result of bench-kernels."""

from collections.abc import Sequence

from rt.measure import plot
from rt.measure.results import Cell, Result

_LOADS = {"none": "no load", "loaded": "receiver loaded at nice -20"}


def draw(result: Result) -> None:
    """Write build/bench/kernels-by-kernel.svg and .png, and a plot of all cells."""
    plot.boxes(result, "Cold set-ups and wake-ups by kernel, in deterministic time", compare="kernel")
    width, height = plot.PANEL
    title = "By kernel, in deterministic time: median, bars from the least to the greatest"
    about = plot.footer(result.cells, result.guest)
    with plot.page(f"{result.name}-by-kernel", title, (2 * width, height), about, ncols=2) as (set_ups, wake_ups):
        cold, late = "cold set-up of IKE_SA and CHILD_SA, ms", "lateness of a SCHED_FIFO 95 thread beside it, us"
        plot.points(set_ups, _series(result.cells, "total"), "kernel", f"{cold} (less is better)")
        plot.points(wake_ups, _series(result.cells, "cyclictest"), "kernel", f"{late} (less is better)")
        for axes in (set_ups, wake_ups):
            axes.set_yscale("log")
            plot.decimal(axes.yaxis)


def _series(cells: Sequence[Cell], what: str) -> plot.Series:
    """Return the samples of each kernel, for each load and profile."""
    found: dict[str, dict[str, Sequence[float]]] = {}
    for cell in cells:
        if cell.key["what"] == what:
            label = f"{_LOADS[str(cell.key['load'])]}, {cell.key['profile']}"
            found.setdefault(label, {})[str(cell.key["kernel"])] = cell.samples
    return found
