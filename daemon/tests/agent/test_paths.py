"""meshsecd asks peers behind relays through their SAs, and has the router avoid a relay that swallows user data."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from ipaddress import IPv6Address, ip_address

import pytest

from core.world import Driver, card, ike_sa, route
from meshsec.agent.sides.paths import PathsSide, Uses
from meshsec.agent.sides.peer_talk import PeerTalk
from meshsec.core.channels.attempt import Failure
from meshsec.core.channels.diagnosis import diagnose
from meshsec.core.channels.events import RoutesReset, SasObserved
from meshsec.core.channels.ways import ways
from meshsec.core.explain import relays_view
from meshsec.core.explain.findings import Level
from meshsec.core.ike.port import IkeError
from meshsec.core.paths import word
from meshsec.core.paths.avoidance import Avoidance, Decision, Mark, What
from meshsec.core.paths.watch import ASKS, GAP, Way
from meshsec.core.values.failures import Cause, FailureKind
from meshsec.core.values.model import Address, IkeSa, Neighbour, Route

N2, N3 = card(2).address, card(3).address
X, B = ip_address("fd99::1"), ip_address("fd99::2")


class Socket:
    """What is sent by a socket that loses everything."""

    def __init__(self) -> None:
        self.sent: list[tuple[IPv6Address, word.Word]] = []

    def send(self, peer: IPv6Address, octets: bytes) -> None:
        self.sent.append((peer, word.decode(octets)))


class World:
    """A node with the neighbours x and b, and a peer n2 that is reached over x, or else over b."""

    def __init__(self, unheard: str = "") -> None:
        self.driver = Driver()
        self.driver.ready(2, 3)
        known = self.driver.engine.known
        self.socket, self.avoided, self.now = Socket(), [], 1000.0  # type: ignore[var-annotated]
        self.neighbours = [Neighbour(X, symmetric=True), Neighbour(B, symmetric=True)]
        self.talk = PeerTalk(card(1).address, known)
        self.sas: dict[str, tuple[IkeSa, ...]] = {}
        uses = Uses(self._read, lambda: self.neighbours, self._avoid, unheard)
        self.side = PathsSide(known, self.talk, uses)
        self.talk._socket = self.socket  # type: ignore[assignment]
        for one in (self.talk, self.side):
            one._loop = self  # type: ignore[assignment]
        self.sent = 0

    def time(self) -> float:
        return self.now

    def call_later(self, *_: object) -> None:
        """Greet nobody again."""

    async def _read(self) -> Mapping[str, Iterable[IkeSa]]:
        return self.sas

    def _avoid(self, relays: Mapping[Address, float]) -> None:
        self.avoided.append(dict(relays))
        self.reach(B if X in relays else X)

    def reach(self, relay: Address, hops: int = 2) -> None:
        """Have the router find a way."""
        found: Route = replace(route(2), first_hop=relay, hops=hops)
        self.driver.tell(RoutesReset({found.destination: found}))
        self.sas = {"n2": (ike_sa("n2"),)}
        self.driver.tell(SasObserved("n2", self.sas["n2"]))
        self.talk.follow()

    async def run(self, seconds: float, answers: Callable[[], bool] = lambda: False) -> None:
        """Let time pass in which user data goes out and nothing comes in."""
        end = self.now + seconds
        while self.now < end:
            self.now += GAP
            self.sent += 10
            (sa,) = self.sas["n2"]
            (child, *rest) = sa.children
            children = (replace(child, packets_out=self.sent, bytes_out=100 * self.sent), *rest)
            self.sas = {"n2": (replace(sa, children=children),)}
            before = len(self.socket.sent)
            await self.side.count()
            self.side.poll()
            if len(self.socket.sent) > before and answers():
                self.side.take(N2, word.answer(self.socket.sent[-1][1].round))


def run(body: Callable[[], object]) -> None:
    async def running() -> None:
        await body()  # type: ignore[misc]

    asyncio.run(running())


def test_a_relay_that_swallows_is_avoided_and_said_to_be(caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        world = World()
        world.reach(X)
        world.socket.sent.clear()
        await world.run(2 + ASKS * GAP)
        assert [list(one) for one in world.avoided] == [[X]]
        assert {peer for peer, _ in world.socket.sent} == {N2}
        assert [said.unanswered for _, said in world.socket.sent][:ASKS] == [*range(ASKS)]
        await world.run(5, answers=lambda: True)
        assert len(world.avoided) == 2, "how long it is avoided is said again"
        assert [one.level for one in world.side.checks()] == [Level.WARN]
        assert str(X) in world.side.problems()[0]
        assert any("is avoided" in sentence for sentence in world.side.sentences("n2"))
        assert world.side.sentences("n3") == world.side.sentences("nobody") == []
        assert "answer by another way: avoided" in caplog.text
        assert "drop" not in caplog.text + world.side.problems()[0], "the loss of a link looks the same"

    run(body)


def test_nobody_says_that_the_owner_of_a_relay_drops() -> None:
    """Whoever is behind the relay may do it, and neither end can tell."""
    avoidance = Avoidance()
    mark = Mark(0.0, 30.0, {N2}, left=True, proved=True, times=2)
    avoidance.marks[X] = mark
    known = relays_view.Relays(0.0, {}, avoidance, str)
    (problem,), (check,) = relays_view.problems(known), relays_view.checks(known, "")
    said = relays_view.decided(Decision(What.PROVED, X, (N2,)), str)
    for text in (problem, check.found, said):
        assert "or somebody behind it, drops" in text
    assert "2 times so far" in problem
    assert "owner" not in (check.fix or "")
    assert "whoever owns" not in (check.fix or "")


def test_the_link_to_a_neighbour_that_swallows_is_avoided_too() -> None:
    """Somebody passes the routing messages of two peers on who do not hear each other, and drops the rest."""

    async def body() -> None:
        world = World()
        world.reach(X, hops=1)
        world.socket.sent.clear()
        await world.run(2 + ASKS * GAP)
        assert [list(one) for one in world.avoided] == [[X]]

    run(body)


def test_the_first_hop_is_called_a_link_where_it_is_the_peer_itself() -> None:
    names = {N2: "n2", X: "n2", N3: "n3"}.__getitem__
    for accusers, called in (((N2,), "link to n2"), ((N2, N3), "relay n2"), ((N3,), "relay n2")):
        avoidance = Avoidance()
        avoidance.marks[X] = Mark(0.0, 30.0, set(accusers), left=True)
        known = relays_view.Relays(0.0, {}, avoidance, names)
        assert relays_view.problems(known)[0].startswith(f"the {called} is avoided")
        assert relays_view.decided(Decision(What.LEFT, X, accusers), names).startswith(f"{called}: ")
        assert any(one.startswith(f"The {called} is") for one in relays_view.sentences(known, accusers[0]))


def test_what_the_overlay_carries_has_no_way_of_the_router() -> None:
    async def body() -> None:
        world = World()
        world.reach(X)
        known = world.driver.engine.known
        assert ways(known) == {N2: Way(X)}
        known.by_name["n2"].handover.carried_since = 1000.0
        assert ways(known) == {}

    run(body)


@pytest.mark.parametrize(("kind", "failed_at"), [(FailureKind.NO_ANSWER, 7.0), (FailureKind.NOT_TRUSTED, None)])
def test_only_a_negotiation_without_an_answer_says_something_of_the_way(
    kind: FailureKind, failed_at: float | None
) -> None:
    async def body() -> None:
        world = World()
        world.reach(X)
        world.driver.tell(SasObserved("n2", ()))
        known, cause = world.driver.engine.known, Cause("", kind)
        assert ways(known) == {N2: Way(X, protected=False)}
        known.by_name["n2"].attempt.last_failure = Failure(cause, 7.0, diagnose(cause, ""))
        assert ways(known) == {N2: Way(X, protected=False, failed_at=failed_at)}

    run(body)


def test_without_another_neighbour_nobody_is_asked() -> None:
    async def body() -> None:
        world = World()
        world.neighbours = [Neighbour(X, symmetric=True), Neighbour(B, symmetric=False)]
        world.reach(X)
        world.socket.sent.clear()
        await world.run(30)
        assert (world.socket.sent, world.avoided) == ([], [])

    run(body)


def test_a_peer_that_answers_keeps_its_relay() -> None:
    async def body() -> None:
        world = World()
        world.reach(X)
        await world.run(60, answers=lambda: True)
        assert world.avoided == []
        assert world.side.sentences("n2") == world.side.problems() == []
        assert world.side.checks() == []

    run(body)


def test_where_the_router_cannot_be_told_nothing_is_asked_and_doctor_says_so() -> None:
    async def body() -> None:
        world = World(unheard="olsrd2 cannot be told which relay to avoid")
        world.reach(X)
        await world.side.run()
        (check,) = world.side.checks()
        assert (check.level, "olsrd2" in check.found) == (Level.OK, True)

    run(body)


def test_an_ike_daemon_that_is_away_is_no_evidence() -> None:
    async def body() -> None:
        world = World()

        async def away() -> Mapping[str, Iterable[IkeSa]]:
            raise IkeError("away")

        world.reach(X)
        world.side._uses = world.side._uses._replace(sas=away)
        world.socket.sent.clear()
        await world.run(30)
        assert (world.socket.sent, world.avoided) == ([], [])

    run(body)


def test_a_peer_that_says_all_that_an_honest_one_says_is_answered() -> None:
    """Greetings of all topics and names come first, and then path questions among answers."""

    async def body() -> None:
        world = World()
        world.reach(X)
        world.socket.sent.clear()
        for _ in range(4 * (2 + 2) + 4):
            world.talk._received(N2, b"of another topic")
        for _ in range(4):
            world.talk._received(N2, word.answer())
            world.talk._received(N2, word.question(0, 0))
        assert len(world.socket.sent) == 4

    run(body)


def test_a_question_is_answered_and_other_topics_are_left_alone() -> None:
    async def body() -> None:
        world = World()
        world.reach(X)
        world.socket.sent.clear()
        world.talk._received(N2, word.question(0, 0, 7))
        world.talk._received(N2, word.answer())
        world.talk._received(N2, b"something else")
        world.talk._received(N3, word.question(0, 0))
        assert [(peer, said.asks, said.round) for peer, said in world.socket.sent] == [(N2, False, 7)]

    run(body)
