"""The demo, step by step."""

from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType

from tests.demo.report import RelayChange, Report, Sa
from tests.demo.screen import Screen, table, verdict
from tests.lab.basics.waiting import wait_until
from tests.lab.lab import Lab
from tests.lab.net import traffic
from tests.lab.net.packets import MARK, Kind
from tests.lab.net.topology import Pair, line
from tests.lab.node import capabilities
from tests.lab.node.node import Node

if TYPE_CHECKING:
    from tests.lab.observe.capture import Capture

SPARE = "spare"
"""The name of the relay that no node trusts. It gives the line's first and third node another path to each other."""

MESH_SECONDS = 60.0
PINGS = 5
STREAM_OCTETS = 10_000_000
STREAM_ROUNDS = 3
FLOW_INTERVAL = 0.01
"""Seconds between datagrams: the resolution of the measured gap."""


def shape(nodes: list[str]) -> list[Pair]:
    """Return the links of the line, and of the spare relay beside its second node."""
    return [*line(nodes), (nodes[0], SPARE), (SPARE, nodes[2])]


class Demo:
    """One run. ``lab`` must be entered."""

    def __init__(self, lab: Lab, nodes: list[str], console: Console) -> None:
        self.lab = lab
        self.members = [lab[name] for name in nodes]
        self.first, self.relay, self.last = self.members[0], self.members[1], self.members[-1]
        self.spare = lab[SPARE]
        self.report = Report(nodes=len(nodes), esp_ground=capabilities.probe().esp)
        self.screen = Screen(console, self.picture)
        self._captures: dict[str, Capture] = {}
        self._statuses: dict[str, dict[str, Any]] = {}

    def run(self) -> Report:
        """Run all steps and return the report."""
        with self.screen, ExitStack() as stack:
            self._build(stack)
            self._start()
            self._await_mesh()
            self._talk()
            self._change_relay()
            self._look()
        self._judge()
        return self.report

    def picture(self) -> RenderableType:
        """Return a picture of the present nodes, SAs and packets at the relays."""
        self._look()
        relays = [[name, *(str(capture.counts[kind]) for kind in Kind)] for name, capture in self._captures.items()]
        return Group(
            table("Nodes", ["node", "address", "routes"], self._node_rows()),
            table(
                "Channels",
                ["pair", "state", "hops", "INIT ms", "AUTH ms", "ready in ms"],
                self._sa_rows(),
            ),
            table("Packets on the relays' links", ["relay", *Kind], relays),
        )

    def summary(self) -> RenderableType:
        """Return the picture of the results."""
        change, report = self.report.relay_change, self.report
        lines = [
            f"{report.nodes} nodes, {len(report.sas)} pairs protected; ESP in {report.esp_ground}",
            f"{self.first.name} - {self.last.name}: {report.pings}; TCP {report.tcp_mbit_per_s:.0f} Mbit/s",
            f"relay {change.before} replaced by {change.after}: {change.lost} of {change.sent} datagrams lost,",
            f"longest gap {change.longest_gap_ms:.0f} ms, {'the same' if change.same_spis else 'other'} SPIs",
            f"user data in the clear: {report.relay_packets.get('clear', 0)} packets",
        ]
        return Group(self.picture(), verdict(report.problems(), lines))

    def _build(self, stack: ExitStack) -> None:
        self.screen.step(
            f"{len(self.members)} nodes in a line, each hears only its neighbours; one spare relay out of range"
        )
        self._spare_in_range(False)
        self.lab.set_up()
        self.screen.step("every node trusts every other by its card; nobody trusts the spare relay")
        self.lab.trust(*(node.name for node in self.members))
        for relay in (self.relay, self.spare):
            self._captures[relay.name] = stack.enter_context(relay.capture("demo"))

    def _start(self) -> None:
        for kind in ("charon", "meshsecd"):
            self.screen.step(f"starting {kind}")
            self.lab.start(kind, nodes=self.members)
        self.screen.step("starting the routers")
        self.spare.assign_addresses()
        self.lab.start("router")

    def _await_mesh(self) -> None:
        self.screen.step("routes appear, and each one brings its SA")
        for node in self.members:
            for peer in self.members:
                if peer is not node:
                    node.wait_protected(peer, MESH_SECONDS)

    def _talk(self) -> None:
        first, last = self.first, self.last
        self.screen.step(f"user data between {first.name} and {last.name}: ping")
        ping = ["ping", "-q", "-c", str(PINGS), "-i", "0.2", "-p", MARK.hex(), "-I", first.address, last.address]
        said = first.run(*ping, check=False).stdout
        self.report.pings = next((text for text in said.splitlines() if "packet loss" in text), said)
        self.screen.step(f"user data between {first.name} and {last.name}: a TCP stream")
        ends = (first.namespace, first.address), (last.namespace, last.address)
        rounds = [traffic.tcp_stream(*ends, STREAM_OCTETS).mbit_per_s for _ in range(STREAM_ROUNDS)]
        self.report.tcp_mbit_per_s = sorted(rounds)[len(rounds) // 2]

    def _change_relay(self) -> None:
        first, last, third = self.first, self.last, self.members[2]
        spis = _spis(first, last)
        self.screen.step("the spare relay comes into range")
        self._spare_in_range(True)
        for neighbour in (first, third):
            self.spare.wait_route(neighbour)
        with traffic.Flow((first.namespace, first.address), (last.namespace, last.address), FLOW_INTERVAL) as flow:
            _arrivals(flow)
            before = self._next_hop(first, last)
            self.screen.step(f"{first.name} loses its link to {before}, which was its relay to {last.name}")
            self.lab.end_of(first.name, before).down()
            after = first.wait_for("the other relay", lambda: self._other_hop(first, last, before), 60)
            _arrivals(flow)
        result = flow.result
        gap_ms = round(result.longest_gap * 1000, 1)
        same_spis = spis == _spis(first, last)
        self.report.relay_change = RelayChange(
            before, after, result.sent + result.refused, result.lost, gap_ms, same_spis
        )

    def _judge(self) -> None:
        report = self.report
        pairs = [(a, b) for i, a in enumerate(self.members) for b in self.members[i + 1 :]]
        pairs.sort(key=lambda pair: pair != (self.first, self.last))
        report.sas = [self._sa(a, b) for a, b in pairs]
        report.missing = [f"{sa.initiator} - {sa.responder}" for sa in report.sas if sa.state != "protected"]
        seen: Counter[Kind] = Counter()
        for capture in self._captures.values():
            capture.stop()
            seen.update(capture.counts)
            report.captures_lost += capture.lost
        report.relay_packets = {kind.value: seen[kind] for kind in Kind}

    def _spare_in_range(self, heard: bool) -> None:
        for other in (self.first, self.members[2]):
            link = self.lab.link(SPARE, other.name)
            link.up() if heard else link.down()

    def _look(self) -> None:
        self._statuses = {node.name: node.control.ask("status") for node in self.members if node.card}

    def _entry(self, node: Node, peer: Node) -> dict[str, Any]:
        peers = self._statuses.get(node.name, {}).get("peers", [])
        return next((entry for entry in peers if entry["name"] == peer.name), {})

    def _sa(self, a: Node, b: Node) -> Sa:
        """Return the SA as its initiator reports it, because only the initiator knows the phases' times."""
        node, peer = (a, b) if self._entry(a, b).get("initiator") else (b, a)
        entry = self._entry(node, peer)
        return Sa(
            initiator=node.name,
            responder=peer.name,
            state=entry.get("state", "unknown"),
            hops=entry.get("hops"),
            data_plane=entry.get("data_plane", "plain"),
            setup_ms=entry.get("setup_ms") or {},
            route_to_protected_ms=entry.get("route_to_protected_ms"),
        )

    def _node_rows(self) -> list[list[str]]:
        rows = []
        for node in self.members:
            entries = self._statuses.get(node.name, {}).get("peers", [])
            routed = [entry for entry in entries if entry.get("hops")]
            hops = ", ".join(f"{entry['name']} by {entry['interface'].removeprefix('mesh-')}" for entry in routed)
            rows.append([node.name, node.address or "-", hops or "-"])
        return rows

    def _sa_rows(self) -> list[list[str]]:
        rows = []
        for i, a in enumerate(self.members):
            for b in self.members[i + 1 :]:
                sa = self._sa(a, b)
                times = [sa.setup_ms.get("ike_sa_init"), sa.setup_ms.get("ike_auth"), sa.route_to_protected_ms]
                shown = ["-" if value is None else f"{value:.1f}" for value in times]
                rows.append([f"{sa.initiator} → {sa.responder}", sa.state, str(sa.hops or "-"), *shown])
        return rows

    def _next_hop(self, node: Node, target: Node) -> str:
        """Return the neighbour to which a node's route to a target leads; empty without a route."""
        routes = node.kernel.interfaces()
        return (routes.get(target.locator) or routes.get(target.address, "")).removeprefix("mesh-")

    def _other_hop(self, node: Node, target: Node, left: str) -> str:
        """Return that neighbour once it is another one than ``left``."""
        hop = self._next_hop(node, target)
        return "" if hop == left else hop


def _spis(first: Node, last: Node) -> frozenset[str]:
    return frozenset(spi for sa in first.charon.sas_with(last.name) for spi in sa.child_spis)


def _arrivals(flow: traffic.Flow, count: int = 100, seconds: float = 60.0) -> None:
    goal = len(flow.result.arrivals) + count
    wait_until(f"{count} datagrams", lambda: len(flow.result.arrivals) >= goal, [flow], seconds)
