"""What each plane carries, and what that costs, by the number of hops: user-space forwarding against kernel routes.

SMesh's question (Kaplan, 2006), asked of this project's planes: plain routes, IPsec with each suite, the overlay, and
cjdroute when it is on PATH. Lines in network namespaces; every round visits every plane once, each with a new line, so
that what the machine does meanwhile meets all. Nothing is asserted about speed.
"""

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from rt import throughput_rig as rig
from rt import throughput_sums as sums
from rt.results import QUICK
from rt.throughput_figures import Throughput
from rt.throughput_rig import HOPS, PINGS, SIZE, SUITES, Line
from rt.throughput_sums import Key, Samples
from tests.lab import ground
from tests.lab.cjdns_admin import AdminError
from tests.lab.processes import NotReadyError
from tests.lab.shell import CommandError
from tests.lab.waiting import NotInTimeError

ROUNDS, SECONDS = (1, 0.5) if QUICK else (3, 2.0)
LOADS = (100.0, 400.0, 1600.0) if QUICK else (25.0, 50.0, 100.0, 200.0, 400.0, 800.0, 1600.0)
"""Mbit/s of payload that are offered, ascending."""
QUICK_HOPS = (1, 2, 4)
FAILURES = (AdminError, CommandError, NotInTimeError, NotReadyError, OSError, subprocess.TimeoutExpired)
"""What a plane may do instead of carrying data. It is told in the result, and the others go on."""
Planes = dict[str, Callable[[], AbstractContextManager[Line]]]


class Run:
    """What was taken, and what could not be."""

    def __init__(self, hops: Sequence[int], seconds: float) -> None:
        self.samples: Samples = {}
        self.missed: list[str] = []
        self._hops = hops
        self._seconds = seconds

    def visit(self, number: int, plane: str, make: Callable[[], AbstractContextManager[Line]]) -> None:
        """One plane in one round."""
        try:
            with make() as line:
                self._take(number, Key("busy at rest", plane), rig.rest())
                for hops in self._hops:
                    self._attempt(number, plane, line, hops)
        except FAILURES as error:
            self._miss(number, plane, error)

    def _attempt(self, number: int, plane: str, line: Line, hops: int) -> None:
        try:
            for key, value in self._measured(plane, line, hops):
                self._take(number, key, value)
        except FAILURES as error:
            self._miss(number, f"{plane}, {hops} hops", error)

    def _measured(self, plane: str, line: Line, hops: int) -> Iterator[tuple[Key, float]]:
        line.wait_answer(hops)
        yield Key("ping", plane, hops), rig.ping(line, hops)
        stream = rig.stream(line, hops, self._seconds)
        yield Key("TCP", plane, hops), stream.rate
        yield Key("CPU, machine", plane, hops), stream.machine
        yield Key("CPU, processes", plane, hops), stream.processes
        for offered in LOADS:
            load = rig.load(line, hops, self._seconds, offered)
            yield Key("UDP sent", plane, hops, offered), load.sent
            yield Key("UDP delivered", plane, hops, offered), load.delivered
            yield Key("UDP loss", plane, hops, offered), load.loss

    def _take(self, number: int, key: Key, value: float) -> None:
        self.samples.setdefault(key, {})[number] = value

    def _miss(self, number: int, what: str, error: Exception) -> None:
        self.missed.append(f"{what}, round {number + 1}: {str(error).partition(chr(10))[0] or type(error).__name__}")


def main() -> None:
    """Measure, write, draw, print."""
    arguments = _arguments()
    if missing := ground.probe().missing_for_all():
        sys.exit(f"bench-throughput: it needs {', '.join(missing)}")
    known = rig.planes(list(SUITES)[:1] if QUICK else list(SUITES))
    if unknown := set(arguments.plane or ()) - set(known):
        sys.exit(f"bench-throughput: no plane {', '.join(sorted(unknown))}; there are: {', '.join(known)}")
    planes = {name: make for name, make in known.items() if name in (arguments.plane or known)}
    taken = Run(arguments.hops or (QUICK_HOPS if QUICK else HOPS), arguments.seconds)
    # So that the nodes go with it, however it is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with _progress() as progress:
        task = progress.add_task("planes", total=arguments.rounds * len(planes))
        for number in range(arguments.rounds):
            _round(taken, number, planes, progress, task)
    result = _result(taken, arguments)
    path = result.write()
    samples = taken.samples | sums.derived(taken.samples)
    print("\n".join([*sums.table(samples), *taken.missed, str(path)]))


def _round(taken: Run, number: int, planes: Planes, progress: Progress, task: TaskID) -> None:
    # Each round goes the other way round, so that none of two planes always has the warmer machine.
    for plane in planes if number % 2 == 0 else reversed(planes):
        progress.update(task, description=plane)
        taken.visit(number, plane, planes[plane])
        progress.advance(task)


def _result(taken: Run, arguments: argparse.Namespace) -> Throughput:
    params = {
        "rounds": arguments.rounds,
        "seconds": arguments.seconds,
        "loads_mbit_per_s": LOADS,
        "datagram_octets": SIZE,
        "pings": PINGS,
        "esp": ground.probe().esp,
        "ground": "network namespaces, veth pairs",
        "missed": taken.missed,
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    samples = taken.samples | sums.derived(taken.samples)
    cells, ratios = sums.cells(samples), list(sums.ratios(samples))
    return Throughput("throughput", params, cells, ratios, {"cjdroute": rig.cjdroute_version()})


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench_throughput", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often every plane is visited")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for which each flow sends")
    parser.add_argument("--plane", action="append", help="only this plane, by its name in the result; may be repeated")
    parser.add_argument("--hops", action="append", type=int, choices=HOPS, help="only this distance; may be repeated")
    return parser.parse_args()


def _progress() -> Progress:
    return Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())


if __name__ == "__main__":
    main()
