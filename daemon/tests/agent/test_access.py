"""The side of an access node in a real kernel: what a move of a client does at the former node and at the new one.

The other access node is a socket at its address, which says what that node's meshsecd would say.
"""

import asyncio
import json
import subprocess
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Address, ip_address
from pathlib import Path

import pytest

from core.test_client_routes import BOTH, CLIENTS
from core.test_client_routes import driver as access_driver
from core.test_networks import FAR, NEAR
from core.world import Driver, card
from meshsec.adapters.kernel import clients, tunnel
from meshsec.adapters.kernel.tunnel import Own
from meshsec.adapters.sockets.peer_datagrams import PeerDatagrams, peer_datagrams
from meshsec.adapters.sockets.sightings import Teller
from meshsec.agent.sides.access import HANDING, LINGER, PATIENCE, AccessSide, Uses
from meshsec.core.access import messages
from meshsec.core.access.clients import Client, Sighting
from meshsec.core.access.messages import Answer, Claim, Flow, Message
from meshsec.core.access.shared_address import DEVICE as BRIDGE
from meshsec.core.channels import nft_access
from meshsec.core.channels.actions import Action
from meshsec.core.channels.events import ClientsSet, Event
from meshsec.core.config.access_settings import AccessSettings
from meshsec.core.config.settings import Paths
from meshsec.core.networks.flow_marks import BASE
from meshsec.core.networks.networks import DEVICE as TUNNEL
from meshsec.core.values.model import Network
from meshsec.core.values.networks import TunnelRoute
from namespaces import ip, needs_root

pytestmark = needs_root

OTHER, THIRD = card(NEAR).address, card(FAR).address
MAC, ADDRESS = "06:00:00:00:00:05", ip_address("10.130.0.5")
HOST = IPv4Network(ADDRESS)
PATIENT = 30.0
"""Seconds within which what is awaited must happen."""


class Loop(asyncio.SelectorEventLoop):
    """An event loop whose clock stands still until the test puts it forward, so that no busy machine is too late."""

    now = 1000.0

    def time(self) -> float:
        return self.now


@dataclass
class Node:
    """The access node, and what it gave to the rest of its agent."""

    driver: Driver
    loop: Loop
    directory: Path
    heard: list[Message] = field(default_factory=list)
    """What the other access node heard."""
    announced: list[tuple[set[Network], str]] = field(default_factory=list)
    """What was to be announced, and by which device packets to the client left at that moment."""
    nodes: dict[Network, IPv6Address] = field(default_factory=dict)
    """Who serves each client, as the engine was told last."""
    actions: list[Action] = field(default_factory=list)
    """What the engine asked for last."""
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def start(self) -> AccessSide:
        settings = AccessSettings(networks=(CLIENTS,), peers=(f"n{NEAR}", f"n{FAR}"))
        known = self.driver.engine.known
        uses = Uses(self._announce, self._post, self.spawn, lambda _names: None, lambda _address: "")
        return AccessSide(settings, Paths(run=str(self.directory)), known.node.address, known, uses)

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        self.tasks.append(self.loop.create_task(work))

    def _announce(self, networks: Iterable[Network]) -> None:
        self.announced.append(({*networks}, way()))

    def _post(self, event: Event) -> None:
        assert isinstance(event, ClientsSet)
        self.nodes = dict(event.nodes)
        self.actions = self.driver.tell(event) or self.actions

    def announces_client(self) -> bool:
        return bool(self.announced) and HOST in self.announced[-1][0]

    async def pass_time(self, seconds: float) -> None:
        """Put the clock forward, and let the side do what is due then."""
        self.loop.now += seconds
        await real_time(0.2)


@dataclass
class Mesh:
    """The running side, the other access node, and the process that hears clients."""

    node: Node
    side: AccessSide
    other: PeerDatagrams
    teller: Teller

    def claim(self, number: int, serving: IPv6Address = OTHER, *, asks: bool = True) -> None:
        """Have the other access node say who serves the client."""
        said = messages.claim(Client(MAC, serving, number, (ADDRESS,)), asks=asks)
        self.other.send(self.node.driver.engine.known.node.address, messages.encode(said))

    def answer(self, number: int, *flows: Flow) -> None:
        """Have the other access node answer a claim."""
        own = self.node.driver.engine.known.node.address
        for portion in messages.portions(MAC, number, flows):
            self.other.send(own, messages.encode(portion))
        self.other.send(own, messages.encode(Answer(MAC, number)))

    async def served(self) -> None:
        """Have the client come to this node, which nobody knew before."""
        self.teller.tell(Sighting(MAC, ADDRESS))
        await until(self.node.announces_client, "the client is announced")

    async def served_after_other(self) -> None:
        """Have the client come to this node from the other one."""
        self.claim(1)
        await until(lambda: self.node.nodes == {HOST: OTHER}, "the client is known")
        self.teller.tell(Sighting(MAC, arrives=True))
        await until(lambda: any(isinstance(one, Claim) for one in self.node.heard), "a claim")
        await until(self.node.announces_client, "the client is announced")

    async def moved_away(self) -> None:
        """Have the client come to this node, and then to the other one."""
        await self.served()
        self.claim(2)
        await until(lambda: self.node.nodes == {HOST: OTHER}, "the other node serves the client")


async def real_time(seconds: float) -> None:
    """Let time pass that is not the loop's."""
    await asyncio.to_thread(time.sleep, seconds)


async def until(ready: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + PATIENT
    while not ready():
        if time.monotonic() > end:
            pytest.fail(f"waited {PATIENT:g} s in vain: {what}")
        await real_time(0.02)


def way() -> str:
    """Return the device by which packets to the client leave; empty: by none."""
    shown = ip("-j", "route", "get", str(ADDRESS), check=False)
    return str(json.loads(shown)[0].get("dev", "")) if shown.startswith("[") else ""


def handed() -> str:
    """Return the route to the client that this side has set into the tunnel."""
    return ip("route", "show", str(HOST), "proto", str(clients.PROTOCOL), "dev", TUNNEL)


def bound() -> str:
    """Return from whom packets are taken, and the marks that flows get."""
    command = ["nft", "list", "table", "inet", nft_access.TABLE]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def run(inside: str, tmp_path: Path) -> Callable[[Callable[[Mesh], Awaitable[None]]], None]:
    """Give a function that runs a test with the side of an access node, in a namespace of its own."""
    driver = access_driver(shared=BOTH)
    own = driver.engine.known.node.address
    for address in (own, OTHER, THIRD):
        ip("address", "add", f"{address}/128", "dev", "lo", "nodad")
    asyncio.run(tunnel.apply({TunnelRoute(IPv4Network("10.1.0.0/16"), OTHER)}, TUNNEL, Own(own, None), [], 1400))

    def run_in(test: Callable[[Mesh], Awaitable[None]]) -> None:
        loop = Loop()
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(_with_side(Node(driver, loop, tmp_path), test))

    return run_in


async def _with_side(node: Node, test: Callable[[Mesh], Awaitable[None]]) -> None:
    side = node.start()
    side.follow()
    other = await peer_datagrams(OTHER, messages.PORT, lambda _peer, octets: node.heard.append(messages.decode(octets)))
    teller = Teller(node.directory / "sightings.sock")
    node.spawn(side.run())
    try:
        await until(lambda: {"clients", "access nodes"} <= side.failures.keys(), "the side hears")
        await test(Mesh(node, side, other, teller))
        assert not any(side.failures.values()), side.failures
        assert side.kernel.problem == ""
    finally:
        other.close()
        teller._socket.close()
        for task in node.tasks:
            task.cancel()
        await asyncio.gather(*node.tasks, return_exceptions=True)


Run = Callable[[Callable[[Mesh], Awaitable[None]]], None]


def test_the_former_node_leads_to_the_new_one_at_once_and_until_the_other_route_does(run: Run) -> None:
    async def test(mesh: Mesh) -> None:
        await mesh.moved_away()
        assert str(OTHER) in handed()
        assert way() == TUNNEL
        await until(lambda: Answer(MAC, 2) in mesh.node.heard, "an answer")
        await mesh.node.pass_time(HANDING - 0.1)
        assert str(OTHER) in handed(), "the route of the other networks is not set yet"
        mesh.node.driver.succeed(*mesh.node.actions)
        assert mesh.node.driver.engine.known.networks.in_use[HOST] == OTHER
        mesh.side.follow()
        await until(lambda: not handed(), "the route of the other networks leads there")

    run(test)


def test_the_former_node_gives_up_what_it_forwards_when_no_other_route_is_set(run: Run) -> None:
    async def test(mesh: Mesh) -> None:
        await mesh.moved_away()
        await mesh.node.pass_time(HANDING)
        await until(lambda: not handed(), "the end of the route")
        assert way() == "", "what is at no node does not leave by another route"

    run(test)


def test_the_former_node_announces_the_client_until_others_have_heard_of_its_move(run: Run) -> None:
    async def test(mesh: Mesh) -> None:
        await mesh.moved_away()
        assert mesh.node.announces_client()
        await mesh.node.pass_time(LINGER - 0.1)
        assert mesh.node.announces_client()
        await mesh.node.pass_time(0.1)
        await until(lambda: not mesh.node.announces_client(), "its end")
        assert mesh.node.announced[-1][0] == {CLIENTS}

    run(test)


def test_a_client_that_comes_back_at_once_is_served_and_stays_announced(run: Run) -> None:
    async def test(mesh: Mesh) -> None:
        await mesh.moved_away()
        mesh.teller.tell(Sighting(MAC, arrives=True))
        await until(lambda: mesh.node.nodes == {HOST: mesh.node.driver.engine.known.node.address}, "it is served here")
        assert way() == BRIDGE
        assert not handed()
        await mesh.node.pass_time(LINGER + 1)
        assert mesh.node.announces_client()
        assert way() == BRIDGE

    run(test)


def test_whatever_is_announced_has_a_way_already(run: Run) -> None:
    """The client has a route here before others are told that it is here."""

    async def test(mesh: Mesh) -> None:
        await mesh.moved_away()
        mesh.teller.tell(Sighting(MAC, arrives=True))
        await until(lambda: way() == BRIDGE, "the client is here again")
        mesh.claim(4)
        await until(lambda: way() == TUNNEL and mesh.node.nodes == {HOST: OTHER}, "it is away again")
        ways = [device for networks, device in mesh.node.announced if HOST in networks]
        assert (ways[0], ways[-1]) == (BRIDGE, TUNNEL)
        assert set(ways) == {BRIDGE, TUNNEL}

    run(test)


def test_packets_of_a_client_that_came_wait_for_the_word_of_the_former_node(run: Run) -> None:
    async def test(mesh: Mesh) -> None:
        await mesh.served_after_other()
        assert way() == BRIDGE, "what is for the client does not wait"
        await mesh.node.pass_time(PATIENCE - 0.1)
        assert MAC not in bound()
        mesh.node.driver.engine.known.networks.flows.learn({OTHER: BASE + 3})
        flow = Flow(ADDRESS, ip_address("203.0.113.9"), 17, 4000, 53, OTHER)
        foreign = flow._replace(source=ip_address("10.130.0.99"))
        mesh.answer(2, flow, foreign)
        await until(lambda: MAC in bound(), "its packets pass")
        assert f"{ADDRESS} . 203.0.113.9 . udp . 4000 . 53 : {BASE + 3:#010x}" in bound()
        assert "10.130.0.99" not in bound(), "it is not the client's"

    run(test)


@pytest.mark.parametrize("answers", [False, True])
def test_packets_wait_for_one_that_does_not_answer_no_longer_than_that(run: Run, answers: bool) -> None:
    """An answer to an earlier claim, or from another node, is none."""

    async def test(mesh: Mesh) -> None:
        await mesh.served_after_other()
        if answers:
            mesh.answer(1)
            mesh.side.talk._listeners.answered(MAC, 2, THIRD)
        await mesh.node.pass_time(PATIENCE - 0.1)
        assert MAC not in bound()
        await mesh.node.pass_time(0.1)
        await until(lambda: MAC in bound(), "its packets pass")

    run(test)


def test_packets_do_not_wait_for_a_former_node_that_is_out_of_reach(run: Run) -> None:
    async def test(mesh: Mesh) -> None:
        mesh.side.talk.peers = frozenset({OTHER})
        mesh.claim(1, THIRD)
        await until(lambda: mesh.node.nodes == {HOST: THIRD}, "the client is known")
        mesh.teller.tell(Sighting(MAC, arrives=True))
        await until(mesh.node.announces_client, "the client is announced")
        assert MAC in bound()

    run(test)
