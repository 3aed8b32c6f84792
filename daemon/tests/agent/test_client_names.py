"""What clients are called is told to peers until they answer, told again after a change, and written for this node."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_network
from pathlib import Path

import pytest

from core.world import Driver, card, peer
from meshsec.agent.sides import names as names_module
from meshsec.agent.sides.client_names import AGAIN, AGAIN_SOON, APART, PACE, ClientNamesTalk
from meshsec.agent.sides.names import NamesSide
from meshsec.core.channels.events import ClientsSet
from meshsec.core.services.client_names import Names, Taken, portions
from meshsec.core.values.host_names import ClientName

N2, N3 = card(2).address, card(3).address
FOUR, OTHER = IPv4Address("10.130.0.5"), IPv4Address("10.130.0.6")
CAM = (ClientName("cam", (FOUR,)),)
MANY = tuple(ClientName(f"c{n:02}{'x' * 50}", (IPv4Address(n),)) for n in range(60))


class Loop(asyncio.SelectorEventLoop):
    """An event loop whose clock stands still until the test puts it forward."""

    now = 1000.0

    def time(self) -> float:
        return self.now


class World:
    """An access node that reaches n2."""

    def __init__(self, loop: Loop, *, serves: bool = True) -> None:
        self.loop = loop
        self.sent: list[tuple[IPv6Address, object]] = []
        self.named: list[tuple[IPv6Address, tuple[ClientName, ...]]] = []
        self.talk = ClientNamesTalk(
            lambda to, message: self.sent.append((to, message)),
            lambda of, names: self.named.append((of, names)),
            serves=serves,
        )

    async def told(self, seconds: float = 0.0) -> list[tuple[IPv6Address, int, int]]:
        """Return to whom which part of which number was told after a while."""
        self.loop.now += seconds
        self.talk._woken.set()
        for _ in range(5):
            await asyncio.sleep(0)
        found = [(to, one.number, one.part) for to, one in self.sent if isinstance(one, Names)]
        self.sent.clear()
        return found

    def answer(self, number: int, *, epoch: int | None = None) -> None:
        self.talk.heard(N2, Taken(self.talk._epoch if epoch is None else epoch, number))


def inside(work: Callable[[World], Coroutine[None, None, None]], *, serves: bool = True) -> None:
    async def run(loop: Loop) -> None:
        world = World(loop, serves=serves)
        task = asyncio.create_task(world.talk.run())
        try:
            await work(world)
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    loop = Loop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(run(loop))


def test_a_peer_is_told_until_it_answers_and_then_nothing_is_sent() -> None:
    async def work(world: World) -> None:
        world.talk.follow(frozenset({N2}))
        assert await world.told() == [(N2, 0, 0)], "that there are none may be news"
        assert await world.told(AGAIN_SOON - 0.1) == []
        assert await world.told(0.1) == [(N2, 0, 0)]
        for times in range(1, 9):
            assert await world.told(min(AGAIN, AGAIN_SOON * 2**times) - 0.1) == []
            assert await world.told(0.1) == [(N2, 0, 0)]
        for _ in range(1100):  # a day
            assert await world.told(AGAIN) == [(N2, 0, 0)]
        world.answer(7)
        world.answer(0, epoch=(world.talk._epoch + 1) % 2**32)
        assert await world.told(AGAIN) == [(N2, 0, 0)], "that was the answer to something else"
        world.answer(0)
        assert await world.told(10 * AGAIN) == []
        world.talk.tell(CAM)
        assert await world.told() == [(N2, 1, 0)]
        world.answer(1)
        world.talk.tell(CAM)
        assert await world.told(10 * AGAIN) == [], "nothing has changed"

    inside(work)


def test_changes_are_told_at_a_pace_and_parts_one_by_one() -> None:
    async def work(world: World) -> None:
        world.talk.follow(frozenset({N2}))
        await world.told()
        parts = len(portions(MANY, 0, 0))
        assert parts > 3
        world.talk.tell(CAM)
        world.answer(1)
        assert await world.told(PACE) == []
        for number in range(2, 50):
            world.talk.tell((*CAM, ClientName(f"n{number}", (OTHER,))))
        assert await world.told() == [(N2, 49, 0)], "the last was told long ago"
        world.talk.tell(MANY)
        assert await world.told(PACE - 0.1) == []
        assert await world.told(0.1) == [(N2, 50, 0)]
        for part in range(1, parts):
            assert await world.told(APART / 2) == []
            assert await world.told(APART / 2) == [(N2, 50, part)]

    inside(work)


def test_who_asks_is_told_again_but_not_while_it_is_being_told() -> None:
    async def work(world: World) -> None:
        world.talk.tell(MANY)
        world.talk.follow(frozenset({N2}))
        assert await world.told() == [(N2, 1, 0)]
        for _ in range(10):
            world.talk.asked(N2)
        assert await world.told() == []
        world.answer(1)
        world.talk.asked(N3)
        assert await world.told() == [], "n3 is not in reach"
        world.talk.asked(N2)
        assert await world.told() == [(N2, 1, 0)]
        for _ in portions(MANY, 0, 0):
            await world.told(APART)
        assert await world.told(APART) == []
        world.talk.repeat([N2, N3])
        assert await world.told() != [], "a route has come back"
        world.talk.follow(frozenset())
        assert await world.told(AGAIN) == []

    inside(work)


def test_a_node_without_clients_tells_nothing_and_hears_those_of_others() -> None:
    async def work(world: World) -> None:
        world.talk.follow(frozenset({N2}))
        world.talk.asked(N2)
        assert await world.told(AGAIN) == []
        first, *rest = portions(MANY, 3, 1)
        world.talk.heard(N2, first)
        assert (world.named, world.sent) == ([], []), "not all of them are here"
        for one in rest:
            world.talk.heard(N2, one)
        assert world.named == [(N2, MANY)]
        assert world.sent == [(N2, Taken(3, 1))]
        world.talk.heard(N2, first)
        assert world.sent == [(N2, Taken(3, 1))] * 2, "its answer was lost"
        world.talk.serves_none(N2)
        assert world.named[-1] == (N2, ())

    inside(work, serves=False)


# --- the file ---


class Node:
    """The side that writes names, on a node that lets n2 and n3 speak for the network of clients."""

    def __init__(self, path: Path) -> None:
        self.path, self.driver = path, Driver()
        self.driver.ready(2, 3)
        self.known = self.driver.engine.known
        self.known.networks.configure([], {ip_network("10.130.0.0/16"): ("n2", "n3")})
        self.side = NamesSide(path, [card(1)], self.known)

    def lines(self) -> list[str]:
        """Return the lines of clients."""
        text = self.path.read_text("ascii") if self.path.exists() else ""
        return [line for line in text.splitlines() if line.count(".mesh") and line.split()[1].count(".") == 2]

    async def become(self, *lines: str) -> None:
        deadline = asyncio.get_running_loop().time() + 5
        while self.lines() != [*lines]:
            assert asyncio.get_running_loop().time() < deadline, self.lines()
            await asyncio.sleep(0.005)


def on_node(path: Path, work: Callable[[Node], Coroutine[None, None, None]]) -> None:
    async def run() -> None:
        node = Node(path)
        await node.side.load()
        node.side.follow([peer(2), peer(3)])
        task = asyncio.create_task(node.side.run())
        try:
            await work(node)
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    asyncio.run(run())


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(names_module, "PACE", 0.01)
    return tmp_path / "names/nodes"


def test_names_come_and_go_with_what_peers_say_and_with_trust(path: Path) -> None:
    async def work(node: Node) -> None:
        node.side.of_peer(N2, CAM)
        node.side.of_this_node((ClientName("lamp", (OTHER,)),))
        await node.become("10.130.0.5 cam.n2.mesh", "10.130.0.6 lamp.n1.mesh")
        node.side.follow([peer(3)])
        await node.become("10.130.0.6 lamp.n1.mesh")
        node.side.follow([peer(2), peer(3)])
        node.side.of_this_node((ClientName("light", (OTHER,)),))
        await node.become("10.130.0.6 light.n1.mesh")  # what was said before the trust ended counts no more
        node.side.of_peer(N2, CAM)
        node.side.of_this_node(())
        await node.become("10.130.0.5 cam.n2.mesh")

    on_node(path, work)


def test_of_two_peers_the_one_that_has_the_client_names_it_and_else_the_last_word_counts(path: Path) -> None:
    async def work(node: Node) -> None:
        node.side.of_peer(N2, CAM)
        node.side.of_peer(N3, (ClientName("lie", (FOUR,)),))
        await node.become("10.130.0.5 lie.n3.mesh")
        node.side.of_peer(N2, (ClientName("lens", (FOUR,)),))
        await node.become("10.130.0.5 lens.n2.mesh")
        node.side.of_peer(N2, CAM)
        node.side.of_peer(N3, (ClientName("liar", (FOUR,)),))
        await node.become("10.130.0.5 liar.n3.mesh")
        node.driver.tell(ClientsSet({ip_network(FOUR): N2}))
        node.side.settle()
        await node.become("10.130.0.5 cam.n2.mesh")
        node.driver.tell(ClientsSet({ip_network(FOUR): card(1).address}))
        node.side.settle()
        await node.become()

    on_node(path, work)


def test_what_was_said_before_a_restart_counts_until_the_peer_says_something(path: Path) -> None:
    async def before(node: Node) -> None:
        node.side.of_peer(N2, CAM)
        node.side.of_this_node((ClientName("lamp", (OTHER,)),))
        await node.become("10.130.0.5 cam.n2.mesh", "10.130.0.6 lamp.n1.mesh")

    async def after(node: Node) -> None:
        assert node.side.remembered(OTHER) == "lamp"
        assert node.side.remembered(FOUR) == ""
        await node.become("10.130.0.5 cam.n2.mesh")
        node.side.of_peer(N2, ())
        await node.become()

    on_node(path, before)
    on_node(path, after)


def test_what_was_said_before_a_restart_is_forgotten_with_the_trust(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("10.130.0.5 cam.n2.mesh\n10.130.0.6 lamp.n1.mesh\n")

    async def work(node: Node) -> None:
        await node.become("10.130.0.5 cam.n2.mesh")
        node.side.follow([peer(3)])
        await node.become()
        node.side.follow([peer(2), peer(3)])
        node.side.of_this_node((ClientName("light", (OTHER,)),))
        await node.become("10.130.0.6 light.n1.mesh")
        assert node.side.remembered(OTHER) == "lamp", "this node's own are kept"

    on_node(path, work)


def test_a_file_that_is_not_meshsecds_is_no_memory(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("10.130.0.5 cam.n2.mesh\n10.130.0.6 evil\n")

    async def work(node: Node) -> None:
        await node.become()

    on_node(path, work)


def test_peers_that_say_much_cause_few_writings_and_trust_waits_for_none(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names_module, "PACE", 1000.0)

    async def work(node: Node) -> None:
        node.side.of_peer(N2, CAM)
        await node.become("10.130.0.5 cam.n2.mesh")
        for number in range(50):
            node.side.of_peer(N2, (ClientName(f"n{number}", (FOUR,)),))
            await asyncio.sleep(0.001)
        assert node.lines() == ["10.130.0.5 cam.n2.mesh"]
        node.side.follow([peer(2)])
        await node.become("10.130.0.5 n49.n2.mesh")

    on_node(path, work)
