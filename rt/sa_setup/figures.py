"""The paper's figures 8 and 9, redrawn from a result of bench-sa-setup, and a picture for each further question.

Each picture answers one: the paper's two, scheduling profiles, what the load still delivers, suites, loss, streams.
The text of the paper has no numbers of its figures 8 and 9, only words; ``WORDS`` says them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from statistics import median
from textwrap import fill
from typing import TYPE_CHECKING

from meshsec.core.bench.interval import interval
from rt.loads import on_demand
from rt.measure import plot
from rt.measure.results import Cell, Result
from rt.sa_setup.policy import OURS, PAPERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FIGURES = {"relay": "figure-8-relay", "receiver": "figure-9-receiver"}
"""By the place of the load, as the paper's captions have it."""
WORDS = {
    "relay": "2007: the load on the relay does not influence the time.",
    "receiver": "2007: about the same as without load at low priority, slightly longer at 0, long at high priority.",
}
"""What the paper says of each figure; it prints no numbers."""
_SUITES = {PAPERS: "3DES, MODP-1536", OURS: "our suite"}
_CLASSES = {"paper-2007": "IKE daemon at nice 10", "stock": "at nice 0", "governor": "governed"}
_SIDES = {
    "saturating": "live encoder (the paper's figure 6)",
    **{kind: f"on demand: {kind} (figure 5)" for kind in on_demand.VIEWERS},
}
_DELIVERED = (("paper-2007", PAPERS), ("stock", OURS), ("governor", OURS))
"""Whose loads are shown: profile and suite."""
_BESIDE = 0.5
"""Nice values between the lines of a figure."""
_FOOT_LETTERS = 60
"""Letters of a horizontal label that a panel has room for."""
_ACROSS = "nice value of the load"
_UP = "response time, s (log scale, less is better)"
_BOX_PICTURES = {
    "idle": (
        "priority",
        "total beyond two round trips",
        "Cold set-ups without load, beyond two round trips of the path",
    ),
    "suites": ("suite", "total", "Cold set-ups by suite, without load"),
    "loss": ("loss", "total", "Cold set-ups with packets lost on both links, by repetition"),
    "streams": (
        "stream",
        "frames missing",
        "A live stream at nice -20 on the receiver, with and without set-ups beside it",
    ),
}
"""Pictures of rows: the part of the cells, what is shown of them, the title."""


def draw(result: Result) -> None:
    """Write build/bench/sa-setup-*, each as SVG and PNG; what was not measured is left out."""
    loaded = [cell for cell in result.cells if cell.key.get("part") == "priority" and cell.key["place"] != "none"]
    for place, name in FIGURES.items():
        _by_priority(result, name, place, [cell for cell in loaded if cell.key["place"] == place])
    _by_profile(result, [cell for cell in loaded if cell.key.get("suite", OURS) == OURS])
    _delivered(result, loaded)
    for name, (part, what, title) in _BOX_PICTURES.items():
        shown = [cell for cell in result.cells if (cell.key.get("part"), cell.key["what"]) == (part, what)]
        if shown:
            chosen = replace(result, cells=shown)
            plot.boxes(chosen, title, compare="profile", name=f"{result.name}-{name}", label=_row)


def _row(cell: Cell) -> str:
    """Name a row by what differs within its picture."""
    key = cell.key
    names = {
        "priority": f"{key['profile']}, {_SUITES.get(str(key.get('suite')), '')}, {key.get('apart')} alone",
        "suite": str(key.get("suite")),
        "loss": f"{key.get('loss')} % lost, {key.get('retransmission')} repetition",
        "stream": f"{key.get('load')} encoder, {key['profile']}, {key.get('rate')} set-ups a second",
    }
    return names[str(key["part"])]


def _by_priority(result: Result, name: str, place: str, cells: Sequence[Cell]) -> None:
    """Draw the paper's figure, and beside it what videos on demand do: a line for each suite and IKE priority."""
    chosen = [cell for cell in cells if cell.key["profile"] in _CLASSES]
    title = f"Figure {name.split('-')[1]} of 2007, redrawn: time to build a secure connection, the {place} loaded"
    how = "Median, bars: its 95 % interval; dotted: without load"
    _times(result, name, f"{title}\n{how}.\n{WORDS[place]}", _of_loads(chosen, ["saturating"]), place)
    title = f"Videos on demand (the paper's figure 5) in place of its live encoder, from the {place}"
    _times(result, f"{name}-on-demand", f"{title}\n{how}", _of_loads(chosen, on_demand.VIEWERS), place)


def _of_loads(cells: Sequence[Cell], kinds: Iterable[str]) -> dict[str, list[Cell]]:
    """Return the cells by the kind of load, without kinds that were not measured."""
    found = {kind: _of([cell for cell in cells if cell.key.get("load") == kind], "total") for kind in kinds}
    return {kind: some for kind, some in found.items() if some}


def _times(result: Result, name: str, title: str, panels: Mapping[str, Sequence[Cell]], place: str) -> None:
    series = {kind: _series(cells, "total", _class) for kind, cells in panels.items()}
    lines = list(dict.fromkeys(label for each in series.values() for label in each))
    idle = _idle(result, place)
    if not panels:
        return
    with _page(result, name, title, [cell for cells in panels.values() for cell in cells], len(panels)) as axes:
        for one, (kind, each) in zip(axes, series.items(), strict=True):
            plot.points(
                one, {label: each.get(label, {}) for label in lines}, _ACROSS, _UP, bars=interval, beside=_BESIDE
            )
            one.set_title(_SIDES[kind])
            for number, label in enumerate(lines):
                if label in each and label in idle:
                    one.axhline(idle[label], color=plot.COLOURS[number], linestyle=":", linewidth=1)
            _seconds(one)
            _given_up(one, result, place, kind)


def _by_profile(result: Result, cells: Sequence[Cell]) -> None:
    live = _of([cell for cell in cells if cell.key.get("load") == "saturating"], "total")
    panels = {place: _series(_at(live, place), "total", _profile) for place in FIGURES if _at(live, place)}
    if len({label for series in panels.values() for label in series}) > 1:
        title = (
            "Set-ups by scheduling profile, with our suite, beside the live encoder\nMedian, bars: its 95 % interval"
        )
        with _page(result, "profiles", title, live, len(panels)) as axes:
            for one, (place, series) in zip(axes, panels.items(), strict=True):
                plot.points(one, series, _ACROSS, _UP, bars=interval, beside=_BESIDE)
                one.set_title(f"{place} loaded")
                _seconds(one)


def _delivered(result: Result, cells: Sequence[Cell]) -> None:
    """Draw what the loads still delivered beside the set-ups: videos that keep a rate, and videos that do not."""
    chosen = [cell for cell in cells if (cell.key["profile"], cell.key.get("suite", OURS)) in _DELIVERED]
    for name, what, up, title in (
        ("frames", "frames missing", "what did not arrive, % (less is better)", "What the load loses beside set-ups"),
        ("served", "served", "Mbit/s served (more is better)", "What downloads get beside set-ups"),
    ):
        shown = _of(chosen, what)
        panels = {place: _series(_at(shown, place), what, _whole) for place in FIGURES if _at(shown, place)}
        if not panels:
            continue
        about = f"{title}\nMedian of the visits, bars from the least to the greatest"
        with _page(result, name, about, shown, len(panels)) as axes:
            for one, (place, series) in zip(axes, panels.items(), strict=True):
                plot.points(one, series, _ACROSS, up, beside=_BESIDE)
                one.set_title(f"{place} loaded")
                one.set_ylim(bottom=0)


def _at(cells: Sequence[Cell], place: str) -> list[Cell]:
    return [cell for cell in cells if cell.key["place"] == place]


def _page(
    result: Result, name: str, title: str, cells: Sequence[Cell], panels: int
) -> AbstractContextManager[Sequence["Axes"]]:
    width, height = plot.PANEL
    size = max(panels * width, 1.6 * width), height + 1.8
    return plot.page(
        f"{result.name}-{name}", plot.marked(title, result), size, plot.footer(cells, result.guest), ncols=panels
    )


def _seconds(axes: "Axes") -> None:
    axes.set_yscale("log")
    plot.decimal(axes.yaxis)


def _idle(result: Result, place: str) -> dict[str, float]:
    """Return the median without load in seconds, by line."""
    return {
        _class(cell): median(cell.samples) / 1000
        for cell in result.cells
        if cell.key.get("part") == "priority" and cell.key.get("apart") == place and _is(cell, "total")
        if cell.key["profile"] in _CLASSES
    }


def _given_up(axes: "Axes", result: Result, place: str, kind: str) -> None:
    """Mark the time after which set-ups were given up, and say at the foot how many were."""
    lost = [
        f"{_class(cell)}, {cell.key['nice']}: {cell.given_up} of {len(cell.samples)}"
        for cell in _at([cell for cell in result.cells if cell.given_up and _is(cell, "total")], place)
        if cell.key.get("load") == kind and cell.key["profile"] in _CLASSES
    ]
    if lost:
        after = float(str(result.params["given_up_after_s"]))
        label = f"given up after {after:g} s: what reaches this line took at least so long"
        axes.axhline(after, color="black", linestyle="--", linewidth=1, label=label)
        axes.set_xlabel(fill(f"{_ACROSS}; given up: {'; '.join(lost)}", _FOOT_LETTERS))


def _class(cell: Cell) -> str:
    suite = str(cell.key.get("suite", OURS))
    return f"{_SUITES[suite]}, {_CLASSES.get(str(cell.key['profile']), '')}"


def _profile(cell: Cell) -> str:
    return str(cell.key["profile"])


def _whole(cell: Cell) -> str:
    return f"{cell.key.get('load')}: {_SUITES[str(cell.key.get('suite', OURS))]}, {cell.key['profile']}"


def _is(cell: Cell, what: str) -> bool:
    return cell.key["what"] == what and cell.key.get("source", "capture") == "capture"


def _series(cells: Sequence[Cell], what: str, label: Callable[[Cell], str]) -> plot.Series:
    """Return the samples by nice value, for each line; times in seconds."""
    found: dict[str, dict[int, Sequence[float]]] = {}
    for cell, nice in sorted(_with_nice(cells), key=lambda pair: pair[1]):
        if _is(cell, what):
            scale = 1000 if cell.unit == "ms" else 1
            found.setdefault(label(cell), {})[nice] = [sample / scale for sample in cell.samples]
    return dict(sorted(found.items()))


def _of(cells: Sequence[Cell], *whats: str) -> list[Cell]:
    return [cell for cell in cells for what in whats if _is(cell, what)]


def _with_nice(cells: Sequence[Cell]) -> Iterator[tuple[Cell, int]]:
    return ((cell, int(str(cell.key["nice"]))) for cell in cells)
