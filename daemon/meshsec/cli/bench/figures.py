"""How the tables of the benchmarks show a median: with its interval, and with what that is."""

from collections.abc import Callable, Iterable
from statistics import median

import click

from meshsec.core.bench.interval import interval, meaning
from meshsec.core.bench.record import Taken
from meshsec.core.bench.svg import number


def spread(cell: Taken, form: Callable[[float], str] = number, unit: str = "") -> str:
    """Return a median and its interval, ``14.6 ms (13.1 to 16.2)``; one sample has no interval."""
    middle = f"{form(median(cell.samples))}{unit}"
    if len(cell.samples) == 1:
        return middle
    low, high = interval(cell.samples)
    return f"{middle} ({form(low)} to {form(high)})"


def explain(cells: Iterable[Taken], where: str = "in parentheses") -> None:
    """Print below a table what its intervals are; nothing if it has none."""
    if said := meaning([len(cell.samples) for cell in cells]):
        click.echo(f"{where}: {said}")
