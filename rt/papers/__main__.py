"""Redraw every table and figure of five works from kept results: `make papers`.

    python -m rt.papers draw        docs/papers.md and its pictures, from the kept results
    python -m rt.papers measure     measure with QUICK=1 into build/bench/quick, draw into build/papers (root; network)
    python -m rt.papers keep NAME   keep build/bench/NAME.json: a whole run, on a machine without other work
    python -m rt.papers missing     what has no kept result, no sentence, or a claim that does not hold

Exit status: 0 fine, 1 something is missing or a benchmark failed, 2 a file that cannot be used, 130 interrupted.
"""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from rt.measure.results import QUICK_RUNS, WHOLE_RUNS
from rt.papers import judge, page, rounds
from rt.papers.form import FormError, Made, captions, results, works
from rt.papers.kept import KeptError, Results, keep
from rt.papers.progress import Progress, source
from rt.papers.running import Benchmarks
from tests.lab.basics.places import BUILD, REPOSITORY

DOCS = REPOSITORY / "docs"
MEASURED = BUILD / "papers"
PROGRESS = MEASURED / "run.json"
"""What an interrupted run has measured."""
INTERRUPTED = 130
"""Exit status of a program that SIGINT ended, as shells have it."""


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

    A benchmark that fails, or that needs root and has it not, leaves its entries unanswered. After an interruption or a
    failure the next run goes on with what is left.
    """
    wanted = _wanted()
    progress = Progress(PROGRESS, source())
    before = {name: _written(name) for name in wanted}
    measured = [name for name in wanted if progress.has(name, before[name])]
    if measured:
        _complain(f"{', '.join(measured)}: measured by the run before; `rm {PROGRESS}` measures them again")
    failures: list[str] = []
    benchmarks = Benchmarks(lambda: _complain("waiting until the benchmark has ended; interrupt again to kill it"))
    with benchmarks.heeding():
        for name in [name for name in wanted if name not in measured]:
            ended = _measured(name, wanted[name], benchmarks)
            if benchmarks.asked:
                break
            if ended and (written := _written(name)) != before[name]:
                progress.add(name, written)
                measured.append(name)
            else:
                failures.append(name)
    drawn = [name for name in wanted if name in measured or _written(name) != before[name]]
    _say(_draw(Results.measured(QUICK_RUNS, drawn), MEASURED))
    for name in failures:
        _complain(f"{name} was not measured; its messages are above ({wanted[name].command})")
    if len(measured) == len(wanted):
        progress.end()
        return
    left = ", ".join(name for name in wanted if name not in measured)
    _complain(f"{'interrupted; ' if benchmarks.asked else ''}{len(measured)} of {len(wanted)} are kept in {QUICK_RUNS}")
    _complain(f"to measure the others within a day ({left}), run `QUICK=1 make papers` again")
    sys.exit(INTERRUPTED if benchmarks.asked else 1)


@main.command("keep")
@click.argument("names", nargs=-1, required=True)
@click.option("--busy", is_flag=True, help="Keep it although other programs kept processors busy.")
def keep_command(names: Sequence[str], *, busy: bool) -> None:
    """Keep build/bench/NAME.json for the papers."""
    known = results()
    for name in names:
        if name not in known:
            raise KeptError(f"{name!r} is in no results.toml; allowed are {', '.join(known)}")
        path = keep(WHOLE_RUNS / f"{name}.json", busy=busy)
        click.echo(f"kept: {path}")
        result = Results.kept(path.parent).get(name)
        assert result is not None
        for one in rounds.named(rounds.disagreeing(result, result["cells"])):
            click.echo(f"papers: {name}: rounds disagree: {one}", err=True)


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


def _wanted() -> dict[str, Made]:
    """Return what is measured. Name what is left out."""
    needed = {name: made for name, made in results().items() if name in _needed()}
    for name, made in needed.items():
        if not made.quick:
            _complain(f"{name} is left out, because it takes too long even with QUICK=1: run `{made.command}` for it")
    return {name: made for name, made in needed.items() if made.quick}


def _measured(name: str, made: Made, benchmarks: Benchmarks) -> bool:
    """Run a benchmark, and return whether it came to its end."""
    if made.root and os.geteuid() != 0:
        _complain(f"{name}: needs root")
        return False
    _complain(f"{name}: {made.command}")
    return benchmarks.run(made.command, {**os.environ, "QUICK": "1"})


def _written(name: str) -> int:
    """Return when a quick result was written, in nanoseconds; 0: never. An old one is not taken for measured now."""
    path = QUICK_RUNS / f"{name}.json"
    return path.stat().st_mtime_ns if path.exists() else 0


def _say(written: Sequence[Path]) -> None:
    click.echo(f"papers: {written[0]} and {len(written) - 1} pictures")


def _complain(text: str) -> None:
    click.echo(f"papers: {text}", err=True)


def run(command: Callable[[], None] = main) -> None:
    """Run the command line; an unusable file ends it with status 2 and its message."""
    try:
        command()
    except (FormError, KeptError) as error:
        click.echo(f"papers: {error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    run()
