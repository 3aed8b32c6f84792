"""1000 sealed messages over UDP, timed between the ends: figures 17 to 20 of Agosto-Padilla's dissertation.

AES-CCM of the crate aes_ccm and of OpenSSL seal and open for each other, in all four pairs, on loopback in a network
namespace. The response is from the client's request to the last message, the sealing from the first to the last one.
"""

import sys
from functools import partial

from rt.ccm import programs
from rt.measure import plot
from rt.measure.frame import Bench
from rt.measure.results import QUICK

SIZES = (50, 250, 500, 750, 1000)
MESSAGES = 1000
"""Both are the dissertation's."""


def main() -> int:
    """Measure all pairs in every round."""
    bench = Bench("ccm-network", __doc__, rounds=5 if QUICK else 30)
    bench.parse()
    with bench.measuring():
        program = programs.built(soft=False)
        measure = partial(programs.lines_on_loopback, program, "network", MESSAGES, *SIZES)
        for number in range(bench.options.rounds):
            for line in bench.visit(f"round {number + 1} of {bench.options.rounds}", measure):
                bench.take({name: line[name] for name in ("what", "by", "to", "octets")}, "ms", [line["ms"]])
    result = bench.result({"sizes": SIZES, "messages": MESSAGES})
    result.peers = programs.versions()
    return bench.finish(result, lambda drawn: plot.boxes(drawn, "1000 messages over UDP on loopback", compare="what"))


if __name__ == "__main__":
    sys.exit(main())
