"""`kernelconfig dissect` and `kernelconfig ran`."""

import os
import sys
from pathlib import Path

import click
from rich.console import Console

from kernelconfig import files
from kernelconfig.dissect import disassembly, dissertation, ftrace, machine, reading, recording, text, unpack
from kernelconfig.dissect.anatomy import Anatomy
from kernelconfig.dissect.module import Code

_FILE = click.Path(path_type=Path)


@click.command()
@click.argument("modules", metavar="MODULE...", type=_FILE, nargs=-1, required=True)
@click.option("--kernel", type=_FILE, help="The kernel: a modules directory, or the root of an unpacked package.")
@click.option("--config", type=_FILE, help="A kernel's configuration (plain or gzip) that is to run the drivers.")
@click.option("--ran", type=_FILE, help="A recording by `kernelconfig ran`.")
@click.option("--compare", "form", flag_value="compare", help="Print a table of all modules, side by side.")
@click.option("--symbols", "form", flag_value="symbols", help="List each symbol with its provider too.")
@click.option("--json", "form", flag_value="json", help="Print JSON instead of tables.")
@click.option("--csv", "form", flag_value="csv", help="Print a line for each needed symbol, for a spreadsheet.")
@click.option("--paper", is_flag=True, help="Print the dissertation's counts of b43 beside those of the first module.")
def dissect(  # noqa: PLR0913  # one for each option
    modules: tuple[Path, ...],
    kernel: Path | None,
    config: Path | None,
    ran: Path | None,
    form: str | None,
    *,
    paper: bool,
) -> None:
    """Show what each MODULE (.ko, .ko.xz, .ko.zst or .ko.gz) asks of the kernel, its size, and what it lacks.

    The last of --compare, --symbols, --json and --csv counts.
    """
    given = reading.sources(kernel, os.uname().machine, config, ran)
    anatomies = [reading.dissect(path, given) for path in modules]
    title, rows = _beside(anatomies[0]) if paper else ("", ())
    if form == "json":
        click.echo(machine.as_json(anatomies, rows))
    elif form == "csv":
        click.echo(machine.as_csv(anatomies))
    else:
        console = Console(width=text.WIDTH, highlight=False)
        if rows:
            text.show_dissertation(title, rows, anatomies[0].module, console)
        if form == "compare":
            text.compare(anatomies, console)
        for anatomy in anatomies if not rows and form != "compare" else ():
            text.show(anatomy, given.project.rules, console, symbols=form == "symbols")


@click.command()
@click.argument("command", nargs=-1, required=True)
@click.option("--module", "-m", "modules", multiple=True, required=True, help="A module's name; may be repeated.")
@click.option("--output", "-o", type=_FILE, required=True, help="The file that the recording is written to.")
def ran(command: tuple[str, ...], modules: tuple[str, ...], output: Path) -> None:
    """Run COMMAND (after --) and write down which functions of the modules ran meanwhile. Needs root.

    Exits with the command's status; 128 and the signal's number when a signal ended it.
    """
    try:
        recorded = ftrace.follow(modules, command)
        output.write_text(recording.as_json(recorded), encoding="utf-8")
    except ftrace.TracerError as error:
        raise files.UnreadableError(str(error)) from error
    except OSError as error:
        raise files.UnreadableError(f"{output}: {error.strerror}; name a file in a folder that is there") from error
    for run in recorded.runs:
        click.echo(f"{run.module}: {len(run.ran)} of {len(run.traceable)} functions ran", err=True)
    if recorded.lost:
        click.echo(f"{recorded.lost} events were lost: a function that is not listed may have run", err=True)
    sys.exit(recorded.status if recorded.status >= 0 else 128 - recorded.status)


def _beside(anatomy: Anatomy) -> tuple[str, tuple[dissertation.Row, ...]]:
    """Return the dissertation's title and rows, beside those of a module."""
    content, _, _ = unpack.read_module(Path(anatomy.module.path))
    code = disassembly.count(content)
    if not isinstance(code, Code):
        click.echo(f"kernelconfig: instructions are not counted: {code}", err=True)
    counted = code if isinstance(code, Code) else None
    return dissertation.parse(reading.DISSERTATION.read_text(encoding="utf-8"), anatomy, counted)
