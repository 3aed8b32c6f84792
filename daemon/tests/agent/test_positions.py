"""Positions are said to peers that are reached, heard from those alone, and forgotten with the trust."""

import asyncio
from collections.abc import Callable
from ipaddress import IPv6Address

import msgspec
import pytest

from core.world import Driver, card, ike_sa, route
from meshsec.adapters.gps.gpsd import GpsdError
from meshsec.agent.sides import positions as module
from meshsec.agent.sides.peer_talk import IN_WINDOW, PeerTalk
from meshsec.agent.sides.positions import PositionsSide
from meshsec.agent.sides.services import ServicesSide, Takers
from meshsec.core.channels.events import PeerRemoved, RoutesReset, SasObserved
from meshsec.core.config.position_settings import PositionSettings
from meshsec.core.positions import positions
from meshsec.core.positions.positions import AGE_MAX, Position, Whereabouts, whereabouts
from meshsec.core.services.services import Service, offer
from meshsec.core.services.services import encode as encode_offer

FIXED = PositionSettings(latitude=47.0, longitude=11.0)
GPSD = PositionSettings(gpsd=True)
OURS = Position(47.0, 11.0, fixed=True)
THEIRS = Position(48.0, 12.0, 500.0, 5.0)
N2, N3 = card(2).address, card(3).address
STEP = 0.0001
"""Degrees of latitude: 11 m."""


class Socket:
    """What is sent by a socket that loses everything."""

    def __init__(self) -> None:
        self.sent: list[tuple[IPv6Address, Whereabouts]] = []

    def send(self, peer: IPv6Address, octets: bytes) -> None:
        if b"offer" not in octets:
            self.sent.append((peer, positions.decode(octets)))


class World:
    """A node that trusts n2 and n3, of whom n2 can be reached."""

    def __init__(self, settings: PositionSettings) -> None:
        self.driver = Driver()
        self.driver.ready(2, 3)
        self.socket = Socket()
        known = self.driver.engine.known
        self.talk = PeerTalk(card(1).address, known)
        offered = [Service("wiki", 80)]
        takers = Takers(lambda _peer, _names: None, None)
        self.services = ServicesSide(offered, known, self.talk, takers, serves=False)
        self.side = PositionsSide(card(1).address, settings, known, self.talk)
        self.talk._socket = self.socket  # type: ignore[assignment]
        self.now = 1000.0
        for one in (self.talk, self.side):
            one._loop = self  # type: ignore[assignment]

    def time(self) -> float:
        return self.now

    def call_later(self, *_arguments: object) -> None:
        """Remind nobody."""

    def reach(self) -> None:
        reached = route(2)
        self.driver.tell(RoutesReset({reached.destination: reached}), SasObserved("n2", (ike_sa("n2"),)))
        self.talk.follow()

    def lose(self) -> None:
        self.driver.tell(SasObserved("n2", ()))
        self.talk.follow()

    def hear(self, peer: IPv6Address, position: Position | None, age: float = 0.0, *, asks: bool = False) -> None:
        self.talk._received(peer, positions.encode(whereabouts(position, age, asks=asks)))

    def shown(self) -> list[tuple[str, float, float, bool]]:
        found = self.side.view()["positions"]
        return [(one["node"], one["latitude"], one["age"], one["reached"]) for one in found]

    def sent(self) -> list[tuple[IPv6Address, Position | None, bool]]:
        found = [(peer, message.position, message.asks) for peer, message in self.socket.sent]
        self.socket.sent.clear()
        return found


def inside(work: Callable[[World], None], settings: PositionSettings = FIXED) -> None:
    async def run() -> None:
        work(World(settings))

    asyncio.run(run())


OWN = ("n1", 47.0, 0.0, True)


def test_a_peer_that_comes_into_reach_is_told_and_its_answer_is_kept_with_its_age() -> None:
    def work(world: World) -> None:
        assert world.sent() == []
        world.reach()
        assert world.sent() == [(N2, OURS, True)]
        world.talk.follow()
        assert world.sent() == [], "once"
        world.hear(N2, THEIRS, 30.0)
        assert world.sent() == []
        world.now += 10
        assert world.shown() == [OWN, ("n2", 48.0, 40.0, True)]
        world.hear(N2, THEIRS, asks=True)
        assert world.sent() == [(N2, OURS, False)]
        world.hear(N2, None)
        assert world.shown() == [OWN], "it does not know any more"

    inside(work)


def test_nobody_is_told_or_heard_who_is_not_reached() -> None:
    def work(world: World) -> None:
        world.hear(N2, THEIRS, asks=True)
        world.reach()
        world.sent()
        for stranger in (N3, card(9).address):
            world.hear(stranger, THEIRS, asks=True)
        assert world.shown() == [OWN]
        assert world.sent() == []

    inside(work)


def test_the_last_position_of_a_peer_out_of_reach_stays_with_its_age_and_goes_with_the_trust() -> None:
    def work(world: World) -> None:
        world.reach()
        world.hear(N2, THEIRS)
        world.now += 5
        world.lose()
        world.now += 60
        assert world.shown() == [OWN, ("n2", 48.0, 65.0, False)]
        world.sent()
        world.hear(N2, THEIRS, asks=True)
        assert world.sent() == [], "a former neighbour gets nothing"
        assert world.shown()[1][2] == 65.0, "and says nothing"
        world.driver.tell(PeerRemoved("n2"))
        world.talk.follow()
        assert world.shown() == [OWN]
        assert world.side._places == {}

    inside(work)


def test_a_fixed_position_is_as_old_as_the_channel_is_gone() -> None:
    def work(world: World) -> None:
        world.reach()
        world.hear(N2, THEIRS._replace(fixed=True))
        world.now += 500
        assert world.shown()[1] == ("n2", 48.0, 0.0, True)
        world.lose()
        world.now += 7
        assert world.shown()[1] == ("n2", 48.0, 7.0, False)

    inside(work)


def test_a_channel_that_is_held_without_a_route_is_out_of_reach() -> None:
    def work(world: World) -> None:
        world.reach()
        world.hear(N2, THEIRS)
        world.driver.tell(RoutesReset({}))
        world.talk.follow()
        world.now += 5
        assert world.talk.reached == {N2}, "the SA is kept"
        assert world.shown()[1] == ("n2", 48.0, 5.0, False)
        world.reach()
        assert world.shown()[1][3], "it is back"

    inside(work)


def test_a_peer_that_comes_back_has_not_answered_yet() -> None:
    def work(world: World) -> None:
        world.reach()
        world.hear(N2, THEIRS)
        world.sent()
        world.talk._ask_again(frozenset({N2}))
        assert world.sent() == [], "it has answered"
        world.lose()
        world.talk._ask_again(frozenset({N2}))
        assert world.sent() == [], "it is not reached"
        world.reach()
        world.sent()
        world.talk._ask_again(frozenset({N2}))
        assert world.sent() == [(N2, OURS, True)]

    inside(work)


def test_a_position_that_is_worth_nothing_any_more_is_forgotten() -> None:
    def work(world: World) -> None:
        world.reach()
        world.hear(N2, THEIRS)
        world.lose()
        world.now += AGE_MAX + 1
        world.talk.follow()
        assert world.shown() == [OWN]

    inside(work)


def test_a_peer_can_say_where_it_is_and_nobody_else() -> None:
    def work(world: World) -> None:
        world.reach()
        world.hear(N2, THEIRS)
        for lie in ({"address": str(N3)}, {"node": "n3"}, {"row": [*THEIRS, str(N3)]}):
            fields = {"type": "position", "row": list(THEIRS), "age": 0.0, "asks": False, **lie}
            world.talk._received(N2, msgspec.msgpack.encode(fields))
        assert [one[0] for one in world.shown()] == ["n1", "n2"]

    inside(work)


def test_a_flood_is_neither_read_nor_answered_and_ends() -> None:
    def work(world: World) -> None:
        world.reach()
        world.sent()
        for number in range(100):
            world.hear(N2, THEIRS._replace(latitude=float(number % 90)), asks=True)
        assert len(world.sent()) == IN_WINDOW
        assert world.shown()[1][1] == IN_WINDOW - 1
        world.now += 1.1
        world.hear(N2, THEIRS, asks=True)
        assert world.sent() == [(N2, OURS, False)]

    inside(work)


def test_services_and_positions_leave_each_others_messages_alone() -> None:
    def work(world: World) -> None:
        world.reach()
        world.hear(N2, THEIRS)
        world.talk._received(N2, encode_offer(offer([Service("chat", 1)], asks=False)))
        assert [one["name"] for one in world.services.view()["services"]] == ["wiki", "chat"]
        assert world.shown()[1][1] == 48.0

    inside(work)


def test_a_movement_is_said_when_it_is_far_enough_and_not_too_often() -> None:
    def work(world: World) -> None:
        world.reach()
        assert world.sent() == [(N2, None, True)]
        here = Position(47.0, 11.0)
        world.side.move(here)
        assert world.sent() == [(N2, here, False)]
        world.now += 60
        world.side.move(Position(47.0 + STEP / 2, 11.0))
        assert world.sent() == [], "that is the receiver's noise"
        moved = Position(47.0 + STEP, 11.0)
        world.side.move(moved)
        assert world.sent() == [(N2, moved, False)]
        for step in range(2, 50):
            world.now += 0.1
            world.side.move(Position(47.0 + step * STEP, 11.0))
        assert world.sent() == [], "not more often than that"
        world.now += module.MOVED_SECONDS
        world.side.move(moved := Position(47.0 + 50 * STEP, 11.0))
        assert world.sent() == [(N2, moved, False)]
        world.now += module.REST_SECONDS
        world.side.move(moved)
        assert world.sent() == [(N2, moved, False)], "it is still there"

    inside(work, GPSD)


def test_who_comes_into_reach_is_told_how_old_the_position_is() -> None:
    def work(world: World) -> None:
        world.side.move(Position(47.0, 11.0))
        world.now += 90
        world.reach()
        (peer, message), *_ = world.socket.sent
        assert (peer, message.age) == (N2, 90.0)
        assert world.shown() == [("n1", 47.0, 90.0, True)]

    inside(work, GPSD)


def test_a_receiver_that_says_nothing_is_reported_and_forgiven() -> None:
    def work(world: World) -> None:
        world.side._started = world.now
        assert world.side.checks() == []
        world.now += module.GPSD_SILENT
        (check,) = world.side.checks()
        assert check.found == "gpsd has reported no position for 60 s"
        world.side.move(Position(47.0, 11.0))
        assert world.side.checks() == []
        world.now += module.GPSD_SILENT
        assert world.side.checks(), "again"

    inside(work, GPSD)
    inside(assert_silent, FIXED)


def assert_silent(world: World) -> None:
    world.now += 1000
    assert world.side.checks() == []


def test_gpsd_is_tried_again_and_its_absence_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GPSD_AGAIN", 0.01)
    tries = []

    async def reported(port: int):  # type: ignore[no-untyped-def]
        tries.append(port)
        if len(tries) == 1:
            raise GpsdError("gpsd at 127.0.0.1 port 2947: Connection refused")
        yield Position(47.0, 11.0)
        await asyncio.Event().wait()

    monkeypatch.setattr(module, "positions", reported)

    async def run() -> None:
        world = World(GPSD)
        task = asyncio.create_task(world.side.run())
        await asyncio.sleep(0)
        assert world.side.view()["problem"].endswith("Connection refused")
        assert world.side.checks()[0].found == world.side.view()["problem"]
        for _ in range(100):
            await asyncio.sleep(0.01)
            if world.side.view()["positions"]:
                break
        assert world.side.view()["problem"] == ""
        assert tries == [2947, 2947]
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(run())
