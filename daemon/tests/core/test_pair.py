"""Engines against each other over a network that loses and reorders, with IKE daemons and agents that restart."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from core.world import Delete, Response, Station, World

A, C = 1, 3


def both(world: World) -> None:
    for one, other in ((A, C), (C, A)):
        world.stations[one].trust(other)
        world.stations[one].ike_starts()
        world.stations[one].route(other, exists=True)


def assert_one_ike_sa(world: World, one: int, other: int) -> None:
    here, there = world.pairs(one, other)
    assert len(here) == 1
    assert here == there
    for station in (world.stations[one], world.stations[other]):
        assert station.engine.plan(world.now) == []
    for end, far in ((one, other), (other, one)):
        channel = world.stations[end].engine.known.channel(f"n{far}")
        assert channel is not None
        assert channel.state == "protected"


def stands_alike(world: World) -> bool:
    here, there = world.pairs(A, C)
    return len(here) == 1 and here == there


@pytest.mark.parametrize("ending", [Station.ike_stops, Station.ike_ends])
@pytest.mark.parametrize("end", [A, C])
@pytest.mark.parametrize("stood", [0.05, 0.3, 1.0, 1.5])
def test_an_ike_daemon_that_dies_again_soon_after_set_up_has_its_sa_back_within_a_second(
    ending: Callable[[Station], None], end: int, stood: float
) -> None:
    world = World(A, C)
    both(world)
    for _ in range(2):
        world.rest(until=lambda: stands_alike(world))
        world.rest(stood)
        ending(world.stations[end])
        world.rest(0.2)
        world.stations[end].ike_starts()
        returned = world.now
        world.rest(until=lambda: stands_alike(world))
        assert world.now - returned < 1.0


def test_a_delete_that_overtakes_the_answer_ends_the_attempt() -> None:
    world = World(A, C)
    both(world)
    for station in world.stations.values():
        while station.work():
            pass
    while not world.mail:
        world.now = min(station.engine.poll_timeout() or world.now + 60 for station in world.stations.values())
        for station in world.stations.values():
            station.engine.handle_timeout(world.now)
            station.work()
    begins, answers, _ = world.mail[0]
    world.deliver()
    world.stations[answers].observe()
    world.stations[answers].distrust(begins)
    world.stations[answers].work()
    (closing,) = [index for index, (_, _, message) in enumerate(world.mail) if isinstance(message, Delete)]
    (answer,) = [index for index, (_, _, message) in enumerate(world.mail) if isinstance(message, Response)]
    assert answer < closing
    world.deliver(closing)
    assert not world.stations[begins].attempts
    world.deliver(answer)
    assert not world.stations[begins].sas
    world.stations[answers].trust(begins)
    world.rest()
    assert_one_ike_sa(world, A, C)


class Pair(RuleBasedStateMachine):
    """Check that at rest there is exactly one IKE_SA between A and C, which both know, whatever happened before."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(A, C)
        both(self.world)

    ends = st.sampled_from([(A, C), (C, A)])

    @rule(end=ends)
    def work(self, end: tuple[int, int]) -> None:
        self.world.stations[end[0]].work()

    @rule(end=ends, data=st.data(), failure=st.sampled_from(["", "", "busy"]))
    def carry_out_one(self, end: tuple[int, int], data: st.DataObject, failure: str) -> None:
        station = self.world.stations[end[0]]
        station.take_actions()
        if station.todo:
            station.carry_out(data.draw(st.sampled_from(station.todo)), failure)

    @rule(end=ends)
    def read_back(self, end: tuple[int, int]) -> None:
        self.world.stations[end[0]].observe()

    @precondition(lambda self: self.world.mail)
    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        self.world.deliver(data.draw(st.integers(0, len(self.world.mail) - 1)))

    @precondition(lambda self: self.world.mail)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        self.world.lose(data.draw(st.integers(0, len(self.world.mail) - 1)))

    @rule(end=ends)
    def retransmit(self, end: tuple[int, int]) -> None:
        self.world.stations[end[0]].retransmit()

    @rule(seconds=st.sampled_from([0.005, 0.05, 0.5, 2.0, 11.0, 70.0]))
    def wait(self, seconds: float) -> None:
        self.world.now += seconds
        for station in self.world.stations.values():
            station.give_up()
            station.engine.handle_timeout(self.world.now)

    @rule(end=ends, exists=st.booleans())
    def route(self, end: tuple[int, int], exists: bool) -> None:
        self.world.stations[end[0]].route(end[1], exists=exists)

    @rule(end=ends)
    def ike_daemon_restarts(self, end: tuple[int, int]) -> None:
        self.world.stations[end[0]].ike_stops()
        self.world.stations[end[0]].ike_starts()

    @rule(end=ends)
    def meshsecd_restarts(self, end: tuple[int, int]) -> None:
        self.world.stations[end[0]].meshsecd_restarts()

    @rule(end=ends, between=st.booleans())
    def trust_is_taken_back_and_given_again(self, end: tuple[int, int], between: bool) -> None:
        station = self.world.stations[end[0]]
        station.distrust(end[1])
        if between:
            station.work()
        station.trust(end[1])

    @rule()
    def rest(self) -> None:
        for one, other in ((A, C), (C, A)):
            self.world.stations[one].route(other, exists=True)
        self.world.rest()
        assert_one_ike_sa(self.world, A, C)

    def teardown(self) -> None:
        self.rest()


Pair.TestCase.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestPair = Pair.TestCase
