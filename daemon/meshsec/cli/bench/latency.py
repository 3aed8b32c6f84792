"""``bench latency``: how late this machine's kernel wakes a thread of real-time priority, at rest and under load."""

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from meshsec.adapters import measuring
from meshsec.adapters.measuring import MeasuringError
from meshsec.cli.app import App
from meshsec.cli.bench.kept import again, begin
from meshsec.cli.bench.options import about, into_option, need, rounds_option, run
from meshsec.cli.bench.steps import Step, finished, in_rounds, measure
from meshsec.cli.output import json_option, print_json, print_table
from meshsec.core.bench import cyclictest
from meshsec.core.bench.record import Record, Taken

if TYPE_CHECKING:
    from meshsec.core.bench.cyclictest import Lateness

_PRIORITY = 95
_INTERVAL = 1000
"""Microseconds from one wake-up to the next."""
_LONGEST = 10_000
"""Microseconds up to which wake-ups are counted one by one; the latest is known in any case."""
_LOADS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "idle": nullcontext,
    "hackbench": lambda: measuring.beside(["hackbench", "--groups", "4", "--loops", "1000000000"]),
}
"""What else the machine does. hackbench's processes send each other messages as fast as they can."""
_SHARES = {"median": 0.5, "p99": 0.99, "p99.9": 0.999}


@click.command
@click.option(
    "--seconds",
    type=click.IntRange(1, 86400),
    default=20,
    show_default=True,
    help="How long for each load; rare delays need hours.",
)
@rounds_option(3)
@into_option
@json_option
@click.pass_obj
def latency(  # noqa: PLR0913, PLR0917  # one for each option
    app: App, seconds: int, rounds: int, into: Path, resume: Path | None, as_json: bool
) -> None:
    """Measure how late the kernel wakes a thread with a real-time priority, and judge it by the policy's deadline.

    cyclictest (rt-tests) sleeps for a millisecond on each processor, again and again, while the machine rests and while
    hackbench keeps it busy. It needs root.
    """
    need("cyclictest", "rt-tests")
    deadline = app.settings.policy.deadline_ms
    steps = in_rounds([Step(load, seconds + 1, partial(_wake_ups, load, seconds)) for load in _LOADS], rounds)
    params = {"seconds": seconds, "rounds": rounds, "interval_us": _INTERVAL, "priority": _PRIORITY}
    record, place = begin("latency", params, about(), into, resume)
    measure(record, steps, place)
    most = max((max(one.samples) for one in record.cells), default=None)
    if most is not None:
        record.note(cyclictest.verdict(int(most), deadline))
    if as_json:
        print_json(record.document(again()))
    elif record.cells:
        _print(record)
    finished(record, place, len(steps))


def _wake_ups(load: str, seconds: int) -> Iterator[Taken]:
    found = cyclictest.merged(_measured(load, seconds))
    for figure, share in _SHARES.items():
        yield Taken({"load": load, "wake-ups": figure}, "us", [found.percentile(share)])
    yield Taken({"load": load, "wake-ups": "latest"}, "us", [found.most])


def _measured(load: str, seconds: int) -> "dict[int, Lateness]":
    with tempfile.TemporaryDirectory(prefix="meshsec-bench-") as directory:
        report = Path(directory) / "report.json"
        argv = ["cyclictest", "--quiet", "--mlockall", "--smp", f"--priority={_PRIORITY}", f"--interval={_INTERVAL}"]
        argv += [f"--duration={seconds}", f"--histogram={_LONGEST}", f"--json={report}"]
        try:
            with _LOADS[load]():
                run(argv, seconds + 30.0)
            return cyclictest.read(json.loads(report.read_text(encoding="utf-8")))
        except (MeasuringError, OSError, ValueError) as error:
            raise click.ClickException(f"{load}: {error}") from error


def _print(record: Record) -> None:
    print_table(
        ("LOAD", "WAKE-UPS LATE", "N", "MEDIAN", "MAX"),
        (
            (*cell.key.values(), len(cell.samples), *(f"{cell.figures()[one]:.0f} us" for one in ("median", "max")))
            for cell in record.cells
        ),
    )
