"""Redraw every table and figure of five works from kept results: `make papers`.

    python -m rt.papers draw        docs/papers.md and its pictures, from the kept results
    python -m rt.papers measure     measure with QUICK=1 into build/bench, and draw into build/papers (root; network)
    python -m rt.papers keep NAME   keep build/bench/NAME.json: a whole run, on a machine without other work
    python -m rt.papers missing     what has no kept result, no sentence, or a claim that does not hold

Exit status: 0 fine, 1 something is missing or a benchmark failed, 2 a file that cannot be used.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from rt.measure.results import DIRECTORY
from rt.papers import judge, page
from rt.papers.form import FormError, Made, captions, results, works
from rt.papers.kept import KeptError, Results, keep
from tests.lab.basics.places import BUILD, REPOSITORY

DOCS = REPOSITORY / "docs"
MEASURED = BUILD / "papers"


@click.group()
def main() -> None:
    """Redraw the papers' tables and figures, with the papers' values beside ours."""


@main.command("draw")
def draw_command() -> None:
    """Write docs/papers.md and its pictures from the kept results."""
    _say(_draw(Results.kept(), DOCS))


@main.command("measure")
def measure_command() -> None:
    """Measure with QUICK=1, and draw into build/papers.

    A benchmark that fails, or that needs root and has it not, leaves its entries unanswered.
    """
    wanted = {name: made for name, made in results().items() if made.quick and name in _needed()}
    before = {name: _written(name) for name in wanted}
    failures = [name for name, made in wanted.items() if not _measured(name, made)]
    fresh = [name for name in wanted if _written(name) != before[name]]
    _say(_draw(Results.measured(DIRECTORY, fresh), MEASURED))
    for name in failures:
        click.echo(f"papers: {name} was not measured; its messages are above ({wanted[name].command})", err=True)
    sys.exit(1 if failures else 0)


@main.command("keep")
@click.argument("names", nargs=-1, required=True)
@click.option("--busy", is_flag=True, help="Keep it although other programs kept processors busy.")
def keep_command(names: Sequence[str], *, busy: bool) -> None:
    """Keep build/bench/NAME.json for the papers."""
    known = results()
    for name in names:
        if name not in known:
            raise KeptError(f"{name!r} is in no results.toml; allowed are {', '.join(known)}")
        click.echo(f"kept: {keep(DIRECTORY / f'{name}.json', busy=busy)}")


@main.command("missing")
def missing_command() -> None:
    """List what is missing, an entry a line."""
    kept, known = Results.kept(), works()
    lines = [
        f"{name} {entry.id}: {lack}"
        for name, work in known.items()
        for entry in work.entry
        for lack in judge.missing(entry, kept)
    ]
    for name, all_captions in captions().items():
        entries = {f"{entry.kind} {entry.number}" for entry in known[name].entry} if name in known else set()
        lines += [f"{name} {caption}: there is no entry" for caption in all_captions if caption not in entries]
    click.echo("\n".join(lines) if lines else "papers: nothing is missing")
    sys.exit(1 if lines else 0)


def _draw(found: Results, into: Path) -> list[Path]:
    return page.write(works(), results(), found, into)


def _needed() -> set[str]:
    return {name for work in works().values() for entry in work.entry for name in entry.results()}


def _measured(name: str, made: Made) -> bool:
    if made.root and os.geteuid() != 0:
        click.echo(f"papers: {name}: needs root", err=True)
        return False
    click.echo(f"papers: {name}: {made.command}", err=True)
    environment = {**os.environ, "QUICK": "1"}
    return subprocess.run(["bash", "-c", made.command], cwd=REPOSITORY, env=environment, check=False).returncode == 0


def _written(name: str) -> int:
    """Return when a result was written, in nanoseconds; 0: never. One from before is not taken for measured now."""
    path = DIRECTORY / f"{name}.json"
    return path.stat().st_mtime_ns if path.exists() else 0


def _say(written: Sequence[Path]) -> None:
    click.echo(f"papers: {written[0]} and {len(written) - 1} pictures")


def run(command: Callable[[], None] = main) -> None:
    """Run the command line; an unusable file ends it with status 2 and its message."""
    try:
        command()
    except (FormError, KeptError) as error:
        click.echo(f"papers: {error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    run()
