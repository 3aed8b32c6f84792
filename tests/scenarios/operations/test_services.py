"""Peers see what a node offers while they reach it, in no clear text, and a hostile peer lies of itself alone."""

import json
import socket

import msgspec

from meshsec.core.services.services import PORT
from tests.lab.forge import account
from tests.lab.lab import Lab
from tests.lab.net.namespaces import within
from tests.lab.node.node import Node
from tests.lab.observe.schemas import schema
from tests.scenarios.expectations import assert_nothing_clear, captured
from tests.scenarios.offering import offering

OFFERED = '[[service]]\nname = "wiki"\nport = 80\ndescription = "The village\'s wiki"\n'
SECONDS = 10.0


def shown(node: Node) -> set[tuple[str, str, int]]:
    view = json.loads(node.meshsec("services", "--json").stdout)
    schema("meshsec-services-1").validate(view)
    return {(one["node"], one["name"], one["port"]) for one in view["services"]}


def wait_shown(node: Node, services: set[tuple[str, str, int]]) -> None:
    node.wait_for(f"services {services}", lambda: shown(node) == services or None, SECONDS)


def test_what_a_node_offers_is_seen_while_it_is_trusted_and_reached_and_nothing_is_in_the_clear(mesh: Lab) -> None:
    a, b, c = (mesh[name] for name in "abc")
    with captured(mesh, "services") as captures, offering(c, OFFERED):
        for node in (a, b, c):
            wait_shown(node, {("c", "wiki", 80)})
        assert a.meshsec("services").stdout.splitlines()[1].split() == [
            "wiki",
            "http://c.mesh/",
            "The",
            "village's",
            "wiki",
        ]
        a.distrust(c)
        wait_shown(a, set())
        assert shown(b) == {("c", "wiki", 80)}
        a.trust(c)
        mesh.wait_full_mesh()
        wait_shown(a, {("c", "wiki", 80)})
    assert_nothing_clear(captures)


_SPEAK = """
import socket
with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sender:
    sender.bind(("{own}", {port}))
    try:
        sender.sendto({octets!r}, ("{target}", {port}))
    except PermissionError:
        pass
"""


def test_an_account_of_a_node_cannot_speak_for_it(mesh: Lab) -> None:
    """It has the port while meshsecd is away. The next test shows that root's datagrams arrive."""
    a, c = mesh["a"], mesh["c"]
    c.daemons.agent.kill()
    octets = msgspec.msgpack.encode({"type": "offer", "rows": [["free-beer", 80, "tcp", ""]], "asks": False})
    before = _dropped(c)
    account.try_once(c, _SPEAK.format(own=c.address, target=a.address, port=PORT, octets=octets))
    c.wait_for("the rules drop it", lambda: _dropped(c) > before or None, SECONDS)
    assert shown(a) == set()
    mesh.heal()
    mesh.wait_full_mesh()


def _dropped(node: Node) -> int:
    """Return how many datagrams of accounts the rules have dropped."""
    listed = node.run("nft", "-j", "list", "counter", "inet", "meshsec", "fleet_out").stdout
    return int(next(one["counter"]["packets"] for one in json.loads(listed)["nftables"] if "counter" in one))


def test_a_hostile_peer_lies_of_itself_alone_and_harmlessly(mesh: Lab) -> None:
    """Node c's meshsecd is away, and root there sends what it likes through the SA."""
    a, c = mesh["a"], mesh["c"]
    c.daemons.agent.kill()
    lie = ["wiki", 80, "tcp", "\x1b[2J\x1b[31mfree\r\n\u202e beer"]
    with within(c.namespace, lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)) as hostile:
        hostile.bind((c.address, PORT))

        def send(**changed: object) -> None:
            fields = {"type": "offer", "rows": [lie], "asks": False, **changed}
            hostile.sendto(msgspec.msgpack.encode(fields), (a.address, PORT))

        send()
        wait_shown(a, {("c", "wiki", 80)})
        text = a.meshsec("services").stdout
        assert text.count("\n") == 2
        assert text.replace("\n", "").isprintable()
        for rows in ([["a", 1, "tcp", ""]] * 9, [["b.mesh", 1, "tcp", ""]], [["x", 1, "tcp", "", a.address]]):
            send(rows=rows)
        send(node="b")
        for _ in range(2000):
            send(asks=True)
    with within(c.namespace, lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)) as other:
        other.bind((c.address, PORT + 1))
        other.sendto(msgspec.msgpack.encode({"type": "offer", "rows": [], "asks": False}), (a.address, PORT))
    mesh.heal()
    mesh.wait_full_mesh()
    wait_shown(a, set())  # the honest meshsecd of c offers nothing
