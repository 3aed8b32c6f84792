"""The plot of bench-congestion: throughput and delay by congestion, the dissertation's values beside ours."""

from itertools import product

from rt.congestion import paper
from rt.congestion.rig import AIR, NO_AIR
from rt.measure.plot import Series, footer, marked, page, points
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
        "Ours: emulated, on a modelled air, or with none. 2016: 802.11n, an iPhone 5 and an iPad 2"
    )
    about = footer(result.cells, result.guest)
    with page(result.name, marked(title, result), (13.0, 9.3), about, nrows=2, ncols=2) as axes:
        panels = [(what, how) for what in _UNITS for how in ("single", "paired")]
        for one, (what, how) in zip(axes, panels, strict=True):
            theirs: Series = {f"2016: {name}": paper.curve(name, how, what) for name in ("iPhone", "iPad")}
            points(one, {**_ours(result, what, how), **theirs}, "Mbit/s that others send", _UNITS[what])
            one.set_ylim(bottom=0)
            one.set_title(f"{what}, {how}")


def _ours(result: Result, what: str, how: str) -> Series:
    curves: dict[str, dict[int, list[float]]] = {}
    for air, (number, client) in product((AIR, NO_AIR), enumerate(CLIENTS, start=1)):
        for cell in result.cells:
            key = cell.key
            found = (key["what"], key["wire"], key["air"], key.get("how"), key.get("client"))
            if found == (what, NARROW, air, how, client):
                label = f"client {number}" + (", no time on the air" if air == NO_AIR else "")
                curves.setdefault(label, {})[int(str(key["congestion"]))] = list(cell.samples)
    return curves
