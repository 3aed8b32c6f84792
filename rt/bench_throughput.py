"""What each plane carries, and what that costs, by the number of hops: user-space forwarding against kernel routes.

SMesh's question (Kaplan, 2006), asked of this project's planes: plain routes, IPsec with each suite, the overlay over
UDP and over Ethernet, and cjdroute when it is on PATH. Lines in network namespaces; every round visits every plane,
each with a new line, so that what the machine does meanwhile meets all. A guest adds short lines with the kernel's ESP,
on cables and on radio (``rt.throughput.guest``). Nothing is asserted about speed. bench-outside measures clients behind
nodes, through gateways.
"""

import argparse
import sys
from collections.abc import Mapping

from rt.measure.frame import Bench
from rt.measure.results import QUICK, Result
from rt.throughput import guest as throughput_guest
from rt.throughput import sums
from rt.throughput.figures import draw
from rt.throughput.lines import SUITES, Planes, Testbed, cjdroute_version, planes
from rt.throughput.rig import PINGS, SIZE
from rt.throughput.run import Extent, Run
from rt.throughput.sums import Samples
from tests.lab.machines import guest
from tests.lab.node import capabilities

ROUNDS, SECONDS = (1, 0.5) if QUICK else (3, 1.0)
LOADS = (100.0, 400.0, 1600.0) if QUICK else (50.0, 100.0, 200.0, 400.0, 800.0, 1600.0)
NAMESPACES = Testbed("namespaces", (1, 2, 3, 4))
QUICK_HOPS = (1, 2, 4)
TESTBEDS = (NAMESPACES.name, "guest")
GUEST_TESTBEDS = ["cables"] if QUICK else ["cables", "radio"]
GUEST_SECONDS = 0.3
"""Of the guest, for each flow."""


def main() -> int:
    """Measure in namespaces, then in the guest."""
    bench = Bench("throughput", __doc__, ROUNDS, "how often every plane is visited")
    options = _options(bench)
    if missing := capabilities.probe().missing_for_all():
        bench.need(f"it needs {', '.join(missing)}")
    extent = Extent(options.rounds, options.hops, options.seconds, LOADS, restarts=not QUICK)
    taken = Run(NAMESPACES, extent)
    throughput_guest.clear()
    with bench.measuring():
        if NAMESPACES.name in options.testbed:
            taken.all(_chosen(bench), lambda plane: bench.say(f"in namespaces: {plane}"))
        if "guest" in options.testbed and (obstacle := guest.obstacle()):
            taken.missed.append(f"guest: {obstacle}")
        elif "guest" in options.testbed:
            bench.say("the guest, for some ten minutes")
            throughput_guest.measure(1, GUEST_SECONDS, GUEST_TESTBEDS)
    found = throughput_guest.left()
    samples = taken.samples | found.samples
    samples |= sums.derived(samples)
    missed = [*taken.missed, *found.missed]
    result = _result(bench, samples, {"missed": missed, "guest_cipher": found.cipher})
    return bench.finish(result, draw, [*sums.tables(samples), *missed])


def _options(bench: Bench) -> argparse.Namespace:
    add = bench.flags.add_argument
    add("--seconds", type=float, default=SECONDS, help="for which each flow sends")
    add("--plane", action="append", help="only this plane, by its name in the result; may be repeated")
    add("--hops", action="append", type=int, choices=NAMESPACES.hops, help="only this distance; may be repeated")
    add("--testbed", action="append", choices=TESTBEDS, help="only there (default: both; QUICK: namespaces)")
    options = bench.parse()
    options.hops = options.hops or (QUICK_HOPS if QUICK else NAMESPACES.hops)
    options.testbed = options.testbed or (TESTBEDS[:1] if QUICK else TESTBEDS)
    _chosen(bench)
    return options


def _chosen(bench: Bench) -> Planes:
    """Return the planes to be measured, and end the program when one is unknown."""
    known = planes(NAMESPACES, list(SUITES)[:1] if QUICK else list(SUITES))
    wanted = bench.options.plane or known
    if unknown := set(wanted) - set(known):
        bench.need(f"no plane {'; '.join(sorted(unknown))}; there are: {'; '.join(known)}")
    return {name: make for name, make in known.items() if name in wanted}


def _result(bench: Bench, samples: Samples, more: Mapping[str, object]) -> Result:
    params = {
        "rounds": bench.options.rounds,
        "seconds": bench.options.seconds,
        "loads_mbit_per_s": LOADS,
        "datagram_octets": SIZE,
        "pings": PINGS,
        "esp": {NAMESPACES.name: capabilities.probe().esp, "guest": "kernel"},
        "testbeds": bench.options.testbed,
        "guest_time": "1 ns for each instruction",
        "libsodium": throughput_guest.sodium() is not None,
        **more,
    }
    result = bench.result(params, sums.cells(samples))
    result.ratios = list(sums.ratios(samples))
    result.peers, result.guest = {"cjdroute": cjdroute_version()}, throughput_guest.versions()
    return result


if __name__ == "__main__":
    sys.exit(main())
