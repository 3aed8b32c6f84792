"""What the radio knows reaches the routes: a lost station is a lost link, and a slow link is a long one."""

from collections.abc import Iterator

import pytest

from tests.lab import radio
from tests.lab.roads import CONVERGED, VANISHES, Roads, open_roads
from tests.scenarios.expectations import wait_arrivals

AT_ONCE = 10.0
"""Seconds, far less than the hold time: only the radio can be that fast. How fast it is: rt/bench_reroute.py."""


@pytest.fixture(scope="module")
def roads() -> Iterator[Roads]:
    if obstacle := radio.obstacle():
        pytest.skip(obstacle)
    with open_roads() as opened:
        yield opened


@pytest.fixture
def circle(roads: Roads) -> Roads:
    """The circle, converged; the slow link is out of hearing."""
    roads.heal()
    return roads


@pytest.mark.parametrize("vanish", VANISHES)
def test_a_station_that_vanishes_takes_its_routes_with_it_at_once(circle: Roads, vanish: str) -> None:
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


def test_a_good_way_over_a_relay_is_taken_before_a_bad_one_without(circle: Roads) -> None:
    """The negative case comes first: where hops alone count, the slow link is taken."""
    circle.weigh("hop")
    circle.slow.mend()
    with circle.flow() as running:
        circle.wait_way({"c"}, CONVERGED)
        wait_arrivals(running)
        circle.weigh("auto")
        circle.wait_way({"b", "d"}, CONVERGED)
        wait_arrivals(running)
