"""The flow of a benchmark in the clear, in a real kernel: one port between two addresses, and closed with its owner."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from adapters.test_nftables import (
    LOCATOR,
    OWN,
    OWN_LOCATOR,
    PATIENCE,
    PEER,
    SILENCE,
    SPEC,
    STRANGER,
    Wire,
    begins,
    mesh_is_named,
    serving,
    wire,
)
from children import child
from meshsec.adapters.kernel.held_rules import HeldRules
from meshsec.adapters.kernel.nftables import OPEN_PRIORITY, render_open_policies
from meshsec.core.channels import nft_bench
from meshsec.core.channels.desired import in_doubt
from meshsec.core.channels.nft_rules import TABLE
from meshsec.core.values.bench import CLEAR_PORT, FLOW_PORT, TALK_PORT, Opening
from meshsec.core.values.model import EspBackend
from namespaces import ip, needs_root

pytestmark = needs_root

SSH = 22
OPEN = Opening(OWN_LOCATOR, LOCATOR, serves=True)
ASKS = replace(OPEN, serves=False)
PEERS = frozenset({PEER, LOCATOR})
__all__ = ["wire"]


@pytest.fixture
def held() -> Iterator[HeldRules]:
    held = HeldRules([nft_bench.TABLE], {})
    yield held
    held.close()


def marked(held: HeldRules, opening: Opening | None, seconds: int = 60, *, serves: bool = True) -> None:
    held.apply(lambda _name: nft_bench.render(PEERS, opening, seconds, serves=serves))


def test_the_rules_alone_open_nothing(wire: Wire) -> None:
    for opening in (OPEN, ASKS):
        wire.apply(replace(SPEC, opening=opening))
        assert wire.keeps_in(OWN_LOCATOR, LOCATOR, CLEAR_PORT, source_port=CLEAR_PORT)
        assert wire.keeps_out(LOCATOR, OWN_LOCATOR, CLEAR_PORT, source_port=CLEAR_PORT)
        assert wire.counters() == {"clear_out": 1, "clear_in": 1}


def test_the_marks_alone_open_nothing(wire: Wire, held: HeldRules) -> None:
    wire.apply(SPEC)
    marked(held, OPEN)
    assert wire.keeps_out(LOCATOR, OWN_LOCATOR, CLEAR_PORT, source_port=CLEAR_PORT)
    assert wire.counters() == {"clear_in": 1}


def test_one_port_is_open_to_the_peer_and_no_other(wire: Wire, held: HeldRules) -> None:
    wire.apply(replace(SPEC, opening=OPEN))
    marked(held, OPEN)
    assert wire.comes_in(LOCATOR, OWN_LOCATOR, CLEAR_PORT, source_port=CLEAR_PORT)
    assert wire.arrives(OWN_LOCATOR, LOCATOR, CLEAR_PORT, source_port=CLEAR_PORT)
    passed = {"bench_in": 1, "bench_out": 1}
    assert wire.counters() == passed
    assert wire.keeps_out(LOCATOR, OWN_LOCATOR, CLEAR_PORT + 1)
    assert wire.keeps_out(LOCATOR, OWN_LOCATOR, source_port=CLEAR_PORT)
    assert wire.keeps_out(LOCATOR, OWN_LOCATOR, CLEAR_PORT)
    assert wire.keeps_in(OWN_LOCATOR, LOCATOR, CLEAR_PORT)
    assert wire.keeps_in(OWN_LOCATOR, LOCATOR, source_port=CLEAR_PORT)
    assert wire.keeps_out(PEER, OWN, CLEAR_PORT, source_port=CLEAR_PORT)
    assert wire.keeps_in(OWN, PEER, source_port=CLEAR_PORT)
    assert wire.keeps_in(OWN, LOCATOR, source_port=CLEAR_PORT)
    assert wire.keeps_out(STRANGER, OWN_LOCATOR, CLEAR_PORT)
    assert {name: wire.counters()[name] for name in passed} == passed


@pytest.fixture
def measures(wire: Wire, held: HeldRules) -> Wire:
    """Return the wire of a node that measures, while the flow is open."""
    wire.apply(replace(SPEC, opening=ASKS))
    marked(held, ASKS, serves=False)
    return wire


def forges(wire: Wire, seconds: float = PATIENCE) -> bool:
    """Return whether somebody with the peer's address and the port of the flow gets a TCP connection to this node."""
    return begins(0, LOCATOR, OWN_LOCATOR, SSH, source_port=CLEAR_PORT, namespace=wire.other, seconds=seconds)


def with_the_old_rule(chain: str) -> None:
    """Accept what the first rules accepted at a node that measures: the port of one end alone decided."""
    source, target, port = {"input": (LOCATOR, OWN_LOCATOR, "sport"), "output": (OWN_LOCATOR, LOCATOR, "dport")}[chain]
    flow = f"ip6 saddr {source} ip6 daddr {target} meta l4proto {{ tcp, udp }} th {port} {CLEAR_PORT}"
    subprocess.run(["nft", f"insert rule inet {TABLE} {chain} {flow} accept"], check=True)


def test_the_node_that_asks_opens_the_port_of_the_other(measures: Wire) -> None:
    assert measures.arrives(OWN_LOCATOR, LOCATOR, CLEAR_PORT, source_port=CLEAR_PORT)
    assert measures.comes_in(LOCATOR, OWN_LOCATOR, CLEAR_PORT, source_port=CLEAR_PORT)
    assert measures.keeps_out(LOCATOR, OWN_LOCATOR, CLEAR_PORT)
    assert measures.keeps_in(OWN_LOCATOR, LOCATOR, CLEAR_PORT)
    assert measures.keeps_in(OWN_LOCATOR, LOCATOR, CLEAR_PORT + 1, source_port=CLEAR_PORT)
    with serving(0, measures.other, LOCATOR, CLEAR_PORT):
        assert begins(0, OWN_LOCATOR, LOCATOR, CLEAR_PORT)


def test_who_forges_the_peers_address_and_port_reaches_no_service_of_the_node_that_asks(measures: Wire) -> None:
    assert measures.keeps_out(LOCATOR, OWN_LOCATOR, SSH, source_port=CLEAR_PORT)
    with serving(0, None, OWN_LOCATOR, SSH):
        assert not forges(measures, SILENCE)
        with_the_old_rule("input")
        assert not forges(measures, SILENCE), "nor does the service answer in the clear"
        with_the_old_rule("output")
        assert forges(measures)
    assert measures.comes_in(LOCATOR, OWN_LOCATOR, SSH, source_port=CLEAR_PORT)


def test_no_connection_begins_towards_the_node_that_asks_at_a_port_that_it_used_itself(measures: Wire) -> None:
    """The ports from which this node connects are learned; a service may have one of them a moment later."""
    assert not begins(0, OWN_LOCATOR, LOCATOR, CLEAR_PORT, source_port=SSH), "nobody serves there"
    listed = subprocess.run(
        ["nft", "list", "set", "inet", nft_bench.TABLE, "connected"], capture_output=True, check=True
    )
    assert f"elements = {{ {SSH} }}".encode() in listed.stdout
    with serving(0, None, OWN_LOCATOR, SSH):
        assert not forges(measures, SILENCE)
        with_the_old_rule("input")
        assert forges(measures)


def test_the_node_that_serves_connects_to_nothing_in_the_clear(wire: Wire, held: HeldRules) -> None:
    wire.apply(replace(SPEC, opening=OPEN))
    marked(held, OPEN)
    with serving(0, wire.other, LOCATOR, SSH):
        assert not begins(0, OWN_LOCATOR, LOCATOR, SSH, source_port=CLEAR_PORT, seconds=SILENCE)
    assert wire.counters() == {"clear_out": 1}


def test_tcp_passes_too(wire: Wire, held: HeldRules) -> None:
    wire.apply(replace(SPEC, opening=OPEN))
    with serving(0, None, OWN_LOCATOR, CLEAR_PORT):
        assert not begins(0, LOCATOR, OWN_LOCATOR, CLEAR_PORT, namespace=wire.other, seconds=SILENCE)
        marked(held, OPEN)
        assert begins(0, LOCATOR, OWN_LOCATOR, CLEAR_PORT, namespace=wire.other)


def test_the_flow_is_closed_when_its_time_is_over(wire: Wire, held: HeldRules) -> None:
    wire.apply(replace(SPEC, opening=OPEN))
    marked(held, OPEN, 2)
    assert wire.comes_in(LOCATOR, OWN_LOCATOR, CLEAR_PORT, source_port=CLEAR_PORT)
    time.sleep(2.5)
    assert wire.keeps_out(LOCATOR, OWN_LOCATOR, CLEAR_PORT, source_port=CLEAR_PORT)


def test_the_flow_is_closed_when_its_owner_is_killed(wire: Wire) -> None:
    wire.apply(replace(SPEC, opening=OPEN))
    program = (
        "import sys, time; from meshsec.adapters.kernel.held_rules import HeldRules; "
        "held = HeldRules(['meshsec_bench'], {}); held.apply(lambda _name: sys.argv[1]); print('held', flush=True); "
        "time.sleep(600)"
    )
    text = nft_bench.render(PEERS, OPEN, 600, serves=True)
    with child(subprocess.Popen([sys.executable, "-c", program, text], stdout=subprocess.PIPE)) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"held\n"
        assert wire.comes_in(LOCATOR, OWN_LOCATOR, CLEAR_PORT, source_port=CLEAR_PORT)
        os.kill(owner.pid, signal.SIGKILL)
        owner.wait()
        assert wire.keeps_out(LOCATOR, OWN_LOCATOR, CLEAR_PORT, source_port=CLEAR_PORT)


@pytest.mark.parametrize("serves", [True, False])
def test_with_esp_in_the_kernel_the_flow_passes_beside_charons_policies(
    wire: Wire, held: HeldRules, *, serves: bool
) -> None:
    opening = Opening(OWN, PEER, serves=serves)
    kernel = replace(SPEC, backend=EspBackend.KERNEL, opening=opening)
    for source, target, direction in ((OWN, PEER, "out"), (PEER, OWN, "in")):
        template = ["tmpl", "src", str(source), "dst", str(target), "proto", "esp", "mode", "transport"]
        selector = ["src", f"{source}/128", "dst", f"{target}/128", "dir", direction]
        ip("xfrm", "policy", "update", *selector, "priority", "300000", *template)
    wire.apply(kernel)
    assert wire.keeps_out(PEER, OWN, CLEAR_PORT, source_port=CLEAR_PORT)
    marked(held, opening, serves=serves)
    assert wire.comes_in(PEER, OWN, CLEAR_PORT, source_port=CLEAR_PORT)
    assert wire.arrives(OWN, PEER, CLEAR_PORT, source_port=CLEAR_PORT)
    here, there = (None, OWN), (wire.other, PEER)
    (server, own), (client, other) = (here, there) if serves else (there, here)
    with serving(0, server, own, CLEAR_PORT):
        assert begins(0, other, own, CLEAR_PORT, namespace=client)
    assert wire.keeps_out(PEER, OWN, CLEAR_PORT + 1, source_port=CLEAR_PORT)
    assert wire.keeps_in(OWN, PEER, CLEAR_PORT + 1, source_port=CLEAR_PORT)
    assert asyncio.run(wire.rules.in_force()) == kernel
    held.close()
    assert wire.keeps_out(PEER, OWN, CLEAR_PORT, source_port=CLEAR_PORT)
    wire.apply(replace(kernel, opening=None))
    assert f"priority {OPEN_PRIORITY}" not in ip("xfrm", "policy", "list")
    assert ip("xfrm", "policy", "list").count("priority 300000") == 2


def test_strangers_and_other_peers_do_not_reach_what_serves(wire: Wire, held: HeldRules) -> None:
    wire.apply(SPEC)
    mesh_is_named("ipsec0")  # what arrives by charon's device was protected
    for address in (PEER, STRANGER):
        ip("route", "add", f"{address}/128", "via", "fe80::2", "dev", "ipsec0")
    assert wire.comes_in(STRANGER, OWN, FLOW_PORT)
    marked(held, None)
    for port in (CLEAR_PORT, FLOW_PORT, TALK_PORT):
        assert wire.keeps_out(STRANGER, OWN, port)
        assert wire.comes_in(PEER, OWN, port)
    assert wire.comes_in(STRANGER, OWN, TALK_PORT + 1)


def test_a_card_in_doubt_closes_the_flow() -> None:
    assert in_doubt(replace(SPEC, opening=OPEN)).opening is None


def test_ipsec_in_the_kernel_leaves_the_flow_alone() -> None:
    assert render_open_policies(replace(SPEC, opening=OPEN)) == []
    in_kernel = replace(SPEC, backend=EspBackend.KERNEL)
    assert render_open_policies(in_kernel) == []
    ends = f"src {LOCATOR}/128 dst {OWN_LOCATOR}/128", f"src {OWN_LOCATOR}/128 dst {LOCATOR}/128"
    both = f"sport {CLEAR_PORT} dport {CLEAR_PORT}"
    for opening, (here, there) in ((OPEN, ("dport", "sport")), (ASKS, ("sport", "dport"))):
        assert render_open_policies(replace(in_kernel, opening=opening)) == [
            f"{ends[0]} proto tcp {here} {CLEAR_PORT} dir in",
            f"{ends[1]} proto tcp {there} {CLEAR_PORT} dir out",
            f"{ends[0]} proto udp {both} dir in",
            f"{ends[1]} proto udp {both} dir out",
        ]
