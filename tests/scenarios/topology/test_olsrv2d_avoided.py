"""A program has olsrv2d avoid a relay: another one is taken for a while, and nobody is parted (ADR 0095)."""

from tests.lab.net import topology
from tests.lab.node.routers import Mesh, Router
from tests.lab.observe.change_stream import ChangeStream

CONVERGED = 60.0
SECONDS = 8
LARGEST = 16_776_960
"""MAXIMUM_METRIC (RFC 7181, section 6.1)."""


def _relay(mesh: Mesh) -> str:
    """Return by which neighbour a reaches c."""
    return mesh["a"].kernel.interfaces().get(mesh["c"].ipv6, "").removeprefix("mesh-")


def _direct(router: Router, neighbour: Router) -> bool:
    return router.kernel.interfaces().get(neighbour.ipv6) == f"mesh-{neighbour.name}"


def _avoid(program: ChangeStream, relay: Router) -> None:
    program.command("avoid", neighbours=[{"address": relay.ipv6, "seconds": SECONDS}])


def test_another_relay_is_taken_for_as_long_as_the_program_says() -> None:
    with Mesh(topology.ring(["a", "b", "c", "d"])) as mesh:
        mesh.start()
        a, c = mesh["a"], mesh["c"]
        a.wait_routes(set().union(*(mesh[name].destinations for name in "bcd")), CONVERGED)
        relay, other = "b", "d"
        mesh[other].wait_for("c is a hop away", lambda: _direct(mesh[other], c), CONVERGED)
        a.wait_for("of two equal ways the one over the lower originator", lambda: _relay(mesh) == relay, CONVERGED)
        with a.stream() as program:
            _avoid(program, mesh[relay])
            a.wait_for("another relay", lambda: _relay(mesh) == other, SECONDS / 2)
            assert a.reaches(c)
            a.wait_for("the relay itself is reached", lambda: a.reaches(mesh[relay]), SECONDS / 2)
        a.wait_for("the first relay again", lambda: _relay(mesh) == relay, 2 * SECONDS)


def test_a_relay_that_is_avoided_is_used_where_there_is_no_other() -> None:
    with Mesh(topology.line(["a", "b", "c"])) as mesh:
        mesh.start()
        a, b, c = (mesh[name] for name in "abc")
        a.wait_routes(b.destinations | c.destinations, CONVERGED)
        with a.stream() as program:
            _avoid(program, b)
            a.wait_for("b is the last resort", lambda: _metric(a, b) == LARGEST, SECONDS / 2)
            assert _relay(mesh) == "b"
            assert a.reaches(c)


def _metric(at: Router, neighbour: Router) -> int | None:
    """Return the metric of what goes over a neighbour."""
    known = at.tables().tables["neighbour"].values()
    return next((one["metric_out"] for one in known if one["originator"] == neighbour.ipv6), None)
