"""What commands print: JSON, tables and colours (only on a terminal, and never with NO_COLOR)."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

import click

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")

_UNBOUNDED = 1000
"""Columns."""


def print_json(value: object) -> None:
    """One JSON document."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table without frames. A cell is text, None for nothing, or a rich text.

    Nothing is ever cut. Off a terminal a table is as wide as it needs to be, so that scripts see all of it; one that a
    terminal is too narrow for becomes a block of lines for each row.
    """
    from rich.console import Console  # noqa: PLC0415 - 0.1 s that only tables need
    from rich.measure import Measurement  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(highlight=False, emoji=False, markup=False)
    if not console.is_terminal:
        console.width = _UNBOUNDED
    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    blocks = Table("", "", box=None, pad_edge=False, show_header=False)
    for row in rows:
        cells = [cell if isinstance(cell, Text) else Text("-" if cell is None else str(cell)) for cell in row]
        table.add_row(*cells)
        for column, cell in zip(columns, cells, strict=True):
            blocks.add_row(Text(column, "bold"), cell)
        blocks.add_row()
    needed = Measurement.get(console, console.options.update(max_width=_UNBOUNDED), table).minimum
    with console.capture() as captured:
        console.print(table if needed <= console.width else blocks)
    for line in captured.get().splitlines():
        click.echo(line.rstrip())


def facts(pairs: Mapping[str, object]) -> None:
    """Print named values, one on a line; nothing when there are none."""
    width = max(map(len, pairs), default=0)
    for name, value in pairs.items():
        if value is not None:
            click.echo(f"{name:<{width}}  {value}")


def duration(seconds: float | None) -> str | None:
    """Return a duration for people: 850 ms, 12 s, 3:07:10."""
    if seconds is None:
        return None
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.0f} s"
    return str(timedelta(seconds=int(seconds)))


def octets(count: int | None) -> str | None:
    """Return a number of bytes for people: 512 B, 1.5 kB, 2.0 MB."""
    if count is None:
        return None
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
