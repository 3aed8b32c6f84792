"""A trusted peer cannot abuse the fleet's exchange by stalling, flooding, never reading, or giving old or unsigned
data."""

import contextlib
import json
import os
import socket
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from meshsec.adapters.files.trust_store import fleets as store
from meshsec.adapters.sockets import exchange
from meshsec.core.trust import card as cards
from meshsec.core.trust import fleet_exchange as lines
from meshsec.core.trust import fleets, identity
from meshsec.core.values.model import Card
from tests.lab.basics.waiting import wait_until
from tests.lab.lab import Lab
from tests.lab.net import namespaces
from tests.lab.net.topology import line, names
from tests.lab.node.node import Node
from tests.lab.node.office import Office

DESCRIPTORS_MORE = 24
"""Files that meshsecd may open under attack: a connection of each peer, and commands to charon and nft."""
MEGABYTES_MORE = 24


@dataclass(frozen=True)
class Scene:
    """a and c are members of the fleet; b is their peer, and hostile."""

    lab: Lab
    office: Office
    number: int

    @property
    def nodes(self) -> tuple[Node, Node, Node]:
        """Return a, b and c."""
        a, b, c = (self.lab[name] for name in "abc")
        return a, b, c


@pytest.fixture
def scene() -> Iterator[Scene]:
    """Start a - b - c, in which all trust each other by card; a and c know the fleet's list of an hour ago."""
    with Lab("fleet-peer", line(names(3))) as lab:
        office, number = Office(), int(time.time()) - 3600
        lab.set_up().trust_all()
        for node in (lab["a"], lab["c"]):
            own = cards.parse(node.card)
            signed = fleets.sign_card(office.key, own, number)
            store.join(node.peers, office.fleet, fleets.card_text(signed), [own])
            store.take_list(node.peers, office.list_of(number).octets)
        lab.start()
        lab.wait_full_mesh()
        yield Scene(lab, office, number)


@pytest.fixture
def members() -> Iterator[Scene]:
    """Start a - b - c. a and c are peers by the fleet's signature alone; b is their peer by its card, and hostile."""
    with Lab("next-keys", line(names(3))) as lab:
        office, number = Office(), int(time.time()) - 3600
        a, b, c = lab.set_up().nodes.values()
        signed = {node.name: fleets.sign_card(office.key, cards.parse(node.card), number) for node in (a, c)}
        for node, other in ((a, c), (c, a)):
            store.join(node.peers, office.fleet, fleets.card_text(signed[node.name]), [cards.parse(node.card)])
            store.take_members(node.peers, [signed[other.name].octets], cards.parse(node.card))
            for one, its in ((node, b), (b, node)):
                one.install_card(its)
        lab.start()
        a.wait_protected(b, 120)
        a.wait_protected(c, 120)
        yield Scene(lab, office, number)


def connection(scene: Scene, *, receive_buffer: int = 0, giver: str = "b") -> socket.socket:
    """Connect from the protected address of b, or of another giver, to a's exchange."""
    a, b = scene.lab["a"], scene.lab[giver]

    def opened() -> socket.socket:
        with contextlib.ExitStack() as stack:
            made = stack.enter_context(socket.socket(socket.AF_INET6))
            if receive_buffer:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            made.settimeout(30)
            made.bind((b.address, 0))
            made.connect((a.address, exchange.PORT))
            stack.pop_all()
        return made

    return namespaces.within(b.namespace, opened)


def offer(scene: Scene, *lists: bytes, cards: tuple[bytes, ...] = (), giver: str = "b") -> bool:
    """Give lists and signed cards to a. Return whether a listened."""
    given = lines.Offer([b64encode(one).decode() for one in lists], [b64encode(one).decode() for one in cards], {})
    try:
        with connection(scene, giver=giver) as opened, opened.makefile("rb") as answers:
            opened.sendall(hello(scene))
            if not answers.readline():
                return False
            opened.sendall(lines.encode(given))
            return bool(answers.readline())
    except OSError:
        return False


def offer_when_heard(scene: Scene, *lists: bytes, cards: tuple[bytes, ...] = (), giver: str = "b") -> None:
    """Give lists and cards as soon as a listens again: after old data it mutes the giver for some seconds."""
    wait_until(f"a listens to {giver}", lambda: offer(scene, *lists, cards=cards, giver=giver), [], 90)


def known(node: Node) -> dict[str, Any]:
    """Return the list that a node knows of the fleet."""
    found: dict[str, Any] = json.loads(node.meshsec("fleet", "status", "--json").stdout)["fleets"][0]["list"]
    return found


def test_a_peer_cannot_bring_back_an_old_list_nor_another_of_the_same_number(scene: Scene) -> None:
    a, _, c = scene.nodes
    victim = cards.parse(c.card).fingerprint
    before = known(a)
    offer_when_heard(scene, scene.office.list_of(scene.number - 1, victim).octets)
    offer_when_heard(scene, scene.office.list_of(scene.number, victim).octets)
    offer_when_heard(
        scene, scene.office.list_of(scene.number, victim).octets
    )  # a has answered the messages before those.
    assert known(a) == before
    assert a.control.peer(c.name)["state"] == "protected"
    offer_when_heard(scene, scene.office.list_of(scene.number + 1).octets)
    a.wait_for("a newer list is taken from the same peer", lambda: known(a)["number"] == scene.number + 1, 60)


@pytest.mark.parametrize("forgery", ["another fleet's", "signed by another", "altered", "cut off"])
def test_what_the_fleet_has_not_signed_is_refused_and_mutes_its_giver(scene: Scene, forgery: str) -> None:
    a, b, c = scene.nodes
    victim = cards.parse(c.card).fingerprint
    good = scene.office.list_of(scene.number + 5, victim).octets
    stranger = Office()
    other = stranger.list_of(scene.number + 5, victim).octets
    forged = {
        "another fleet's": other,
        "signed by another": other[:1] + good[1:33] + other[33:],
        "altered": good[:-80] + bytes([good[-80] ^ 1]) + good[-79:],
        "cut off": good[:-1],
    }
    before = known(a)
    offer_when_heard(scene, forged[forgery])
    a.wait_for("a says so", lambda: f"what {b.address} gave is refused" in a.daemons.agent.log.read_text(), 60)
    assert not offer(scene, good), "its giver is not listened to"
    assert known(a) == before
    assert a.control.peer(c.name)["state"] == "protected"


def next_card(name: str) -> Card:
    """Return the card of a new key."""
    seed = identity.generate(lambda: os.urandom(identity.KEY_LENGTH))
    return identity.make_card(name, identity.public_key_of(seed))


def in_force(scene: Scene) -> set[str]:
    """Return the keys by which a knows c."""
    joined = store.read(scene.lab["a"].peers)
    return {one.card.fingerprint.hex() for one in joined.current().values() if one.card.name == "c"}


def test_a_next_key_for_another_is_taken_from_the_fleet_alone(members: Scene) -> None:
    """The control: the same card, signed by the fleet, is accepted."""
    a, b, c = members.nodes
    card, before = next_card("c"), in_force(members)
    good = fleets.sign_card(members.office.key, card, members.number + 1)
    other = fleets.sign_card(Office().key, card, members.number + 1)
    forged = other.octets[:1] + good.octets[1:33] + other.octets[33:]
    offer_when_heard(members, cards=(forged,))
    a.wait_for("a says so", lambda: f"what {b.address} gave is refused" in a.daemons.agent.log.read_text(), 60)
    assert in_force(members) == before == {cards.parse(c.card).fingerprint.hex()}
    offer_when_heard(members, cards=(good.octets,), giver="c")
    a.wait_for("the next key is in force", lambda: in_force(members) == before | {card.fingerprint.hex()}, 60)
    assert a.control.peer(c.name)["state"] == "protected"


def test_an_old_announcement_of_a_next_key_brings_no_key_back(members: Scene) -> None:
    """b repeats it after a newer key, and after a revocation. The control: newer data is accepted from b."""
    a, _, c = members.nodes
    signed = [
        fleets.sign_card(members.office.key, card, members.number + since)
        for since, card in enumerate([cards.parse(c.card), *(next_card("c") for _ in range(3))])
    ]
    prints = [one.card.fingerprint.hex() for one in signed]
    for one in signed[1:3]:
        offer_when_heard(members, cards=(one.octets,))
    a.wait_for("the third key ends the first", lambda: in_force(members) == set(prints[1:3]), 60)
    offer_when_heard(members, cards=(signed[0].octets,))
    revoking = members.office.list_of(members.number + 9, signed[1].card.fingerprint)
    offer_when_heard(members, revoking.octets)
    a.wait_for("the second is revoked", lambda: in_force(members) == {prints[2]}, 60)
    offer_when_heard(members, cards=(signed[1].octets,))
    offer_when_heard(members, cards=(signed[3].octets,))
    a.wait_for("a newer key is taken", lambda: in_force(members) == set(prints[2:]), 60)


class Attack:
    """What a hostile peer does again and again, in threads, until the block ends."""

    def __init__(self, *works: Callable[[], None]) -> None:
        self.rounds = 0
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(work,), daemon=True) for work in works]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, work: Callable[[], None]) -> None:
        while not self._stop.wait(0.005):
            with contextlib.suppress(OSError):
                work()
            self.rounds += 1


def hello(scene: Scene) -> bytes:
    """Return a first line of a peer that knows the fleet and has none of its data."""
    return lines.encode(lines.Hello({scene.office.fleet.public_key.hex(): lines._Known(0, "0" * 64)}))


@dataclass(frozen=True)
class Load:
    """The resources that a node's meshsecd uses."""

    descriptors: int
    megabytes: int
    cpu: float
    at: float

    @classmethod
    def of(cls, node: Node) -> Self:
        """Measure a node's meshsecd."""
        return cls(
            descriptors(node),
            node.daemons.agent.resident_bytes() >> 20,
            node.daemons.agent.cpu_seconds(),
            time.monotonic(),
        )

    def assert_bounded(self, node: Node, attack: Attack) -> None:
        """Assert that the resources have not grown beyond the bound."""
        now = Load.of(node)
        share = (now.cpu - self.cpu) / (now.at - self.at)
        more, grown = now.descriptors - self.descriptors, now.megabytes - self.megabytes
        print(f"meshsecd: {more} descriptors, {grown} MB more, {share:.0%} of a processor, {attack.rounds} connections")
        assert more <= DESCRIPTORS_MORE
        assert grown <= MEGABYTES_MORE


def test_a_peer_that_asks_for_much_and_reads_nothing_keeps_no_descriptors(scene: Scene) -> None:
    """What the kernel does not accept waits in meshsecd, but not without end, because it holds a descriptor."""
    a, _, _ = scene.nodes
    fleet = scene.office.fleet.public_key
    own = store.read(a.peers).memberships[fleet].owns[0].octets
    asked = [name for name in lines.holding(0, b"", [own]).cards for _ in range(250)]
    request = hello(scene) + lines.encode(lines.Offer([], [], {fleet.hex(): asked}))
    kept: list[socket.socket] = []

    def greedy() -> None:
        kept.append(connection(scene, receive_buffer=1))
        kept[-1].sendall(request)

    before = Load.of(a)
    with Attack(greedy) as attack:
        wait_until("the attack runs", lambda: attack.rounds > 200, [], 120)
        before.assert_bounded(a, attack)
    a.wait_for("the descriptors are given back", lambda: descriptors(a) <= before.descriptors + 4, 90)
    for opened in kept:
        opened.close()


def test_a_peer_that_stalls_and_floods_holds_up_nobody_else(scene: Scene) -> None:
    a, b, c = scene.nodes
    kept: list[socket.socket] = []

    def silent() -> None:
        kept.append(connection(scene))

    def endless() -> None:
        with connection(scene) as opened:
            opened.sendall(b"[" * (2 * lines.LINE_MAX))

    def dripping() -> None:
        with connection(scene) as opened:
            for octet in hello(scene):
                opened.send(bytes([octet]))
                time.sleep(1)

    before = Load.of(a)
    with deaf_server(b), Attack(silent, endless, dripping) as attack:
        wait_until("the attack runs", lambda: attack.rounds > 300, [], 120)
        c.meshsec("fleet", "take", fleets.list_text(scene.office.list_of(scene.number + 1)))
        a.wait_for("c's news comes all the same", lambda: known(a)["number"] == scene.number + 1, 90)
        assert a.control.ask("status")["peers"]
        before.assert_bounded(a, attack)
    for opened in kept:
        opened.close()
    a.wait_for("the descriptors are given back", lambda: descriptors(a) <= before.descriptors + 4, 90)
    assert a.control.peer(c.name)["state"] == "protected"


def deaf_server(node: Node) -> socket.socket:
    """Listen on the port of a peer's exchange and never answer."""
    address = node.address, exchange.PORT
    return namespaces.within(node.namespace, lambda: socket.create_server(address, family=socket.AF_INET6))


def descriptors(node: Node) -> int:
    """Return how many files meshsecd of a node has open."""
    return len(list(Path(f"/proc/{node.daemons.agent.pid}/fd").iterdir()))
