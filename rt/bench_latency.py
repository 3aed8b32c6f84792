"""What the kernel allows: how late a thread with a real-time priority wakes up, at rest and under network load.

cyclictest sleeps for a millisecond, again and again, with SCHED_FIFO 95, on Debian's RT kernel and on its ordinary one
with each model of preemption, in a guest with one CPU. The load is one TCP stream between two network namespaces, plain
and through the kernel's ESP. The guest's time follows its executed instructions: a nanosecond is one instruction, so
that the figures repeat whatever else this machine does. They compare kernels and are no latencies of hardware.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from rt.measure import in_guest
from rt.measure.frame import Bench
from rt.measure.plot import boxes
from rt.measure.results import DIRECTORY, QUICK, Cell, MeasurementError, Result
from tests.lab.machines import guest

LOADS = ("idle", "tcp", "esp")
SECONDS = 3600.0
"""A boot takes a minute on two quiet cores, and longer on busy ones."""
LEAST_LOAD = 10_000_000
"""Octets for each second that a load brings at the very least, or it was none; it brings ten times as many."""


@dataclass(frozen=True)
class Kernel:
    """A kernel with its model of preemption."""

    name: str
    kind: str
    """As the lab calls it."""
    arguments: tuple[str, ...] = ()


RT = Kernel("rt", "rt")
ORDINARY = tuple(
    Kernel(f"preempt={model}", "generic", (f"preempt={model}",)) for model in ("full", "voluntary", "none")
)
KERNELS = (RT, ORDINARY[-1]) if QUICK else (RT, *ORDINARY)


@dataclass(frozen=True)
class Measured:
    """What one kernel did: microseconds for each load, octets received meanwhile."""

    release: str
    latencies: Mapping[str, Sequence[int]]
    octets: Mapping[str, int]


def main() -> int:
    """Boot each kernel once, under each load in turn."""
    bench = Bench("latency", __doc__, 500 if QUICK else 2000, "wake-ups under each load, a millisecond apart")
    loops = bench.parse().rounds
    bench.need(guest.obstacle())
    measured: dict[Kernel, Measured] = {}
    with bench.measuring():
        for kernel in KERNELS:
            about = f"{kernel.name}: {len(LOADS)} loads, {loops} wake-ups each"
            measured[kernel] = bench.visit(about, partial(_measure, kernel, loops))
    result = _result(bench, measured)
    title = "Lateness of a real-time thread by kernel and load, in deterministic time"
    return bench.finish(result, partial(boxes, title=title, compare="kernel"), difference(result.cells))


def _measure(kernel: Kernel, loops: int) -> Measured:
    """Boot it once, under each load in turn."""
    folder = DIRECTORY / "latency" / kernel.name
    for old in folder.glob("*"):
        old.unlink()
    command = in_guest.asking("rt-tests", "iperf3") + f"rt/guest/latency {loops} {' '.join(LOADS)}"
    outcome = guest.run_in_guest(
        command, folder, seconds=SECONDS, kernel=kernel.kind, arguments=kernel.arguments, deterministic=True
    )
    if outcome.status != 0:
        raise MeasurementError(f"{kernel.name}: status {outcome.status}: {outcome.output}{outcome.console}")
    return read(folder)


def read(folder: Path) -> Measured:
    """Return what the guest left; raises MeasurementError when a load was none, or ESP did not carry it."""
    latencies = {load: histogram(json.loads((folder / f"{load}.json").read_text())) for load in LOADS}
    octets = {load: int((folder / f"{load}.octets").read_text()) for load in LOADS}
    for load in ("tcp", "esp"):
        if octets[load] < LEAST_LOAD * len(latencies[load]) / 1000:
            raise MeasurementError(f"{folder}: {octets[load]} octets in {len(latencies[load])} ms are no load")
    protected = sum(map(int, re.findall(r"(\d+)\(bytes\), ", (folder / "esp.sas").read_text())))
    if protected < octets["esp"] / 2:
        raise MeasurementError(f"{folder}: ESP carried {protected} octets of {octets['esp']}")
    return Measured((folder / "release").read_text().strip(), latencies, octets)


def histogram(report: Mapping[str, Any]) -> list[int]:
    """Return each sample of cyclictest's report, in microseconds; raises MeasurementError when one fell out of it."""
    thread = report["thread"]["0"]
    samples = [int(value) for value, count in thread["histogram"].items() for _ in range(count)]
    if len(samples) != thread["cycles"] or max(samples) != thread["max"]:
        raise MeasurementError(f"{thread['cycles']} wake-ups up to {thread['max']} us, {len(samples)} in the histogram")
    return samples


def _result(bench: Bench, measured: Mapping[Kernel, Measured]) -> Result:
    releases = {kernel.name: each.release for kernel, each in measured.items()}
    octets = {kernel.name: each.octets for kernel, each in measured.items()}
    params = {"loops": bench.options.rounds, "interval_us": 1000, "priority": 95, "cpus": 1, "kernels": releases}
    for load, (kernel, each) in product(LOADS, measured.items()):
        bench.take({"load": load, "kernel": kernel.name}, "us", each.latencies[load])
    result = bench.result({**params, "octets": octets, "time": "1 ns for each instruction"})
    result.guest = in_guest.merged(in_guest.left(DIRECTORY / "latency" / kernel.name) for kernel in measured)
    result.ratios += _ratios(measured)
    return result


def _ratios(measured: Mapping[Kernel, Measured]) -> Iterator[Mapping[str, object]]:
    """Return the factors by which an ordinary kernel is later than RT, of the median and the latest wake-up."""
    figures: Mapping[str, Callable[[Sequence[int]], float]] = {"median": median, "max": max}
    for load, kernel, (name, figure) in product(LOADS, measured, figures.items()):
        if RT in measured and kernel is not RT:
            ratio = figure(measured[kernel].latencies[load]) / figure(measured[RT].latencies[load])
            key = {"load": load, "kernel": kernel.name, "to": RT.name, "figure": name}
            yield {"key": key, "median": ratio, "min": ratio, "max": ratio}


def difference(cells: Sequence[Cell]) -> list[str]:
    """Say in a sentence what the RT kernel is good for, once it and another were measured."""
    worst = {name: max(_late(cells, name)) for name in dict.fromkeys(str(cell.key["kernel"]) for cell in cells)}
    others = [f"{late:.0f} us with {name}" for name, late in worst.items() if name != RT.name]
    if RT.name not in worst or not others:
        return []
    return [f"The latest wake-up under any load: {worst[RT.name]:.0f} us on the RT kernel, {', '.join(others)}."]


def _late(cells: Sequence[Cell], kernel: str) -> Iterator[float]:
    return (max(cell.samples) for cell in cells if cell.key["kernel"] == kernel)


if __name__ == "__main__":
    sys.exit(main())
