"""Flows of iperf3 on a line, with what readers of the papers ask: jitter, retransmissions, windows, processors."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from rt.measure.results import Cell
from rt.throughput import iperf, processes, rig
from rt.throughput.lines import Line, Testbed
from rt.throughput.run import Figure
from tests.lab.basics.shell import run

CPU_OF_PROCESS, CPU_ON_CORE = "CPU of a process", "CPU of a process on a core"
PER_CENT = "% of a processor"
_SMALLEST_SHARE = 0.5
"""Per cent of a processor; processes that use less are left out."""


@dataclass(frozen=True)
class Habits:
    """What iperf3 is to send."""

    seconds: int
    """For which each flow sends; iperf3 takes whole seconds."""
    rates: Sequence[float]
    """Mbit/s of UDP payload, ascending."""
    transactions: float = 0.0
    """Seconds of requests and responses of one byte, which iperf3 has not; 0: none."""


class _Taken(NamedTuple):
    """A TCP stream, and where it went."""

    plane: str
    hops: int
    testbed: str
    stream: iperf.Stream


class IperfFlows:
    """Flows of iperf3 both ways. What is no figure of a flow is kept here: each second, and each process."""

    def __init__(self, testbed: Testbed, habits: Habits) -> None:
        self._streams: list[_Taken] = []
        self.limits: dict[str, str] = {}
        """What limited the latest TCP stream, by the plane, the hops and the direction."""
        self._habits = habits
        self._names = {False: testbed.name, True: testbed.back}
        self._shares: dict[tuple[str, int, str], list[processes.Shares]] = {}

    def measured(self, plane: str, line: Line, hops: int, *, back: bool) -> Iterator[Figure]:
        """Send TCP, UDP at ascending rates, and transactions; yield each figure."""
        stream, costs = iperf.stream(line, hops, self._habits.seconds, back=back)
        self._keep(plane, hops, self._names[back], stream, costs)
        yield "TCP", 0.0, stream.rate
        yield "TCP retransmissions", 0.0, float(stream.retransmissions)
        if stream.seconds:
            yield "TCP congestion window", 0.0, median(second.window for second in stream.seconds)
        if gigabytes := stream.rate * 1e6 / 8 * self._habits.seconds / 1e9:
            known = {key: share for key, share in costs.shares.items() if key[0] != processes.REST}
            for what, shares in (("CPU, machine", costs.shares), ("CPU, processes", known)):
                yield what, 0.0, sum(shares.values()) / 100 * costs.seconds / gigabytes
        for rate in self._habits.rates:
            before = _sent_bytes(line)
            datagrams, _ = iperf.datagrams(line, hops, self._habits.seconds, rate, back=back)
            if line.links and not back and datagrams.count:
                yield "bytes on the link", rate, (_sent_bytes(line) - before) / datagrams.count
            yield "UDP sent", rate, datagrams.sent
            yield "UDP delivered", rate, datagrams.delivered
            yield "UDP loss", rate, datagrams.loss
            yield "UDP jitter", rate, datagrams.jitter
        if self._habits.transactions and not back:
            yield "transactions", 0.0, rig.transactions(line, hops, self._habits.transactions)

    @property
    def seconds(self) -> list[Mapping[str, object]]:
        """Return Mbit/s, retransmissions and the congestion window of each second of every TCP stream."""
        return [
            {
                "plane": taken.plane,
                "hops": taken.hops,
                "testbed": taken.testbed,
                "congestion": taken.stream.congestion,
                "mbit_per_s": [second.rate for second in taken.stream.seconds],
                "retransmissions": [second.retransmissions for second in taken.stream.seconds],
                "window_kb": [second.window for second in taken.stream.seconds],
            }
            for taken in self._streams
        ]

    def cells(self) -> list[Cell]:
        """Return the processes' shares of the processors while TCP passed, of all cores together and of each."""
        found = []
        for (plane, hops, testbed), rounds in self._shares.items():
            where = {"plane": plane, "hops": hops, "testbed": testbed}
            for process in dict.fromkeys(process for shares in rounds for process, _ in shares):
                each = [_by_core(shares, process) for shares in rounds]
                totals = [sum(by_core.values()) for by_core in each]
                if max(totals) < _SMALLEST_SHARE:
                    continue
                found.append(Cell({"what": CPU_OF_PROCESS, **where, "process": process}, PER_CENT, totals))
                for core in sorted(set().union(*each)):
                    key = {"what": CPU_ON_CORE, **where, "process": process, "core": core}
                    found.append(Cell(key, PER_CENT, [by_core.get(core, 0.0) for by_core in each]))
        return found

    def by_second(self, testbed: str) -> list[Cell]:
        """Return rate, retransmissions and window of each second of the streams one way, a sample for each stream."""
        found: dict[tuple[str, str, str, int], list[float]] = {}
        for taken in (one for one in self._streams if one.testbed == testbed):
            for number, second in enumerate(taken.stream.seconds, start=1):
                for what, unit, value in (
                    ("TCP", "Mbit/s", second.rate),
                    ("TCP retransmissions", "segments", float(second.retransmissions)),
                    ("TCP congestion window", "kB", second.window),
                ):
                    found.setdefault((what, unit, taken.plane, number), []).append(value)
        return [
            Cell({"what": f"{what} in one second", "plane": plane, "testbed": testbed, "second": number}, unit, values)
            for (what, unit, plane, number), values in found.items()
        ]

    def _keep(self, plane: str, hops: int, testbed: str, stream: iperf.Stream, costs: iperf.Costs) -> None:
        self._shares.setdefault((plane, hops, testbed), []).append(costs.shares)
        self.limits[f"{plane}, hops: {hops}, {testbed}"] = processes.limit(costs.shares)
        self._streams.append(_Taken(plane, hops, testbed, stream))


def _sent_bytes(line: Line) -> int:
    """Return the bytes that the first node has sent on its mesh interfaces, link headers included; 0 without links."""
    found = 0
    for namespace, interfaces in line.links[:1]:
        for name in interfaces:
            shown = json.loads(run(["ip", "-n", namespace, "-s", "-j", "link", "show", "dev", name]).stdout)
            found += int(shown[0]["stats64"]["tx"]["bytes"])
    return found


def _by_core(shares: processes.Shares, process: str) -> dict[int, float]:
    return {core: share for (name, core), share in shares.items() if name == process}
