"""Kept results: kept/NAME.json.xz, the form of rt.measure.results with machine, versions and every sample."""

import json
import lzma
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from meshsec.core.bench.interval import interval as interval_of
from rt.measure.results import SCHEMA
from rt.papers.form import HERE, Selector, results

KEPT = HERE / "kept"
_MOST = 64 * 1024 * 1024
"""Bytes of a result; more is no result of ours."""


AT_REST = "busy at rest"
"""What is called so in a result: processors that are busy before anything is sent."""
_QUIET = 0.5
"""Processors; with more, programs in user space lose more of their share than the kernel does."""


class KeptError(Exception):
    """A result cannot be used or a selector fits nothing. The message names both."""


@dataclass(frozen=True)
class Figure:
    """The median of samples and its interval."""

    median: float
    low: float
    high: float
    n: int
    """Samples; of two cells the fewer of both."""
    at_least: bool = False
    """Whether the median is a lower bound, because half of what it is of was given up."""
    open: bool = False
    """Whether the interval's upper end is a lower bound, for the same reason."""


class Results:
    """The results that are drawn: the kept ones, or those that were just measured."""

    def __init__(self, folder: Path, suffix: str, seen: str, only: Collection[str] | None = None) -> None:
        self._folder = folder
        self._seen = seen
        self._suffix = suffix
        self._only = only
        self._read: dict[str, Mapping[str, Any] | None] = {}

    @classmethod
    def kept(cls, folder: Path = KEPT) -> "Results":
        """Return those that are kept."""
        return cls(folder, ".json.xz", "../rt/papers/kept")

    @classmethod
    def measured(cls, folder: Path, only: Collection[str] | None = None) -> "Results":
        """Return those of build/bench/quick, or some of them."""
        return cls(folder, ".json", "../bench/quick", only)

    def link(self, name: str) -> str:
        """Return where the page that shows a result finds its raw data."""
        return f"{self._seen}/{name}{self._suffix}"

    def get(self, name: str) -> Mapping[str, Any] | None:
        """Return a result, or None when there is none. Raises KeptError if it is unusable."""
        if name not in self._read:
            path = self._folder / f"{name}{self._suffix}"
            wanted = self._only is None or name in self._only
            self._read[name] = _load(path) if wanted and path.exists() else None
        return self._read[name]

    def figure(self, selector: Selector) -> Figure | None:
        """Return the figure of one cell, or None when it is not there. Raises KeptError if several fit."""
        cells = self.cells(selector)
        if not cells:
            return None
        if len(cells) != 1:
            raise KeptError(
                f"{selector.result}: {selector.key} in {selector.unit} fits {len(cells)} cells, allowed is 1"
            )
        figure = self.of_cell(selector, cells[0])
        if not (second := selector.over or selector.less):
            return figure
        other = self.figure(Selector(selector.result, second, selector.unit, scale=selector.scale, per=selector.per))
        if not other:
            return None
        if other.open:
            raise KeptError(f"{selector.result}: too many of {second} were given up to take its median")
        return _difference(figure, other) if selector.less else _quotient(figure, other, selector)

    def of_cell(self, selector: Selector, cell: Mapping[str, Any]) -> Figure:
        """Return the figure of one of the cells that fit, in the work's unit."""
        result = self.get(selector.result)
        divisor = result["params"][selector.per] if result and selector.per else 1
        return interval([selector.scale * sample / divisor for sample in cell["samples"]], cell.get("given_up", 0))

    def cells(self, selector: Selector) -> list[Mapping[str, Any]] | None:
        """Return the cells that fit, or None when the result is not there."""
        result = self.get(selector.result)
        if result is None:
            return None
        wanted = selector.key.items()
        return [
            cell
            for cell in result["cells"]
            if cell["unit"] == selector.unit and all(cell["key"].get(name) == value for name, value in wanted)
        ]


def interval(samples: Sequence[float], given_up: int = 0) -> Figure:
    """Return the median with its 95 % confidence interval, or with the range of under six samples.

    So many of the greatest samples are lower bounds.
    """
    ordered, (low, high) = sorted(samples), interval_of(samples)
    bound = ordered[-given_up] if given_up else float("inf")
    return Figure(median(ordered), low, high, len(ordered), ordered[len(ordered) // 2] >= bound, high >= bound)


def _difference(figure: Figure, other: Figure) -> Figure:
    low, high = figure.low - other.high, figure.high - other.low
    return Figure(figure.median - other.median, low, high, min(figure.n, other.n), figure.at_least, figure.open)


def _quotient(figure: Figure, other: Figure, selector: Selector) -> Figure:
    """Raises KeptError if nothing can be divided by the other one."""
    if not other.median:
        raise KeptError(f"{selector.result}: the median of {selector.over} is 0, so nothing can be divided by it")
    low = figure.low / other.high if other.high else 0.0
    high = figure.high / other.low if other.low else float("inf")
    return Figure(figure.median / other.median, low, high, min(figure.n, other.n), figure.at_least, figure.open)


def keep(source: Path, folder: Path = KEPT, *, busy: bool = False) -> Path:
    """Compress a result of build/bench into the folder and return its path.

    Raises KeptError if it is not whole, if it does not say what the guest was that it was measured in, or, unless
    ``busy``, if other programs ran beside it.
    """
    if not source.exists():
        raise KeptError(f"{source} is not there; measure it first")
    result = _load(source)
    for parameter in ("quick", "cut_short"):
        if result["params"].get(parameter):
            raise KeptError(f"{source}: {parameter} is {result['params'][parameter]!r}; keep a run that is whole")
    made = results().get(source.stem)
    if (
        made
        and made.guest
        and (lacks := [name for name in ("kernel", "system") if not result.get("guest", {}).get(name)])
    ):
        raise KeptError(f"{source}: guest: {' and '.join(lacks)} is missing; measure it again, and the guest is asked")
    # A plane's own daemons may be busy at first. Work of others is there for every plane, because rounds visit all.
    rest = min((median(cell["samples"]) for cell in result["cells"] if cell["key"].get("what") == AT_REST), default=0)
    if rest > _QUIET and not busy:
        raise KeptError(
            f"{source}: {rest:.3g} processors were busy before anything was sent, allowed are {_QUIET}: "
            "measure it on a quiet machine, or keep it with --busy"
        )
    folder.mkdir(exist_ok=True)
    path = folder / f"{source.stem}.json.xz"
    path.write_bytes(lzma.compress(json.dumps(result, separators=(",", ":")).encode()))
    return path


def _load(path: Path) -> Mapping[str, Any]:
    try:
        raw = path.read_bytes()
        if path.suffix == ".xz":
            reader = lzma.LZMADecompressor(memlimit=_MOST)
            raw = reader.decompress(raw, max_length=_MOST)
        result = json.loads(raw)
    except (OSError, ValueError, lzma.LZMAError) as error:
        raise KeptError(f"{path}: {error}") from error
    if not isinstance(result, dict) or result.get("schema") != SCHEMA:
        found = result.get("schema") if isinstance(result, dict) else type(result).__name__
        raise KeptError(f"{path}: schema {found!r} is not allowed; allowed is {SCHEMA}")
    return result
