"""Runs in the guest: how long until the routes avoid a relay that has vanished.

    python -m rt.guest.reroute ROUNDS FILE

Each round, for each way to vanish, FILE gets a line of JSON: ``vanish``; ``decided``, the seconds until olsrv2d at the
sender decided on the other route, which the kernel then took; ``gap``, the seconds whose user data is lost, of which
there is a datagram every 50 ms.
"""

import itertools
import json
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tests.lab.basics.waiting import wait_until
from tests.lab.net.traffic import FlowResult, wait_arrivals
from tests.lab.observe.change_stream import ChangeStream
from tests.lab.radio import medium
from tests.lab.radio.radio_ring import VANISHES, RadioRing, radio_ring

PATIENCE = 60.0
"""Seconds; far more than was ever measured."""
BEFORE = 10
AFTERWARDS = 50
"""Datagrams, of 50 ms each: who is heard again within 1.5 s is believed to be slow to vanish the next time."""


def main() -> None:
    """Measure and write."""
    rounds, path = int(sys.argv[1]), Path(sys.argv[2])
    if obstacle := medium.obstacle():
        sys.exit(obstacle)
    with radio_ring() as ring, path.open("w", encoding="ascii") as file:
        for _, vanish in itertools.product(range(rounds), VANISHES):
            while (times := measure(ring, vanish)) is None:
                pass
            decided, lost = times
            file.write(json.dumps({"vanish": vanish, "decided": decided, "gap": lost}) + "\n")
            file.flush()


def measure(ring: RadioRing, vanish: str) -> tuple[float, float] | None:
    """Take one relay away and back; return the seconds until the other route, and those of lost user data.

    None when the route had just moved away from the relay of itself, as it may between two ways that are alike.
    """
    ring.heal()
    with ring.flow() as running, ring.a.stream() as stream:
        wait_until("user data", lambda: len(running.result.arrivals) >= BEFORE, [running, stream], PATIENCE)
        relay = _by(stream.tables["route"][_destination(ring)], ring)
        begun = time.monotonic()
        VANISHES[vanish](ring, relay)
        decided = wait_until("the route over another relay", partial(_decided, stream, ring, relay), [stream], PATIENCE)
        wait_arrivals(running, AFTERWARDS, PATIENCE)
    if vanish == "leaves":
        ring.returns(relay)
    return (decided - begun, gap(running.result, begun)) if decided > begun else None


def _destination(ring: RadioRing) -> str:
    return f"{ring.c.ipv6}/128"


def _by(route: Mapping[str, Any], ring: RadioRing) -> str:
    """Return the relay that a route leads to."""
    return next(router.name for router in ring.mesh.routers.values() if router.ipv6 == route["next_originator"])


def _decided(stream: ChangeStream, ring: RadioRing, relay: str) -> float | None:
    """Return when, on the monotonic clock, the route that the kernel has now was decided on, if it avoids the relay."""
    route = stream.routes.get(_destination(ring))
    return route["time_us"] / 1e6 if route and _by(route, ring) != relay else None


def gap(result: FlowResult, begun: float) -> float:
    """Return the most datagrams that are missing in a row after a time, in seconds of sending them.

    Not the time between arrivals: a sender that waits for this machine's disk sends nothing, while its clock runs on.
    """
    last = max(sequence for sequence, at in result.arrivals if at <= begun)
    arrived = sorted({last, *(sequence for sequence, at in result.arrivals if at > begun)})
    return max(b - a - 1 for a, b in itertools.pairwise(arrived)) * result.interval


if __name__ == "__main__":
    main()
