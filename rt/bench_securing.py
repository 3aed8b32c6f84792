"""What securing costs two neighbours: what they send each other in the clear, by IPsec, and by overlays.

The question of Hastings (2017) and of tomesh (2016), who measured two Raspberry Pis with and without cjdns: iperf3 both
ways, TCP and UDP, retransmissions and congestion windows of each second, and what each process used of each processor;
and requests of one byte with a response of one, which netperf measures. cjdroute, wireguard-go and yggdrasil take part
when they are on PATH. Every round visits every plane. Nothing is asserted about speed.
"""

import sys

from rt.measure.frame import Bench
from rt.measure.results import QUICK
from rt.throughput import foreign, iperf, sums
from rt.throughput.figures import draw_securing
from rt.throughput.flows import Habits, IperfFlows
from rt.throughput.lines import SUITES, Planes, Testbed, planes
from rt.throughput.run import Extent, Run
from tests.lab.node import capabilities

THERE, BACK = "a to b", "b to a"
NEIGHBOURS = Testbed(THERE, (1,), back=BACK)
ROUNDS, SECONDS = (1, 2) if QUICK else (5, 10)
"""Hastings's flows took ten seconds."""
RATES = (100.0,)
"""Mbit/s of UDP: what tomesh offered."""
TRANSACTIONS = 0.5 if QUICK else 2.0


def main() -> int:
    """Measure every plane between two nodes."""
    bench = Bench("securing", __doc__, ROUNDS, "how often every plane is visited")
    known = _planes()
    bench.flags.add_argument("--seconds", type=int, default=SECONDS, help="for which each flow sends, whole ones")
    bench.flags.add_argument("--plane", action="append", choices=list(known), help="only this; may be repeated")
    options = bench.parse()
    if missing := capabilities.probe().missing_for_all():
        bench.need(f"it needs {', '.join(missing)}")
    bench.need(iperf.obstacle())
    flows = IperfFlows(NEIGHBOURS, Habits(options.seconds, RATES, TRANSACTIONS))
    taken = Run(NEIGHBOURS, Extent(options.rounds, NEIGHBOURS.hops, options.seconds, RATES, restarts=False), flows)
    with bench.measuring():
        chosen = {name: known[name] for name in options.plane or known}
        taken.all(chosen, bench.say)
    samples = taken.samples | sums.derived(taken.samples)
    params = {
        "rounds": options.rounds,
        "seconds": options.seconds,
        "udp_mbit_per_s": RATES,
        "datagram_octets": iperf.SIZE,
        "esp": capabilities.probe().esp,
        "missed": taken.missed,
        "limits": flows.limits,
        "each_second": flows.seconds,
    }
    result = bench.result(params, [*sums.cells(samples), *flows.cells(), *flows.by_second(THERE)])
    result.ratios = list(sums.ratios(samples))
    result.peers = {"iperf3": iperf.version(), **foreign.versions()}
    words = [f"{flow}: {limit}." for flow, limit in flows.limits.items()]
    words += [*taken.missed, *(f"{name}: {found}" for name, found in result.peers.items() if found == foreign.MISSING)]
    return bench.finish(result, draw_securing, [*sums.tables(samples, smesh=False), "", *words])


def _planes() -> Planes:
    return {**planes(NEIGHBOURS, list(SUITES)[:1]), **foreign.planes()}


if __name__ == "__main__":
    sys.exit(main())
