"""Flows of iperf3 on a line, with what readers of the papers ask: jitter, retransmissions, windows, processors."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from rt.measure.results import Cell
from rt.throughput import iperf, processes, rig
from rt.throughput.lines import Line, Testbed
from rt.throughput.run import Figure

CPU_OF_PROCESS = "CPU of a process"
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


class IperfFlows:
    """Flows of iperf3 both ways. What is no figure of a flow is kept here: each second, and each process."""

    def __init__(self, testbed: Testbed, habits: Habits) -> None:
        self.seconds: list[Mapping[str, object]] = []
        """Of each TCP stream: Mbit/s, retransmissions and the congestion window of each second."""
        self.limits: dict[str, str] = {}
        """What limited the latest TCP stream, by the plane, the hops and the direction."""
        self._habits = habits
        self._names = {False: testbed.name, True: testbed.back}
        self._shares: dict[tuple[str, int, str, str, int], list[float]] = {}

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
            datagrams, _ = iperf.datagrams(line, hops, self._habits.seconds, rate, back=back)
            yield "UDP sent", rate, datagrams.sent
            yield "UDP delivered", rate, datagrams.delivered
            yield "UDP loss", rate, datagrams.loss
            yield "UDP jitter", rate, datagrams.jitter
        if self._habits.transactions and not back:
            yield "transactions", 0.0, rig.transactions(line, hops, self._habits.transactions)

    def cells(self) -> list[Cell]:
        """Return the processes' shares of the processors while TCP passed."""
        found = []
        for (plane, hops, testbed, process, core), samples in self._shares.items():
            if max(samples) >= _SMALLEST_SHARE:
                where = {"plane": plane, "hops": hops, "testbed": testbed, "process": process, "core": core}
                found.append(Cell({"what": CPU_OF_PROCESS, **where}, PER_CENT, samples))
        return found

    def _keep(self, plane: str, hops: int, testbed: str, stream: iperf.Stream, costs: iperf.Costs) -> None:
        for (process, core), share in costs.shares.items():
            self._shares.setdefault((plane, hops, testbed, process, core), []).append(share)
        self.limits[f"{plane}, hops: {hops}, {testbed}"] = processes.limit(costs.shares)
        self.seconds.append(
            {
                "plane": plane,
                "hops": hops,
                "testbed": testbed,
                "congestion": stream.congestion,
                "mbit_per_s": [second.rate for second in stream.seconds],
                "retransmissions": [second.retransmissions for second in stream.seconds],
                "window_kb": [second.window for second in stream.seconds],
            }
        )
