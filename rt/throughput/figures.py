"""Figures of bench-throughput, in the form of Kaplan's figures 4 and 5 (TCP and UDP by hops), and by offered load."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from rt.measure.results import DIRECTORY, Cell, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FIGURES = {
    "figure-4-tcp": ("TCP",),
    "figure-5-udp": ("UDP peak", "UDP left of the peak"),
    "cost": ("CPU, machine", "CPU, processes", "ping"),
}
"""By hops: what each panel shows."""
OFFERED = "udp-by-load"
_STYLES = ("o-", "s-", "^-", "v-", "D--", "x:", "P--")
Series = Mapping[str, Mapping[float, Sequence[float]]]
"""For each plane samples over the horizontal axis."""


class Throughput(Result):
    """A result with figures of its own for each ground: hundreds of cells are too many for one box plot of all."""

    def _plot(self) -> None:
        import matplotlib  # noqa: PLC0415 - heavy, and only needed at the very end

        matplotlib.use("Agg")
        for ground in dict.fromkeys(str(cell.key["ground"]) for cell in self.cells):
            _draw(ground, [cell for cell in self.cells if cell.key["ground"] == ground])


def _draw(ground: str, cells: Sequence[Cell]) -> None:
    place = ground.replace(", ", "-")
    for name, panels in FIGURES.items():
        _figure(f"{place}-{name}", [(what, "hops", by_hops(cells, what)) for what in panels])
    hops = sorted({int(str(cell.key["hops"])) for cell in cells if "offered" in cell.key})
    loads = [(f"UDP delivered, hops: {count}", "offered load, Mbit/s", by_load(cells, count)) for count in hops]
    _figure(f"{place}-{OFFERED}", loads)


def by_hops(cells: Sequence[Cell], what: str) -> Series:
    """Samples of something by the number of hops."""
    return _series((cell, "hops") for cell in cells if cell.key["what"] == what)


def by_load(cells: Sequence[Cell], hops: int) -> Series:
    """What arrived over so many hops, by the offered load."""
    chosen = [cell for cell in cells if cell.key["what"] == "UDP delivered" and cell.key["hops"] == hops]
    return _series((cell, "offered") for cell in chosen)


def _series(chosen: Iterator[tuple[Cell, str]]) -> Series:
    found: dict[str, dict[float, Sequence[float]]] = {}
    for cell, axis in chosen:
        found.setdefault(str(cell.key["plane"]), {})[float(str(cell.key[axis]))] = cell.samples
    return found


def _figure(name: str, panels: Sequence[tuple[str, str, Series]]) -> None:
    """Write build/bench/throughput-NAME.svg and .png."""
    from matplotlib import pyplot  # noqa: PLC0415 - see above

    shown = [panel for panel in panels if panel[2]]
    if not shown:
        return
    size = (1.5 + 5 * len(shown), 5)
    figure, axes = pyplot.subplots(1, len(shown), figsize=size, layout="constrained", squeeze=False)
    for one, (what, axis, series) in zip(axes[0], shown, strict=True):
        unit = "%" if "left" in what else "s/GB" if "CPU" in what else "ms" if "ping" in what else "Mbit/s"
        _lines(one, series)
        one.set_ylabel(f"{what}, {unit}")
        one.set_xlabel(axis)
        if unit == "%":
            one.set_ylim(0, 105)
        else:
            one.set_yscale("log")
        if axis == "hops":
            one.set_xticks(sorted({point for points in series.values() for point in points}))
        else:
            one.set_xscale("log")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    for kind in ("svg", "png"):
        figure.savefig(DIRECTORY / f"throughput-{name}.{kind}")
    pyplot.close(figure)


def _lines(axes: "Axes", series: Series) -> None:
    """The median, with bars from the least to the most."""
    for (plane, points), style in zip(series.items(), _STYLES, strict=False):
        middle = {point: median(samples) for point, samples in points.items()}
        below = [value - min(points[point]) for point, value in middle.items()]
        above = [max(points[point]) - value for point, value in middle.items()]
        axes.errorbar(list(middle), list(middle.values()), yerr=[below, above], fmt=style, capsize=3, label=plane)
    axes.grid(visible=True, which="both", alpha=0.3)
