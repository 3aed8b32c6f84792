"""A run of bench-throughput on one testbed: every round visits every plane once, each with a new line."""

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol

from rt.throughput import rig
from rt.throughput.lines import Line, Planes, Testbed
from rt.throughput.sums import Key, Samples
from tests.lab.basics.processes import NotReadyError
from tests.lab.basics.shell import CommandError
from tests.lab.basics.waiting import NotInTimeError
from tests.lab.foreign.cjdns_admin import AdminError

FAILURES = (AdminError, CommandError, NotInTimeError, NotReadyError, OSError, subprocess.TimeoutExpired)
"""What a plane may do instead of carrying data. It is reported in the result, and the others go on."""
Report = Callable[[str], None]


@dataclass(frozen=True)
class Extent:
    """How much is measured."""

    rounds: int
    hops: Sequence[int]
    seconds: float
    """For which each flow sends."""
    loads: Sequence[float]
    """Mbit/s of payload that are offered, ascending."""
    restarts: bool = True


Figure = tuple[str, float, float]
"""What was measured, at what offered load in Mbit/s (0: none), and the value."""


class Flows(Protocol):
    """What makes flows on a line and measures them."""

    def measured(self, plane: str, line: Line, hops: int, *, back: bool) -> Iterator[Figure]:
        """Send over so many hops, with ``back`` from the far end, and yield each figure as soon as it is there."""


class OwnEnds:
    """This project's own ends of flows (``rt.throughput.ends``), which need nothing but Python."""

    def __init__(self, extent: Extent) -> None:
        self._extent = extent

    def measured(self, plane: str, line: Line, hops: int, *, back: bool) -> Iterator[Figure]:  # noqa: ARG002 - see Flows
        """Send TCP, and UDP at ascending loads."""
        stream = rig.stream(line, hops, self._extent.seconds, back=back)
        yield "TCP", 0.0, stream.rate
        yield "CPU, machine", 0.0, stream.machine
        yield "CPU, processes", 0.0, stream.processes
        for offered in self._extent.loads:
            load = rig.load(line, hops, self._extent.seconds, offered, back=back)
            yield "UDP sent", offered, load.sent
            yield "UDP delivered", offered, load.delivered
            yield "UDP loss", offered, load.loss


class Run:
    """What was taken, and what could not be."""

    def __init__(self, testbed: Testbed, extent: Extent, flows: Flows | None = None) -> None:
        """``flows``: who sends; by default this project's own ends."""
        self.samples: Samples = {}
        self.missed: list[str] = []
        self._flows = flows or OwnEnds(extent)
        self._testbed = testbed.name
        self._directions = {testbed.name: False, **({testbed.back: True} if testbed.back else {})}
        self._extent = extent

    def all(self, planes: Planes, report: Report) -> None:
        """Run every round; ``report`` is called with the plane that comes next."""
        for number in range(self._extent.rounds):
            # Each round goes the other way round, so that none of two planes always has the warmer machine.
            for plane in planes if number % 2 == 0 else reversed(list(planes)):
                report(plane)
                self.visit(number, plane, planes[plane])

    def visit(self, number: int, plane: str, make: Callable[[], AbstractContextManager[Line]]) -> None:
        """Measure one plane in one round."""
        try:
            with make() as line:
                self._line(number, plane, line)
        except FAILURES as error:
            self._miss(number, plane, error)

    def _line(self, number: int, plane: str, line: Line) -> None:
        if line.started is not None:
            self._take(number, self._key("start to first ping", plane), line.started)
        self._take(number, self._key("busy at rest", plane), rig.rest())
        for hops in self._extent.hops:
            self._attempt(number, plane, line, hops)
        resident = max(place.resident_bytes() for place in line.places)
        self._take(number, self._key("memory of a node", plane), resident / 1e6)
        if line.restart and self._extent.restarts:
            for begins, seconds in line.restart().items():
                self._take(number, self._key(f"recovery, {begins}", plane), seconds)

    def _attempt(self, number: int, plane: str, line: Line, hops: int) -> None:
        try:
            for testbed, back in self._directions.items():
                for key, value in self._measured(plane, line, hops, back=back):
                    self._take(number, replace(key, testbed=testbed), value)
        except FAILURES as error:
            self._miss(number, f"{plane}, hops: {hops}", error)

    def _measured(self, plane: str, line: Line, hops: int, *, back: bool) -> Iterator[tuple[Key, float]]:
        line.wait_answer(hops)
        if not back:
            yield self._key("ping", plane, hops), rig.ping(line, hops)
        for what, offered, value in self._flows.measured(plane, line, hops, back=back):
            yield self._key(what, plane, hops, offered), value

    def _key(self, what: str, plane: str, hops: int = 0, offered: float = 0.0) -> Key:
        return Key(what, plane, hops, offered, self._testbed)

    def _take(self, number: int, key: Key, value: float) -> None:
        self.samples.setdefault(key, {})[number] = value

    def _miss(self, number: int, what: str, error: Exception) -> None:
        why = str(error).partition("\n")[0] or type(error).__name__
        self.missed.append(f"{self._testbed}: {what}, round {number + 1}: {why}")
