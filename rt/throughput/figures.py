"""Figures of bench-throughput, in the form of Kaplan's figures 4 and 5 (TCP and UDP by hops), and by offered load."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rt.measure import plot
from rt.measure.plot import Series
from rt.measure.results import Cell, Result
from rt.throughput.sums import UNITS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FIGURES = {
    "figure-4-tcp": ("TCP",),
    "figure-5-udp": ("UDP peak", "UDP left of the peak"),
    "cost": ("CPU, machine", "CPU, processes", "ping"),
}
"""By hops: what each panel shows."""
OFFERED = "udp-by-load"
_MORE = "UDP left of the peak"
"""The one of these whose unit does not say that more of it is better."""


def draw(result: Result) -> None:
    """Write the figures of each testbed: hundreds of cells are too many for one plot of all."""
    for testbed in dict.fromkeys(str(cell.key["testbed"]) for cell in result.cells):
        _draw(testbed, [cell for cell in result.cells if cell.key["testbed"] == testbed])


def _draw(testbed: str, cells: Sequence[Cell]) -> None:
    place = testbed.replace(", ", "-")
    for name, panels in FIGURES.items():
        shown = [(what, "hops", _up(what), by_hops(cells, what)) for what in panels]
        _figure(f"{place}-{name}", f"{testbed}: {', '.join(panels)} by hops", shown)
    hops = sorted({int(str(cell.key["hops"])) for cell in cells if "offered" in cell.key})
    up = _up("UDP delivered")
    loads = [(f"hops: {count}", "offered load, Mbit/s", up, by_load(cells, count)) for count in hops]
    _figure(f"{place}-{OFFERED}", f"{testbed}: UDP delivered by offered load", loads)


def _up(what: str) -> str:
    """Return the label of the vertical axis."""
    unit = UNITS[what]
    return f"{what}, {unit} ({'more is better' if what == _MORE else plot.wanted(unit)})"


def by_hops(cells: Sequence[Cell], what: str) -> Series:
    """Samples of something by the number of hops."""
    return _series((cell, "hops") for cell in cells if cell.key["what"] == what)


def by_load(cells: Sequence[Cell], hops: int) -> Series:
    """Return what arrived over so many hops, by the offered load."""
    chosen = [cell for cell in cells if cell.key["what"] == "UDP delivered" and cell.key["hops"] == hops]
    return _series((cell, "offered") for cell in chosen)


def _series(chosen: Iterator[tuple[Cell, str]]) -> Series:
    found: dict[str, dict[float, Sequence[float]]] = {}
    for cell, axis in chosen:
        found.setdefault(str(cell.key["plane"]), {})[float(str(cell.key[axis]))] = cell.samples
    return found


def _figure(name: str, title: str, panels: Sequence[tuple[str, str, str, Series]]) -> None:
    """Write build/bench/throughput-NAME.svg and .png, a panel for each heading, axes and series that has samples."""
    shown = [panel for panel in panels if panel[3]]
    if not shown:
        return
    width, height = plot.PANEL
    title = f"{title} (median, bars from the least to the greatest)"
    with plot.page(f"throughput-{name}", title, (width * len(shown), height), ncols=len(shown)) as axes:
        for one, (heading, across, up, series) in zip(axes, shown, strict=True):
            plot.points(one, series, across, up)
            one.set_title(heading)
            _scale(one, across, percent="%" in up)


def _scale(axes: "Axes", across: str, *, percent: bool) -> None:
    if percent:
        axes.set_ylim(0, 105)
    else:
        axes.set_yscale("log")
        plot.decimal(axes.yaxis)
    if across != "hops":
        axes.set_xscale("log")
        plot.decimal(axes.xaxis)
