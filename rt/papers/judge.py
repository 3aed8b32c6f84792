"""What an entry says of its results: its sentence with our figures, the claims behind it, and what is missing."""

from collections.abc import Iterator, Mapping
from string import Formatter

from rt.papers.form import Claim, Entry, Selector, Value
from rt.papers.kept import Figure, Results

TIMES = "times"
"""Unit of quotients that a benchmark took in each round."""


def digits(value: float) -> str:
    """Return a number with three digits, or all before the point, and never with an exponent."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def figures(entry: Entry, results: Results) -> dict[str, Figure]:
    """Return our figures by the names that the sentence and the claims use; those of missing results are left out."""
    found = {
        value.name: results.figure(value.ours)
        for value in entry.named
        if value.name and isinstance(value.ours, Selector)
    }
    return {name: figure for name, figure in found.items() if figure}


def sentence(entry: Entry, results: Results) -> str:
    """Return what the comparison shows, with our figures in it."""
    known = figures(entry, results)
    units = {value.name: value.unit for value in entry.named}
    words = {name: f"{_shown(one.median, one.at_least)} {units[name]}".strip() for name, one in known.items()}
    return entry.says.format_map(words)


def sayable(entry: Entry, results: Results) -> bool:
    """Return whether all figures that the sentence names are there."""
    named = {field for _, field, _, _ in Formatter().parse(entry.says) if field is not None}
    return bool(entry.says) and named <= set(figures(entry, results))


def failed(entry: Entry, results: Results) -> Iterator[str]:
    """Yield the claims that these results do not support."""
    known = figures(entry, results)
    neutral = {value.name: _neutral(value.ours) for value in entry.named if isinstance(value.ours, Selector)}
    for claim in entry.claim:
        if claim.of in known and (not claim.over or claim.over in known):
            value = _value(claim, known)
            # A lower bound can be as great as it wants, and what is divided by one as small.
            open_above, open_below = known[claim.of].at_least, bool(claim.over) and known[claim.over].at_least
            too_small = claim.at_least is not None and (value < claim.at_least or open_below)
            too_large = claim.at_most is not None and (value > claim.at_most or open_above)
            about = claim.of + (f" / {claim.over}" if claim.over else "")
            if too_small or too_large:
                yield f"{about} is {_shown(value, open_above)}, allowed is {_bounds(claim)}"
            elif lack := _undecided(claim, known, 1.0 if claim.over else neutral[claim.of]):
                yield f"{about} is {_shown(value, open_above)}, and {lack}"


def unfit(entry: Entry, results: Results) -> Iterator[str]:
    """Yield what the entry takes from results that are there and do not have it, such as those of a short run."""
    for one in entry.named:
        if isinstance(one.ours, Selector) and results.get(one.ours.result) and not results.figure(one.ours):
            yield f"{one.ours.result} has no cell for {one.what!r}"
    for panel in entry.panel:
        for series in panel.series:
            select = series.select
            if results.get(select.result) and not any(
                panel.across in cell["key"] for cell in results.cells(select) or ()
            ):
                yield f"{select.result} has no cell for the curve {series.label!r}"


def missing(entry: Entry, results: Results) -> Iterator[str]:
    """Yield what the entry lacks: kept results, the sentence, or an answer."""
    absent = [name for name in entry.results() if results.get(name) is None]
    yield from (f"the result {name!r} is not kept" for name in absent)
    if not entry.cannot and not entry.results() and not entry.diagram and not any(value.ours for value in entry.value):
        yield "nothing of ours answers it, and it does not say why"
    yield from unfit(entry, results)
    if entry.results() and not absent and not entry.says:
        yield "the sentence `says` is empty"
    yield from (f"the claim does not hold: {words}" for words in failed(entry, results))


def words(value: Value, results: Results) -> tuple[str, str, str]:
    """Return our median, interval and n as a row of the table has them."""
    if not isinstance(value.ours, Selector):
        return value.ours or "-", "", ""
    found = results.figure(value.ours)
    if not found:
        return "no sample" if results.get(value.ours.result) else "not measured yet", "", ""
    interval = f"{digits(found.low)} to {_shown(found.high, found.open)}" if found.n > 1 else ""
    return _shown(found.median, found.at_least), interval, str(found.n)


def _shown(value: float, at_least: bool) -> str:
    return f"at least {digits(value)}" if at_least else digits(value)


def _value(claim: Claim, known: Mapping[str, Figure]) -> float:
    value = known[claim.of].median
    if not claim.over:
        return value
    divisor = known[claim.over].median
    return value / divisor if divisor else float("inf")


def _neutral(selector: Selector) -> float | None:
    """Return what the figure is where nothing differs, or None if it compares nothing."""
    if selector.less:
        return 0.0
    return 1.0 if selector.over or selector.unit == TIMES else None


def _undecided(claim: Claim, known: Mapping[str, Figure], neutral: float | None) -> str:
    """Return what the intervals say against a claim whose medians hold it; nothing if they do not."""
    if neutral is None:
        return "it compares nothing, so it is not `same`" if claim.same else ""
    above, below = _apart(claim, known, neutral)
    if claim.same:
        return "its intervals do not overlap: there is a difference" if above or below else ""
    more = claim.at_least is not None and claim.at_least >= neutral
    less = claim.at_most is not None and claim.at_most <= neutral
    if (more and not above) or (less and not below):
        return "its intervals overlap: there is no difference beyond the interval"
    return ""


def _apart(claim: Claim, known: Mapping[str, Figure], neutral: float) -> tuple[bool, bool]:
    """Return whether all of the interval is above what it is compared with, and whether all of it is below."""
    figure = known[claim.of]
    if not claim.over:
        return figure.low > neutral, figure.high < neutral and not figure.open
    other = known[claim.over]
    return figure.low > other.high and not other.open, figure.high < other.low and not figure.open


def _bounds(claim: Claim) -> str:
    bounds = [("at least", claim.at_least), ("at most", claim.at_most)]
    return " and ".join(f"{name} {value:g}" for name, value in bounds if value is not None)
