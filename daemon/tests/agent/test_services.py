"""Services are said to peers that are reached, heard from those alone, and forgotten with them."""

import asyncio
import socket
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address

import pytest

from core.world import Driver, card, ike_sa, route
from meshsec.agent.sides import peer_talk as module
from meshsec.agent.sides.peer_talk import PeerTalk
from meshsec.agent.sides.services import ServicesSide, Takers
from meshsec.core.channels.events import RoutesReset, SasObserved
from meshsec.core.formats.dns_sd import Offered
from meshsec.core.services import services
from meshsec.core.services.client_names import Taken, portions
from meshsec.core.services.services import Offer, Protocol, Service
from meshsec.core.values.host_names import ClientName

OURS = Service("wiki", 80)
THEIRS = Service("chat", 6667, Protocol.TCP, "For all")
N2, N3 = card(2).address, card(3).address


class Socket:
    """What is sent by a socket that loses everything."""

    def __init__(self) -> None:
        self.sent: list[tuple[IPv6Address, Offer]] = []

    def send(self, peer: IPv6Address, octets: bytes) -> None:
        message = services.decode(octets)
        if isinstance(message, Offer):
            self.sent.append((peer, message))


def made(driver: Driver, talk: PeerTalk) -> ServicesSide:
    takers = Takers(lambda _peer, _names: None, None)
    return ServicesSide([OURS], driver.engine.known, talk, takers, serves=False)


def test_a_peer_says_that_it_has_no_clients_and_who_asks_is_told_what_they_are_called() -> None:
    def work(world: World) -> None:
        named: list[object] = []
        found: list[object] = []
        cam = (ClientName("cam", (IPv4Address("10.130.0.5"),)),)
        known = world.driver.engine.known
        talk = world.talk = PeerTalk(card(1).address, known)
        takers = Takers(lambda _peer, names: named.append(names), lambda offered: found.append([*offered()]))
        side = ServicesSide([], known, talk, takers, serves=True)
        talk._socket = world.socket  # type: ignore[assignment]
        world.reach()
        assert all(message.clients for _, message in world.socket.sent)
        talk._received(N2, services.encode(services.offer([], asks=False, clients=True)))
        for message in portions(cam, 1, 1):
            talk._received(N2, services.encode(message))
        talk._received(N2, services.encode(services.offer([], asks=False, clients=True)))
        assert named == [cam]
        talk._received(N2, services.encode(services.offer([], asks=False)))
        assert named == [cam, ()]
        side.client_names.heard(N2, Taken(side.client_names._epoch, 0))
        assert side.client_names._tellings == {}
        talk._received(N2, services.encode(services.offer([], asks=False)))
        assert side.client_names._tellings == {}
        assert found[-1] == []
        talk._received(N2, services.encode(services.offer([THEIRS], asks=True)))
        assert found[-1] == [Offered("n2", THEIRS)]
        assert set(side.client_names._tellings) == {N2}
        world.driver.tell(SasObserved("n2", ()))
        talk.follow()
        assert found[-1] == [], "n2 is not in reach"

    inside(work)


class World:
    """A node that trusts n2 and n3, of whom n2 can be reached."""

    def __init__(self) -> None:
        self.driver = Driver()
        self.driver.ready(2, 3)
        self.socket = Socket()
        self.talk = PeerTalk(card(1).address, self.driver.engine.known)
        self.side = made(self.driver, self.talk)
        self.talk._socket = self.socket  # type: ignore[assignment]

    def reach(self) -> None:
        reached = route(2)
        self.driver.tell(RoutesReset({reached.destination: reached}), SasObserved("n2", (ike_sa("n2"),)))
        self.talk.follow()

    def hear(self, peer: IPv6Address, *offered: Service, asks: bool = False) -> None:
        self.talk._received(peer, services.encode(services.offer(offered, asks=asks)))

    def shown(self) -> list[tuple[str, str]]:
        return [(one["node"], one["name"]) for one in self.side.view()["services"]]

    def sent(self) -> list[tuple[IPv6Address, bool]]:
        assert all(message.services() == (OURS,) for _, message in self.socket.sent)
        found = [(peer, message.asks) for peer, message in self.socket.sent]
        self.socket.sent.clear()
        return found


def inside(work: Callable[[World], None]) -> None:
    async def run() -> None:
        work(World())

    asyncio.run(run())


def test_a_peer_that_comes_into_reach_is_told_and_asked_and_answers_are_kept() -> None:
    def work(world: World) -> None:
        assert world.sent() == []
        world.reach()
        assert world.sent() == [(N2, True)]
        world.talk.follow()
        assert world.sent() == [], "once"
        world.hear(N2, THEIRS)
        assert world.shown() == [("n1", "wiki"), ("n2", "chat")]
        assert world.sent() == []
        world.hear(N2, asks=True)
        assert world.sent() == [(N2, False)]
        assert world.shown() == [("n1", "wiki")], "it offers nothing any more"

    inside(work)


def test_who_has_not_answered_is_asked_when_a_route_comes_back() -> None:
    def work(world: World) -> None:
        world.reach()
        world.sent()
        reached = route(2)
        for answers in (False, True):
            world.driver.tell(RoutesReset({}))
            world.talk.follow()
            assert N2 in world.talk.reached, "its SA is kept for a while"
            world.driver.tell(RoutesReset({reached.destination: reached}))
            world.talk.follow()
            assert world.sent() == ([] if answers else [(N2, True)])
            world.hear(N2)

    inside(work)


def test_nobody_is_heard_who_is_not_reached() -> None:
    def work(world: World) -> None:
        world.hear(N2, THEIRS, asks=True)
        world.reach()
        world.sent()
        for stranger in (N3, card(9).address):
            world.hear(stranger, THEIRS, asks=True)
        assert world.shown() == [("n1", "wiki")]
        assert world.sent() == []

    inside(work)


def test_what_a_peer_offers_goes_with_its_channel() -> None:
    def work(world: World) -> None:
        world.reach()
        world.hear(N2, THEIRS)
        world.driver.tell(SasObserved("n2", ()))
        world.talk.follow()
        assert world.shown() == [("n1", "wiki")]
        assert world.talk._counted == {}

    inside(work)


def test_a_flood_is_neither_read_nor_answered_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(world: World) -> None:
        world.reach()
        world.sent()
        for _ in range(100):
            world.hear(N2, THEIRS, asks=True)
        assert len(world.sent()) == module.IN_WINDOW
        monkeypatch.setattr(module, "WINDOW", 0.0)
        world.hear(N2, OURS, asks=True)
        assert world.sent() == [(N2, False)]
        assert ("n2", "wiki") in world.shown()

    inside(work)


def test_what_is_no_message_changes_nothing() -> None:
    def work(world: World) -> None:
        world.reach()
        world.hear(N2, THEIRS)
        world.talk._received(N2, b"\xc1")
        assert ("n2", "chat") in world.shown()

    inside(work)


def test_who_does_not_answer_is_asked_for_ever_and_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a real socket on the loopback device, which the socket that records then replaces."""
    monkeypatch.setattr(module, "PERIOD", 0.01)

    async def run() -> None:
        world = World()
        talk = PeerTalk(IPv6Address("::1"), world.driver.engine.known)
        world.side = made(world.driver, talk)
        task = asyncio.create_task(talk.run())
        await soon(lambda: talk._socket is not None)
        opened, talk._socket = talk._socket, world.socket  # type: ignore[assignment]
        world.talk = talk
        world.reach()
        await soon(lambda: len(world.socket.sent) > 4)
        assert set(world.sent()) == {(N2, True)}
        world.hear(N2)
        await asyncio.sleep(0.05)
        assert world.sent() == []
        talk._socket = opened
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(run())


def test_who_has_not_answered_is_asked_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GREET_AGAIN", (0.01,))

    async def run(*, answers: bool) -> list[tuple[IPv6Address, bool]]:
        world = World()
        world.reach()
        world.sent()
        if answers:
            world.hear(N2)
        await asyncio.sleep(0.05)
        return world.sent()

    assert asyncio.run(run(answers=False)) == [(N2, True)]
    assert asyncio.run(run(answers=True)) == []


def test_a_port_that_another_program_has_is_reported_and_taken_when_it_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """With real sockets, on the loopback device."""
    monkeypatch.setattr(module, "AGAIN", 0.01)

    async def run() -> None:
        side = PeerTalk(IPv6Address("::1"), Driver().engine.known)
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as other:
            other.bind(("::1", services.PORT))
            task = asyncio.create_task(side.run())
            await soon(lambda: bool(side.problem))
            (check,) = side.checks()
            assert f"UDP {services.PORT} at ::1: " in check.found
            assert str(services.PORT) in check.fix
        await soon(lambda: not side.problem)
        assert side.checks() == []
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(run())


async def soon(condition: Callable[[], bool]) -> None:
    deadline = asyncio.get_running_loop().time() + 5
    while not condition():
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.005)
