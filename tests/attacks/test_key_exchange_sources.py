"""A relay that rewrites the source of IKE messages cannot move an SA from the locator on the card."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.lab.lab import Lab
from tests.lab.net.topology import line, names
from tests.lab.net.traffic import Flow, wait_arrivals
from tests.lab.node import capabilities
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.scenarios.expectations import flow, spis

follows = pytest.mark.skipif(
    capabilities.probe().esp == "kernel",
    reason="charon follows a source only where it takes the peer to be behind a NAT",
)

STRANGER = "fd12:3456:789a:bcde:f012:3456:789a:bcde"


@pytest.fixture(scope="module")
def lab_of_three() -> Iterator[Lab]:
    """Start a and c, which trust each other; c also trusts d, which does not run. b is a relay."""
    with Lab("sources", [*line(names(3)), ("b", "d")], Options(ipv4=True)) as lab:
        lab.set_up().trust("a", "c")
        lab["c"].install_card(lab["d"])
        lab.start(nodes=[lab[name] for name in "abc"])
        yield lab


@pytest.fixture
def pair(lab_of_three: Lab) -> Lab:
    """Return the pair, protected."""
    a, c = lab_of_three["a"], lab_of_three["c"]
    a.wait_protected(c, 90)
    c.wait_protected(a, 90)
    return lab_of_three


@contextmanager
def rewritten(lab: Lab, source: str) -> Iterator[None]:
    """Let b rewrite the source of what a's IKE daemon sends to c; ESP passes unchanged."""
    a, end = lab["a"], lab.end_of("b", "a")
    chain = f'''table inet lab_rewrite {{
  counter moved {{ }}
  chain prerouting {{
    type filter hook prerouting priority raw;
    iifname "{end.interface}" ip6 saddr {{ {a.locator}, {a.address} }} jump ike
  }}
  chain ike {{
    udp dport 500 counter name "moved" ip6 saddr set {source}
    udp dport 4500 @th,64,32 0 counter name "moved" ip6 saddr set {source}
  }}
}}
'''
    lab["b"].run("nft", "-f", "-", stdin=chain)
    try:
        yield
    finally:
        lab["b"].run("nft", "delete", "table", "inet", "lab_rewrite")


def _moved(lab: Lab) -> int:
    shown = lab["b"].run("nft", "list", "counter", "inet", "lab_rewrite", "moved").stdout
    return int(shown.split("packets ")[1].split()[0])


def _hosts(node: Node, peer: Node) -> set[str]:
    return {sa.remote_host for sa in node.charon.sas_with(peer.name)}


def test_a_message_whose_source_became_a_strangers_is_not_heard(pair: Lab) -> None:
    a, c = pair["a"], pair["c"]
    with flow(c, a) as running:
        a.wait_for("negotiations that crossed are over", lambda: _lasts(a, c, running), 120)
        with rewritten(pair, STRANGER):
            a.charon.rekey(c.name, "mesh")
            a.wait_for("a's request is repeated", lambda: _moved(pair) >= 4, 60)
            assert _hosts(c, a) <= {a.locator, a.address}
            wait_arrivals(running)
    a.wait_protected(c, 90)
    c.wait_protected(a, 90)


def _lasts(first: Node, second: Node, running: Flow) -> bool:
    """Return whether the SAs stay the same for a while. They cannot be renewed while sources are rewritten."""
    before = spis(first, second)
    wait_arrivals(running, 100)
    return spis(first, second) == before


@follows
def test_without_the_guard_it_moves_the_sa(pair: Lab) -> None:
    """The negative case: charon follows the source of an authenticated message, and only meshsecd corrects it."""
    a, c = pair["a"], pair["c"]
    c.daemons.agent.kill()
    c.run("nft", "delete", "table", "inet", "meshsec_ike")
    with rewritten(pair, STRANGER):
        a.charon.rekey(c.name, "mesh")
        c.wait_for("c's charon sends to the stranger", lambda: STRANGER in _hosts(c, a), 60)
    pair.heal()
    c.wait_for("it is a's own again", lambda: bool(_hosts(c, a)) and _hosts(c, a) <= {a.locator, a.address}, 90)
    a.wait_protected(c, 90)


@follows
def test_an_sa_that_was_moved_to_another_peers_locator_is_made_again(pair: Lab) -> None:
    a, c, d = (pair[name] for name in "acd")
    before = {sa.spis for sa in c.charon.sas_with(a.name)}
    other = d.locator if a.locator in _hosts(c, a) else d.address
    with rewritten(pair, other):
        a.charon.rekey(c.name, "mesh")
        entry = c.wait_for("c closes it and says why", lambda: _rewritten(c, a), 60)
        assert other in entry["reason"]
    c.wait_for("another SA, to a's own locator", lambda: _established(c, a, before), 120)
    a.wait_protected(c, 90)


def _rewritten(node: Node, peer: Node) -> dict[str, str] | None:
    entry = node.control.peer(peer.name)
    return entry if "rewrote its remote address" in entry.get("reason", "") else None


def _established(node: Node, peer: Node, before: set[tuple[str, str]]) -> bool:
    sas = [sa for sa in node.charon.sas_with(peer.name) if sa.installed]
    return bool(sas) and all(sa.spis not in before and sa.remote_host in (peer.locator, peer.address) for sa in sas)
