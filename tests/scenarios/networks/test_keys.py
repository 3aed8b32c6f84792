"""A peer's key is changed while hosts behind it talk: what is behind the peer stays reached, and never in the clear."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.lab.net.traffic import wait_arrivals
from tests.scenarios.expectations import assert_nothing_clear, captured, wait_no_drift
from tests.scenarios.ike.key_changes import begin, end
from tests.scenarios.networks.sites import Sites, connected, flows_between

PAUSE = 1.0
"""Longest pause in seconds when the old key ends: then the tunnel's outer addresses change at one end and the other."""


@pytest.fixture
def sites() -> Iterator[Sites]:
    with connected("net-keys") as made:
        yield made


def test_hosts_talk_through_the_change_of_a_peers_key(sites: Sites) -> None:
    a, c = sites.ends
    flows = flows_between(sites)
    with ExitStack() as stack, captured(sites.lab, "keys") as captures:
        for flow in flows:
            stack.enter_context(flow)
            wait_arrivals(flow, 5)
        address = begin(c, (a,))
        for node in (a, c):
            wait_no_drift(node)
        for flow in flows:
            wait_arrivals(flow, 20)
        end(c, (a,))
        for flow in flows:
            wait_arrivals(flow, 50)
    assert max(flow.result.longest_gap for flow in flows) <= PAUSE, [flow.summary() for flow in flows]
    assert_nothing_clear(captures)
    for node in (a, c):
        wait_no_drift(node)
    assert f"dst {address} " in a.run("ip", "-6", "route", "show", "dev", "meshsec-nets").stdout
