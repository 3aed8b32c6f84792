"""The one style of all plots: size, fonts, colours, and axes that say their unit and what is good."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median
from textwrap import fill
from typing import TYPE_CHECKING, Any

from rt.measure.results import DIRECTORY, MORE_IS_BETTER, Cell, Result, machine, versions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""The palette of Okabe and Ito, which people who are colour-blind can distinguish."""
MARKERS = ("o", "s", "^", "v", "D", "X", "P", "*")
"""One more than colours, so that the eighth line does not look like the first."""
"""One for each colour, for those who print in black and white."""
PANEL = (6.0, 4.8)
"""Inches of one panel of a figure."""
DPI = 150
TALLEST = 1400
"""Pixels that a picture may be high: it fits on a page, with letters that can be read there."""
WIDEST = 2000
"""Pixels that a picture may be wide: a page shows it in half of that, and its letters are then 8 pixels high."""
WIDTH = 11.0
"""Inches of a figure of rows, most of them for their labels."""
ROW, ROWS_FRAME, HEAD = 0.32, 1.1, 1.4
"""Inches of a row, of what is around the rows of one unit, and of title, legend and footer."""
LEAST_ROWS = 3
"""Rows of a unit that a picture must have room for, so that none of it has a single row at its foot."""
UP_LETTERS = 46
"""Letters of a vertical label that a panel has room for."""
TITLE_LETTERS = 8
"""Letters of a title that fit into an inch."""
FOOTER_LETTERS, FOOTER_LINE = 15, 0.16
"""Letters of a footer that fit into an inch, and inches of one of its lines."""
LEGEND_MARK, LEGEND_LETTERS = 0.8, 12
"""Inches of a legend's mark and of what is around it; letters of a label that fit into an inch."""
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
    "savefig.dpi": DPI,
}
Series = Mapping[str, Mapping[Any, Sequence[float]]]
"""For each line of a legend the samples by their place on the horizontal axis: numbers, or names."""


def wanted(unit: str) -> str:
    """Return what is good of figures with this unit."""
    return "more is better" if unit in MORE_IS_BETTER else "less is better"


@contextmanager
def page(name: str, title: str, size: tuple[float, float], footer: str, **layout: Any) -> Iterator[Sequence["Axes"]]:
    """Give the axes of a figure to be drawn on, then write build/bench/NAME.svg and NAME.png.

    ``size`` is in inches; a figure is never higher than ``TALLEST`` and never wider than ``WIDEST``. ``footer`` is a
    line below everything.
    """
    import matplotlib  # noqa: PLC0415 - heavy, and only needed at the very end

    matplotlib.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415
    from matplotlib.layout_engine import ConstrainedLayoutEngine  # noqa: PLC0415

    width, height = min(size[0], WIDEST / DPI), min(size[1], TALLEST / DPI)
    lines = fill(footer, int(width * FOOTER_LETTERS))
    strip = FOOTER_LINE * (lines.count("\n") + 1.5) if footer else 0.0
    with pyplot.rc_context(STYLE):
        engine = ConstrainedLayoutEngine(rect=(0, strip / height, 1, 1 - strip / height))
        figure, axes = pyplot.subplots(figsize=(width, height), squeeze=False, layout=engine, **layout)
        figure.suptitle("\n".join(fill(line, int(width * TITLE_LETTERS)) for line in title.splitlines()))
        figure.text(0.5, strip / 4 / height, lines, ha="center", va="bottom", fontsize=8, color="0.35")
        yield list(axes.flat)
        handles = {label: handle for one in axes.flat for handle, label in zip(*_legend(one), strict=True)}
        if handles:
            above = 0.5 + strip * 72 / STYLE["font.size"]
            longest = max(len(label) for label in handles)
            columns = max(1, min(len(handles), int(width / (LEGEND_MARK + longest / LEGEND_LETTERS)), 4))
            look: dict[str, Any] = {"loc": "outside lower center", "ncols": columns, "borderaxespad": above}
            figure.legend(handles.values(), handles.keys(), **look)
        for kind in ("svg", "png"):
            figure.savefig(DIRECTORY / f"{name}.{kind}")
        pyplot.close(figure)


def footer(cells: Sequence[Cell], guest: Mapping[str, str] | None = None) -> str:
    """Return the line that says where these cells were measured, with what, and how often.

    ``guest``: what the guest was, if one measured them.
    """
    return origin([len(cell.samples) for cell in cells], guest)


def origin(counts: Iterable[int], guest: Mapping[str, str] | None = None) -> str:
    """Return the same for so many samples of each median."""
    found = sorted(set(counts))
    often = f"n = {found[0]}" if len(found) == 1 else f"n = {found[0]} to {found[-1]}" if found else "no sample"
    here, took_part = machine(), versions()
    where = f"{here['cpu']}, {here['cores']} cores, Linux {here['kernel']}, {here['system']}"
    if guest:
        inside, where = dict(guest), f"host: {where}"
        where = f"in a guest: Linux {inside.pop('kernel', 'unknown')}, {inside.pop('system', 'unknown')}; {where}"
        took_part = {"meshsec": took_part["meshsec"], **inside}
    return f"{often} for each median; {where}; " + ", ".join(f"{name} {one}" for name, one in took_part.items())


def extremes(samples: Sequence[float]) -> tuple[float, float]:
    """Return the least and the greatest."""
    return min(samples), max(samples)


def boxes(  # noqa: PLR0913  # one for each way in which pictures of rows differ
    result: Result,
    title: str,
    *,
    compare: str = "",
    unjudged: Collection[str] = (),
    name: str = "",
    label: Callable[[Cell], str] = Cell.label,
) -> None:
    """Draw a row for each cell: its middle half as a box, whiskers from the least to the greatest, its median in words.

    The cells of each unit have an axis of their own. Cells that differ in the key ``compare`` differ in colour. The
    axes of units in ``unjudged`` do not say what is good. The picture has the ``name`` of the result unless it is
    given; what does not fit into one is in NAME-2, NAME-3 and so on. ``label`` names a row.
    """
    name = name or result.name
    pages = list(_pages(result.cells))
    for old in DIRECTORY.glob(f"{name}-*"):
        if old.stem.removeprefix(f"{name}-").isdigit():
            old.unlink()
    names = list(dict.fromkeys(str(cell.key[compare]) for cell in result.cells if compare in cell.key))
    colours = {each: COLOURS[number % len(COLOURS)] for number, each in enumerate(names)}
    for number, panels in enumerate(pages, start=1):
        heights = [ROWS_FRAME + ROW * len(cells) for _, cells in panels]
        about = f"{title} ({number} of {len(pages)})" if len(pages) > 1 else title
        shown = [cell for _, cells in panels for cell in cells]
        size = (WIDTH, HEAD + sum(heights))
        place = name if number == 1 else f"{name}-{number}"
        with page(
            place, marked(about, result), size, footer(shown, result.guest), nrows=len(panels), height_ratios=heights
        ) as axes:
            for one, (unit, cells) in zip(axes, panels, strict=True):
                _rows(one, cells, [colours.get(str(cell.key.get(compare)), COLOURS[0]) for cell in cells], label)
                for each in names:
                    one.fill_between([], [], color=colours[each], alpha=SHADE, label=f"{compare}: {each}")
                one.set_xlabel(unit if unit in unjudged else f"{unit} ({wanted(unit)})")


def _pages(cells: Sequence[Cell]) -> Iterator[list[tuple[str, list[Cell]]]]:
    """Divide the cells into pictures, and those of each picture by unit."""
    units: dict[str, list[Cell]] = {}
    for cell in cells:
        units.setdefault(cell.unit, []).append(cell)
    room = TALLEST / DPI - HEAD
    left, panels = room, list[tuple[str, list[Cell]]]()
    for unit, rest in units.items():
        while rest:
            fit = int((left - ROWS_FRAME) / ROW + 1e-9)
            if fit < min(len(rest), LEAST_ROWS):
                yield panels
                left, panels = room, []
                continue
            panels.append((unit, rest[:fit]))
            left -= ROWS_FRAME + ROW * len(rest[:fit])
            rest = rest[fit:]  # noqa: PLW2901  # the rows that do not fit go on the next picture
    if panels:
        yield panels


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


def points(  # noqa: PLR0913  # one for each way in which pictures of points differ
    axes: "Axes",
    series: Series,
    across: str,
    up: str,
    *,
    bars: Callable[[Sequence[float]], tuple[float, float]] = extremes,
    beside: float = 0.0,
) -> None:
    """Draw the median of each series at each place, with ``bars`` from the least to the greatest sample.

    Places that are names are in their order, with the series side by side; numbers are joined by a line, and drawn this
    far ``beside`` each other, so that bars do not hide one another.
    """
    places = list(dict.fromkeys(place for by_place in series.values() for place in by_place))
    named = any(isinstance(place, str) for place in places)
    for number, (label, by_place) in enumerate(series.items()):
        aside = number - (len(series) - 1) / 2
        name_aside = aside * 0.6 / max(len(series), 1)
        at = [places.index(place) + name_aside if named else place + aside * beside for place in by_place]
        middle = [median(samples) for samples in by_place.values()]
        ends = [bars(samples) for samples in by_place.values()]
        below = [point - least for point, (least, _) in zip(middle, ends, strict=True)]
        above = [greatest - point for point, (_, greatest) in zip(middle, ends, strict=True)]
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


def _rows(axes: "Axes", cells: Sequence[Cell], colours: Sequence[str], label: Callable[[Cell], str]) -> None:
    drawn = axes.boxplot(
        [list(cell.samples) for cell in cells], orientation="horizontal", whis=(0, 100), widths=0.6, patch_artist=True
    )
    for box, line, colour in zip(drawn["boxes"], drawn["medians"], colours, strict=True):
        box.set(facecolor=colour, alpha=SHADE)
        line.set(color="black", linewidth=2)
    axes.set_yticks(range(1, len(cells) + 1), [label(cell) for cell in cells])
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
