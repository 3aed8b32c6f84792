"""What a client behind a node gets of the outside, through a gateway that is 1 to 4 hops away.

SMesh's measurement (Kaplan, 2006, figures 4 and 5): TCP, UDP and its loss at fixed rates between a client and a host
outside, both ways, by the kernel's routes and by forwarding in user space. Planes: networks in the clear, networks in
IPsec, networks in the overlay. iperf3 sends, as iperf did then: its jitter, retransmissions and congestion windows are
kept, and what each process used of each processor. Every round visits every plane.

Links take no time here. So the same datagrams, with the bytes that each plane makes of them, are sent once more over
modelled 802.11g air, in virtual time. A guest adds short lines with the kernel's ESP and this project's own ends of
flows (``--testbed guest``). Nothing is asserted about speed.
"""

import argparse
import sys
from functools import partial

from rt.measure.frame import Bench
from rt.measure.results import QUICK
from rt.throughput import air, iperf, sums
from rt.throughput import guest as throughput_guest
from rt.throughput.figures import draw_outside
from rt.throughput.flows import Habits, IperfFlows
from rt.throughput.lines import Testbed
from rt.throughput.outside import planes
from rt.throughput.rig import PINGS
from rt.throughput.run import Extent, Run
from tests.lab.machines import guest
from tests.lab.node import capabilities

UP, DOWN = "client to outside", "outside to client"
NAMESPACES = Testbed(UP, (1, 2, 3, 4), back=DOWN)
ROUNDS, SECONDS = (1, 1) if QUICK else (5, 1)
"""Five as in the paper."""
LOADS = (3.125, 20.0) if QUICK else (3.125, 20.0, 200.0, 800.0)
"""Mbit/s. SMesh offered its kernel's routes 20, and its forwarding in user space 3.125."""
AIR_SECONDS = 5.0 if QUICK else 60.0
"""Of virtual time, of each flow over modelled air."""
AIR_RATES = (3.125, 20.0)
"""Mbit/s that are offered there: the paper's."""
GUEST_SECONDS = 0.3
TESTBEDS = ("namespaces", "guest")


def main() -> int:
    """Measure in namespaces, and in the guest if that is asked for."""
    bench = Bench("outside", __doc__, ROUNDS, "how often every plane is visited")
    options = _options(bench)
    if missing := capabilities.probe().missing_for_all():
        bench.need(f"it needs {', '.join(missing)}")
    bench.need(iperf.obstacle())
    flows = IperfFlows(NAMESPACES, Habits(options.seconds, LOADS))
    taken = Run(NAMESPACES, Extent(options.rounds, NAMESPACES.hops, options.seconds, LOADS), flows)
    throughput_guest.clear()
    with bench.measuring():
        if "namespaces" in options.testbed:
            taken.all(planes(NAMESPACES), lambda plane: bench.say(f"in namespaces: {plane}"))
        if "guest" in options.testbed:
            bench.need(guest.obstacle())
            bench.say("the guest, for some ten minutes")
            throughput_guest.measure(1, GUEST_SECONDS, ["outside"])
    found = throughput_guest.left()
    aired = air.cells(taken.samples, AIR_RATES, NAMESPACES.hops, options.rounds, AIR_SECONDS)
    samples = taken.samples | found.samples
    samples |= sums.derived(samples)
    missed = [*taken.missed, *found.missed, *aired.missed]
    params = {
        "rounds": options.rounds,
        "seconds": options.seconds,
        "loads_mbit_per_s": LOADS,
        "datagram_octets": iperf.SIZE,
        "pings": PINGS,
        "esp": {"namespaces": capabilities.probe().esp, "guest": "kernel"},
        "testbeds": options.testbed,
        "missed": missed,
        "guest_cipher": found.cipher,
        "smesh_2006": sums.SMESH_PUBLISHED,
        "air": {"model": "airtime: 802.11g, data frames at 24 Mbit/s, all sense each other", "seconds": AIR_SECONDS},
        "limits": flows.limits,
        "each_second": flows.seconds,
    }
    result = bench.result(params, [*sums.cells(samples), *aired.cells, *sums.times_cells(samples), *flows.cells()])
    result.ratios = [*sums.ratios(samples), *sums.published()]
    result.peers, result.guest = {"iperf3": iperf.version()}, throughput_guest.versions()
    words = [f"{flow}: {limit}." for flow, limit in flows.limits.items()]
    return bench.finish(result, partial(draw_outside, samples=samples), [*sums.tables(samples), "", *words, *missed])


def _options(bench: Bench) -> argparse.Namespace:
    add = bench.flags.add_argument
    add("--seconds", type=int, default=SECONDS, help="for which each flow sends, whole ones (default: %(default)s)")
    add("--testbed", action="append", choices=TESTBEDS, help="only there (default: namespaces); may be repeated")
    options = bench.parse()
    options.testbed = options.testbed or TESTBEDS[:1]
    return options


if __name__ == "__main__":
    sys.exit(main())
