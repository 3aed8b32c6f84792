"""``meshsec bench throughput``: what it measures, and that it opens one port between its two ends and nothing else.

The line a - b - c: a and c trust each other, b is a stranger that relays.
"""

import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6

from children import child
from meshsec.cli.client import Client, DaemonError
from meshsec.core.values.bench import CLEAR_PORT, FLOW_PORT, TALK_PORT
from tests.lab.basics import programs
from tests.lab.basics.waiting import wait_until
from tests.lab.forge.raw import Forger, Way
from tests.lab.lab import Lab
from tests.lab.net import namespaces
from tests.lab.net.topology import line, names
from tests.lab.net.traffic import udp_socket, wait_arrivals
from tests.lab.node import capabilities
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.lab.observe.schemas import schema
from tests.scenarios.expectations import flow

pytestmark = pytest.mark.skipif(not capabilities.probe().tun, reason="there is no /dev/net/tun")

SHORT = ["--seconds", "1", "--rounds", "1", "--rate", "2"]
PATIENCE = 60.0
SILENCE = 0.5
"""Seconds to wait for a datagram that must not arrive."""
OPEN_SECONDS = 5
"""Seconds for which the flow is open in a test that first shows that it is."""


@pytest.fixture(scope="module")
def planes() -> Iterator[Lab]:
    with Lab("throughput", line(names(3)), Options(overlay=True)) as lab:
        yield lab.set_up().trust("a", "c").start()


@pytest.fixture
def lab(planes: Lab) -> Lab:
    """Return the healthy line; nothing is measured."""
    planes.heal()
    a, c = planes["a"], planes["c"]
    for node, peer in ((a, c), (c, a)):
        node.wait_protected(peer)
        wait_no_benchmark(node)
    return planes


def wait_no_benchmark(node: Node) -> None:
    node.wait_for("no benchmark", lambda: node.control.ask("status").get("bench", 0) is None, PATIENCE)


@contextmanager
def serving(node: Node, peer: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Run ``meshsec bench serve`` until the end of the block."""
    argv = [programs.meshsec(), "--config", str(node.config), "bench", "serve", peer, *options]
    # A shell starts a test run in the background with SIGINT ignored.
    awake = ["env", "--default-signal=INT"]
    with child(
        subprocess.Popen(
            ["ip", "netns", "exec", node.namespace, *awake, *argv],
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    ) as process:
        assert process.stderr is not None
        try:
            said = process.stderr.readline()
            assert "serving" in said, said + process.stderr.read()
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE)


@contextmanager
def counted(relay: Node, a: Node, c: Node) -> Iterator[dict[str, int]]:
    """Count what the relay forwards between two nodes: IKE and ESP in UDP or ESP, the bench's port, and all else."""
    ends = f"{{ {a.announced}, {c.announced} }}"
    here = f"ip6 saddr {ends} ip6 daddr {ends}"
    both = f"udp sport {CLEAR_PORT} udp dport {CLEAR_PORT}"
    there, back = (f"ip6 saddr {one.announced} ip6 daddr {other.announced}" for one, other in ((a, c), (c, a)))
    ways = [f"{there} tcp dport {CLEAR_PORT}", f"{back} tcp sport {CLEAR_PORT}", f"{there} {both}", f"{back} {both}"]
    rules = [
        *(f'{one} counter name "bench" return' for one in ways),
        f'{here} udp dport {{ 500, 4500 }} counter name "sealed" return',
        f'{here} meta l4proto esp counter name "sealed" return',
        'meta nfproto ipv6 counter name "other"',
    ]
    hook = "type filter hook forward priority -300; policy accept;"
    counters = "".join(f"counter {name} {{ }}\n" for name in ("bench", "sealed", "other"))
    body = "\n".join(rules)
    relay.run("nft", "-f", "-", stdin=f"table inet seen {{\n{counters}chain seen {{\n{hook}\n{body}\n}}\n}}\n")
    found: dict[str, int] = {}
    try:
        yield found
        listing = json.loads(relay.run("nft", "-j", "list", "counters", "table", "inet", "seen").stdout)["nftables"]
        found.update({one["counter"]["name"]: one["counter"]["packets"] for one in listing if "counter" in one})
    finally:
        relay.run("nft", "delete", "table", "inet", "seen")


def measured(node: Node, into: Path, *options: str) -> dict[str, Any]:
    found = node.meshsec("bench", "throughput", "c", *SHORT, "--json", "--into", str(into), *options, timeout=300)
    view: dict[str, Any] = json.loads(found.stdout)
    schema("meshsec-measurement-1").validate(view)
    return view


def test_all_planes_are_measured_both_ways_and_nothing_else_is_in_the_clear(lab: Lab, tmp_path: Path) -> None:
    a, b, c = (lab[name] for name in "abc")
    with counted(b, a, c) as seen, flow(a, c) as data, serving(c, "a", "--plain") as server:
        view = measured(a, tmp_path, "--plain")
        assert server.wait(PATIENCE) == 0, "it ends with the benchmark"
        wait_arrivals(data, 50, PATIENCE)
    assert seen["bench"] > 0
    assert seen["sealed"] > 0
    assert seen["other"] == 0, "only the port of the benchmark is in the clear"
    planes = ["plain", "ipsec", "overlay"]
    ways = ["to c", "from c"]
    by_unit: dict[str, list[Any]] = {}
    for cell in view["cells"]:
        by_unit.setdefault(cell["unit"], []).append(cell)
    streams = [one for one in by_unit["Mbit/s"] if "offered" not in one["key"]]
    assert [(one["key"]["plane"], one["key"]["direction"]) for one in streams] == [(p, w) for p in planes for w in ways]
    assert all(one["median"] > 0 for one in streams)
    loads = [one for one in by_unit["Mbit/s"] if "offered" in one["key"]]
    assert [one["key"]["offered"] for one in loads] == [2.0] * 6
    assert all(1 < one["median"] < 2.5 for one in loads)
    for unit, count in (("segments sent again in a second", 6), ("kB of congestion window", 6), ("ms of jitter", 6)):
        assert len(by_unit[unit]) == count
    assert [one["key"]["beside"] for one in by_unit["ms"]] == ["nothing", "TCP to c", "TCP from c"] * 3
    assert {one["key"]["core"] for one in by_unit["% of the core busy"]}
    assert "iperf3" in {one["key"]["process"] for one in by_unit["% of one core"]}
    assert len([one for one in view["notes"] if "the limit is" in one]) == 6
    assert (view["cut_short"], list(tmp_path.glob("*.csv")) != []) == ("", True)
    for node, peer in ((a, c), (c, a)):
        wait_no_benchmark(node)
        wait_ipsec(node, peer)


def wait_ipsec(node: Node, peer: Node) -> None:
    def carried() -> bool:
        found = node.control.peer(peer.name)
        return (found.get("data_plane"), found.get("mode")) == ("ipsec", "ipsec")

    node.wait_for("IPsec again", carried, PATIENCE)


def test_without_the_other_operators_word_nothing_passes_in_the_clear(lab: Lab, tmp_path: Path) -> None:
    a, b, c = (lab[name] for name in "abc")
    with counted(b, a, c) as seen, serving(c, "a"):
        view = measured(a, tmp_path, "--plain")
    assert (seen["bench"], seen["other"]) == (0, 0)
    assert {one["key"]["plane"] for one in view["cells"]} == {"ipsec", "overlay"}
    absent = "plain was not measured: c: `meshsec bench serve` runs there without --plain"
    assert any(absent in one for one in view["notes"])


def test_what_cannot_be_measured_is_refused_with_the_command_that_helps(lab: Lab, tmp_path: Path) -> None:
    a, c = lab["a"], lab["c"]
    into = ["--into", str(tmp_path)]
    for peer, said in (
        ("c", "c does not serve: Connection refused; run this there, and try again: meshsec bench serve a"),
        ("a", "a is this node itself"),
        ("nobody", "'nobody' is the name of no peer"),
    ):
        refused = a.meshsec("bench", "throughput", peer, *into, check=False)
        assert refused.returncode == 1
        assert said in refused.stderr
    assert "nobody is not a peer" in c.meshsec("bench", "serve", "nobody", check=False).stderr
    with serving(c, "a"):
        again = c.meshsec("bench", "serve", "a", check=False)
        assert "a benchmark with a runs already" in again.stderr
    assert [*tmp_path.iterdir()] == []


def test_an_interrupted_benchmark_keeps_its_figures_and_goes_on(lab: Lab, tmp_path: Path) -> None:
    a, c = lab["a"], lab["c"]
    options = ["--seconds", "1", "--rounds", "1", "--rate", "1", "--into", str(tmp_path)]
    argv = [programs.meshsec(), "--config", str(a.config), "bench", "throughput", "c", *options]
    with serving(c, "a"):
        program = "import os, signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        program += "sys.argv[0] = 'meshsec'; from meshsec.cli import main; main()"
        wrapped = ["ip", "netns", "exec", a.namespace, str(Path(programs.meshsec()).parent / "python"), "-c", program]
        with child(subprocess.Popen([*wrapped, *argv[1:]], stderr=subprocess.PIPE, text=True)) as process:
            wait_until("two steps", lambda: _steps(tmp_path) >= 2, [], PATIENCE, last=lambda: _steps(tmp_path))
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=PATIENCE)
        (kept,) = tmp_path.glob("*.json")
        assert "interrupted; the figures are those of" in said
        done = _steps(tmp_path)
        result = a.meshsec(*argv[3:], "--resume", str(kept), timeout=300)
    view = json.loads(kept.read_text())
    assert (view["cut_short"], view["steps"]) == ("", 10), result.stderr
    assert done < 10


def _steps(into: Path) -> int:
    return max((int(json.loads(one.read_text())["steps"]) for one in into.glob("*.json")), default=0)


class Opened:
    """The flow in the clear between two nodes, as their commands ask for it."""

    def __init__(self, lab: Lab, stack: ExitStack) -> None:
        a, self.b, c = (lab[name] for name in "abc")
        self.a, self.c = a, c
        readable = f"ip6 saddr {a.announced} ip6 daddr {c.announced} udp dport != {{ 500, 4500 }} counter name readable"
        hook = "type filter hook forward priority -300; policy accept;"
        seen = f"table inet seen {{ counter readable {{ }}\nchain seen {{\n{hook}\n{readable}\n}}\n}}\n"
        self.b.run("nft", "-f", "-", stdin=seen)
        stack.callback(self.b.run, "nft", "delete", "table", "inet", "seen")
        self.asks = stack.enter_context(Client(a.run_directory / "control.sock", PATIENCE))
        self.serves = stack.enter_context(Client(c.run_directory / "control.sock", PATIENCE))
        self._begun = (
            (self.asks, self.asks.call("bench_begin", {"peer": c.name, "serves": False})["session"]),
            (self.serves, self.serves.call("bench_begin", {"peer": a.name, "serves": True})["session"]),
        )

    def open(self, seconds: int = 60, ends: tuple[int, ...] = (0, 1)) -> None:
        for client, session in (self._begun[end] for end in ends):
            client.call("bench_plane", {"session": session, "plane": "plain", "seconds": seconds})

    def passes(self, port: int = CLEAR_PORT, seconds: float = SILENCE, *, source_port: int = CLEAR_PORT) -> bool:
        """Return whether a datagram of a comes to c, and the relay could read it: IPsec takes it to the same address
        where ESP is the kernel's."""
        before = self._readable()
        with (
            udp_socket(self.c.namespace, self.c.announced, port) as heard,
            udp_socket(self.a.namespace, self.a.announced, source_port) as sender,
        ):
            try:
                sender.sendto(b"clear", (self.c.announced, port))
                heard.settimeout(seconds)
                arrived = heard.recv(16) == b"clear"
            except (TimeoutError, PermissionError):
                arrived = False
        return arrived and self._readable() > before

    def _readable(self) -> int:
        """Return how many datagrams of a to c the relay has seen that are neither IKE nor ESP."""
        listing = self.b.run("nft", "-j", "list", "counter", "inet", "seen", "readable").stdout
        return next(int(one["counter"]["packets"]) for one in json.loads(listing)["nftables"] if "counter" in one)


@pytest.fixture
def opened(lab: Lab) -> Iterator[Opened]:
    with ExitStack() as stack:
        yield Opened(lab, stack)


def test_both_ends_must_open_and_it_is_one_port_that_status_and_doctor_show(opened: Opened) -> None:
    a, c = opened.a, opened.c
    assert not opened.passes()
    opened.open(ends=(0,))
    assert not opened.passes(), "the one that asks cannot open the other"
    opened.open(ends=(1,))
    assert opened.passes(seconds=PATIENCE)
    assert not opened.passes(CLEAR_PORT + 1)
    assert not opened.passes(source_port=CLEAR_PORT + 1)
    for node, peer in ((a, c), (c, a)):
        shown = node.meshsec("status", check=False).stdout
        assert f"In the clear for a benchmark: port {CLEAR_PORT} between {node.announced} and {peer.announced}" in (
            " ".join(shown.split())
        )
        checks = json.loads(node.meshsec("doctor", "--json", check=False).stdout)["checks"]
        (check,) = [one for one in checks if one["name"] == "benchmark"]
        assert check["level"] == "warn"
        schema("meshsec-status-1").validate(node.control.ask("status"))


def test_what_the_relay_forges_reaches_no_service_of_the_node_that_measures(opened: Opened, lab: Lab) -> None:
    a, c = opened.a, opened.c
    opened.open()
    assert opened.passes(seconds=PATIENCE)
    with Forger(Way.between(lab.end_of("b", "a"), lab.end_of("a", "b"))) as forger:
        for port, arrives in ((22, False), (CLEAR_PORT, True)):
            with udp_socket(a.namespace, a.announced, port) as heard:
                heard.settimeout(PATIENCE if arrives else SILENCE)
                forger.send(IPv6(src=c.announced, dst=a.announced) / UDP(sport=CLEAR_PORT, dport=port) / b"forged")
                assert _received(heard) == (b"forged" if arrives else b"")


def _received(heard: socket.socket) -> bytes:
    try:
        return heard.recv(16)
    except TimeoutError:
        return b""


def _listening(node: Node, address: str, port: int) -> socket.socket:
    def opened() -> socket.socket:
        return socket.create_server((address, port), family=socket.AF_INET6)

    return namespaces.within(node.namespace, opened)


def test_it_closes_with_the_command_of_either_end_however_that_ends(lab: Lab) -> None:
    for which in ("asks", "serves"):
        with ExitStack() as stack:
            opened = Opened(lab, stack)
            opened.open()
            assert opened.passes(seconds=PATIENCE)
            getattr(opened, which).__exit__(None, None, None)
            wait_no_benchmark(opened.a if which == "asks" else opened.c)
            assert not opened.passes()
        for node in (lab["a"], lab["c"]):
            wait_no_benchmark(node)


def test_it_closes_when_its_time_is_over(opened: Opened) -> None:
    opened.open(OPEN_SECONDS)
    assert opened.passes(seconds=PATIENCE)
    opened.c.wait_for("closed", lambda: opened.c.control.ask("status")["bench"]["open"] is None, PATIENCE)
    assert not opened.passes()


@pytest.mark.parametrize("victim", ["a", "c"])
def test_it_closes_when_meshsecd_is_killed(opened: Opened, lab: Lab, victim: str) -> None:
    opened.open()
    assert opened.passes(seconds=PATIENCE)
    lab[victim].daemons.agent.kill()
    assert not opened.passes()
    lab.heal()
    lab[victim].wait_for("meshsecd", lambda: lab[victim].control.ask("status").get("rules_stand"), PATIENCE)
    assert not opened.passes(), "a new meshsecd opens nothing"


def test_meshsecd_ends_in_order_while_it_is_open(opened: Opened, lab: Lab) -> None:
    opened.open()
    assert opened.passes(seconds=PATIENCE)
    agent = lab["c"].daemons.agent
    assert agent.stop() == 0
    assert "Traceback" not in agent.tail(60)
    assert not opened.passes()


def test_a_peer_that_is_removed_meanwhile_closes_it(opened: Opened, lab: Lab) -> None:
    opened.open()
    assert opened.passes(seconds=PATIENCE)
    opened.c.distrust(opened.a)
    try:
        opened.c.wait_for("rules without it", lambda: not opened.passes(), PATIENCE)
    finally:
        opened.c.trust(opened.a)


def test_another_command_cannot_take_over_a_benchmark(opened: Opened) -> None:
    with Client(opened.a.run_directory / "control.sock", PATIENCE) as other:
        with pytest.raises(DaemonError, match="runs already"):
            other.call("bench_begin", {"peer": "c", "serves": False})
        with pytest.raises(DaemonError, match="no such benchmark"):
            other.call("bench_plane", {"session": "0" * 32, "plane": "plain", "seconds": 5})
    assert opened.a.control.ask("status")["bench"]["open"] is None


def test_a_stranger_reaches_nothing_of_what_serves(lab: Lab) -> None:
    """The command itself listens at one port until it is asked for a plane, so that others listen at the rest."""
    a, b, c = lab["a"], lab["b"], lab["c"]
    own = {c.announced, c.address}
    with serving(c, "a", "--plain"), ExitStack() as listening:
        for port in (CLEAR_PORT, FLOW_PORT):
            for address in own:
                listening.enter_context(_listening(c, address, port))
        for port in (CLEAR_PORT, FLOW_PORT, TALK_PORT):
            assert namespaces.within(a.namespace, partial(_connects, c.address, port, (a.address, 0), PATIENCE))
            for address in own:
                assert not namespaces.within(b.namespace, partial(_connects, address, port))


def _connects(address: str, port: int, own: tuple[str, int] | None = None, seconds: float = SILENCE) -> bool:
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as opened:
        opened.settimeout(seconds)
        try:
            if own is not None:
                opened.bind(own)
            opened.connect((address, port))
        except OSError:
            return False
    return True


def test_octets_of_a_peer_that_are_no_request_end_nothing(lab: Lab) -> None:
    a, c = lab["a"], lab["c"]
    with serving(c, "a") as server:
        for octets in (b"\xff" * 5000 + b"\n", b"[]\n", b'{"do": 1}\n', b'{"do": "plane", "plane": {}}\n', b"{"):
            with namespaces.within(a.namespace, lambda: socket.socket(socket.AF_INET6)) as opened:
                opened.settimeout(5)
                opened.bind((a.address, 0))
                opened.connect((c.address, CLEAR_PORT + 2))
                opened.sendall(octets)
        with namespaces.within(a.namespace, lambda: socket.socket(socket.AF_INET6)) as opened:
            opened.settimeout(PATIENCE)
            opened.bind((a.address, 0))
            opened.connect((c.address, CLEAR_PORT + 2))
            opened.sendall(b'{"do": "hello"}\n')
            assert json.loads(opened.recv(4096))["plain"] is False
        assert server.poll() is None
        assert c.control.ask("status")["bench"]["open"] is None
