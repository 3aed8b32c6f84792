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
from meshsec.adapters.kernel.held_rules import HeldRules
from meshsec.adapters.kernel.nftables import OPEN_PRIORITY, render_open_policies
from meshsec.core.channels import nft_bench
from meshsec.core.channels.desired import in_doubt
from meshsec.core.values.bench import CLEAR_PORT, FLOW_PORT, TALK_PORT, Opening
from meshsec.core.values.model import EspBackend
from namespaces import ip, needs_root

pytestmark = needs_root

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
        assert wire.keeps_in(OWN_LOCATOR, LOCATOR, CLEAR_PORT)
        assert wire.keeps_out(LOCATOR, OWN_LOCATOR, CLEAR_PORT)
        assert wire.counters() == {"clear_out": 1, "clear_in": 1}


def test_the_marks_alone_open_nothing(wire: Wire, held: HeldRules) -> None:
    wire.apply(SPEC)
    marked(held, OPEN)
    assert wire.keeps_out(LOCATOR, OWN_LOCATOR, CLEAR_PORT)
    assert wire.counters() == {"clear_in": 1}


def test_one_port_is_open_to_the_peer_and_no_other(wire: Wire, held: HeldRules) -> None:
    wire.apply(replace(SPEC, opening=OPEN))
    marked(held, OPEN)
    assert wire.comes_in(LOCATOR, OWN_LOCATOR, CLEAR_PORT)
    assert wire.arrives(OWN_LOCATOR, LOCATOR, source_port=CLEAR_PORT)
    passed = {"bench_in": 1, "bench_out": 1}
    assert wire.counters() == passed
    assert wire.keeps_out(LOCATOR, OWN_LOCATOR, CLEAR_PORT + 1)
    assert wire.keeps_out(LOCATOR, OWN_LOCATOR, source_port=CLEAR_PORT)
    assert wire.keeps_in(OWN_LOCATOR, LOCATOR, CLEAR_PORT)
    assert wire.keeps_out(PEER, OWN, CLEAR_PORT)
    assert wire.keeps_in(OWN, PEER, source_port=CLEAR_PORT)
    assert wire.keeps_in(OWN, LOCATOR, source_port=CLEAR_PORT)
    assert wire.keeps_out(STRANGER, OWN_LOCATOR, CLEAR_PORT)
    assert {name: wire.counters()[name] for name in passed} == passed


def test_the_node_that_asks_opens_the_port_of_the_other(wire: Wire, held: HeldRules) -> None:
    wire.apply(replace(SPEC, opening=ASKS))
    marked(held, ASKS, serves=False)
    assert wire.arrives(OWN_LOCATOR, LOCATOR, CLEAR_PORT)
    assert wire.comes_in(LOCATOR, OWN_LOCATOR, source_port=CLEAR_PORT)
    assert wire.keeps_out(LOCATOR, OWN_LOCATOR, CLEAR_PORT)
    assert wire.keeps_in(OWN_LOCATOR, LOCATOR, CLEAR_PORT + 1)


def test_tcp_passes_too(wire: Wire, held: HeldRules) -> None:
    wire.apply(replace(SPEC, opening=OPEN))
    with serving(0, None, OWN_LOCATOR, CLEAR_PORT):
        assert not begins(0, LOCATOR, OWN_LOCATOR, CLEAR_PORT, namespace=wire.other, seconds=SILENCE)
        marked(held, OPEN)
        assert begins(0, LOCATOR, OWN_LOCATOR, CLEAR_PORT, namespace=wire.other)


def test_the_flow_is_closed_when_its_time_is_over(wire: Wire, held: HeldRules) -> None:
    wire.apply(replace(SPEC, opening=OPEN))
    marked(held, OPEN, 2)
    assert wire.comes_in(LOCATOR, OWN_LOCATOR, CLEAR_PORT)
    time.sleep(2.5)
    assert wire.keeps_out(LOCATOR, OWN_LOCATOR, CLEAR_PORT)


def test_the_flow_is_closed_when_its_owner_is_killed(wire: Wire) -> None:
    wire.apply(replace(SPEC, opening=OPEN))
    program = (
        "import sys, time; from meshsec.adapters.kernel.held_rules import HeldRules; "
        "held = HeldRules(['meshsec_bench'], {}); held.apply(lambda _name: sys.argv[1]); print('held', flush=True); "
        "time.sleep(600)"
    )
    text = nft_bench.render(PEERS, OPEN, 600, serves=True)
    with subprocess.Popen([sys.executable, "-c", program, text], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"held\n"
        assert wire.comes_in(LOCATOR, OWN_LOCATOR, CLEAR_PORT)
        os.kill(owner.pid, signal.SIGKILL)
        owner.wait()
        assert wire.keeps_out(LOCATOR, OWN_LOCATOR, CLEAR_PORT)


def test_with_esp_in_the_kernel_the_flow_passes_beside_charons_policies(wire: Wire, held: HeldRules) -> None:
    opening = Opening(OWN, PEER, serves=True)
    kernel = replace(SPEC, backend=EspBackend.KERNEL, opening=opening)
    for source, target, direction in ((OWN, PEER, "out"), (PEER, OWN, "in")):
        template = ["tmpl", "src", str(source), "dst", str(target), "proto", "esp", "mode", "transport"]
        selector = ["src", f"{source}/128", "dst", f"{target}/128", "dir", direction]
        ip("xfrm", "policy", "update", *selector, "priority", "300000", *template)
    wire.apply(kernel)
    assert wire.keeps_out(PEER, OWN, CLEAR_PORT)
    marked(held, opening)
    assert wire.comes_in(PEER, OWN, CLEAR_PORT)
    assert wire.arrives(OWN, PEER, source_port=CLEAR_PORT)
    assert wire.keeps_out(PEER, OWN, CLEAR_PORT + 1)
    assert wire.keeps_in(OWN, PEER, source_port=CLEAR_PORT + 1)
    assert asyncio.run(wire.rules.in_force()) == kernel
    held.close()
    assert wire.keeps_out(PEER, OWN, CLEAR_PORT)
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
    for opening, (here, there) in ((OPEN, ("dport", "sport")), (ASKS, ("sport", "dport"))):
        assert render_open_policies(replace(in_kernel, opening=opening)) == [
            f"{selector} proto {protocol} {port} {CLEAR_PORT} dir {direction}"
            for protocol in ("tcp", "udp")
            for selector, port, direction in ((ends[0], here, "in"), (ends[1], there, "out"))
        ]
