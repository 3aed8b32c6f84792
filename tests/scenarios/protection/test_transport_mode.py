"""Kernel ESP in transport mode: each suite protects a line of nodes, and XFRM policies alone hold user data back."""

from collections.abc import Iterator

import pytest

from tests.lab.basics.waiting import wait_until
from tests.lab.lab import Lab
from tests.lab.net import traffic
from tests.lab.net.packets import Kind
from tests.lab.net.topology import line, names, star
from tests.lab.net.traffic import wait_arrivals
from tests.lab.node import capabilities
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.scenarios.expectations import assert_nothing_clear, captured, flow

SUITES = {
    "gcm": ("aes256gcm16-x25519", "rfc4106(gcm(aes))"),
    "ccm": ("aes128ccm16-x25519", "rfc4309(ccm(aes))"),
    "chacha": ("chacha20poly1305-x25519", "rfc7539esp(chacha20,poly1305)"),
}
"""By the node that accepts nothing else: the ESP proposal, and the kernel's name of its algorithm."""


@pytest.fixture(scope="module", autouse=True)
def esp_is_the_kernels() -> None:
    """Skip on a kernel without ESP: the same nodes use tunnel mode there."""
    if capabilities.probe().esp != "kernel":
        pytest.skip("this kernel has no ESP; `make guest` runs this on kernels that have it")


@pytest.fixture(scope="module")
def suites_lab() -> Iterator[Lab]:
    """Start ``a``, which accepts any suite, with a trusted node for each. All hear only the relay ``b``, which runs no
    IKE."""
    options = {name: Options(policy={"esp_proposals": [esp]}) for name, (esp, _) in SUITES.items()}
    options["a"] = Options(policy={"esp_proposals": [esp for esp, _ in SUITES.values()]})
    with Lab("suites", star(["b", "a", *SUITES])) as lab:
        lab.set_up(options)
        lab["b"].assign_addresses()
        for name in SUITES:
            lab.trust("a", name)
        ends = [lab["a"], *(lab[name] for name in SUITES)]
        lab.start("router", nodes=[lab["b"]]).start(nodes=ends)
        yield lab


@pytest.mark.parametrize("suite", SUITES)
def test_a_relay_sees_esp_only_with_any_suite(suites_lab: Lab, suite: str) -> None:
    a, peer = suites_lab["a"], suites_lab[suite]
    a.wait_protected(peer, 60)
    peer.wait_protected(a, 60)
    with captured(suites_lab, suite) as captures, flow(a, peer) as running:
        wait_arrivals(running, 30, 30)
    assert_nothing_clear(captures)
    relayed = captures["b"]
    assert relayed.counts[Kind.ESP] >= 60, "thirty packets, each seen coming and going"
    assert relayed.counts[Kind.CLEAR] == 0, relayed.clear
    states = _states(a, peer)
    assert len(states) == 2, states
    for state in states:
        assert "mode transport" in state, state
        assert SUITES[suite][1] in state, state


def test_xfrm_policies_hold_user_data_back_where_nftables_is_gone() -> None:
    """XFRM policies hold user data back without rules, IKE daemon and meshsecd."""
    with Lab("wall", line(names(3))) as lab:
        lab.set_up().trust_all().start("meshsecd", "router")
        a, b, c = lab["a"], lab["b"], lab["c"]
        a.wait_route(c)
        for node in lab.nodes.values():
            node.daemons.agent.kill()
            node.run("nft", "flush", "ruleset")
        with captured(lab, "wall") as captures:
            assert traffic.send((a.namespace, a.address), c.address) == 0
        assert_nothing_clear(captures)
        a.run("ip", "xfrm", "policy", "flush")
        with b.capture("open") as seen:
            assert traffic.send((a.namespace, a.address), c.address) == 5, "without the policies nothing holds it back"
            wait_until("user data in the clear", lambda: seen.counts[Kind.CLEAR] >= 5, [seen], 60)


def _states(node: Node, peer: Node) -> list[str]:
    """Return the kernel's SAs between two nodes in both directions, each with the indented lines that follow it."""
    listing = node.run("ip", "xfrm", "state", "list").stdout
    states = [f"src {state}" for state in f"\n{listing}".split("\nsrc ")[1:]]
    ends = {node.address, peer.address}
    return [state for state in states if {state.split()[1], state.split()[3]} == ends]
