"""Peers see where a node is, by a real gpsd; former peers see nothing, and a hostile peer lies of itself alone."""

import json
import math
import socket
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from meshsec.core.services.services import PORT
from tests.lab.foreign.gpsd import GPSD, receiver
from tests.lab.lab import Lab
from tests.lab.net.namespaces import within
from tests.lab.node.node import Node
from tests.lab.observe.schemas import schema
from tests.scenarios.expectations import assert_nothing_clear, captured
from tests.scenarios.offering import offering

SECONDS = 20.0
needs_gpsd = pytest.mark.skipif(not GPSD.exists(), reason="gpsd is not there: `make setup` unpacks it")


def shown(node: Node) -> dict[str, dict[str, Any]]:
    view = json.loads(node.meshsec("position", "--json", check=False).stdout)
    schema("meshsec-positions-1").validate(view)
    return {one["node"]: one for one in view["positions"]}


def wait_at(node: Node, whose: str, latitude: float | None) -> dict[str, Any]:
    """Wait until a node knows that another one is there, or knows no place of it."""

    def found() -> dict[str, Any] | None:
        place = shown(node).get(whose)
        if latitude is None:
            return {"node": ""} if place is None else None
        return place if place is not None and math.isclose(place["latitude"], latitude, abs_tol=1e-5) else None

    result: dict[str, Any] = node.wait_for(f"{whose} at {latitude}", found, SECONDS)
    return result


@needs_gpsd
def test_who_is_trusted_follows_a_node_and_nothing_is_in_the_clear(mesh: Lab) -> None:
    a, b, c = (mesh[name] for name in "abc")
    with captured(mesh, "positions") as captures, receiver(c) as gps, offering(c, "[position]\ngpsd = true\n"):
        mesh.wait_full_mesh()
        gps.move(47.25, -11.5, 667.0)
        place = wait_at(a, "c", 47.25)
        assert (place["longitude"], place["altitude"], place["fixed"]) == (-11.5, 667.0, False)
        gps.move(-47.3, -11.5, 700.0)
        for node in (a, b, c):
            wait_at(node, "c", -47.3)
        gps.lose()
        a.distrust(c)
        wait_at(a, "c", None)
        assert wait_at(b, "c", -47.3)["reached"]
        a.trust(c)
        mesh.wait_full_mesh()
        place = wait_at(a, "c", -47.3)
        assert place["age"] > 0, "where it was when it still knew"
        mesh.link("b", "c").cut()
        a.wait_for("c is out of reach", lambda: not shown(a)["c"]["reached"] or None, 60)
        wait_at(a, "c", -47.3)
        mesh.heal()
        mesh.wait_full_mesh()
    assert_nothing_clear(captures)


def test_a_hostile_peer_lies_of_itself_alone_and_learns_nothing_without_trust(mesh: Lab) -> None:
    """Node c's meshsecd is away, and root there sends what it likes through the SA, and then without one."""
    a, b, c = (mesh[name] for name in "abc")
    c.daemons.agent.kill()
    with within(c.namespace, lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)) as hostile:
        hostile.bind((c.address, PORT))
        hostile.settimeout(10)
        lie = [1.0, 2.0, None, None, None, True]

        def send(**changed: object) -> None:
            fields = {"type": "position", "row": lie, "age": 0.0, "asks": False, **changed}
            hostile.sendto(msgspec.msgpack.encode(fields), (a.address, PORT))

        send(asks=True)
        assert answered(hostile), "a peer is answered"
        wait_at(a, "c", 1.0)
        for row in ([math.nan, *lie[1:]], [91.0, *lie[1:]], [*lie, b.address], [math.inf, *lie[1:]]):
            send(row=row)
        send(node="b")
        send(address=b.address)
        for _ in range(2000):
            send(asks=True)
        assert {name: one["latitude"] for name, one in shown(a).items()} == {"c": 1.0}
        a.distrust(c)
        wait_at(a, "c", None)
        hostile.settimeout(2)
        drain(hostile)
        with suppress(OSError):  # without the SA there may be no route to a either
            send(asks=True)
        assert drain(hostile) == 0, "a former peer is not answered"
        assert "c" not in shown(a)
    a.trust(c)
    mesh.heal()
    mesh.wait_full_mesh()


def answered(sock: socket.socket) -> bool:
    """Wait for a message about a position, among those about services. Raises TimeoutError."""
    while True:
        if msgspec.msgpack.decode(sock.recv(2000))["type"] == "position":
            return True


def drain(sock: socket.socket) -> int:
    """Return how many datagrams come until none does any more."""
    count = 0
    while True:
        try:
            sock.recv(2000)
        except OSError:
            return count
        count += 1
