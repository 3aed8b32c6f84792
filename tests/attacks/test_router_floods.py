"""Real routers are accepted although floods of forged OLSRv2 messages fill the router's tables.

The forger sends over a real link, with invented IP and hardware addresses.
"""

import json
import socket
import time

import pytest
from scapy.layers.inet import UDP
from scapy.layers.l2 import Ether

from tests.attacks.flooding import CONVERGED, Flood, await_full, await_routes, flooded, hellos, stamped, tcs
from tests.lab.basics.waiting import wait_until
from tests.lab.lab import Lab
from tests.lab.net import topology
from tests.lab.net.topology import line, names
from tests.lab.node.node import Node
from tests.lab.node.routers import Mesh, Router

LINKS = 256
"""olsrv2d's bound on the links of a family."""


def time_to_routes(a: Router, other: Router) -> float:
    """Start a router. Return the seconds until ``a`` has routes to it."""
    start = time.monotonic()
    other.start()
    await_routes(a, other.destinations)
    print(f"{a.name} has routes to {other.name} after {time.monotonic() - start:.1f} s")
    return time.monotonic() - start


def _start(mesh: Mesh, *nodes: str) -> None:
    for node in nodes:
        mesh[node].start()


def test_the_stamped_frame_has_the_checksum_that_scapy_gives_it() -> None:
    """The control of the forger: a frame with a wrong checksum would never reach the router."""
    template = hellos("fe80::1")
    for identity in (1, 0x1234_5678, 0xFFFF_FFFF):
        frame = stamped(template, identity)
        made = Ether(frame)
        del made[UDP].chksum
        assert bytes(made) == frame


@pytest.mark.parametrize(
    ("rate", "identities"), [(200, 1 << 24), (2000, 1 << 24), (200, 300)], ids=["once", "fast", "300 refreshed"]
)
def test_a_neighbour_that_returns_is_taken_during_and_after_a_flood_of_hellos(rate: int, identities: int) -> None:
    """The flood has HELLOs of routers which all claim to hear the victim."""
    with Mesh(topology.line(["a", "b"])) as mesh:
        a, b = mesh["a"], mesh["b"]
        _start(mesh, "a")
        with flooded(mesh, rate, hellos, identities):
            await_full(a, "/nhdpinfo link", LINKS)
            time_to_routes(a, b)
            before = time.monotonic()
            wait_until("the flood goes on", lambda: time.monotonic() > before + 3, [], CONVERGED)
            await_routes(a, b.destinations)
        await_routes(a, b.destinations)
        assert len(a.text.ask("/nhdpinfo link").splitlines()) <= 2 * LINKS


def test_a_node_four_hops_away_is_reached_during_and_after_a_flood_of_tcs() -> None:
    """The flood has 2,000 TCs in a second with 20 invented neighbours each."""
    with Mesh(topology.line(["a", "b", "c", "d", "e"])) as mesh:
        a, e = mesh["a"], mesh["e"]
        _start(mesh, "a", "b", "c", "d")
        await_routes(a, mesh["d"].destinations)
        with flooded(mesh, 2000, lambda _victim: tcs()):
            await_full(a, "/olsrv2info node", 1000)
            time_to_routes(a, e)
            await_routes(a, mesh.others("a"))
        # A node in between may install its route after ``a``; its answer "no route" would end the ping at once.
        for router in mesh.routers.values():
            await_routes(router, mesh.others(router.name))
        assert a.reaches(e)


def test_without_a_flood_nothing_gives_way_and_nothing_is_refused() -> None:
    """The control of all other tests here: an ordinary mesh shows none of these effects."""
    with Mesh(topology.line(["a", "b", "c"])) as mesh:
        mesh.start()
        mesh.wait_converged(CONVERGED)
        counters = mesh["a"].tables().snapshot["counters"]
        assert {name: counters[name] for name in ("over_limit", "rate_limited", "malformed", "spoofed")} == {
            "over_limit": 0,
            "rate_limited": 0,
            "malformed": 0,
            "spoofed": 0,
        }
        assert json.loads(mesh["a"].text.ask("/refusals")) == []


def _input_check(node: Node) -> dict[str, str] | None:
    checks = node.control.ask("doctor").get("checks", [])
    return next((check for check in checks if check["name"] == "routing input"), None)


def _trusted(node: Node) -> list[str]:
    """Return the nodes that the node's router knows to be trusted."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(str(node.run_directory / "query.sock"))
        connection.sendall(b"/trusted\n")
        return b"".join(iter(lambda: connection.recv(1 << 16), b"")).decode().split()


def test_doctor_names_a_flood_and_where_it_comes_from() -> None:
    with Lab("floods", line(names(2))) as lab:
        lab.set_up().trust_all()
        lab.start("meshsecd", "router")
        a, b = lab["a"], lab["b"]
        a.wait_route(b)
        assert _input_check(a) is None, "nothing is claimed of an ordinary mesh"
        ends = lab.link("a", "b").ends
        sender = next(end for end in ends if end.namespace == b.namespace)
        target = next(end for end in ends if end.namespace == a.namespace)
        with Flood(sender, target, 300, hellos(target.link_local()), 1 << 24):
            found = wait_until("doctor names the flood", lambda: _input_check(a), [], CONVERGED)
        assert "its tables are full" in found["found"]
        assert f"on {target.interface}" in found["found"]
        assert f"tcpdump -e -n -i {target.interface}" in found["mend"]


def test_a_peer_that_is_added_is_trusted_by_the_router_without_a_restart() -> None:
    with Lab("trusted", line(names(2))) as lab:
        lab.set_up()
        lab.start("meshsecd", "router")
        a, b = lab["a"], lab["b"]
        a.wait_route(b)
        assert b.locator not in _trusted(a)
        a.trust(b)
        wait_until("the router knows", lambda: {b.address, b.locator} <= set(_trusted(a)), [], CONVERGED)
        a.distrust(b)
        wait_until("and forgets", lambda: b.locator not in _trusted(a), [], CONVERGED)
