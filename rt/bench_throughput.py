"""What each plane carries, and what that costs, by the number of hops: user-space forwarding against kernel routes.

SMesh's question (Kaplan, 2006), asked of this project's planes: plain routes, IPsec with each suite, the overlay over
UDP and over Ethernet, and cjdroute when it is on PATH. Lines in network namespaces; every round visits every plane,
each with a new line, so that what the machine does meanwhile meets all. A guest adds short lines with the kernel's ESP,
on cables and on radio (``rt.throughput.guest``). Nothing is asserted about speed.
"""

import argparse
import signal
import sys
import time
from collections.abc import Mapping

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from rt.measure.results import QUICK
from rt.throughput import guest as throughput_guest
from rt.throughput import sums
from rt.throughput.figures import Throughput
from rt.throughput.lines import SUITES, Ground, cjdroute_version, planes
from rt.throughput.rig import PINGS, SIZE
from rt.throughput.run import Extent, Run
from rt.throughput.sums import Samples
from tests.lab.node import capabilities

ROUNDS, SECONDS = (1, 0.5) if QUICK else (3, 1.0)
LOADS = (100.0, 400.0, 1600.0) if QUICK else (50.0, 100.0, 200.0, 400.0, 800.0, 1600.0)
NAMESPACES = Ground("namespaces", (1, 2, 3, 4))
QUICK_HOPS = (1, 2, 4)
GROUNDS = (NAMESPACES.name, "guest")
GUEST_GROUNDS = list(throughput_guest.GROUNDS)[: 1 if QUICK else None]
GUEST_SECONDS = 0.3
"""Of the guest, for each flow."""


def main() -> None:
    """Measure, write, draw, print."""
    arguments = _arguments()
    if missing := capabilities.probe().missing_for_all():
        sys.exit(f"bench-throughput: it needs {', '.join(missing)}")
    # So that the nodes go with it, however it is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    samples: Samples = {}
    missed: list[str] = []
    cipher = ""
    if NAMESPACES.name in arguments.ground:
        taken = _in_namespaces(arguments)
        samples |= taken.samples
        missed += taken.missed
    if "guest" in arguments.ground:
        print("bench-throughput: the guest, for some ten minutes", file=sys.stderr, flush=True)
        found = throughput_guest.measure(1, GUEST_SECONDS, GUEST_GROUNDS)
        samples |= found.samples
        missed += found.missed
        cipher = found.cipher
    samples |= sums.derived(samples)
    path = _result(
        samples,
        arguments,
        {"missed": missed, "guest_cipher": cipher, "libsodium": throughput_guest.sodium() is not None},
    ).write()
    print("\n".join([*sums.tables(samples), *missed, str(path)]))


def _in_namespaces(arguments: argparse.Namespace) -> Run:
    known = planes(NAMESPACES, list(SUITES)[:1] if QUICK else list(SUITES))
    if unknown := set(arguments.plane or ()) - set(known):
        sys.exit(f"bench-throughput: no plane {'; '.join(sorted(unknown))}; there are: {'; '.join(known)}")
    chosen = {name: make for name, make in known.items() if name in (arguments.plane or known)}
    hops = arguments.hops or (QUICK_HOPS if QUICK else NAMESPACES.hops)
    extent = Extent(arguments.rounds, hops, arguments.seconds, LOADS, restarts=not QUICK)
    taken = Run(NAMESPACES, extent)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns) as progress:
        task = progress.add_task("planes", total=arguments.rounds * len(chosen), completed=-1)
        taken.all(chosen, lambda plane: progress.update(task, description=plane, advance=1))
    return taken


def _result(samples: Samples, arguments: argparse.Namespace, more: Mapping[str, object]) -> Throughput:
    params = {
        "rounds": arguments.rounds,
        "seconds": arguments.seconds,
        "loads_mbit_per_s": LOADS,
        "datagram_octets": SIZE,
        "pings": PINGS,
        "esp": {NAMESPACES.name: capabilities.probe().esp, "guest": "kernel"},
        "grounds": arguments.ground,
        "guest_time": "1 ns for each instruction",
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **more,
    }
    peers = {"cjdroute": cjdroute_version()}
    return Throughput("throughput", params, sums.cells(samples), list(sums.ratios(samples)), peers)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench_throughput", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often every plane is visited")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for which each flow sends")
    parser.add_argument("--plane", action="append", help="only this plane, by its name in the result; may be repeated")
    parser.add_argument(
        "--hops", action="append", type=int, choices=NAMESPACES.hops, help="only this distance; may be repeated"
    )
    parser.add_argument(
        "--ground", action="append", choices=GROUNDS, help="only there (default: both; QUICK: namespaces)"
    )
    arguments = parser.parse_args()
    arguments.ground = arguments.ground or (GROUNDS[:1] if QUICK else GROUNDS)
    return arguments


if __name__ == "__main__":
    main()
