"""The one style of all plots: size, fonts, colours, and axes that say their unit and what is good."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median
from textwrap import fill
from typing import TYPE_CHECKING, Any

from rt.measure.results import DIRECTORY, MORE_IS_BETTER, Cell, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""The palette of Okabe and Ito, which people who are colour-blind can distinguish."""
MARKERS = ("o", "s", "^", "v", "D", "X", "P")
"""One for each colour, for those who print in black and white."""
PANEL = (6.0, 4.8)
"""Inches of one panel of a figure."""
WIDTH = 11.0
"""Inches of a figure of rows, most of them for their labels."""
ROW, ROWS_FRAME = 0.32, 1.1
"""Inches of a row, and of what is around the rows of one unit."""
UP_LETTERS = 42
"""Letters of a vertical label that a panel has room for."""
TITLE_LETTERS = 8
"""Letters of a title that fit into an inch."""
SHADE = 0.5
"""Opacity of a box, in which the median is black."""
FEW_DECADES = 1000.0
"""The quotient below which a horizontal axis has room for labels between powers of ten."""
WIDE_RANGE = 20.0
"""The quotient of the greatest and the least sample from which on a logarithmic scale is more legible."""
STYLE: Any = {
    "font.size": 11,
    "axes.labelsize": 11,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.alpha": 0.3,
    "figure.titlesize": 13,
    "figure.titleweight": "bold",
    "legend.frameon": False,
    "savefig.dpi": 150,
}
Series = Mapping[str, Mapping[Any, Sequence[float]]]
"""For each line of a legend the samples by their place on the horizontal axis: numbers, or names."""


def wanted(unit: str) -> str:
    """Return what is good of figures with this unit."""
    return "more is better" if unit in MORE_IS_BETTER else "less is better"


@contextmanager
def page(name: str, title: str, size: tuple[float, float], **layout: Any) -> Iterator[Sequence["Axes"]]:
    """Give the axes of a figure to be drawn on, then write build/bench/NAME.svg and NAME.png."""
    import matplotlib  # noqa: PLC0415 - heavy, and only needed at the very end

    matplotlib.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415

    with pyplot.rc_context(STYLE):
        figure, axes = pyplot.subplots(figsize=size, squeeze=False, layout="constrained", **layout)
        figure.suptitle("\n".join(fill(line, int(size[0] * TITLE_LETTERS)) for line in title.splitlines()))
        yield list(axes.flat)
        handles = {label: handle for one in axes.flat for handle, label in zip(*_legend(one), strict=True)}
        if handles:
            figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=min(len(handles), 4))
        for kind in ("svg", "png"):
            figure.savefig(DIRECTORY / f"{name}.{kind}")
        pyplot.close(figure)


def boxes(result: Result, title: str, *, compare: str = "", unjudged: Collection[str] = ()) -> None:
    """Draw a row for each cell: its middle half as a box, whiskers from the least to the greatest, its median in words.

    The cells of each unit have an axis of their own. Cells that differ in the key ``compare`` differ in colour. The
    axes of units in ``unjudged`` do not say what is good.
    """
    panels: dict[str, list[Cell]] = {}
    for cell in result.cells:
        panels.setdefault(cell.unit, []).append(cell)
    heights = [ROWS_FRAME + ROW * len(cells) for cells in panels.values()]
    names = list(dict.fromkeys(str(cell.key[compare]) for cell in result.cells if compare in cell.key))
    colours = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(names)}
    size = (WIDTH, 1 + sum(heights))
    with page(result.name, marked(title, result), size, nrows=len(panels), height_ratios=heights) as axes:
        for one, (unit, cells) in zip(axes, panels.items(), strict=True):
            _rows(one, cells, [colours.get(str(cell.key.get(compare)), COLOURS[0]) for cell in cells])
            for name in names:
                one.fill_between([], [], color=colours[name], alpha=SHADE, label=f"{compare}: {name}")
            one.set_xlabel(unit if unit in unjudged else f"{unit} ({wanted(unit)})")


def decimal(axis: "Axis", within: Sequence[int] = (1, 2, 5)) -> None:
    """Label a logarithmic axis with plain numbers, at these multiples of each power of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter  # noqa: PLC0415 - see page

    axis.set_major_locator(LogLocator(subs=within))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def figure(value: float) -> str:
    """Return a number with three digits, and never with an exponent."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


def marked(title: str, result: Result) -> str:
    """Say in the title too that the run did not come to its end."""
    return f"{title}\n(cut short)" if result.params.get("cut_short") else title


def points(axes: "Axes", series: Series, across: str, up: str) -> None:
    """Draw the median of each series at each place, with bars from the least to the greatest sample.

    Places that are names are in their order, with the series side by side; numbers are joined by a line.
    """
    places = list(dict.fromkeys(place for by_place in series.values() for place in by_place))
    named = any(isinstance(place, str) for place in places)
    for number, (label, by_place) in enumerate(series.items()):
        aside = (number - (len(series) - 1) / 2) * 0.6 / max(len(series), 1)
        at = [places.index(place) + aside if named else place for place in by_place]
        middle = [median(samples) for samples in by_place.values()]
        below = [point - min(samples) for point, samples in zip(middle, by_place.values(), strict=True)]
        above = [max(samples) - point for point, samples in zip(middle, by_place.values(), strict=True)]
        look: dict[str, Any] = {
            "color": COLOURS[number % len(COLOURS)],
            "marker": MARKERS[number % len(MARKERS)],
            "capsize": 3.0,
        }
        axes.errorbar(at, middle, yerr=[below, above], label=label, linestyle="none" if named else "-", **look)
    if named:
        axes.set_xticks(range(len(places)), places)
    else:
        axes.set_xticks(sorted(places))
    axes.set_xlabel(across)
    axes.set_ylabel(fill(up, UP_LETTERS))


def _rows(axes: "Axes", cells: Sequence[Cell], colours: Sequence[str]) -> None:
    drawn = axes.boxplot(
        [list(cell.samples) for cell in cells], orientation="horizontal", whis=(0, 100), widths=0.6, patch_artist=True
    )
    for box, line, colour in zip(drawn["boxes"], drawn["medians"], colours, strict=True):
        box.set(facecolor=colour, alpha=SHADE)
        line.set(color="black", linewidth=2)
    axes.set_yticks(range(1, len(cells) + 1), [cell.label() for cell in cells])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    least, greatest = (of(of(cell.samples) for cell in cells) for of in (min, max))
    if least > 0 and greatest / least > WIDE_RANGE:
        axes.set_xscale("log")
        decimal(axes.xaxis, (1, 2, 5) if greatest / least < FEW_DECADES else (1,))
    else:
        axes.set_xlim(left=min(0.0, least))
    for row, cell in enumerate(cells, start=1):
        axes.text(1.01, row, figure(median(cell.samples)), transform=axes.get_yaxis_transform(), va="center")
    axes.text(1.01, 1.0, "median", transform=axes.transAxes, va="bottom", style="italic")


def _legend(axes: "Axes") -> tuple[list[Any], list[str]]:
    handles, labels = axes.get_legend_handles_labels()
    return list(handles), list(labels)
