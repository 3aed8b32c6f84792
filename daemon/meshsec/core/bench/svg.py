"""Draw the figures of a benchmark as SVG: lines over a number, or a bar for each thing.

It is small enough to be our own: libraries that draw are large (matplotlib has 60 MB with what it needs), or change how
Python imports modules (pygal).
"""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, floor, log10
from typing import NamedTuple
from xml.sax.saxutils import escape

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""The palette of Okabe and Ito, which people who are colour-blind can distinguish."""
_DASHES = ("", "8 4", "2 3")
"""Of lines that have the same colour."""
_WIDTH = 900
_LEFT, _RIGHT, _TOP, _BOTTOM = 90, 30, 60, 60
"""Pixels around the lines."""
_HEIGHT = 420
"""Pixels of the lines' area."""
_LABELS = 250
"""Pixels for the labels of bars."""
_BAR, _STEP = 16, 26
"""Pixels of a bar, and from one to the next."""
_CAP = 4
"""Pixels from the middle of an interval to the end of the strokes that close it."""
_INTERVAL = "#000"
"""Colour of an interval, which is legible on a bar and beside it."""
_LETTER = 7
"""Pixels of a letter, about."""
_LEGEND = 3
"""Columns of the legend."""
_TICKS = 6

Ends = tuple[float, float] | None
"""The ends of a value's interval; None: it is drawn without one."""


class Point(NamedTuple):
    """A value of a line at a place on the horizontal axis."""

    across: float
    value: float
    ends: Ends = None


class Bar(NamedTuple):
    """A value with its label."""

    label: str
    value: float
    ends: Ends = None


Lines = Mapping[str, Sequence[Point]]
"""Points by the label of their line."""


class _Axis(NamedTuple):
    """A linear axis from 0 to ``most``, drawn from ``start`` to ``end`` in pixels."""

    most: float
    start: float
    end: float

    def at(self, value: float) -> float:
        return self.start + (self.end - self.start) * value / self.most

    def ticks(self) -> list[float]:
        step = _step(self.most)
        return [step * number for number in range(floor(self.most / step * (1 + 1e-9)) + 1)]


class _Logarithmic(NamedTuple):
    """An axis on which each tick is ten times the one before, from ``least``, which is above 0."""

    least: float
    most: float
    start: float
    end: float

    def at(self, value: float) -> float:
        return self.start + (self.end - self.start) * log10(value / self.least) / log10(self.most / self.least)

    def ticks(self) -> list[float]:
        return [10.0**power for power in range(ceil(log10(self.least)), floor(log10(self.most) + 1e-9) + 1)]


def lines(title: str, across: str, up: str, drawn: Lines, *, logarithmic: bool = False) -> str:
    """Return a picture of lines. Both axes begin at zero, so that no difference looks larger than it is.

    A point with an interval has an upright stroke from one end to the other.
    ``logarithmic``: both are logarithmic instead, for a histogram of numbers above 0 whose rare values matter.
    """
    points = [point for line in drawn.values() for point in line]
    bottom = _TOP + _HEIGHT
    horizontal = _axis([point.across for point in points], _LEFT, _WIDTH - _RIGHT, logarithmic=logarithmic)
    heights = [value for point in points for value in (point.value, *(point.ends or ()))]
    vertical = _axis(heights, bottom, _TOP, logarithmic=logarithmic)
    legend = -(-len(drawn) // _LEGEND) * _BAR
    parts = [
        *(_line(_LEFT, vertical.at(one), _WIDTH - _RIGHT, vertical.at(one), "#ccc") for one in vertical.ticks()),
        *(_text(_LEFT - 8, vertical.at(one) + 4, number(one), "end") for one in vertical.ticks()),
        *(_text(horizontal.at(one), bottom + 18, number(one), "middle") for one in horizontal.ticks()),
        _text((_LEFT + _WIDTH - _RIGHT) / 2, bottom + 38, across, "middle"),
        _text(_LEFT, _TOP - 12, up, "start"),
        *_curves(drawn, horizontal, vertical),
        *_keys(drawn, bottom + _BOTTOM),
    ]
    return _picture(title, bottom + _BOTTOM + legend + 10, parts)


def bars(title: str, unit: str, drawn: Sequence[Bar]) -> str:
    """Return a picture with a bar for each label, from the top, with its value behind its end or its interval."""
    values = [value for bar in drawn for value in (bar.value, *(bar.ends or ()))]
    axis = _Axis(max(values) or 1.0, _LABELS, _WIDTH - _RIGHT - 60)
    parts = [_text(_LABELS, _TOP - 12, unit, "start")]
    for row, (label, value, ends) in enumerate(drawn):
        top, length = _TOP + row * _STEP, axis.at(value) - _LABELS
        middle = top + _BAR / 2
        parts += [
            _text(_LABELS - 8, top + 12, label[: _LABELS // _LETTER], "end"),
            f'<rect x="{_LABELS}" y="{top}" width="{length:.1f}" height="{_BAR}" fill="{COLOURS[0]}"/>',
            _text(axis.at(max(value, ends[1] if ends else value)) + 6, top + 12, number(value), "start"),
        ]
        if ends:
            low, high = (axis.at(end) for end in ends)
            parts.append(_line(low, middle, high, middle, _INTERVAL))
            parts += [_line(end, middle - _CAP, end, middle + _CAP, _INTERVAL) for end in (low, high)]
    return _picture(title, _TOP + len(drawn) * _STEP + 10, parts)


def number(value: float) -> str:
    """Write a number with three digits, or all before its point, and never with an exponent."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _step(most: float) -> float:
    """Return the distance of ticks: 1, 2 or 5 times a power of ten, so that there are at most _TICKS."""
    power = 10.0 ** floor(log10(most / _TICKS))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor * _TICKS >= most * (1 - 1e-9))


def _axis(values: Sequence[float], start: float, end: float, *, logarithmic: bool) -> _Axis | _Logarithmic:
    if logarithmic:
        return _Logarithmic(min(values), max(*values, 10 * min(values)), start, end)
    return _Axis(max(values) or 1.0, start, end)


def _curves(drawn: Lines, horizontal: _Axis | _Logarithmic, vertical: _Axis | _Logarithmic) -> Iterator[str]:
    for place, line in enumerate(drawn.values()):
        at = [(horizontal.at(x), vertical.at(y), ends) for x, y, ends in sorted(line, key=lambda one: one.across)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in at)
        yield f'<polyline points="{path}" fill="none" {_stroke(place)}/>'
        for x, y, ends in at:
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{_colour(place)}"/>'
            if ends:
                low, high = (vertical.at(end) for end in ends)
                yield _line(x, low, x, high, _colour(place))
                yield from (_line(x - _CAP, end, x + _CAP, end, _colour(place)) for end in (low, high))


def _keys(drawn: Lines, top: float) -> Iterator[str]:
    column = (_WIDTH - _RIGHT) / _LEGEND
    for place, label in enumerate(drawn):
        x, y = 20 + place % _LEGEND * column, top + place // _LEGEND * _BAR
        yield f'<line x1="{x:.1f}" y1="{y - 4:.1f}" x2="{x + 28:.1f}" y2="{y - 4:.1f}" {_stroke(place)}/>'
        yield _text(x + 34, y, label[: int((column - 40) // _LETTER)], "start")


def _colour(place: int) -> str:
    return COLOURS[place % len(COLOURS)]


def _stroke(place: int) -> str:
    dash = _DASHES[place // len(COLOURS) % len(_DASHES)]
    return f'stroke="{_colour(place)}" stroke-width="2"' + (f' stroke-dasharray="{dash}"' if dash else "")


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _picture(title: str, height: float, parts: Sequence[str]) -> str:
    inside = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" width="{_WIDTH}" '
        f'height="{height:.0f}" font-family="sans-serif" font-size="12">\n<title>{escape(title)}</title>\n'
        f'<rect width="100%" height="100%" fill="white"/>\n'
        f'<text x="20" y="26" font-size="14" font-weight="bold">{escape(title)}</text>\n{inside}\n</svg>\n'
    )
