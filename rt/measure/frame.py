"""The frame of every benchmark: its flags, its rounds, what is kept when it ends early, and its report.

A benchmark's main says what is measured. Everything else is here, so that all of them have the same flags, the same
treatment of Ctrl-C and of a busy machine, the same JSON and the same plot.
"""

import argparse
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from subprocess import TimeoutExpired
from typing import TypeVar

from rich.console import Console
from rich.table import Table

from rt.measure import results
from rt.measure.journal import Journal, JournalError
from rt.measure.results import Cell, MeasurementError, Result
from tests.lab.basics.shell import CommandError
from tests.lab.basics.waiting import NotInTimeError

SPOILED = (NotInTimeError, CommandError, TimeoutError, TimeoutExpired)
"""What waiting for a node raises on a machine that is too busy."""
MOST_LEFT_OUT = 3
"""Things in succession that could not be measured, after which a run ends: it is not the one thing that fails."""
_LOG_WIDTH = 160
"""Columns of the report in a file, where nothing wraps."""
_MINUTE = 90.0
"""Seconds from which on the rest of a run is said in minutes."""
_QUICK = "QUICK=1 in the environment measures fewer cells and samples, and ends in under three minutes."
About = tuple[tuple[tuple[str, object], ...], str]
"""The key of a cell and its unit."""
T = TypeVar("T")


class Bench:
    """One run of a benchmark. ``about`` is the main's docstring, ``rounds_are`` says what one round is.

    A ``resumable`` main keeps a ``journal``, and has the flag ``--resume``.
    """

    def __init__(
        self,
        name: str,
        about: str | None,
        rounds: int,
        rounds_are: str = "how often all is measured",
        *,
        resumable: bool = False,
    ) -> None:
        self.name = name
        self.flags = argparse.ArgumentParser(prog=f"bench-{name}", description=about, epilog=_QUICK)
        self.flags.add_argument("--rounds", type=_positive, default=rounds, help=f"{rounds_are} (default: %(default)s)")
        if resumable:
            self.flags.add_argument("--resume", action="store_true", help="go on with a run that ended early")
        self.options = argparse.Namespace(rounds=rounds, resume=False)
        self.cut_short = ""
        """Why the run ended early; empty when it came to its end."""
        self.left_out: list[str] = []
        """Things that could not be measured, in words; the run went on without them."""
        self._samples: dict[About, list[float]] = {}
        self._given_up: dict[About, int] = {}
        self._rounds: dict[About, list[int]] = {}
        self._planned = 0
        self._begun = 0
        self._spent: list[float] = []
        """Seconds of each visit."""
        self._failures = 0
        """Things in succession that were left out."""

    def parse(self, argv: Sequence[str] | None = None) -> argparse.Namespace:
        """Parse the command line, after the main has added the flags that only it has."""
        self.options = self.flags.parse_args(argv)
        return self.options

    def journal(self, about: Mapping[str, object]) -> Journal:
        """Begin a journal of the visits, or with ``--resume`` go on with the one of the run before.

        Ends the program with status 2 if there is none that could go on.
        """
        path = results.DIRECTORY / f"{self.name}.visits.jsonl"
        about = {**about, "quick": results.QUICK}
        try:
            journal = Journal(path, about, resume=self.options.resume)
        except JournalError as error:
            self.say(str(error))
            sys.exit(2)
        if self.options.resume:
            self.say(f"{len(journal)} visits were made before, and count")
        return journal

    def need(self, obstacle: str | None) -> None:
        """End the program with status 2 if this machine lacks what the benchmark needs."""
        if obstacle:
            self.say(obstacle)
            sys.exit(2)

    def say(self, text: str) -> None:
        """Report progress or a problem on standard error."""
        print(f"bench-{self.name}: {text}", file=sys.stderr, flush=True)

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """End the measurement, but not the program, at whatever ends the context early.

        What was measured until then may be worth half an hour, so it is kept and marked with the reason. SIGTERM
        counts as Ctrl-C, so that the nodes end with the benchmark.
        """
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.default_int_handler)
        try:
            yield
        except KeyboardInterrupt:
            self.cut_short = "interrupted"
        except (*SPOILED, MeasurementError) as error:
            self.cut_short = str(error) or type(error).__name__
        except Exception as error:  # noqa: BLE001 - it is shown, and the exit status says that the run failed
            traceback.print_exc()
            self.cut_short = f"{type(error).__name__}: {error}"

    def in_rounds(self, things: Sequence[T], visits: int = 1) -> Iterator[tuple[int, T]]:
        """Yield the number of the round and each thing, in every round. ``visits``: how often each is measured in it.

        Every other round goes backwards, so that none of two things always has the warmer machine.
        """
        self._planned = self.options.rounds * len(things) * visits
        for number in range(self.options.rounds):
            for thing in things if number % 2 == 0 else reversed(things):
                yield number, thing

    def visit(self, what: str, measure: Callable[[], T]) -> T:
        """Announce and make a measurement. One that a busy machine spoils is made once more."""
        self._begun += 1
        self.say(f"{self._begun} of {self._planned}{self._to_come()}: {what}" if self._planned else what)
        begun = time.monotonic()
        try:
            return measure()
        except SPOILED as error:
            self.say(f"once more, because the machine was too busy: {error}")
            return measure()
        finally:
            self._spent.append(time.monotonic() - begun)

    def attempt(self, what: str, measure: Callable[[], T]) -> T | None:
        """Visit, and leave out what is spoilt twice or cannot be measured: the run goes on with the next thing.

        After ``MOST_LEFT_OUT`` in succession the error ends the run.
        """
        try:
            found = self.visit(what, measure)
        except (*SPOILED, MeasurementError) as error:
            self._failures += 1
            self.left_out.append(f"{what}: {error}")
            self.say(f"left out: {error}")
            if self._failures >= MOST_LEFT_OUT:
                raise
            return None
        self._failures = 0
        return found

    def made_before(self) -> None:
        """Count a visit that the run before has made already."""
        self._begun += 1

    def _to_come(self) -> str:
        """Return how long the run still takes, by the mean of the visits so far."""
        if not self._spent:
            return ""
        left = (self._planned - self._begun + 1) * sum(self._spent) / len(self._spent)
        return f", {left / 60:.0f} min left" if left >= _MINUTE else f", {left:.0f} s left"

    def take(self, key: Mapping[str, object], unit: str, values: Iterable[float], given_up: int = 0) -> None:
        """Keep samples of one cell that one visit took. ``given_up``: how many are lower bounds, above all others."""
        about, taken = (tuple(key.items()), unit), list(values)
        self._samples.setdefault(about, []).extend(taken)
        self._rounds.setdefault(about, []).append(len(taken))
        self._given_up[about] = self._given_up.get(about, 0) + given_up

    def cells(self) -> list[Cell]:
        """Return all that ``take`` has kept, a cell for each key and unit."""
        return [
            Cell(dict(about[0]), about[1], values, self._given_up[about], _several(self._rounds[about]))
            for about, values in self._samples.items()
            if values
        ]

    def result(self, params: Mapping[str, object], cells: Sequence[Cell] | None = None) -> Result:
        """Return the result so far, with the parameters that every benchmark has."""
        common = {
            "cut_short": self.cut_short,
            "left_out": self.left_out,
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        return Result(self.name, {**common, **params}, list(self.cells() if cells is None else cells))

    def finish(self, result: Result, draw: Callable[[Result], object], words: Iterable[str] = ()) -> int:
        """Write and draw the result and print it, with ``words`` below; return the exit status.

        The status is 1 when the run was cut short.
        """
        if not result.cells:
            self.say(f"nothing was measured: {self.cut_short or 'there was nothing to do'}")
            return 1
        path = result.write()
        draw(result)
        _print(result)
        print("\n".join([*words, *(f"left out: {each}" for each in self.left_out), str(path)]))
        if self.cut_short:
            self.say(f"cut short: {self.cut_short}; what was measured before is kept")
        return 1 if self.cut_short else 0


def _several(rounds: Sequence[int]) -> Sequence[int]:
    """Return the samples of each round, if one has several: else their order says it."""
    return rounds if max(rounds) > 1 else ()


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not allowed; allowed is 1 or more")
    return number


def _print(result: Result) -> None:
    """Print a row for each cell."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("cell")
    for heading in ("median", "p95", "p99", "max"):
        table.add_column(heading, justify="right")
    table.add_column("unit")
    table.add_column("n", justify="right")
    for cell in result.cells:
        figures = cell.as_dict()
        shown = (f"{figures[name]:.4g}" for name in ("median", "p95", "p99", "max"))
        table.add_row(cell.label(), *shown, cell.unit, str(figures["n"]))
    Console(highlight=False, width=None if sys.stdout.isatty() else _LOG_WIDTH).print(table)
