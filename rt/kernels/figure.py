"""Set-up time and the latest wake-up by kernel, drawn from a result of bench-kernels."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from rt.measure.results import DIRECTORY, Cell, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLES = {
    ("stock", "none"): ("tab:blue", "o", "no load, stock"),
    ("governor", "none"): ("tab:cyan", "s", "no load, governor"),
    ("stock", "loaded"): ("tab:red", "o", "receiver loaded at nice -20, stock"),
    ("governor", "loaded"): ("tab:orange", "s", "receiver loaded at nice -20, governor"),
}
_Series = Mapping[tuple[str, str], Mapping[str, Sequence[float]]]
"""For each profile and load the samples of each kernel."""


def draw(result: Result) -> None:
    """Write build/bench/kernels-by-kernel.svg and .png."""
    import matplotlib  # noqa: PLC0415 - heavy, and only needed at the very end

    matplotlib.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415

    figure, (set_ups, wake_ups) = pyplot.subplots(1, 2, figsize=(12, 5), layout="constrained")
    _bars(set_ups, _series(result.cells, "total"))
    set_ups.set_ylabel("cold set-up of IKE_SA and CHILD_SA, ms")
    _bars(wake_ups, _series(result.cells, "cyclictest"))
    wake_ups.set_ylabel("lateness of a SCHED_FIFO 95 thread beside it, us")
    handles, labels = set_ups.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    figure.suptitle("By kernel, in deterministic time: median, bars from the least to the most")
    for kind in ("svg", "png"):
        figure.savefig(DIRECTORY / f"{result.name}-by-kernel.{kind}")
    pyplot.close(figure)


def _series(cells: Sequence[Cell], what: str) -> _Series:
    found: dict[tuple[str, str], dict[str, Sequence[float]]] = {}
    for cell in cells:
        if cell.key["what"] == what:
            place = str(cell.key["profile"]), str(cell.key["load"])
            found.setdefault(place, {})[str(cell.key["kernel"])] = cell.samples
    return found


def _bars(axes: "Axes", series: _Series) -> None:
    """A point for each kernel and series, the series of a kernel side by side."""
    kernels: list[str] = []
    for number, (place, by_kernel) in enumerate(series.items()):
        kernels = list(by_kernel)
        colour, marker, label = _STYLES[place]
        middle = [median(samples) for samples in by_kernel.values()]
        below = [point - min(samples) for point, samples in zip(middle, by_kernel.values(), strict=True)]
        above = [max(samples) - point for point, samples in zip(middle, by_kernel.values(), strict=True)]
        across = [position + (number - (len(series) - 1) / 2) * 0.15 for position in range(len(kernels))]
        axes.errorbar(
            across, middle, yerr=[below, above], fmt=marker, color=colour, capsize=3, label=label, linestyle="none"
        )
    axes.set_yscale("log")
    axes.set_xticks(range(len(kernels)), kernels)
    axes.grid(visible=True, which="both", axis="y", alpha=0.3)
