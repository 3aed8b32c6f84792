"""How long from a route's appearance to the first IKE packet and to the first ESP packet.

Line a - b - c. In each round c goes out of range until its SA is closed, and comes back while user data flows. Times
are those of the router's decision (its change stream) and of the packets on the initiator's link (kernel time stamps).
"""

import json
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rt.measure.frame import Bench
from rt.measure.plot import boxes
from rt.measure.results import QUICK
from tests.lab.basics.waiting import wait_until
from tests.lab.lab import Lab
from tests.lab.net.packets import Kind
from tests.lab.net.topology import line, names
from tests.lab.net.traffic import Flow
from tests.lab.node import capabilities
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.lab.observe.capture import Capture

FLOW_INTERVAL = 0.001
"""Seconds between datagrams: how late the first ESP packet may be because nothing was sent."""
IDLE_SECONDS = 5.0 if QUICK else 30.0


class RouteTimes:
    """When the router decided on a route, from its change stream."""

    def __init__(self, path: Path, destination: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self._received = b""
        self._destination = destination
        self.decided_at: float | None = None
        """Monotonic seconds."""

    def fileno(self) -> int:
        """For select."""
        return self._socket.fileno()

    def drain(self) -> bool:
        """Take what is there."""
        data = self._socket.recv(1 << 16)
        *lines, self._received = (self._received + data).split(b"\n")
        for text in lines:
            self._take(json.loads(text))
        return bool(data)

    def close(self) -> None:
        """End the subscription."""
        self._socket.close()

    def _take(self, message: dict[str, Any]) -> None:
        if message.get("object") != "route" or message.get("destination") != self._destination:
            return
        if message["op"] == "set" and self.decided_at is None:
            self.decided_at = message["time_us"] / 1e6


@dataclass(frozen=True)
class Sample:
    """One round, in milliseconds."""

    route_to_ike: float
    ike_to_esp: float
    route_to_esp: float
    reported: float
    """What meshsecd says about route to protected."""


def main() -> int:
    """Let c come back again and again, and look at the idle node afterwards."""
    bench = Bench("reaction", __doc__, rounds=5 if QUICK else 30)
    rounds = bench.parse().rounds
    with bench.measuring(), Lab("reaction", line(names(3)), Options(policy={"hold_time": 0})) as lab:
        lab.set_up().trust_all().start()
        initiator, target = _ends(lab)
        for number, _ in bench.in_rounds([target]):
            sample = bench.visit(f"round {number + 1}", partial(_round, lab, initiator, target))
            for what, value in vars(sample).items():
                bench.take({"what": what}, "ms", [value])
        for key, unit, value in _idle(lab["a"]):
            bench.take({"what": key}, unit, [value])
    params = {"nodes": 3, "rounds": rounds, "esp": capabilities.probe().esp, "idle_s": IDLE_SECONDS}
    return bench.finish(bench.result(params), partial(boxes, title="From a route's appearance to the first ESP packet"))


def _ends(lab: Lab) -> tuple[Node, Node]:
    a, c = lab["a"], lab["c"]
    entry = a.wait_state(c, "protected")
    return (a, c) if entry["initiator"] else (c, a)


def _round(lab: Lab, initiator: Node, target: Node) -> Sample:
    link = lab.link("b", target.name)
    link.up()  # A round before that a busy machine spoilt may have left it down.
    for node, peer in ((initiator, target), (target, initiator)):
        node.wait_protected(peer)
    link.down()
    for node, peer in ((initiator, target), (target, initiator)):
        node.wait_state(peer, "no-route")
        node.wait_for(f"no SA with {peer.name}", lambda n=node, p=peer: not n.charon.sas_with(p.name), 30)  # type: ignore[misc]
    with ExitStack() as stack:
        routes = RouteTimes(initiator.run_directory / "changes.sock", f"{target.announced}/128")
        stack.callback(routes.close)
        seen = stack.enter_context(initiator.capture("reaction"))
        stack.enter_context(
            Flow((initiator.namespace, initiator.address), (target.namespace, target.address), FLOW_INTERVAL)
        )
        link.up()
        wait_until("the first ESP packet", lambda: Kind.ESP in seen.first, [seen], 30)
        wait_until("the route in the change stream", lambda: routes.decided_at, [routes], 5)
        reported = initiator.wait_state(target, "protected")["route_to_protected_ms"]
        return _sample(routes, seen, reported)


def _sample(routes: RouteTimes, seen: Capture, reported: float) -> Sample:
    to_monotonic = time.monotonic() - time.time()
    assert routes.decided_at is not None
    ike = (seen.first[Kind.IKE] + to_monotonic - routes.decided_at) * 1e3
    esp = (seen.first[Kind.ESP] + to_monotonic - routes.decided_at) * 1e3
    return Sample(ike, esp - ike, esp, reported)


def _idle(node: Node) -> Iterator[tuple[str, str, float]]:
    """CPU and memory of each daemon of a node at rest."""
    before = {daemon.name: daemon.cpu_seconds() for daemon in node.daemons.all()}
    time.sleep(IDLE_SECONDS)
    for daemon in node.daemons.all():
        percent = (daemon.cpu_seconds() - before[daemon.name]) / IDLE_SECONDS * 100
        yield f"idle CPU of {daemon.name}", "% of a core", percent
        yield f"resident memory of {daemon.name}", "MiB", daemon.resident_bytes() / 2**20


if __name__ == "__main__":
    sys.exit(main())
