"""What strangers send to the port for requests to join gets them nothing, and keeps no genuine request out."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any, TypeVar

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from mnemonic import Mnemonic

from meshsec.adapters.files import key_store
from meshsec.core.trust import card as cards
from meshsec.core.trust import fleets, joining
from meshsec.core.trust.fingerprint_words import first_octets, spoken
from meshsec.core.trust.joining import NO_COOKIE, PORT, Approval, Cookie, Found, Message, Receipt, Request, Search
from meshsec.core.values.model import Card
from tests.lab.basics.waiting import wait_until
from tests.lab.lab import Lab
from tests.lab.net import namespaces
from tests.lab.net.topology import line, names
from tests.lab.node.node import Node
from tests.lab.node.office import Office
from tests.scenarios.expectations import states

IPV6_FREEBIND = 78
"""Lets a socket send from an address that the node does not have (ipv6(7))."""
SILENCE = 1.0
"""Seconds to wait for a datagram that must not come."""


@dataclass
class Hostile:
    """The relay b, whose rules are gone: it sends and hears what it likes."""

    lab: Lab
    office: Office
    sockets: list[socket.socket] = field(default_factory=list)

    @property
    def member(self) -> Node:
        """Return a, which is a member."""
        return self.lab["a"]

    @property
    def key(self) -> Ed25519PrivateKey:
        """Return the key of b."""
        return key_store.load(self.lab["b"].var / "node.key").private

    def opened(self, source: str = "", port: int = PORT, of: Node | None = None) -> socket.socket:
        """Return a socket in the namespace of a node, by default b, and at its own address."""
        node = of or self.lab["b"]

        def open_it() -> socket.socket:
            made = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
            made.setsockopt(socket.IPPROTO_IPV6, IPV6_FREEBIND, 1)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((source or node.announced, port))
            made.settimeout(SILENCE)
            return made

        self.sockets.append(namespaces.within(node.namespace, open_it))
        return self.sockets[-1]

    def asked(self, sender: socket.socket, octets: bytes) -> Message | None:
        """Send a datagram to the member, and return its answer."""
        sender.sendto(octets, (self.member.announced, PORT))
        try:
            while isinstance(said := joining.decode(sender.recv(2048)), Request):
                continue  # the member has no peer, and asks, too
        except TimeoutError:
            return None
        return said

    def answered(self, sender: socket.socket, octets: bytes) -> Message:
        """Send a datagram to the member until it answers, and return the answer."""
        for _ in range(60):
            if (said := self.asked(sender, octets)) is not None:
                return said
        raise AssertionError("the member does not answer")

    def cookie(self, sender: socket.socket) -> bytes:
        """Return the cookie that the member gives to this sender."""
        said = self.answered(sender, self.request())
        assert isinstance(said, Cookie), said
        return said.cookie

    def request(self, card: Card | None = None, cookie: bytes = NO_COOKIE) -> bytes:
        """Return a request that b signs, with its own card or another."""
        shown = card or cards.parse(self.lab["b"].card)
        return joining.request(self.key, shown, self.office.fleet.public_key, cookie)


@pytest.fixture
def hostile() -> Iterator[Hostile]:
    """Start a - b - c: a is a member of the fleet, b hostile, c new."""
    with Lab("joining", line(names(3))) as lab:
        office = Office()
        made = Hostile(lab.set_up(), office)
        a = lab["a"]
        store_signed(a, office)
        lab.start()
        lab["b"].daemons.agent.kill()
        lab["b"].run("nft", "flush", "ruleset")
        a.wait_route(lab["c"])
        lab["b"].wait_route(a)
        yield made
        for one in made.sockets:
            one.close()


def store_signed(node: Node, office: Office) -> None:
    """Make a node a member."""
    node.meshsec("fleet", "join", fleets.fleet_text(office.fleet), fleets.card_text(office.sign(node)))


def requests(node: Node) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(node.meshsec("fleet", "requests", "--json").stdout)["requests"]
    return found


def test_only_a_request_that_is_fresh_and_signed_is_kept(hostile: Hostile) -> None:
    """The control: b's own request is kept, and shown to have another node's name."""
    a, c, sender = hostile.member, hostile.lab["c"], hostile.opened()
    cookie, other = hostile.cookie(sender), cards.parse(c.card)
    own = cards.parse(hostile.lab["b"].card)
    assert hostile.asked(sender, b"") is None
    assert hostile.asked(sender, bytes(1200)) is None
    assert hostile.asked(sender, b"\2" + hostile.request(cookie=cookie)[1:]) is None, "another version"
    signed = hostile.request(cookie=cookie)
    assert hostile.asked(sender, signed[:-1] + bytes([signed[-1] ^ 1])) is None, "another signature"
    assert hostile.asked(sender, hostile.request(other, cookie)) is None, "another node's card"
    assert hostile.asked(hostile.opened(port=PORT + 1), hostile.request(cookie=cookie)) is None, "another port"
    assert isinstance(hostile.answered(sender, hostile.request(cookie=bytes(15) + b"\1")), Cookie), "made up"
    assert requests(a) == []
    assert isinstance(hostile.answered(sender, hostile.request(replace(own, name="a"), cookie)), Receipt)
    (kept,) = requests(a)
    assert (kept["name"], kept["namesake"]) == ("a", a.address)


def test_a_new_node_believes_no_fleet_but_the_one_that_it_was_given(hostile: Hostile) -> None:
    """b answers first, with a signature of its own fleet. The control: the same with the true fleet's signature."""
    b, c, strange = hostile.lab["b"], hostile.lab["c"], Office()
    sender = hostile.opened()
    c.meshsec("fleet", "join", fleets.fleet_text(hostile.office.fleet))

    def say(message: Cookie | Approval) -> None:
        sender.sendto(joining.encode(message), (c.announced, PORT))

    assert said(sender, c, Request).cookie == NO_COOKIE
    say(Cookie(bytes([7]) * 16))
    cookie = said(sender, c, Request).cookie
    for office, member in ((strange, strange), (hostile.office, strange), (strange, hostile.office)):
        say(Approval(cookie, office.sign(c).octets, member.sign(b).octets))
        time.sleep(SILENCE)
        assert states(c) == {}
        assert json.loads(c.meshsec("fleet", "status", "--json").stdout)["fleets"][0]["member"] is None
    say(Approval(cookie, hostile.office.sign(c).octets, hostile.office.sign(b).octets))
    c.wait_for("it trusts whom the fleet signed", lambda: "b" in states(c), 60)


def test_a_new_node_that_knows_words_alone_believes_no_fleet_with_others(hostile: Hostile) -> None:
    """b is the nearest and answers first: with fleets of its own, and with the true one under a false checksum."""
    c, true = hostile.lab["c"], hostile.office.fleet
    sender = hostile.opened()
    words = " ".join(spoken(true.fingerprint, Mnemonic("english").wordlist))
    c.meshsec("fleet", "join", words)
    assert said(sender, c, Search).sought == first_octets(true.fingerprint)
    sender.sendto(joining.encode(Cookie(bytes([7]) * 16)), (c.announced, PORT))
    cookie = said(sender, c, Search).cookie
    for number in range(200):
        octets = fleets.fleet_octets(Office().fleet if number % 2 else true)
        damaged = octets if number % 2 else octets[:-1] + bytes([octets[-1] ^ 1])
        sender.sendto(joining.encode(Found(cookie, damaged)), (c.announced, PORT))
    c.wait_for("the member's answer", lambda: joined(c) == [true.public_key.hex()], 90)
    assert not [one for one in problems(c) if "fleet" in one]


def joined(node: Node) -> list[str]:
    """Return the keys of the fleets that a node has joined."""
    view = json.loads(node.meshsec("fleet", "status", "--json").stdout)
    return [one["public_key"] for one in view["fleets"]]


def problems(node: Node) -> list[str]:
    found: list[str] = node.control.ask("status")["problems"]
    return found


M = TypeVar("M", Request, Search)


def said(sender: socket.socket, node: Node, kind: type[M]) -> M:
    """Return the next message of this kind of a node."""
    sender.settimeout(90)
    while True:
        octets, (source, *_) = sender.recvfrom(2048)
        found = joining.decode(octets)
        if source == node.announced and isinstance(found, kind):
            return found


ASKED = 12
"""Requests of one node, fewer than it may send at once."""


def test_a_flood_through_one_neighbour_costs_those_nothing_who_come_another_way() -> None:
    """b floods, under c's address, too, and c is beside it, as free of rules as b."""
    with Lab("joining", [("a", "b"), ("a", "c")]) as lab:
        made = Hostile(lab.set_up(), Office())
        a, b, c = lab.nodes.values()
        store_signed(a, made.office)
        lab.start()
        for one in (b, c):
            one.wait_route(a)
            a.wait_route(one)
            one.daemons.agent.kill()
            one.run("nft", "flush", "ruleset")
        with flooded(made, 10_000, c.announced) as sent:
            wait_until("the flood", lambda: sent[0] > 10_000, [], 60)
            sender = made.opened(of=c)
            request = joining.request(
                key_store.load(c.var / "node.key").private,
                cards.parse(c.card),
                made.office.fleet.public_key,
                made.cookie(sender),
            )
            came = [receipt(sender, request, a) for _ in range(ASKED)]
        for opened in made.sockets:
            opened.close()
    assert all(came), came


def receipt(sender: socket.socket, request: bytes, member: Node) -> bool:
    """Send a request, and return whether a receipt comes. Cookies come, too: b's requests have the same sender."""
    sender.sendto(request, (member.announced, PORT))
    until = time.monotonic() + SILENCE
    while (left := until - time.monotonic()) > 0:
        sender.settimeout(left)
        try:
            if isinstance(joining.decode(sender.recv(2048)), Receipt):
                return True
        except TimeoutError:
            break
    return False


@contextmanager
def flooded(hostile: Hostile, rate: int, victim: str = "") -> Iterator[list[int]]:
    """Send requests from b's own address, invented ones and a victim's; yield the number of those that were sent."""
    over, sent = threading.Event(), [0]
    senders = [hostile.opened(f"fc66::{number:x}" if number % 2 else "") for number in range(64)]
    senders += [hostile.opened(victim) for _ in range(64 if victim else 0)]
    octets, target = hostile.request(), (hostile.member.announced, PORT)

    def keep_sending() -> None:
        while not over.is_set():
            for one in senders:
                one.sendto(octets, target)
            sent[0] += len(senders)
            time.sleep(len(senders) / rate)

    thread = threading.Thread(target=keep_sending, daemon=True)
    thread.start()
    try:
        yield sent
    finally:
        over.set()
        thread.join()


def resident(node: Node) -> int:
    """Return the memory of a node's meshsecd in KiB."""
    text = Path(f"/proc/{node.daemons.agent.pid}/status").read_text(encoding="ascii")
    return int(text.partition("VmRSS:")[2].split()[0])


def test_a_flood_of_requests_keeps_no_node_out_and_costs_no_memory(hostile: Hostile) -> None:
    a, c = hostile.member, hostile.lab["c"]
    before, lines = resident(a), len(a.daemons.agent.log.read_text().splitlines())
    with flooded(hostile, 3000) as sent:
        wait_until("the flood", lambda: sent[0] > 3000, [], 60)
        c.meshsec("fleet", "join", fleets.fleet_text(hostile.office.fleet))
        asked = time.monotonic()
        a.wait_for("the request is here", lambda: [one for one in requests(a) if one["name"] == "c"], 300)
        print(f"the request arrived after {time.monotonic() - asked:.1f} s and {sent[0]} forged ones")
        answered = time.monotonic()
        a.control.ask("ping")
        assert time.monotonic() - answered < 2
    assert [IPv6Address(one["address"]) for one in requests(a)] == [IPv6Address(c.address)]
    assert resident(a) - before < 8192
    assert len(a.daemons.agent.log.read_text().splitlines()) - lines < 10
