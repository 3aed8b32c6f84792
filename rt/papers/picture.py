"""Pictures of entries: panels of series, and diagrams. The same data give the same bytes."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil, floor, log10
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from rt.measure.plot import COLOURS, MARKERS, STYLE, decimal
from rt.papers.form import Diagram, Entry, Panel, Value, Work
from rt.papers.kept import Figure, KeptError, Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANEL_SIZE = (5.2, 4.2)
"""Inches of a panel."""
TITLE_LETTERS, LETTERS = 9, 12
"""Letters of a title, and of a legend, that fit into an inch."""
FEW_NAMES, NAME_LETTERS = 5, 20
"""Names that have room side by side, and letters of a line of one, at most."""
AXIS_LETTERS = 50
"""Letters that fit side by side below a panel."""
_BOX = (1.5, 0.75)
"""Inches of a diagram's cell in which a box is."""
_HEIGHT = 0.42
"""Inches of a message in a sequence."""
Points = dict[float | str, Figure]


@dataclass(frozen=True)
class _Curve:
    label: str
    points: Points
    hollow: bool = False
    """The work's, not ours."""
    without: Figure | None = None
    """What is drawn as a line across: the same without load."""


def drawable(entry: Entry, results: Results) -> bool:
    """Return whether there is something to draw: a diagram, a value of the work, or a result of ours."""
    ours = (
        panel.across in cell["key"]
        for panel in entry.panel
        for series in panel.series
        for cell in results.cells(series.select) or ()
    )
    return bool(entry.diagram) or any(value.panel for value in entry.value) or any(ours)


def draw(work: Work, entry: Entry, results: Results, path: Path) -> None:
    """Write the entry's picture as SVG."""
    title = f"{work.short}, {entry.title.lower()}: {entry.quoted}"
    if entry.diagram:
        _diagrams(title, entry.diagram, path)
        return
    panels = [(panel, _curves(panel, entry.value, work.year, results)) for panel in entry.panel]
    drawn = [(panel, curves) for panel, curves in panels if curves]
    width, height = PANEL_SIZE
    count = len(drawn)
    across = 1 if count == 1 else 2
    down = -(-count // across)
    size = (7.0 if count == 1 else across * width, 0.8 + down * height)
    # A label has the same look in all panels, because they have one legend.
    looks = {
        label: number for number, label in enumerate(dict.fromkeys(one.label for _, all_ in drawn for one in all_))
    }
    with _page(title, size, path, nrows=down, ncols=across) as axes:
        for one, (panel, curves) in zip(axes, drawn, strict=False):
            _panel(one, panel, curves, looks)
        for spare in axes[count:]:
            spare.set_axis_off()


@contextmanager
def _page(title: str, size: tuple[float, float], path: Path, **layout: Any) -> Iterator[Sequence["Axes"]]:
    import matplotlib  # noqa: PLC0415 - heavy, and only needed for drawing

    matplotlib.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415
    from matplotlib.lines import Line2D  # noqa: PLC0415

    # Text stays text, which is small and can be found; identifiers come from a fixed salt, so that nothing is random.
    style = {**STYLE, "svg.fonttype": "none", "svg.hashsalt": "meshsec", "figure.titlesize": 12, "font.size": 10}
    with pyplot.rc_context(style):
        figure, axes = pyplot.subplots(figsize=size, squeeze=False, layout="constrained", **layout)
        figure.suptitle(fill(title, int(size[0] * TITLE_LETTERS)))
        yield list(axes.flat)
        labelled: dict[str, Any] = {}
        for one in axes.flat:
            labelled.update({label: handle for handle, label in zip(*one.get_legend_handles_labels(), strict=True)})
        if any(line.get_linestyle() == "--" for one in axes.flat for line in one.get_lines()):
            labelled["dashed: without load"] = Line2D([], [], color="0.4", linestyle="--", linewidth=1)
        if labelled:
            longest = max(map(len, labelled))
            columns = max(1, min(len(labelled), int(size[0] * LETTERS / (longest + 8))))
            figure.legend(labelled.values(), labelled.keys(), loc="outside lower center", ncols=columns)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
        pyplot.close(figure)


def _curves(panel: Panel, values: Sequence[Value], year: str, results: Results) -> list[_Curve]:
    """Return the curves of ours, filled, and those of the work, hollow and dotted."""
    ours = {series.label: _points(panel, number, results) for number, series in enumerate(panel.series)}
    theirs: dict[str, Points] = {}
    for value in values:
        if value.panel == panel.id:
            theirs.setdefault(f"{year}: {value.series}", {})[value.at] = _stated(value)
    across = {one.label: results.figure(one.without) if one.without else None for one in panel.series}
    filled = [_Curve(label, points, without=across[label]) for label, points in ours.items() if points]
    return filled + [_Curve(label, points, hollow=True) for label, points in theirs.items()]


def _panel(axes: "Axes", panel: Panel, curves: Sequence[_Curve], looks: Mapping[str, int]) -> None:
    places = _places([curve.points for curve in curves])
    named = panel.kind == "bars" or any(isinstance(place, str) for place in places)
    for number, curve in enumerate(curves):
        step = 0.8 / len(curves)
        aside = (number - (len(curves) - 1) / 2) * step
        ordered = [place for place in places if place in curve.points]
        at: list[Any] = [places.index(place) + aside for place in ordered] if named else ordered
        figures = [curve.points[place] for place in ordered]
        look = looks[curve.label]
        colour, marker = COLOURS[look % len(COLOURS)], MARKERS[look % len(MARKERS)]
        if panel.kind == "bars" and not panel.log_up:
            _bars(axes, curve, at, figures, (step * 0.9, colour))
        else:
            _line(axes, curve, at, figures, ("" if named else "-", colour, marker))
        if curve.without:
            axes.axhline(curve.without.median, color=colour, linestyle="--", linewidth=1)
        for x, figure in zip(at, figures, strict=True):
            if figure.at_least:
                axes.annotate("\N{GREATER-THAN OR EQUAL TO}", (x, figure.median), (0, 6), textcoords="offset points")
    _scales(axes, panel, places, named=named)


def _points(panel: Panel, number: int, results: Results) -> Points:
    select = panel.series[number].select
    points: Points = {}
    for cell in results.cells(select) or ():
        place = cell["key"].get(panel.across)
        if place is None:
            continue
        if place in points:
            raise KeptError(f"{select.result}: {select.key} fits two cells at {panel.across} = {place}")
        points[place] = results.of_cell(select, cell)
    return points


def _stated(value: Value) -> Figure:
    if isinstance(value.value, str):
        raise KeptError(f"{value.what}: {value.value!r} cannot be drawn; allowed is a number or a range of two")
    low, high = value.value if isinstance(value.value, tuple) else (value.value, value.value)
    return Figure((low + high) / 2, low, high, 1)


def _places(curves: Sequence[Points]) -> list[float | str]:
    """Return what is on the horizontal axis: numbers in their order, names in the order of the data."""
    places = list(dict.fromkeys(place for points in curves for place in points))
    return sorted(places) if all(not isinstance(place, str) for place in places) else places


def _bars(axes: "Axes", curve: _Curve, at: Sequence[Any], figures: Sequence[Figure], look: tuple[float, str]) -> None:
    width, colour = look
    face: dict[str, Any] = (
        {"facecolor": "none", "hatch": "///"} if curve.hollow else {"facecolor": colour, "alpha": 0.7}
    )
    middle = [figure.median for figure in figures]
    axes.bar(at, middle, width, edgecolor=colour, label=curve.label, **face)
    axes.errorbar(at, middle, yerr=_ends(figures), fmt="none", ecolor="black", elinewidth=1, capsize=_cap(figures))


def _line(
    axes: "Axes", curve: _Curve, at: Sequence[Any], figures: Sequence[Figure], look: tuple[str, str, str]
) -> None:
    joined, colour, marker = look
    face: dict[str, Any] = {"markerfacecolor": "none"} if curve.hollow else {}
    style: dict[str, Any] = {
        "linestyle": ":" if joined and curve.hollow else joined,
        "color": colour,
        "capsize": _cap(figures),
    }
    middle = [figure.median for figure in figures]
    axes.errorbar(at, middle, yerr=_ends(figures), label=curve.label, marker=marker, **style, **face)


def _cap(figures: Sequence[Figure]) -> float:
    """Return the length of the intervals' caps in points: values that are stated alone have no interval."""
    return 3.0 if any(figure.low < figure.high for figure in figures) else 0.0


def _ends(figures: Sequence[Figure]) -> list[list[float]]:
    """Return how far the intervals go below and above the medians."""
    below = [figure.median - figure.low for figure in figures]
    return [below, [figure.high - figure.median for figure in figures]]


def _scales(axes: "Axes", panel: Panel, places: Sequence[float | str], *, named: bool) -> None:
    if named:
        crowded: dict[str, Any] = {"rotation": 30, "ha": "right"} if len(places) > FEW_NAMES else {}
        letters = NAME_LETTERS if crowded else min(NAME_LETTERS, AXIS_LETTERS // len(places))
        axes.set_xticks(range(len(places)), [fill(f"{place}", letters) for place in places], **crowded)
    else:
        if panel.log_across:
            axes.set_xscale("log")
            axes.xaxis.set_minor_formatter("")
        axes.set_xticks(places)
        axes.xaxis.set_major_formatter("{x:g}")
    if panel.log_up:
        axes.set_yscale("log")
        # Whole decades, so that a small difference looks small.
        least, greatest = axes.get_ylim()
        axes.set_ylim(10 ** floor(log10(least)), 10 ** ceil(log10(greatest)))
        decimal(axes.yaxis, (1, 2, 5))
        axes.yaxis.set_major_formatter("{x:,.10g}")
        axes.tick_params(axis="y", which="minor", left=False)
    else:
        axes.set_ylim(bottom=0)
    axes.set_xlabel(panel.across_label + (" (logarithmic)" if panel.log_across else ""))
    axes.set_ylabel(fill(panel.up_label + (" (logarithmic)" if panel.log_up else ""), 42))
    axes.set_title(fill(panel.title, 48))


def _diagrams(title: str, diagrams: Sequence[Diagram], path: Path) -> None:
    extents = [_extent(diagram) for diagram in diagrams]
    size = (max(7.0, *(width for width, _ in extents)), 0.6 + sum(height + 0.5 for _, height in extents))
    ratios = [height + 0.5 for _, height in extents]
    with _page(title, size, path, nrows=len(diagrams), height_ratios=ratios) as axes:
        for one, diagram in zip(axes, diagrams, strict=True):
            one.set_axis_off()
            one.set_title(diagram.title)
            (_sequence if diagram.sequence else _network)(one, diagram)


def _extent(diagram: Diagram) -> tuple[float, float]:
    """Return width and height in inches."""
    across, up = ([box.at[axis] for box in diagram.boxes] for axis in (0, 1))
    width = (max(across) - min(across) + 1) * _BOX[0]
    if diagram.sequence:
        return max(width, 7.0), (len(diagram.lines) + 2) * _HEIGHT
    return width, (max(up) - min(up) + 1) * _BOX[1]


def _network(axes: "Axes", diagram: Diagram) -> None:
    places = {box.name: box.at for box in diagram.boxes}
    drawn = {}
    for box in diagram.boxes:
        look = {"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": COLOURS[0]}
        if box.dashed:
            look["linestyle"] = "--"
        drawn[box.name] = axes.text(
            *box.at, _label(box.name, box.text), ha="center", va="center", fontsize=9, bbox=look
        )
    for line in diagram.lines:
        start, end = (_end(places, diagram, name) for name in line.ends)
        first, second = (drawn[name].get_bbox_patch() for name in line.ends)
        style = {"linestyle": "--" if line.dashed else "-", "color": "#555555", "patchA": first, "patchB": second}
        arrow = {"arrowstyle": "->" if line.arrow else "-", "shrinkA": 1, "shrinkB": 1}
        axes.annotate("", end, start, arrowprops={**style, **arrow})
        upright = start[0] == end[0]
        right, up = (0.08, 0.0) if upright else (0.0, 0.08)
        aligned: dict[str, Any] = {"ha": "left", "va": "center"} if upright else {"ha": "center", "va": "bottom"}
        middle = (start[0] + end[0]) / 2 + right, (start[1] + end[1]) / 2 + up
        axes.text(*middle, fill(line.text, 22), fontsize=8, **aligned)
    for limits, axis in ((axes.set_xlim, 0), (axes.set_ylim, 1)):
        along = [at[axis] for at in places.values()]
        limits(min(along) - 0.6, max(along) + 0.6)


def _sequence(axes: "Axes", diagram: Diagram) -> None:
    columns = {box.name: box.at[0] for box in diagram.boxes}
    rows = len(diagram.lines)
    for box in diagram.boxes:
        axes.plot([box.at[0]] * 2, [0.2, -rows - 0.5], color="#999999", linewidth=1)
        axes.text(box.at[0], 0.4, _label(box.name, box.text), ha="center", va="bottom", fontsize=9)
    for row, line in enumerate(diagram.lines, start=1):
        start, end = (_end(columns, diagram, name) for name in line.ends)
        style = {"arrowstyle": "->" if line.arrow else "-", "linestyle": "--" if line.dashed else "-"}
        if start != end:
            axes.annotate(
                "", (end, -row), (start, -row), arrowprops={**style, "color": COLOURS[0], "shrinkA": 0, "shrinkB": 0}
            )
        axes.text((start + end) / 2, -row + 0.08, line.text, ha="center", va="bottom", fontsize=8)
    axes.set_xlim(min(columns.values()) - 0.5, max(columns.values()) + 0.5)
    axes.set_ylim(-rows - 0.6, 1.4)


def _end(places: dict[str, Any], diagram: Diagram, name: str) -> Any:
    if name not in places:
        raise KeptError(f"diagram {diagram.title!r}: the end {name!r} is no box; boxes are {', '.join(places)}")
    return places[name]


def _label(name: str, text: str) -> str:
    """Return what a box says: its name and its text, and the name once where the text has it."""
    if text and re.search(rf"\b{re.escape(name)}\b", text, re.IGNORECASE):
        return fill(text, 20)
    return f"{name}\n{fill(text, 20)}" if text else name
