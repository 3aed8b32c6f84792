"""olsrv2d follows the kernel's links and addresses at once, and not at the end of a hold time."""

from collections.abc import Iterator

import pytest

from tests.lab.net import topology
from tests.lab.node.routers import Mesh, running

CONVERGED = 60.0
AT_ONCE = 60.0
HOLD_TIME = 600
"""Seconds, on all links here. Long before its end only a notification can remove a link."""


@pytest.fixture(name="ring")
def ring_of_four() -> Iterator[Mesh]:
    with Mesh(topology.ring(["a", "b", "c", "d"])) as mesh:
        for router in mesh.routers.values():
            router.configure(each=f"hello_validity = {HOLD_TIME}")
        mesh.start()
        mesh.wait_converged(CONVERGED)
        yield mesh


def _next_interface(mesh: Mesh, router: str, to: str) -> set[str]:
    addresses = {mesh[to].ipv4, mesh[to].ipv6}
    return {route["dev"] for route in mesh[router].kernel.routes() if route["dst"] in addresses}


def _await_next(mesh: Mesh, router: str, to: str, interface: str, seconds: float) -> None:
    mesh[router].wait_for(
        f"{to} is reached over {interface}", lambda: _next_interface(mesh, router, to) == {interface}, seconds
    )


def _await_detour(mesh: Mesh) -> None:
    """Wait until ``a`` and ``b`` reach each other the long way round, although their link is gone."""
    _await_next(mesh, "a", "b", "mesh-d", AT_ONCE)
    _await_next(mesh, "b", "a", "mesh-c", AT_ONCE)
    _await_next(mesh, "d", "b", "mesh-c", AT_ONCE)
    _await_next(mesh, "c", "a", "mesh-d", AT_ONCE)
    # Routers may choose once more when the last news of the link arrives; a relay then lacks the route for a moment.
    mesh["a"].wait_for("packets get through", lambda: mesh["a"].reaches(mesh["b"]), AT_ONCE)


def test_link_down_at_one_end_is_carrier_loss_at_the_other_and_both_reroute(ring: Mesh) -> None:
    _await_next(ring, "a", "b", "mesh-b", CONVERGED)
    ring.end("a", "b").down()
    _await_detour(ring)
    ring.end("a", "b").up()
    _await_next(ring, "a", "b", "mesh-b", CONVERGED)
    _await_next(ring, "b", "a", "mesh-a", CONVERGED)


def test_an_interface_that_is_removed_or_renamed_is_left_and_taken_up_again(ring: Mesh) -> None:
    a = ring["a"]
    a.ip("link", "set", "mesh-b", "down")
    a.ip("link", "set", "mesh-b", "name", "other")
    a.ip("link", "set", "other", "up")
    _await_next(ring, "a", "b", "mesh-d", AT_ONCE)
    a.ip("link", "set", "other", "down")
    a.ip("link", "set", "other", "name", "mesh-b")
    a.ip("link", "set", "mesh-b", "up")
    _await_next(ring, "a", "b", "mesh-b", CONVERGED)
    a.ip("link", "del", "mesh-b")
    _await_detour(ring)


def test_originators_on_lo_may_go_and_come_back() -> None:
    with running(topology.line(["a", "b"])) as mesh:
        a, b = mesh["a"], mesh["b"]
        mesh.wait_converged(CONVERGED)
        a.ip("address", "del", f"{a.ipv6}/128", "dev", "lo")
        a.wait_routes({f"{b.ipv4}/32"}, AT_ONCE)
        b.wait_routes({f"{a.ipv4}/32"}, CONVERGED)
        a.ip("address", "add", f"{a.ipv6}/128", "dev", "lo")
        mesh.wait_converged(CONVERGED)


def test_an_interface_address_may_go_and_come_back() -> None:
    with Mesh(topology.line(["a", "b"])) as mesh:
        a, b = mesh["a"], mesh["b"]
        a.ip("address", "add", "10.78.1.1/30", "dev", "mesh-b")
        b.ip("address", "add", "10.78.1.2/30", "dev", "mesh-a")
        mesh.start()
        mesh.wait_converged(CONVERGED)

        def gateway() -> str:
            return next((route["gateway"] for route in a.kernel.routes() if route["dst"] == b.ipv4), "")

        a.wait_for("the next hop is the interface's address", lambda: gateway() == "10.78.1.2", CONVERGED)
        b.ip("address", "del", "10.78.1.2/30", "dev", "mesh-a")
        a.wait_for("the next hop is the borrowed originator", lambda: gateway() == b.ipv4, CONVERGED)
        mesh.wait_converged(CONVERGED)
        assert a.reaches(b)
        b.ip("address", "add", "10.78.1.2/30", "dev", "mesh-a")
        a.wait_for("the next hop is the interface's address", lambda: gateway() == "10.78.1.2", CONVERGED)


def test_an_interface_that_appears_later_is_taken_up() -> None:
    with Mesh(topology.line(["a", "b"])) as mesh:
        mesh["a"].ip("link", "del", "mesh-b")
        mesh.start()
        peer = ["peer", "name", "mesh-a", "netns", mesh["b"].namespace]
        mesh["a"].ip("link", "add", "mesh-b", "type", "veth", *peer)
        mesh.end("a", "b").up()
        mesh.end("b", "a").up()
        mesh.wait_converged(CONVERGED)
