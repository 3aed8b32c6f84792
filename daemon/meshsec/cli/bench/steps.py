"""Take the steps of a benchmark one after the other, show how long it will take, and lose nothing."""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import click

from meshsec.cli.bench.kept import Place, again, finish, keep
from meshsec.core.bench.record import Record, Taken


@dataclass(frozen=True)
class Step:
    """One measurement."""

    name: str
    seconds: float
    """How long it takes, about: for the time that is left."""
    take: Callable[[], Iterable[Taken]]
    """Measure. May raise ClickException, which ends the run."""


def in_rounds(steps: Sequence[Step], rounds: int) -> list[Step]:
    """Return the steps of all rounds. What is compared is measured alternately, and not one thing after the other."""
    return [*steps] * rounds


def measure(record: Record, steps: Sequence[Step], place: Place) -> None:
    """Take the steps that the record lacks, and keep what there is after each.

    An interruption and an error end the run; what was measured is kept, and ``finished`` says so.
    """
    left = steps[record.steps :]
    record.cut_short = "it runs"
    keep(record, place)
    try:
        with click.progressbar(
            length=max(1, round(sum(one.seconds for one in left))), label=record.name, file=sys.stderr
        ) as progress:
            for step in left:
                progress.label = step.name
                progress.render_progress()
                for taken in step.take():
                    record.take(taken)
                record.steps += 1
                progress.update(round(step.seconds))
                keep(record, place)
        record.cut_short = ""
    except KeyboardInterrupt:
        record.cut_short = "interrupted"
    except click.ClickException as error:
        record.cut_short = error.message


def finished(record: Record, place: Place, total: int) -> None:
    """Write the record. Raises ClickException if the run ended early."""
    if record.cells:
        finish(record, place)
    else:
        keep(record, place)
    for note in record.notes:
        click.echo(note, err=True)
    if record.cut_short:
        raise click.ClickException(
            f"{record.cut_short}; the figures are those of {record.steps} of {total} steps; to go on: "
            f"{again()} --resume {place.file('.json')}"
        )
