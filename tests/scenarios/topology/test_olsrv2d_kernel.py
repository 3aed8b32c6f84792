"""olsrv2d repairs its own routes in the kernel and leaves those of others alone."""

from collections.abc import Iterator

import pytest

from tests.lab.net import topology
from tests.lab.node.routers import Mesh, Router, running

CONVERGED = 60.0
METRIC = "20"
"""Priority of olsrv2d's routes to addresses of routers."""
REPAIRED = 30.0
"""Seconds. An audit runs each second, and nothing else repairs."""


@pytest.fixture(name="mesh")
def line_of_three() -> Iterator[Mesh]:
    with running(topology.line(["a", "b", "c"])) as mesh:
        mesh.wait_converged(CONVERGED)
        yield mesh


def _snapshot(router: Router) -> set[str]:
    return {str(sorted(route.items(), key=str)) for route in router.kernel.routes()}


def _wait_repaired(router: Router, before: int) -> None:
    """Wait for the router's own count, because the kernel's table may be read before the count changes."""
    router.wait_for("a repair", lambda: router.counter("routes_repaired") > before, REPAIRED)


def test_a_deleted_route_of_ours_comes_back(mesh: Mesh) -> None:
    a, before = mesh["a"], _snapshot(mesh["a"])
    for _ in range(3):
        repaired = a.counter("routes_repaired")
        a.ip("-6", "route", "del", mesh["c"].ipv6, "proto", "100")
        a.ip("-4", "route", "del", mesh["c"].ipv4, "proto", "100")
        _wait_repaired(a, repaired)
        a.wait_for("routes as before", lambda: _snapshot(a) == before, REPAIRED)


def test_a_route_that_replaced_ours_is_replaced_again(mesh: Mesh) -> None:
    a, before = mesh["a"], _snapshot(mesh["a"])
    repaired = a.counter("routes_repaired")
    a.ip("-4", "route", "replace", mesh["c"].ipv4, "dev", "lo", "metric", METRIC)
    a.ip("-6", "route", "replace", mesh["c"].ipv6, "dev", "lo", "metric", METRIC, "proto", "100")
    _wait_repaired(a, repaired)
    a.wait_for("routes as before", lambda: _snapshot(a) == before, REPAIRED)
    assert not [route for route in a.kernel.routes("metric", METRIC) if route["dev"] == "lo"]


def test_foreign_routes_are_never_touched() -> None:
    with Mesh(topology.line(["a", "b", "c"])) as mesh:
        a, c = mesh["a"], mesh["c"]
        foreign = [
            ["-4", c.ipv4, "dev", "lo", "metric", METRIC, "proto", "static"],  # Where our route belongs.
            ["-4", mesh["b"].ipv4, "dev", "lo", "metric", "50", "proto", "static"],
            ["-6", mesh["b"].ipv6, "dev", "lo", "metric", "50", "proto", "100"],  # Our protocol with another metric.
            ["-4", "10.200.0.0/16", "dev", "lo", "table", "77", "metric", METRIC, "proto", "100"],  # Another table.
        ]
        for family, *route in foreign:
            a.ip(family, "route", "add", *route)
        mesh.start()
        a.wait_for("IPv6 routes", lambda: {f"{c.ipv6}/128"} <= a.kernel.destinations(), CONVERGED)
        a.wait_for("the blocked route is reported", lambda: f"{c.ipv4}/32" in a.tables().tables["route"], CONVERGED)
        assert a.tables().tables["route"][f"{c.ipv4}/32"]["installed"] is False
        a.ip("route", "del", c.ipv4, "proto", "static")
        a.wait_for("the way is free", lambda: f"{c.ipv4}/32" in a.kernel.destinations(), REPAIRED)
        assert a.daemon.stop() == 0
        assert a.kernel.routes("proto", "static", "metric", "50")
        assert len(a.kernel.routes("proto", "100")) == 1
        assert a.kernel.routes("table", "77", "proto", "100")


def test_sigterm_removes_our_routes(mesh: Mesh) -> None:
    assert mesh["b"].daemon.stop() == 0
    assert not mesh["b"].kernel.routes()
    assert not mesh["b"].socket.exists()


def test_after_kill_the_routes_stay_and_the_next_one_adopts_them(mesh: Mesh) -> None:
    b, before = mesh["b"], _snapshot(mesh["b"])
    b.daemon.kill()
    assert _snapshot(b) == before
    assert mesh["a"].reaches(mesh["c"])
    stale = ["10.77.0.99", "via", "10.77.0.1", "dev", "mesh-a", "onlink", "metric", METRIC, "proto", "100"]
    b.ip("route", "add", *stale)
    with_stale = _snapshot(b)
    b.start()
    assert _snapshot(b) == with_stale
    b.wait_for("only the stale route is removed", lambda: _snapshot(b) == before, CONVERGED)
    assert b.tables().routes.keys() == mesh.others("b")
    assert b.counter("routes_repaired") == 0
    assert mesh["a"].reaches(mesh["c"])
