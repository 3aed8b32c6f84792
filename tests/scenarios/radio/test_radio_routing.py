"""The routes follow the radio: a lost station is a lost link, and a slow link has a high metric."""

from collections.abc import Iterator

import pytest

from tests.lab.net.traffic import wait_arrivals
from tests.lab.radio import medium
from tests.lab.radio.radio_ring import CONVERGED, VANISHES, RadioRing, radio_ring

AT_ONCE = 10.0
"""Seconds, far less than the hold time: only the radio can be that fast. rt/bench_reroute.py measures it."""


@pytest.fixture(scope="module")
def ring() -> Iterator[RadioRing]:
    if obstacle := medium.obstacle():
        pytest.skip(obstacle)
    with radio_ring() as opened:
        yield opened


@pytest.fixture
def converged(ring: RadioRing) -> RadioRing:
    """Return the ring with its routes; no router hears the slow link."""
    ring.heal()
    return ring


@pytest.mark.parametrize("vanish", VANISHES)
def test_a_station_that_vanishes_takes_its_routes_with_it_at_once(converged: RadioRing, vanish: str) -> None:
    """Without news from the link layer this takes the hold time: see the silent cut in test_relay_change.py."""
    with converged.flow() as running:
        wait_arrivals(running)
        relay = converged.next_hop()
        (other,) = {"b", "d"} - {relay}
        VANISHES[vanish](converged, relay)
        converged.wait_next_hop({other}, AT_ONCE)
        wait_arrivals(running)
    if vanish == "leaves":
        converged.returns(relay)


def test_a_good_way_over_a_relay_is_taken_before_a_bad_one_without(converged: RadioRing) -> None:
    """The negative case comes first: where only hops count, the slow link is used."""
    converged.set_metric("hop")
    converged.slow.fix()
    with converged.flow() as running:
        converged.wait_next_hop({"c"}, CONVERGED)
        wait_arrivals(running)
        converged.set_metric("auto")
        converged.wait_next_hop({"b", "d"}, CONVERGED)
        wait_arrivals(running)
