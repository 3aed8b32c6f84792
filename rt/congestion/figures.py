"""The plot of bench-congestion: throughput and delay by congestion, the dissertation's values beside ours."""

from rt.congestion import paper
from rt.measure.plot import Series, marked, page, points
from rt.measure.results import Result
from tests.lab.radio.cell import CLIENTS, NARROW

_UNITS = {
    "throughput": "Mbit/s (more is better)",
    "delay": "ms for the page (less is better)",
}


def draw(result: Result) -> None:
    """Draw build/bench/congestion as SVG and PNG. Bars go from the least to the greatest sample."""
    title = (
        "Clients of an access point by the traffic of others on its wire of 100 Mbit/s\n"
        "Ours: emulated, simulated radios without airtime. 2016: 802.11n, an iPhone 5 and an iPad 2"
    )
    with page(result.name, marked(title, result), (13.0, 10.0), nrows=2, ncols=2) as axes:
        panels = [(what, how) for what in _UNITS for how in ("single", "paired")]
        for one, (what, how) in zip(axes, panels, strict=True):
            theirs: Series = {f"2016: {name}": paper.curve(name, how, what) for name in ("iPhone", "iPad")}
            points(one, {**_ours(result, what, how), **theirs}, "Mbit/s that others send", _UNITS[what])
            one.set_ylim(bottom=0)
            one.set_title(f"{what}, {how}")


def _ours(result: Result, what: str, how: str) -> Series:
    curves: dict[str, dict[int, list[float]]] = {}
    for number, client in enumerate(CLIENTS, start=1):
        for cell in result.cells:
            key = cell.key
            if (key["what"], key["wire"], key.get("how"), key.get("client")) == (what, NARROW, how, client):
                curves.setdefault(f"client {number}", {})[int(str(key["congestion"]))] = list(cell.samples)
    return curves
