"""What commands print: JSON, tables and colours (only on a terminal, and never with NO_COLOR)."""

import json
import shutil
import sys
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")

_UNBOUNDED = 1000
"""Columns."""
_PROSE = 80
"""Columns of prose off a terminal."""
_BROKEN = 15
"""Characters of a name on one line where a terminal is too narrow for whole names."""


def print_json(value: object) -> None:
    """One JSON document."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_prose(text: str, colour: str | None = None) -> None:
    """Print a sentence on lines that fit the terminal, or 80 columns off one. No word is cut."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _PROSE
    for line in textwrap.wrap(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False):
        click.secho(line, fg=colour)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], breakable: Collection[str] = ()) -> None:
    """A table without frames. A cell is text, None for nothing, or a rich text.

    Nothing is ever cut. Off a terminal a table is as wide as it needs to be, so that scripts see all of it. On one that
    is too narrow, long names in the ``breakable`` columns take more than one line; if that does not suffice, the table
    becomes a block of lines for each row.
    """
    from rich.console import Console  # noqa: PLC0415 - 0.1 s that only tables need
    from rich.measure import Measurement  # noqa: PLC0415

    console = Console(highlight=False, emoji=False, markup=False)
    if not console.is_terminal:
        console.width = _UNBOUNDED
    cells = [[_cell(value) for value in row] for row in rows]
    for table in (_table(columns, cells), _table(columns, _broken(columns, cells, breakable)), _blocks(columns, cells)):
        needed = Measurement.get(console, console.options.update(max_width=_UNBOUNDED), table)
        if (needed.maximum if breakable else needed.minimum) <= console.width:
            break
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        click.echo(line.rstrip())


def _cell(value: object) -> "Text":
    from rich.text import Text  # noqa: PLC0415

    return value if isinstance(value, Text) else Text("-" if value is None else str(value))


def _broken(columns: Sequence[str], rows: Iterable[Sequence["Text"]], breakable: Collection[str]) -> "list[list[Text]]":
    """Return the rows with long names on several lines, broken after hyphens where they have some."""
    from rich.text import Text  # noqa: PLC0415

    return [
        [
            Text("\n".join(textwrap.wrap(cell.plain, _BROKEN))) if column in breakable else cell
            for column, cell in zip(columns, row, strict=True)
        ]
        for row in rows
    ]


def _table(columns: Sequence[str], rows: Iterable[Sequence["Text"]]) -> "Table":
    from rich.table import Table  # noqa: PLC0415

    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*row)
    return table


def _blocks(columns: Sequence[str], rows: Iterable[Sequence["Text"]]) -> "Table":
    """Return a block for each row: a line for each cell, with its column's name."""
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    blocks = Table("", "", box=None, pad_edge=False, show_header=False)
    for row in rows:
        for column, cell in zip(columns, row, strict=True):
            blocks.add_row(Text(column, "bold"), cell)
        blocks.add_row()
    return blocks


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
