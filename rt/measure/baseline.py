"""Keeps figures of a benchmark and compares later ones with them.

    python -m rt.measure.baseline keep NAME...
        build/bench/NAME.json becomes rt/baselines/NAME.json, without its samples
    python -m rt.measure.baseline compare [NAME...]
        what has changed since (all that are kept and measured by default)

Figures of another machine say little, unless they are those of deterministic time: what differs in machine, versions
and parameters is reported first. Exit status: 0 nothing got worse beyond the tolerance, 1 something did or is no longer
measured, 2 wrong usage or an unusable file.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from rt.measure.results import DIRECTORY, MORE_IS_BETTER, SCHEMA

BASELINES = Path(__file__).parents[1] / "baselines"
FIGURES = ("median", "p95", "p99", "max")
_CONTEXT = ("machine", "versions", "params")
_EACH_TIME = "at"
"""The parameter that says when it was measured, and never is as it was."""


class UnusableError(Exception):
    """A file that cannot be read or is no result. The message names it."""


@dataclass(frozen=True)
class Change:
    """A cell's figure then and now."""

    key: Mapping[str, object]
    unit: str
    before: float
    now: float | None
    """None when it was not measured."""

    def worsening(self) -> float:
        """Return the factor by which it got worse; below 1 when it got better, infinite when it is gone."""
        if self.now is None:
            return float("inf")
        small, large = (self.now, self.before) if self.unit in MORE_IS_BETTER else (self.before, self.now)
        if large == small:
            return 1.0
        return large / small if small else float("inf")


def reduced(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result without its samples."""
    cells = [{name: value for name, value in cell.items() if name != "samples"} for cell in result["cells"]]
    return {**result, "cells": cells}


def changes(before: Mapping[str, Any], now: Mapping[str, Any], figure: str) -> list[Change]:
    """Every cell of the baseline, and what became of it."""
    measured = {_identity(cell): cell[figure] for cell in now["cells"]}
    return [Change(cell["key"], cell["unit"], cell[figure], measured.get(_identity(cell))) for cell in before["cells"]]


def context(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Return what else differs from the baseline."""
    for part in _CONTEXT:
        names = {**before[part], **now[part]}
        for name in names:
            # A baseline that was kept before a parameter existed was measured without it, as "" says.
            then, present = before[part].get(name, ""), now[part].get(name, "")
            if then != present and name != _EACH_TIME:
                yield f"{part}, {name}: {then!r} then, {present!r} now"


def read(path: Path) -> dict[str, Any]:
    """Return a result or a baseline. Raises UnusableError."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UnusableError(f"{path}: {error}") from error
    if not isinstance(result, dict) or result.get("schema") != SCHEMA:
        found = result.get("schema") if isinstance(result, dict) else type(result).__name__
        raise UnusableError(f"{path}: schema {found!r} is not allowed; allowed is {SCHEMA}")
    return result


@click.group()
def main() -> None:
    """Keep figures of a benchmark, and compare later ones with them."""


@main.command()
@click.argument("names", nargs=-1, required=True)
def keep(names: Sequence[str]) -> None:
    """Make build/bench/NAME.json the baseline."""
    for name in names:
        path = BASELINES / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        result = _usable(DIRECTORY / f"{name}.json")
        path.write_text(json.dumps(reduced(result), indent=1) + "\n", encoding="utf-8")
        click.echo(f"kept: {path}")


@main.command()
@click.argument("names", nargs=-1)
@click.option("--figure", type=click.Choice(FIGURES), default="median", show_default=True, help="What is compared.")
@click.option(
    "--tolerance", type=click.FloatRange(min=1.0), default=1.5, show_default=True, help="A factor that is no change."
)
def compare(names: Sequence[str], figure: str, tolerance: float) -> None:
    """Say what got worse or better since the baseline."""
    kept = sorted(path.stem for path in BASELINES.glob("*.json"))
    worse = 0
    for name in names or [name for name in kept if (DIRECTORY / f"{name}.json").exists()]:
        before, now = _usable(BASELINES / f"{name}.json"), _usable(DIRECTORY / f"{name}.json")
        found = changes(before, now, figure)
        _show(f"{name}, {figure}", found, tolerance, [*context(before, now)])
        worse += sum(change.worsening() > tolerance for change in found)
    sys.exit(1 if worse else 0)


def _usable(path: Path) -> dict[str, Any]:
    try:
        return read(path)
    except UnusableError as error:
        click.echo(f"baseline: {error}", err=True)
        sys.exit(2)


def _identity(cell: Mapping[str, Any]) -> tuple[str, str]:
    return json.dumps(cell["key"], sort_keys=True), cell["unit"]


def _show(title: str, found: Sequence[Change], tolerance: float, differences: Sequence[str]) -> None:
    console = Console(highlight=False)
    console.print(title, style="bold")
    for difference in differences:
        console.print(f"  {difference}", style="yellow", markup=False)
    table = Table(box=None, pad_edge=False)
    table.add_column("cell")
    for heading in ("then", "now", "unit"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for change in found:
        now = "-" if change.now is None else f"{change.now:.3g}"
        cell = ", ".join(map(str, change.key.values()))
        table.add_row(cell, f"{change.before:.3g}", now, change.unit, _judgement(change, tolerance))
    console.print(table)


def _judgement(change: Change, tolerance: float) -> str:
    if change.now is None:
        return "[red]not measured[/red]"
    factor = change.worsening()
    if factor > tolerance:
        return f"[red]worse, {factor:.1f} times[/red]"
    return f"[green]better, {1 / factor:.1f} times[/green]" if 0 < factor < 1 / tolerance else ""


if __name__ == "__main__":
    main(prog_name="baseline")
