"""A removed peer is out at once: its SA is closed and its addresses follow the policy for removed peers."""

from collections.abc import Iterator

import pytest

from tests.lab.basics.waiting import wait_until
from tests.lab.lab import Lab
from tests.lab.net import traffic
from tests.lab.net.packets import Kind
from tests.lab.net.topology import line, names
from tests.lab.net.traffic import wait_arrivals
from tests.lab.node.options import Options
from tests.scenarios.expectations import assert_nothing_clear, captured, flow


@pytest.fixture(params=["drop", "open"])
def removed(request: pytest.FixtureRequest) -> Iterator[tuple[Lab, str]]:
    """Start a - b - c under either policy. Unknown nodes are allowed, so that only c's removal can be the cause of a
    drop."""
    policy = {"removed_peers": request.param, "unknown_nodes": "allow"}
    with Lab(f"removed-{request.param}", line(names(3)), Options(ipv4=True, policy=policy)) as lab:
        yield lab.set_up().trust_all().start(), request.param


def test_removal_closes_the_sa_at_once_and_leaves_the_rule_that_the_policy_wants(removed: tuple[Lab, str]) -> None:
    lab, policy = removed
    a, c = lab["a"], lab["c"]
    a.wait_protected(c)
    c.wait_protected(a)
    with captured(lab, "removal") as captures:
        with flow(a, c) as running:
            wait_arrivals(running)
            a.distrust(c)
            a.wait_for("no SA at a", lambda: not a.charon.sas_with(c.name), 60)
            c.wait_for("c hears of it", lambda: not any(sa.installed for sa in c.charon.sas_with(a.name)), 60)
        assert_nothing_clear(captures)

        def taken() -> int:
            return traffic.send((a.namespace, a.ipv4), c.ipv4, count=10)

        if policy == "open":
            seen = captures["b"]
            wait_until("user data as to any unknown node", lambda: taken() and seen.counts[Kind.CLEAR], [seen], 60)
            return
        assert taken() == 0
    assert_nothing_clear(captures)


def test_a_peer_that_is_added_again_is_protected_again(removed: tuple[Lab, str]) -> None:
    lab, _ = removed
    a, c = lab["a"], lab["c"]
    a.wait_protected(c)
    a.distrust(c)
    a.wait_for("no SA", lambda: not a.charon.sas_with(c.name), 60)
    a.trust(c)
    a.wait_protected(c)
    with flow(a, c) as running:
        wait_arrivals(running)
