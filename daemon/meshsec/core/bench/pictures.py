"""Choose how the figures of a benchmark are drawn: two units share no axis, nor do things with other circumstances."""

from collections.abc import Mapping, Sequence
from statistics import median

from meshsec.core.bench import svg
from meshsec.core.bench.interval import interval, meaning, number_of
from meshsec.core.bench.record import Key, Record, Taken

_COUNTS = frozenset({"wake-ups"})
"""Units of histograms: the few at their end are what they are about."""


def pictures(record: Record) -> Mapping[str, str]:
    """Return the pictures as SVG by the end of their files' names, ``.svg`` for the first one."""
    kinds: dict[tuple[str, ...], list[Taken]] = {}
    for one in record.cells:
        kinds.setdefault((one.unit, *one.key), []).append(one)
    return {
        ".svg" if place == 0 else f"-{place + 1}.svg": _picture(record, kind[0], cells)
        for place, (kind, cells) in enumerate(kinds.items())
    }


def _picture(record: Record, unit: str, cells: Sequence[Taken]) -> str:
    counts = [len(one.samples) for one in cells]
    title = _title(record, number_of(counts))
    what = f"{unit}, median" + (f" and {spread}" if (spread := meaning(counts)) else "")
    if across := _across(cells):
        drawn: dict[str, list[svg.Point]] = {}
        for cell in cells:
            point = svg.Point(float(cell.key[across]), median(cell.samples), _ends(cell))
            drawn.setdefault(_label(cell.key, across), []).append(point)
        return svg.lines(title, across, what, drawn, logarithmic=unit in _COUNTS)
    return svg.bars(title, what, [svg.Bar(_label(one.key), median(one.samples), _ends(one)) for one in cells])


def _ends(cell: Taken) -> svg.Ends:
    """Return the interval of the median; one sample has none."""
    return interval(cell.samples) if len(cell.samples) > 1 else None


def _title(record: Record, samples: str) -> str:
    """Say what was measured, how often, and on which machine."""
    machine = record.about.get("machine", {})
    where = f"; {machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}" if machine else ""
    return f"{record.name}{' (cut short)' if record.cut_short else ''}, n = {samples}{where}"


def _across(cells: Sequence[Taken]) -> str:
    """Return the name of a number that goes across, since some thing was measured at several; empty: there is none."""
    for name in cells[0].key:
        values = [one.key.get(name) for one in cells]
        things = {_label(one.key, name) for one in cells}
        if all(isinstance(value, int | float) for value in values) and len(things) < len(cells):
            return name
    return ""


def _label(key: Key, without: str = "") -> str:
    return ", ".join(str(value) for name, value in key.items() if name != without) or without
