"""The paper's figures 8 and 9, redrawn from a result of bench-sa-setup, beside the frames that did not arrive."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rt.measure.results import DIRECTORY, Cell, Result, percentile

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FIGURES = {"receiver": "figure-8-receiver", "relay": "figure-9-relay"}
_TITLES = {
    "receiver": "Response time by the priority of the load on the receiver",
    "relay": "Response time by the priority of the load on the relay",
}


def draw(result: Result) -> None:
    """Write build/bench/sa-setup-FIGURE.svg and .png for each place that was loaded."""
    import matplotlib  # noqa: PLC0415 - heavy, and only needed at the very end

    matplotlib.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415

    for place, name in FIGURES.items():
        loaded = [cell for cell in result.cells if cell.key.get("part") == "priority" and cell.key["place"] == place]
        if not loaded:
            continue
        figure, (times, frames) = pyplot.subplots(1, 2, figsize=(12, 5), layout="constrained")
        _lines(times, loaded, "total")
        times.set_yscale("log")
        times.set_ylabel("set-up of IKE_SA and CHILD_SA, ms (median; bars to p99)")
        _lines(frames, loaded, "frames missing")
        frames.set_ylabel("frames that did not arrive, %")
        figure.suptitle(_TITLES[place])
        for kind in ("svg", "png"):
            figure.savefig(DIRECTORY / f"{result.name}-{name}.{kind}")
        pyplot.close(figure)


def _lines(axes: "Axes", cells: list[Cell], what: str) -> None:
    for profile, points in _by_profile(cells, what).items():
        values = sorted(points)
        middle = [percentile(points[value], 50) for value in values]
        upper: list[float] = [
            percentile(points[value], 99) - point for value, point in zip(values, middle, strict=True)
        ]
        axes.errorbar(values, middle, yerr=[[0.0] * len(values), upper], marker="o", capsize=3, label=profile)
    axes.set_xlabel("nice value of the encoder")
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend()


def _by_profile(cells: list[Cell], what: str) -> Mapping[str, dict[int, list[float]]]:
    found: dict[str, dict[int, list[float]]] = {}
    for cell in cells:
        key: Mapping[str, Any] = cell.key
        if key["what"] == what and key.get("source", "capture") == "capture":
            found.setdefault(key["profile"], {})[key["nice"]] = sorted(cell.samples)
    return found
