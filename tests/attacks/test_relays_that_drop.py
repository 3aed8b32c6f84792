"""A relay that takes all relaying and drops user data is left, and an honest one is not (ADR 0095).

No rule of RFC 7181 sees such a relay: its HELLOs and TCs come. The ends see it by what their SAs carry.
"""

import re
import time
from collections.abc import Callable, Iterator

import pytest

from tests.lab.lab import Lab
from tests.lab.net.traffic import wait_arrivals
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.scenarios.expectations import assert_nothing_clear, captured, flow

CHEAP = 1
"""The metric that m claims for its links. a and c use their own measurement where it is higher (ADR 0050)."""
SLOWER = 4_000_000
"""The metric of b's links, about twice what a and c measure by themselves: the way over m is truly better."""
LEFT = 10.0
"""Seconds after which user data goes another way."""

ALL = "drop"
ALL_UNICAST = "ip6 daddr != ff00::/8 drop; ip daddr != 224.0.0.0/4 drop"
ESP = "meta l4proto esp drop; udp dport 4500 @th,64,32 != 0 drop"
"""ESP with and without UDP; what begins with four zero octets is IKE (RFC 3948, section 2.2)."""


@pytest.fixture
def lab() -> Iterator[Lab]:
    """Start the lab: a reaches c over m, who takes all relaying, or over the honest b; and d over m alone."""
    pairs = [("a", "b"), ("b", "c"), ("a", "m"), ("m", "c"), ("m", "d")]
    with Lab("dropping", pairs, Options(ipv4=True)) as made:
        made.set_up()
        a, b, c, d, m = (made[name] for name in "abcdm")
        for one, other in ((a, c), (a, d)):
            one.install_card(other)
            other.install_card(one)
        for node in (b, m):
            node.assign_addresses()
        _set(b, f"metric = {SLOWER}")
        _set(m, f"metric = {CHEAP}", "willingness = 15")
        made.start(nodes=[a, c, d]).start("router", nodes=[b, m])
        for peer in (c, d):
            a.wait_protected(peer, 120)
        a.wait_for("a's route to c leads to m", lambda: _relay(a, c) == "m", 60)
        c.wait_for("c's route to a leads to m", lambda: _relay(c, a) == "m", 60)
        yield made


@pytest.mark.parametrize("dropped", [ALL, ESP], ids=["all", "esp"])
def test_a_relay_that_takes_all_relaying_and_drops_is_left(lab: Lab, dropped: str) -> None:
    a, c, m = lab["a"], lab["c"], lab["m"]
    with captured(lab, "dropping") as captures:
        _assert_left(a, c, lambda: _drop(m, dropped))
    a.wait_for("a says why", lambda: any("is avoided" in one for one in a.control.ask("status")["problems"]), 10)
    assert "is avoided" in a.meshsec("explain", c.name).stdout
    assert_nothing_clear(captures)


def test_a_stream_of_one_direction_is_left_too(lab: Lab) -> None:
    a, c, m = lab["a"], lab["c"], lab["m"]
    with flow(a, c) as running:
        wait_arrivals(running)
        _drop(m, ESP)
        wait_arrivals(running, count=200, seconds=60)
        gap = running.result.longest_gap
    print(f"user data stopped for {gap:.1f} s")
    assert gap <= LEFT


def test_without_what_the_ends_see_user_data_goes_to_the_relay_that_drops_it(lab: Lab) -> None:
    """The control: SAs, rules and routes stay when meshsecd ends, and nobody tells the router."""
    a, c, m = lab["a"], lab["c"], lab["m"]
    with captured(lab, "believed") as captures, flow(a, c) as running:
        wait_arrivals(running)
        for node in (a, c):
            node.daemons.agent.stop()
        _drop(m, ALL)
        taken = len(running.result.arrivals)
        with pytest.raises(AssertionError, match="arrivals"):
            wait_arrivals(running, count=30, seconds=LEFT + 5)
        assert len(running.result.arrivals) <= taken + 30
        assert _relay(a, c) == "m", "m is believed all the time"
    assert_nothing_clear(captures)


@pytest.mark.parametrize("dropped", [ALL_UNICAST, ESP], ids=["all", "esp"])
def test_a_link_that_carries_routing_messages_alone_is_left_for_a_longer_way(dropped: str) -> None:
    """Somebody passes multicast packets of a and c on from far away, so that they take each other for neighbours."""
    with Lab("wormhole", [("a", "b"), ("b", "c"), ("a", "c")]) as lab:
        lab.set_up().trust_all().start()
        lab.wait_full_mesh()
        a, c = lab["a"], lab["c"]
        ends = ((a, c), (c, a))
        a.wait_for("they are neighbours", lambda: [_relay(one, other) for one, other in ends] == ["c", "a"], 60)

        def drop() -> None:
            for node, other in ends:
                _drop(node, dropped, hook="prerouting", arriving=f"mesh-{other.name}")

        with captured(lab, "wormhole") as captures:
            _assert_left(a, c, drop)
        a.wait_for("a says why", lambda: "The link to c is avoided" in a.meshsec("explain", "c").stdout, 10)
        assert_nothing_clear(captures)


def test_who_makes_one_peer_look_dead_turns_nobody_away_from_an_honest_relay(lab: Lab) -> None:
    """Somebody close to c drops what is for c. m forwards it, and carries what is for d."""
    a, c, d = lab["a"], lab["c"], lab["d"]
    with flow(a, c) as running, flow(a, d) as other:
        for one in (running, other):
            wait_arrivals(one)
        _drop(c, ESP, hook="prerouting")
        until = time.monotonic() + 2 * LEFT
        while time.monotonic() < until:
            assert _relay(a, c) == "m"
            wait_arrivals(other)
        assert other.result.longest_gap < 3
        a.wait_for("a says why", lambda: "carries what is for d" in a.meshsec("explain", c.name).stdout, 10)
    assert a.control.ask("status")["problems"] == []


def _assert_left(a: Node, c: Node, drop: Callable[[], None]) -> None:
    """Assert that user data between a and c goes over b, soon after somebody begins to drop it, both ways."""
    with flow(a, c) as running, flow(c, a) as back:
        for one in (running, back):
            wait_arrivals(one)
        drop()
        for one in (running, back):
            wait_arrivals(one, count=200, seconds=60)
        gaps = [one.result.longest_gap for one in (running, back)]
    print(f"user data stopped for {gaps[0]:.1f} s, and {gaps[1]:.1f} s the other way")
    assert max(gaps) <= LEFT
    assert (_relay(a, c), _relay(c, a)) == ("b", "b")


def _relay(node: Node, peer: Node) -> str:
    return node.kernel.interfaces().get(peer.announced, "").removeprefix("mesh-")


def _set(node: Node, *settings: str) -> None:
    """Replace a router's settings for its links by these."""
    config = node.etc / "olsrv2d.conf"
    kept = re.sub(r"(?m)^(willingness|metric) = .*\n", "", config.read_text(encoding="utf-8"))
    config.write_text("\n".join([*settings, kept]), encoding="utf-8")


def _drop(node: Node, rules: str, hook: str = "forward", arriving: str = "") -> None:
    if arriving:
        rules = "; ".join(f"iifname {arriving} {rule}" for rule in rules.split("; "))
    chain = f"chain drops {{ type filter hook {hook} priority -300; policy accept; {rules}; }}"
    node.run("nft", "-f", "-", stdin=f"table inet blackhole {{\n{chain}\n}}\n")
