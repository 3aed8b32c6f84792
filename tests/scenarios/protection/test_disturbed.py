"""Nothing leaks when something disturbs a node: other programs change its rules, memory or disk run out, daemons die.

The sender a and the receiver c trust each other; captures run at all three nodes of the line a - b - c.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

import pytest

from tests.lab.basics.waiting import wait_until
from tests.lab.faults.out_of_memory import knock, without_memory
from tests.lab.faults.small_disk import small
from tests.lab.lab import Lab
from tests.lab.net.packets import Kind
from tests.lab.net.topology import line, names
from tests.lab.net.traffic import Flow, wait_arrivals
from tests.lab.node import capabilities
from tests.lab.node.artifacts import artifacts
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.scenarios.expectations import assert_nothing_clear, captured, flow, spis

PATIENCE = 60.0
OFTEN = 0.002
"""Seconds between two datagrams: short, so that a gap of a few milliseconds would let one through."""
OTHER_SUITES = {
    "ike_proposals": ["chacha20poly1305-prfsha256-x25519"],
    "esp_proposals": ["chacha20poly1305-x25519"],
}
"""Suites that the other end's policy accepts as well."""
FULL_DISK = """
mount -t tmpfs -o size=64k,mode=755 none "$1" && cp -a "$1.copy/." "$1"
dd if=/dev/zero of="$1/filler" bs=4096 2>/dev/null
shift; exec "$@"
"""
"""Runs in the mount namespace that ``ip netns exec`` gives each program: the disk ends with the program."""


def flow4(source: Node, target: Node) -> Flow:
    """Return a flow of user data between the IPv4 addresses."""
    return Flow((source.namespace, source.ipv4), (target.namespace, target.ipv4))


def dies_when_asked(node: Node, kind: str) -> bool:
    """Send a daemon a request, which needs memory. Return whether the daemon is dead."""
    with suppress(OSError):
        ASKED[kind](node)
    daemon = node.daemons.get(kind)
    return daemon is not None and not daemon.running


ASKED: dict[str, Callable[[Node], object]] = {
    "meshsecd": lambda node: node.control.ask("status"),
    "charon": lambda node: node.charon.sas(),
    "router": lambda node: knock(node.run_directory / "changes.sock"),
}


def identities(node: Node, peer: Node) -> frozenset[str]:
    """Return the SPIs of the one IKE_SA with a peer, and of its CHILD_SAs."""
    sa = node.wait_protected(peer)
    return frozenset(sa.spis) | sa.child_spis


def others(node: Node, peer: Node, before: frozenset[str]) -> frozenset[str]:
    """Return the SPIs that were not there before."""
    return identities(node, peer) - before


def wait_rules(node: Node) -> None:
    """Wait until the kernel has the rules as meshsecd applied them."""
    node.wait_for("the rules are in force", lambda: node.control.ask("status").get("rules_stand"), PATIENCE)


def test_all_rules_flushed_by_another_program_are_back_at_once_and_nothing_leaks(mesh: Lab) -> None:
    a, c = mesh["a"], mesh["c"]
    before = spis(a, c)
    with captured(mesh, "flush") as captures, flow(a, c) as running, flow4(a, c) as beside:
        for _ in range(3):
            for node in (a, c):
                node.run("nft", "flush", "ruleset")
            for node in (a, c):
                wait_rules(node)
            for one in (running, beside):
                wait_arrivals(one)
    assert_nothing_clear(captures)
    assert spis(a, c) == before, "the rules are no matter of the SAs"
    assert "altered or removed by another program" in a.daemons.agent.tail(200)


@pytest.mark.skipif(
    capabilities.probe().esp == "kernel", reason="the kernel's SAs outlive charon: the way stays protected"
)
def test_nothing_leaks_from_the_flush_until_the_rules_are_back_when_no_sa_holds_the_way(mesh: Lab) -> None:
    """Without charon's IPv4 route user data would leave in the clear: only the rules hold it back."""
    a, c = mesh["a"], mesh["c"]
    a.daemons.charon.kill()
    with captured(mesh, "flush-alone") as captures, flow4(a, c) as running:
        running.result.interval = OFTEN
        for _ in range(3):
            refused = running.result.refused
            a.run("nft", "flush", "ruleset")
            wait_rules(a)
            a.wait_for("the kernel refuses", lambda before=refused: running.result.refused > before + 10, PATIENCE)  # type: ignore[misc]
    assert_nothing_clear(captures)
    a.daemons.agent.kill()
    a.run("nft", "flush", "ruleset")
    with mesh["b"].capture("flush-negative") as seen, flow4(a, c):
        wait_until("user data in the clear", lambda: seen.counts[Kind.CLEAR], [seen], PATIENCE)
    mesh.heal()
    a.wait_protected(c)


def test_rules_flushed_while_meshsecd_is_dead_are_back_with_it_and_its_sas_hold_meanwhile(mesh: Lab) -> None:
    a, c = mesh["a"], mesh["c"]
    with captured(mesh, "flush-dead") as captures, flow(a, c) as running, flow4(a, c) as beside:
        for one in (running, beside):
            wait_arrivals(one)
        a.daemons.agent.kill()
        a.run("nft", "flush", "ruleset")
        for one in (running, beside):
            wait_arrivals(one)
        mesh.start("meshsecd", nodes=[a])
        wait_rules(a)
        for one in (running, beside):
            wait_arrivals(one)
    assert_nothing_clear(captures)


@pytest.mark.parametrize("kind", ASKED)
def test_a_daemon_killed_for_want_of_memory_leaks_nothing_and_comes_back(mesh: Lab, kind: str) -> None:
    """For overlayd see test_mode.py."""
    a, c = mesh["a"], mesh["c"]
    before, daemon = spis(a, c), a.daemons.get(kind)
    assert daemon is not None
    with captured(mesh, f"memory-{kind}") as captures, flow(a, c) as running, flow4(a, c) as beside:
        for one in (running, beside):
            wait_arrivals(one)
        with without_memory(daemon.pid) as kills:
            wait_until(f"{kind} is killed", lambda: dies_when_asked(a, kind), [], PATIENCE)
            assert kills() > 0, "it was not the kernel that killed it"
        mesh.start(kind, nodes=[a])
        a.wait_route(c)
        a.wait_protected(c)
        for one in (running, beside):
            wait_arrivals(one)
    assert (spis(a, c) == before) is (kind != "charon")
    assert_nothing_clear(captures)


def test_rekeyed_sas_leak_nothing_and_user_data_goes_on(mesh: Lab) -> None:
    """Sender and receiver in turn rekey the IKE_SA and its CHILD_SAs (RFC 7296, section 1.3)."""
    a, c = mesh["a"], mesh["c"]
    with captured(mesh, "rekey") as captures, flow(a, c) as running, flow4(a, c) as beside:
        for node, peer in ((a, c), (c, a)):
            for child in (*sorted(one.name for one in node.wait_protected(peer).installed), ""):
                before = identities(node, peer)
                node.charon.rekey(peer.name, child)
                what = f"another {child or 'IKE_SA'} by {node.name}"
                node.wait_for(what, partial(others, node, peer, before), PATIENCE)
                spis(a, c)
                for one in (running, beside):
                    wait_arrivals(one)
    assert_nothing_clear(captures)


def test_meshsecd_starts_on_a_full_disk_and_keeps_the_sas(mesh: Lab) -> None:
    a, c = mesh["a"], mesh["c"]
    before = spis(a, c)
    with captured(mesh, "disk") as captures, flow(a, c) as running, flow4(a, c):
        wait_arrivals(running)
        with on_full_disk(mesh, a):
            refused = a.meshsec("mode", "ipsec", "c", check=False)
            wait_rules(a)
            a.wait_protected(c)
            wait_arrivals(running)
    assert refused.returncode
    assert "No space left on device" in refused.stderr
    assert spis(a, c) == before
    assert_nothing_clear(captures)


def test_daemons_start_where_run_is_full_and_nothing_leaks() -> None:
    """meshsecd leaves out the files in /run and reports it; sockets need no room."""
    with Lab("full-run", line(names(2)), Options(ipv4=True, scheduling="nice")) as lab:
        a, b = lab["a"], lab["b"]
        with small(a.run_directory) as fill:
            lab.set_up().trust_all().start()
            a.wait_protected(b)
            with captured(lab, "full-run") as captures, flow(a, b) as running, flow4(a, b) as beside:
                wait_arrivals(running)
                fill()
                for kind in ("meshsecd", "charon"):
                    (a.daemons.agent if kind == "meshsecd" else a.daemons.charon).kill()
                    lab.start(kind, nodes=[a])
                    wait_rules(a)
                    a.wait_protected(b)
                    for one in (running, beside):
                        wait_arrivals(one)
            assert_nothing_clear(captures)
            assert "No space left on device" in a.daemons.agent.tail(400)


def test_a_reload_and_another_policy_leak_nothing_and_user_data_goes_on(mesh: Lab) -> None:
    a, c = mesh["a"], mesh["c"]
    before, options = spis(a, c), a.options
    with captured(mesh, "policy") as captures, flow(a, c) as running, flow4(a, c) as beside:
        try:
            a.reconfigure(replace(options, policy={**options.policy, **OTHER_SUITES}))
            a.daemons.agent.send_signal(signal.SIGHUP)
            a.wait_for("it is reported", lambda: "puts it into force" in a.daemons.agent.tail(40), PATIENCE)
            for one in (running, beside):
                wait_arrivals(one)
            a.daemons.agent.stop()
            mesh.start("meshsecd", nodes=[a])
            a.wait_protected(c)
            assert spis(a, c) == before, "another policy alone negotiates nothing"
            a.charon.terminate("c")
            a.wait_protected(c)
            assert spis(a, c).isdisjoint(before)
            for one in (running, beside):
                wait_arrivals(one)
        finally:
            a.reconfigure(options)
            a.daemons.agent.stop()
            mesh.start("meshsecd", nodes=[a])
    assert_nothing_clear(captures)


def test_a_node_that_ends_its_daemons_in_order_and_starts_them_again_leaks_nothing(mesh: Lab) -> None:
    """The order is that of a shutdown: IKE closes the SA itself. Programs send during all of it."""
    a, c = mesh["a"], mesh["c"]
    with captured(mesh, "shutdown") as captures, flow(a, c) as running, flow4(a, c) as beside:
        for one in (running, beside):
            wait_arrivals(one)
        a.daemons.agent.stop()
        a.daemons.charon.stop()
        refused = beside.result.refused
        wait_until("the kernel refuses", lambda: beside.result.refused > refused + 10, [], PATIENCE)
        a.daemons.router.stop()
        mesh.start(nodes=[a])
        a.wait_protected(c)
        for one in (running, beside):
            wait_arrivals(one)
    assert_nothing_clear(captures)


def test_what_a_failure_leaves_behind_does_not_wait_for_a_meshsecd_that_hangs(mesh: Lab) -> None:
    a = mesh["a"]
    a.daemons.agent.send_signal(signal.SIGSTOP)
    try:
        assert dict(artifacts(a))["status.json"] == "no answer: timed out"
    finally:
        a.daemons.agent.send_signal(signal.SIGCONT)


@contextmanager
def on_full_disk(mesh: Lab, node: Node) -> Iterator[None]:
    """Restart the node's meshsecd with its state on a disk that is full."""
    copy, argv = node.var.with_name(f"{node.var.name}.copy"), node.daemons.agent.argv
    node.run("cp", "-a", str(node.var), str(copy))
    node.daemons.agent.kill()
    node.daemons.agent.argv = ["sh", "-c", FULL_DISK, "sh", str(node.var), *argv]
    try:
        mesh.start("meshsecd", nodes=[node])
        yield
    finally:
        node.daemons.agent.argv = argv
        node.daemons.agent.kill()
        mesh.start("meshsecd", nodes=[node])
