"""What the radio knows reaches the routes: a lost station is a lost link, and a slow link is a long one."""

from collections.abc import Iterator

import pytest

from tests.lab.net.traffic import wait_arrivals
from tests.lab.radio import medium
from tests.lab.radio.radio_ring import CONVERGED, VANISHES, RadioRing, radio_ring

AT_ONCE = 10.0
"""Seconds, far less than the hold time: only the radio can be that fast. How fast it is: rt/bench_reroute.py."""


@pytest.fixture(scope="module")
def roads() -> Iterator[RadioRing]:
    if obstacle := medium.obstacle():
        pytest.skip(obstacle)
    with radio_ring() as opened:
        yield opened


@pytest.fixture
def circle(roads: RadioRing) -> RadioRing:
    """The circle, converged; the slow link is out of hearing."""
    roads.heal()
    return roads


@pytest.mark.parametrize("vanish", VANISHES)
def test_a_station_that_vanishes_takes_its_routes_with_it_at_once(circle: RadioRing, vanish: str) -> None:
    """Where no link layer tells, this takes the hold time: test_relay_change.py, the silent cut."""
    with circle.flow() as running:
        wait_arrivals(running)
        relay = circle.way()
        (other,) = {"b", "d"} - {relay}
        VANISHES[vanish](circle, relay)
        circle.wait_way({other}, AT_ONCE)
        wait_arrivals(running)
    if vanish == "leaves":
        circle.returns(relay)


def test_a_good_way_over_a_relay_is_taken_before_a_bad_one_without(circle: RadioRing) -> None:
    """The negative case comes first: where hops alone count, the slow link is taken."""
    circle.weigh("hop")
    circle.slow.fix()
    with circle.flow() as running:
        circle.wait_way({"c"}, CONVERGED)
        wait_arrivals(running)
        circle.weigh("auto")
        circle.wait_way({"b", "d"}, CONVERGED)
        wait_arrivals(running)
