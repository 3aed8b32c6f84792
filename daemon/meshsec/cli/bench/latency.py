"""``bench latency``: how late this machine's kernel wakes a thread of real-time priority, at rest and under load."""

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from math import log2
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from meshsec.adapters import measuring
from meshsec.adapters.measuring import MeasuringError
from meshsec.cli.app import App
from meshsec.cli.bench.figures import explain, spread
from meshsec.cli.bench.kept import again, begin
from meshsec.cli.bench.options import about, into_option, need, rounds_option, run
from meshsec.cli.bench.steps import Step, finished, in_rounds, measure
from meshsec.cli.output import json_option, print_json, print_table
from meshsec.core.bench import cyclictest, hackbench, oslat
from meshsec.core.bench.record import Record, Taken
from meshsec.core.bench.svg import number

if TYPE_CHECKING:
    from meshsec.core.bench.cyclictest import Lateness

_Report = TypeVar("_Report")
_PRIORITY = 95
_INTERVAL = 1000
"""Microseconds from one wake-up to the next."""
_LONGEST = 10_000
"""Microseconds up to which wake-ups are counted one by one; the latest is known in any case."""
_WAKE_UPS = "wake-ups"
"""Unit of the histogram, and the name of what cyclictest counts."""
_BUCKETS = 128
"""Microseconds up to which oslat counts interruptions one by one."""
_LEAST_CORES = 2
"""Cores without which oslat, which takes a whole one, would stop the node."""
_ROW = 50
"""Letters of the histogram's longest bar."""
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
    hackbench keeps it busy. oslat works without a pause on one core after the other, and sees what interrupts it, for
    as long altogether. hackbench alone shows how fast processes take turns. It needs root.
    """
    for program in ("cyclictest", "oslat", "hackbench"):
        need(program, "rt-tests")
    deadline = app.settings.policy.deadline_ms
    steps = in_rounds(_steps(seconds), rounds)
    params = {"seconds": seconds, "rounds": rounds, "interval_us": _INTERVAL, "priority": _PRIORITY}
    record, place = begin(Record("latency", params, about()), into, resume)
    measure(record, steps, place)
    _conclude(record, deadline)
    if as_json:
        print_json(record.document(again()))
    elif record.cells:
        _print(record)
    finished(record, place, len(steps))


def _steps(seconds: int) -> list[Step]:
    """Return the steps of a round."""
    steps = [Step(load, seconds + 1, partial(_wake_ups, load, seconds)) for load in _LOADS]
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) >= _LEAST_CORES:
        each = max(1, seconds // len(cores))
        steps += [Step(f"core {core}", each + 2, partial(_interruptions, core, each)) for core in cores]
    return [*steps, Step("hackbench", 2, _turns)]


def _conclude(record: Record, deadline_ms: float) -> None:
    """Note the verdict, and what is behind it."""
    most = max((max(one.samples) for one in record.cells if one.key.get(_WAKE_UPS) == "latest"), default=None)
    if most is not None:
        record.note(cyclictest.verdict(int(most), deadline_ms))
    longest = max((max(one.samples) for one in record.cells if one.key.get("interruptions") == "longest"), default=None)
    if longest is not None:
        record.note(
            f"A core that did nothing else was interrupted for {longest:.0f} us at most (oslat): as much of the above "
            "is interrupts, firmware and the hypervisor, and the rest is the scheduler's."
        )
    elif len(os.sched_getaffinity(0)) < _LEAST_CORES:
        record.note("oslat was left out: it would stop this node, which has one core.")


def _interruptions(core: int, seconds: int) -> Iterator[Taken]:
    """Measure one core, above everything of ordinary priority on it."""
    argv = ["oslat", "--quiet", f"--cpu-list={core}", f"--duration={seconds}", "--rtprio=1"]
    argv += [f"--bucket-size={_BUCKETS}", f"--cpu-main-thread={min(os.sched_getaffinity(0) - {core})}"]
    for one in _reported(argv, seconds, oslat.read):
        yield Taken({"core": core, "interruptions": "longest"}, "us", [one.longest])
        often = f"of {oslat.LONG} us and more"
        yield Taken({"core": core, "interruptions": often}, "1/s", [one.long_ones / one.seconds])


def _turns() -> Iterator[Taken]:
    """Measure how long processes take to pass messages."""
    text = run(["hackbench", "--groups", str(hackbench.GROUPS), "--loops", str(hackbench.LOOPS)], 120.0)
    try:
        value = hackbench.milliseconds(text)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    messages = hackbench.GROUPS * 20 * 20 * hackbench.LOOPS
    yield Taken({"hackbench": f"{messages} messages among {hackbench.GROUPS * 40} processes"}, "ms", [value])


def _wake_ups(load: str, seconds: int) -> Iterator[Taken]:
    found = cyclictest.merged(_measured(load, seconds))
    for figure, share in _SHARES.items():
        yield Taken({"load": load, _WAKE_UPS: figure}, "us", [found.percentile(share)])
    yield Taken({"load": load, _WAKE_UPS: "latest"}, "us", [found.most])
    for late, count in found.doubled().items():
        yield Taken({"load": load, "late, us at most": late}, _WAKE_UPS, [count])


def _measured(load: str, seconds: int) -> "dict[int, Lateness]":
    argv = ["cyclictest", "--quiet", "--mlockall", "--smp", f"--priority={_PRIORITY}", f"--interval={_INTERVAL}"]
    argv += [f"--duration={seconds}", f"--histogram={_LONGEST}"]
    try:
        with _LOADS[load]():
            return _reported(argv, seconds, cyclictest.read)
    except MeasuringError as error:
        raise click.ClickException(f"{load}: {error}") from error


def _reported(argv: list[str], seconds: int, read: Callable[[Any], _Report]) -> _Report:
    """Return what a program of rt-tests writes into its report. Raises ClickException."""
    with tempfile.TemporaryDirectory(prefix="meshsec-bench-") as directory:
        report = Path(directory) / "report.json"
        run([*argv, f"--json={report}"], seconds + 30.0)
        try:
            return read(json.loads(report.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise click.ClickException(str(error)) from error


def _print(record: Record) -> None:
    shown = [cell for cell in record.cells if cell.unit != _WAKE_UPS]
    print_table(
        ("WHAT", "", "UNIT", "N", "MEDIAN", "MAX"),
        ((*_described(cell), cell.unit, len(cell.samples), spread(cell), number(max(cell.samples))) for cell in shown),
    )
    explain(shown)
    for load in _LOADS:
        found = [one for one in record.cells if one.unit == _WAKE_UPS and one.key["load"] == load]
        most = max((sum(one.samples) for one in found), default=0)
        if found:
            click.echo(f"\nwake-ups, {load}, by how late they were (bars are logarithmic):")
        for cell in sorted(found, key=lambda one: float(one.key["late, us at most"])):
            count = sum(cell.samples)
            bar = "#" * max(1, round(_ROW * log2(count + 1) / log2(most + 1)))
            click.echo(f"{cell.key['late, us at most']:>7} us  {count:>10.0f}  {bar}")


def _described(cell: Taken) -> tuple[str, str]:
    first, *rest = (f"core {value}" if name == "core" else str(value) for name, value in cell.key.items())
    if not rest:
        return "hackbench", first
    kind = "interruptions" if "interruptions" in cell.key else _WAKE_UPS
    return first, f"{kind}, {rest[0]}"
