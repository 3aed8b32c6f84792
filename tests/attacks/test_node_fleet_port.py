"""An account that takes the fleets' port, or speaks as the node there, keeps no revocation from the node."""

import json
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from meshsec.adapters.files.trust_store import fleets as store
from meshsec.adapters.sockets.exchange import PORT
from meshsec.core.trust import card as cards
from meshsec.core.trust import fleet_exchange as lines
from meshsec.core.trust import fleets
from tests.lab.forge import account
from tests.lab.forge.account import Held
from tests.lab.lab import Lab
from tests.lab.net.topology import line, names
from tests.lab.node.node import Node
from tests.lab.node.office import Office

_HELD = """
print("held", flush=True)
try:
    input()
except EOFError:
    pass
"""
TAKEN = f"""
import socket
s = socket.create_server(("::", {PORT}), family=socket.AF_INET6)
{_HELD}"""
SECONDS = 3
"""Seconds for the account's try: its first segment is lost without an error."""


@dataclass(frozen=True)
class Members:
    """The mesh a - b, members of a fleet."""

    lab: Lab
    office: Office

    @property
    def pair(self) -> tuple[Node, Node]:
        """Return a, which has a hostile account, and b."""
        return self.lab["a"], self.lab["b"]

    def announce(self, number: int) -> None:
        """Give b a new list, so that b begins an exchange with a at once."""
        signed = fleets.sign_list(self.office.key, number, set(), None)
        self.lab["b"].meshsec("fleet", "take", fleets.list_text(signed))


@contextmanager
def _members() -> Iterator[Members]:
    """Set up a - b as members of a fleet without starting them."""
    with Lab("port", line(names(2))) as lab:
        office, nodes = Office(), list(lab.set_up().nodes.values())
        signed = [office.sign(node) for node in nodes]
        for node, own in zip(nodes, signed, strict=True):
            card = cards.parse(node.card)
            store.join(node.peers, office.fleet, fleets.card_text(own), [card])
            store.take_members(node.peers, [one.octets for one in signed], card)
        yield Members(lab, office)


@pytest.fixture
def taken() -> Iterator[Members]:
    """Start the members. An account of a has the port before a's meshsecd starts, and b has a list."""
    with _members() as members:
        store.take_list(members.lab["b"].peers, members.office.list_of(10).octets)
        with Held(members.lab["a"], TAKEN):
            members.lab.start()
            yield members


@pytest.fixture
def members() -> Iterator[Members]:
    """Return the members, protected. a's meshsecd is stopped, so that it cannot answer."""
    with _members() as members:
        a, b = members.lab.start().nodes.values()
        b.wait_protected(a)
        a.daemons.agent.kill()
        yield members


def _list_of(node: Node) -> object:
    return json.loads(node.meshsec("fleet", "status", "--json").stdout)["fleets"][0]["list"]


def test_a_trust_list_arrives_although_an_account_has_the_port(taken: Members) -> None:
    """The control: doctor says that the port is taken. A node that could not listen once began no exchange either."""
    a, b = taken.pair
    a.wait_protected(b)
    a.wait_for("a has the list", lambda: _list_of(a), 60)
    assert f"TCP port {PORT}" in a.meshsec("doctor", check=False).stdout


def _forged(number: int) -> str:
    """Return a list of another fleet, for which b mutes its giver."""
    return b64encode(Office().list_of(number).octets).decode()


def calling(members: Members) -> str:
    """Return code that connects to b from a's protected address, gives a forged list, and prints the answer."""
    a, b = members.pair
    said = lines.encode(lines.Hello({})), lines.encode(lines.Offer([_forged(20)], [], {}))
    return f"""
import socket
s = socket.create_connection(({b.address!r}, {PORT}), {SECONDS}, ({a.address!r}, 0))
answers = s.makefile("rb")
for line in {said!r}:
    s.sendall(line)
    answers.readline()
print("heard")
"""


def serving(members: Members) -> str:
    """Return code for ``Held`` that answers on a's port and gives b a forged list there."""
    a, _ = members.pair
    said = lines.encode(lines.Summary({})), lines.encode(lines.Answer([_forged(21)], []))
    return f"""
import socket, threading
s = socket.create_server(({a.address!r}, {PORT}), family=socket.AF_INET6)
def serve():
    while True:
        opened, _ = s.accept()
        asked = opened.makefile("rb")
        for line in {said!r}:
            asked.readline()
            opened.sendall(line)
threading.Thread(target=serve, daemon=True).start()
{_HELD}"""


def _mutings(members: Members) -> int:
    a, b = members.pair
    return b.daemons.agent.log.read_text().count(f"what {a.address} gave is refused")


def _dropped(node: Node) -> int:
    found = json.loads(node.run("nft", "-j", "list", "counter", "inet", "meshsec", "fleet_out").stdout)
    return int(found["nftables"][-1]["counter"]["packets"])


def test_an_account_that_calls_a_peer_as_the_node_gets_the_node_not_muted(members: Members) -> None:
    """The control: root may speak for the node, and is muted for the same words."""
    a, b = members.pair
    code = calling(members)
    assert account.try_once(a, code).startswith("TimeoutError")
    assert _dropped(a) > 0
    assert _mutings(members) == 0
    assert a.run("/usr/bin/python3", "-I", "-c", code).stdout.strip() == "heard"
    b.wait_for("b mutes a", lambda: _mutings(members), 60)


def test_an_account_that_answers_a_peer_as_the_node_gets_the_node_not_muted(members: Members) -> None:
    """The control: root may speak for the node, and is muted for the same words."""
    a, b = members.pair
    code = serving(members)
    with Held(a, code):
        members.announce(11)
        a.wait_for("a's answer is dropped", lambda: _dropped(a), 60)
        assert _mutings(members) == 0
    with Held(a, code, as_root=True):
        members.announce(12)
        b.wait_for("b mutes a", lambda: _mutings(members), 60)
