"""A node that is never silent, takes all relaying (willingness 15, WILL_ALWAYS of RFC 7181) and forwards nothing.

No rule of RFC 7181 sees this: a link over which HELLOs come counts as one that forwards. The scenario shows what it
costs: connectivity while the node is there, never secrecy (docs/explanation/security.md).
"""

import re
import time
from collections.abc import Iterator

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


@pytest.fixture
def lab() -> Iterator[Lab]:
    """Start the lab: a reaches c over the honest b, whose links are slower, and over m, which takes all relaying."""
    with Lab("relaying", [("a", "b"), ("b", "c"), ("a", "m"), ("m", "c")], Options(ipv4=True)) as made:
        made.set_up().trust("a", "c")
        a, b, c, m = (made[name] for name in "abcm")
        for node in (b, m):
            node.assign_addresses()
        _set(b, f"metric = {SLOWER}")
        _set(m, f"metric = {CHEAP}", "willingness = 15")
        yield made.start(nodes=[a, c]).start("router", nodes=[b, m])


def test_who_takes_all_relaying_and_drops_costs_connectivity_and_no_secrecy(lab: Lab) -> None:
    a, c, m = lab["a"], lab["c"], lab["m"]
    a.wait_protected(c, 120)
    a.wait_for("a's route leads to m", lambda: a.kernel.interfaces().get(c.announced) == "mesh-m", 60)
    with captured(lab, "relaying") as captures, flow(a, c) as running:
        wait_arrivals(running)
        m.run("nft", "-f", "-", stdin=_DROP)
        taken = len(running.result.arrivals)
        with pytest.raises(AssertionError, match="arrivals"):
            wait_arrivals(running, count=30, seconds=10)
        assert a.kernel.interfaces().get(c.announced) == "mesh-m", "m is believed all the time"
        assert len(running.result.arrivals) <= taken + 30
        m.daemons.router.kill()
        begun = time.monotonic()
        wait_arrivals(running, seconds=120)
        print(f"user data passes again {time.monotonic() - begun:.1f} s after the last HELLO of m")
    assert_nothing_clear(captures)


def _set(node: Node, *settings: str) -> None:
    """Replace a router's settings for its links by these."""
    config = node.etc / "olsrv2d.conf"
    kept = re.sub(r"(?m)^(willingness|metric) = .*\n", "", config.read_text(encoding="utf-8"))
    config.write_text("\n".join([*settings, kept]), encoding="utf-8")


_DROP = """table inet blackhole {
    chain forward { type filter hook forward priority -300; policy drop; }
}
"""
