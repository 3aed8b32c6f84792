"""Figures of bench-throughput and bench-outside: by hops (as Kaplan's figures 4 and 5), and by offered load."""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from statistics import median
from typing import TYPE_CHECKING

from rt.measure import plot
from rt.measure.plot import Series
from rt.measure.results import Cell, Result
from rt.throughput.air import SUFFIX
from rt.throughput.flows import CPU_OF_PROCESS, PER_CENT
from rt.throughput.processes import REST
from rt.throughput.sums import SMESH, UNITS, Samples, over

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FIGURES = {
    "figure-4-tcp": ("TCP",),
    "figure-5-udp": ("UDP peak", "UDP left of the peak"),
    "cost": ("CPU, machine", "CPU, processes", "ping"),
}
"""By hops: what each panel shows."""
OFFERED = "udp-by-load"
SMESH_RATES = (3.125, 20.0)
"""Mbit/s that SMesh offered: to its forwarding in user space, and to the kernel's routes."""
LITTLE = 20.0
"""Per cent up to which an axis ends above the greatest value, and not at 100."""
_UNJUDGED = ("TCP congestion window",)
"""What is neither good nor bad by itself."""
TALLEST = 9.0
"""Inches of a figure: more would not be legible on one page."""
MOST_COLUMNS = 3
"""Panels side by side that a page has room for."""
_TIMES = "times the overlay (more is better)"
_MORE = "UDP left of the peak"
"""The one of these whose unit does not say that more of it is better."""


def draw_outside(result: Result, samples: Samples) -> None:
    """Write the figures of bench-outside. Each has a row for each direction of the flows."""
    ways = list(dict.fromkeys(key.testbed for key in samples))
    here = {way: [cell for cell in result.cells if cell.key["testbed"] == way] for way in ways}
    offered = sorted({key.offered for key in samples if key.offered})
    loads = [load for load in offered if load in SMESH_RATES or load == offered[-1]]
    whats = tuple(SMESH)
    carried = [(f"{what}, {way}", "hops", _up(what), by_hops(here[way], what)) for way in ways for what in whats]
    lost = [
        (f"{load:g} Mbit/s, {way}", "hops", _up("UDP loss"), by_hops_at(here[way], "UDP loss", load))
        for way in ways
        for load in loads
    ]
    times = [(f"{what}, {way}", "hops", _TIMES, over(samples, what, "overlay", way)) for way in ways for what in whats]
    transport = [
        (f"{what}, {way}", "hops", _up(what), by_hops(here[way], what))
        for way in ways
        for what in ("TCP retransmissions", "TCP congestion window")
    ]
    jitter = [
        (f"{load:g} Mbit/s, {way}", "hops", _up("UDP jitter"), by_hops_at(here[way], "UDP jitter", load))
        for way in ways
        for load in loads[:2]
    ]
    title = "A client behind a node and a host outside, behind a gateway"
    _figure("outside-carried", f"{title}: what is carried", carried, len(ways))
    _figure("outside-loss", f"{title}: UDP loss by offered load", lost, len(ways))
    _figure("outside-transport", f"{title}: TCP's repetitions and windows", transport, len(ways))
    _figure("outside-jitter", f"{title}: UDP jitter", jitter, len(ways))
    _air(result)
    _figure("outside-times", f"{title}: kernel routes against forwarding in user space", times, len(ways))


def _air(result: Result) -> None:
    """Draw what arrives and what is lost over modelled air, at each rate that was offered there."""
    aired = [cell for cell in result.cells if str(cell.key.get("testbed", "")).endswith(SUFFIX)]
    panels = [
        (f"{load:g} Mbit/s offered", "hops", _up(what), by_hops_at(aired, what, load))
        for what in ("UDP delivered", "UDP loss")
        for load in sorted({float(str(cell.key["offered"])) for cell in aired})
    ]
    _figure("outside-air", "The same datagrams over modelled 802.11g air", panels, 2)


def draw_securing(result: Result) -> None:
    """Write the figure of bench-securing: what two neighbours carry by plane, each second, and who used processors."""
    cells = result.cells
    title = plot.marked("Two neighbours: what securing costs (median, bars from the least to the greatest)", result)
    with plot.page(result.name, title, (13.0, TALLEST), plot.footer(cells), nrows=2, ncols=2) as axes:
        rates, retransmissions, processors, seconds = axes
        plot.points(rates, by_plane(cells, "TCP"), "", f"{_up('TCP')}, logarithmic")
        rates.set_yscale("log")
        plot.decimal(rates.yaxis)
        plot.points(retransmissions, by_plane(cells, "TCP retransmissions"), "", _up("TCP retransmissions"))
        plot.points(processors, busiest(cells), "", f"busiest process, {PER_CENT} (less is better)")
        for one in (retransmissions, processors):
            one.set_ylim(bottom=0)
        for one in (rates, retransmissions, processors):
            one.tick_params(axis="x", labelrotation=20)
        _each_second(seconds, result)


def by_plane(cells: Sequence[Cell], what: str) -> Series:
    """Return samples of something by the plane, a series for each direction."""
    found: dict[str, dict[str, Sequence[float]]] = {}
    for cell in cells:
        if cell.key["what"] == what:
            found.setdefault(str(cell.key["testbed"]), {})[str(cell.key["plane"])] = cell.samples
    return found


def busiest(cells: Sequence[Cell]) -> Series:
    """Return the share of the process that used most of the processors, by the plane and the direction."""
    found: dict[str, dict[str, Sequence[float]]] = {}
    for cell in cells:
        if cell.key["what"] == CPU_OF_PROCESS and cell.key["process"] != REST:
            by_place = found.setdefault(str(cell.key["testbed"]), {})
            plane = str(cell.key["plane"])
            if plane not in by_place or median(cell.samples) > median(by_place[plane]):
                by_place[plane] = cell.samples
    return found


def _each_second(axes: "Axes", result: Result) -> None:
    """Draw what the latest stream of each plane carried in each second, one way."""
    kept = result.params["each_second"]
    assert isinstance(kept, list)
    latest = {one["plane"]: one["mbit_per_s"] for one in kept if one["testbed"] == kept[0]["testbed"]} if kept else {}
    for number, (plane, rates) in enumerate(latest.items()):
        colour, marker = plot.COLOURS[number % len(plot.COLOURS)], plot.MARKERS[number % len(plot.MARKERS)]
        axes.plot(range(1, len(rates) + 1), rates, label=plane, color=colour, marker=marker)
    axes.set_xlabel("second of the latest stream")
    axes.set_ylabel("TCP, Mbit/s (more is better), logarithmic")
    axes.set_yscale("log")
    plot.decimal(axes.yaxis)


def draw(result: Result) -> None:
    """Write the figures of each testbed: hundreds of cells are too many for one plot of all."""
    for testbed in dict.fromkeys(str(cell.key["testbed"]) for cell in result.cells):
        guest = result.guest if testbed.startswith("guest") else None
        _draw(testbed, [cell for cell in result.cells if cell.key["testbed"] == testbed], guest)


def _draw(testbed: str, cells: Sequence[Cell], guest: Mapping[str, str] | None) -> None:
    place = f"throughput-{testbed.replace(', ', '-')}"
    for name, panels in FIGURES.items():
        shown = [(what, "hops", _up(what), by_hops(cells, what)) for what in panels]
        _figure(f"{place}-{name}", f"{testbed}: {', '.join(panels)} by hops", shown, guest=guest)
    hops = sorted({int(str(cell.key["hops"])) for cell in cells if "offered" in cell.key})
    up = _up("UDP delivered")
    loads = [(f"hops: {count}", "offered load, Mbit/s", up, by_load(cells, count)) for count in hops]
    _figure(f"{place}-{OFFERED}", f"{testbed}: UDP delivered by offered load", loads, guest=guest)


def _up(what: str) -> str:
    """Return the label of the vertical axis."""
    unit = UNITS[what]
    if what in _UNJUDGED:
        return f"{what}, {unit}"
    return f"{what}, {unit} ({'more is better' if what == _MORE else plot.wanted(unit)})"


def by_hops(cells: Sequence[Cell], what: str) -> Series:
    """Samples of something by the number of hops."""
    return _series((cell, "hops") for cell in cells if cell.key["what"] == what)


def by_hops_at(cells: Sequence[Cell], what: str, load: float) -> Series:
    """Return samples of something at one offered load in Mbit/s by the number of hops."""
    return _series((cell, "hops") for cell in cells if (cell.key["what"], cell.key.get("offered")) == (what, load))


def by_load(cells: Sequence[Cell], hops: int) -> Series:
    """Return what arrived over so many hops, by the offered load."""
    chosen = [cell for cell in cells if cell.key["what"] == "UDP delivered" and cell.key["hops"] == hops]
    return _series((cell, "offered") for cell in chosen)


def _series(chosen: Iterator[tuple[Cell, str]]) -> Series:
    found: dict[str, dict[float, Sequence[float]]] = {}
    for cell, axis in chosen:
        found.setdefault(str(cell.key["plane"]), {})[float(str(cell.key[axis]))] = cell.samples
    return found


def _figure(
    name: str,
    title: str,
    panels: Sequence[tuple[str, str, str, Series]],
    rows: int = 1,
    guest: Mapping[str, str] | None = None,
) -> None:
    """Write build/bench/NAME.svg and .png, a panel for each heading, axes and series that has samples."""
    shown = [panel for panel in panels if panel[3]]
    if not shown:
        return
    rows = max(rows, ceil(len(shown) / MOST_COLUMNS))
    columns = ceil(len(shown) / rows)
    width, height = plot.PANEL
    size = width * columns, min(height * rows, TALLEST)
    title = f"{title} (median, bars from the least to the greatest)"
    counts = [len(each) for *_, series in shown for by_place in series.values() for each in by_place.values()]
    with plot.page(name, title, size, plot.origin(counts, guest), nrows=rows, ncols=columns) as axes:
        for spare in axes[len(shown) :]:
            spare.set_axis_off()
        for one, (heading, across, up, series) in zip(axes, shown, strict=False):
            plot.points(one, series, across, up if "%" in up or _linear(series) else f"{up}, logarithmic")
            one.set_title(heading)
            _scale(one, across, series, percent="%" in up)


def _linear(series: Series) -> bool:
    """Return whether a linear axis from 0 shows all of it: a logarithmic one would exaggerate, or could not show 0."""
    samples = [sample for by_place in series.values() for each in by_place.values() for sample in each]
    return min(samples) <= 0 or max(samples) < plot.WIDE_RANGE * min(samples)


def _scale(axes: "Axes", across: str, series: Series, *, percent: bool) -> None:
    greatest = max(max(samples) for by_place in series.values() for samples in by_place.values())
    if percent:
        axes.set_ylim(0, 105 if greatest > LITTLE else max(1.0, 1.1 * greatest))
    elif _linear(series):
        axes.set_ylim(bottom=0)
    else:
        axes.set_yscale("log")
        plot.decimal(axes.yaxis)
    if across != "hops":
        axes.set_xscale("log")
        plot.decimal(axes.xaxis)
