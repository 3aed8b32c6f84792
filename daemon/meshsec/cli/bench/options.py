"""Options that all benchmarks share, and what all records say."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from meshsec import __version__
from meshsec.adapters import measuring
from meshsec.adapters.measuring import MeasuringError

_Command = TypeVar("_Command", bound=Callable[..., Any])


def rounds_option(default: int) -> Callable[[_Command], _Command]:
    """Return the option ``--rounds``."""
    return click.option(
        "--rounds",
        type=click.IntRange(1, 1000),
        default=default,
        show_default=True,
        help="How often everything is measured, one after the other.",
    )


def into_option(command: _Command) -> _Command:
    """Add the options that say where the results are kept."""
    into = click.option(
        "--into",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path("meshsec-bench"),
        show_default=True,
        help="Directory of the results; made where it is missing.",
    )
    resume = click.option(
        "--resume",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE.json",
        help="Go on with a run that ended early.",
    )
    return into(resume(command))


def about(**versions: str) -> Mapping[str, Any]:
    """Return what a record says of this node: machine and versions."""
    return {"machine": dict(measuring.machine()), "versions": {"meshsec": __version__, **versions}}


def need(program: str, package: str) -> None:
    """Raise ClickException if a program is missing."""
    try:
        measuring.need(program, package)
    except MeasuringError as error:
        raise click.ClickException(str(error)) from error


def run(argv: list[str], seconds: float) -> str:
    """Return what a program prints. Raises ClickException."""
    try:
        return measuring.run(argv, seconds)
    except MeasuringError as error:
        raise click.ClickException(str(error)) from error
