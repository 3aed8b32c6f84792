"""The plot of bench-rts: each figure by place, with the thresholds side by side."""

from rt.measure.plot import Series, footer, marked, page, points, wanted
from rt.measure.results import Result

PANELS = ("goodput", "repetitions for each frame", "delay of bulk data, mean", "delay of voice, 95th percentile")


def draw(result: Result) -> None:
    """Draw build/bench/rts as SVG and PNG. Bars go from the least to the greatest of all seeds."""
    title = f"RTS thresholds over the model of the air, {result.params['seconds']} s of virtual time for each seed"
    with page(result.name, marked(title, result), (13.0, 10.0), footer(result.cells), nrows=2, ncols=2) as axes:
        for one, what in zip(axes, PANELS, strict=True):
            unit = next((cell.unit for cell in result.cells if cell.key["what"] == what), "")
            points(one, series(result, what), "", f"{unit} ({wanted(unit)})")
            one.set_ylim(bottom=0)
            one.set_title(what)
            one.tick_params(axis="x", labelrotation=15)


def series(result: Result, what: str) -> Series:
    """Return the samples of one figure by threshold and place."""
    found: dict[str, dict[str, list[float]]] = {}
    for cell in result.cells:
        if cell.key["what"] == what:
            found.setdefault(str(cell.key["threshold"]), {})[str(cell.key["place"])] = list(cell.samples)
    return found
