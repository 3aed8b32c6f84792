"""olsrv2d finds routes on lines, in both families and to attached networks."""

import json
from typing import Any

import pytest

from tests.lab.basics.waiting import wait_until
from tests.lab.net import topology
from tests.lab.node.routers import Mesh, accepting, running
from tests.lab.observe.change_stream import ChangeStream

CONVERGED = 60.0
"""Seconds. Generous, because only the result is asserted: `make bench-convergence` measures the time."""


def test_a_line_of_three_routes_both_families_through_the_relay() -> None:
    with running(topology.line(["a", "b", "c"])) as mesh:
        mesh.wait_converged(CONVERGED)
        assert mesh["a"].reaches(mesh["c"])
        for route in mesh["a"].kernel.routes():
            assert (route["metric"], route["dev"]) == (20, "mesh-b")
            assert route["prefsrc"] == (mesh["a"].ipv6 if ":" in route["dst"] else mesh["a"].ipv4)


def test_interfaces_with_addresses_of_their_own_are_next_hops() -> None:
    with Mesh(topology.line(["a", "b", "c"])) as mesh:
        mesh["a"].ip("address", "add", "10.78.1.1/30", "dev", "mesh-b")
        mesh["b"].ip("address", "add", "10.78.1.2/30", "dev", "mesh-a")
        mesh.start()
        mesh.wait_converged(CONVERGED)
        routes = {route["dst"]: route for route in mesh["a"].kernel.routes()}
        assert routes[mesh["c"].ipv4]["gateway"] == "10.78.1.2"
        assert routes[mesh["c"].ipv6]["gateway"].startswith("fe80::")
        assert mesh["a"].reaches(mesh["c"])


def test_ipv6_alone_suffices() -> None:
    with Mesh(topology.line(["a", "b", "c"])) as mesh:
        for router in mesh.routers.values():
            router.ip("address", "del", f"{router.ipv4}/32", "dev", "lo")
        mesh.start()
        mesh["a"].wait_routes({"fd77::2/128", "fd77::3/128"}, CONVERGED)
        assert mesh["a"].tables().hello["originators"] == ["fd77::1"]


def test_a_link_local_address_under_duplicate_address_detection_is_awaited() -> None:
    with Mesh(topology.line(["a", "b"])) as mesh:
        for router, other in (("a", "b"), ("b", "a")):
            mesh[router].run("sysctl", "-q", "-w", f"net.ipv6.conf.mesh-{other}.accept_dad=1")
            mesh[router].ip("link", "set", f"mesh-{other}", "down")
        for router, other in (("a", "b"), ("b", "a")):
            mesh[router].ip("link", "set", f"mesh-{other}", "up")
        mesh.start()
        mesh.wait_converged(CONVERGED)


def test_attached_networks_and_default_routes_are_announced_and_routed_by_those_who_take_them() -> None:
    gateway = "\n".join(
        f'[[attached]]\nprefix = "{prefix}"\ndistance = {distance}'
        for prefix, distance in (("0.0.0.0/0", 1), ("::/0", 1), ("10.99.0.0/16", 2), ("fd99::/64", 0))
    )
    attached = {"0.0.0.0/0", "::/0", "10.99.0.0/16", "fd99::/64"}
    with Mesh(topology.line(["a", "b", "c"]), {"c": gateway}) as mesh:
        mesh["a"].configure(accepting((prefix, mesh["c"]) for prefix in attached))
        mesh.start()
        mesh["a"].wait_routes(mesh.others("a") | attached, CONVERGED)
        mesh["b"].wait_routes(mesh.others("b"), CONVERGED)
        metrics = {route["metric"] for route in mesh["a"].kernel.routes() if route["dst"] in {"default", *attached}}
        assert metrics == {32768}, "behind whatever else leads there"
        rows = json.loads(mesh["a"].text.ask("/olsrv2info json attached_network"))["attached_network"]
        assert {row["attached_net"] for row in rows} == attached
        assert {row["node"] for row in rows} == {mesh["c"].ipv4, mesh["c"].ipv6}
        assert mesh["a"].tables().routes["::/0"]["originator"] == mesh["c"].ipv6
        lans = json.loads(mesh["c"].text.ask("/olsrv2info json lan"))["lan"]
        assert {row["lan"] for row in lans} == attached
        assert not mesh["c"].kernel.destinations() & attached


def test_another_router_with_our_originator_is_told() -> None:
    with Mesh(topology.line(["a", "b", "c", "d"])) as mesh:
        a, d = mesh["a"], mesh["d"]
        d.configure(f'originators = ["{a.ipv6}"]')
        d.ip("address", "add", f"{a.ipv6}/128", "dev", "lo")
        a.start()
        with a.stream() as stream:
            for router in (mesh["b"], mesh["c"], d):
                router.start()
            wait_until("the conflict is reported", lambda: _conflicts(stream), [stream], CONVERGED)
            event = _conflicts(stream)[0]
        assert (event["originator"], event["interface"]) == (a.ipv6, "mesh-b")
        assert event["source"].startswith("fe80::")


def _conflicts(stream: ChangeStream) -> list[dict[str, Any]]:
    return [line for line in stream.lines if line["type"] == "event" and line["name"] == "duplicate_originator"]


@pytest.mark.slow
def test_a_line_of_ten_is_routed_end_to_end() -> None:
    names = topology.names(10)
    with running(topology.line(names)) as mesh:
        mesh.wait_converged(120)
        assert mesh["a"].reaches(mesh["j"])
        assert mesh["a"].tables().routes[f"{mesh['j'].ipv6}/128"]["hops"] == 9
