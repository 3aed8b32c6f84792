"""A gateway that nobody trusts is the nearest, and all packets pass it: it gets none of them until it is trusted."""

import json
from collections.abc import Iterator
from functools import partial

import pytest

from tests.lab.gateways import DEFAULTS, OUTSIDE6, WaysOut, ways_out
from tests.lab.net import traffic
from tests.lab.net.packets import Kind
from tests.lab.net.traffic import wait_arrivals
from tests.lab.node.node import Node
from tests.lab.node.routers import TextInterface
from tests.scenarios.expectations import assert_nothing_clear, captured


@pytest.fixture(scope="module")
def mesh() -> Iterator[WaysOut]:
    with ways_out("strange", strangers="b") as made:
        yield made


def _announced(node: Node, gateway: Node) -> set[str]:
    """Return the networks of a gateway that a node's router has heard of; IPv4 is mapped into IPv6."""
    router = TextInterface(node.namespace, node.run_directory / "query.sock")
    heard = json.loads(router.ask("/olsrv2info json attached_network"))["attached_network"]
    return {one["attached_net"] for one in heard if one["node"] == gateway.announced}


def _offering(node: Node) -> set[str]:
    """Return the peers of a node that offer it a way out."""
    return {name for one in node.control.ask("status")["networks"] for name in one["announced_by"]}


def _seen_from(mesh: WaysOut) -> list[str]:
    """Return from which addresses the outside sees the host behind a, IPv4 first."""
    found = []
    for version, port in ((4, 7060), (6, 7061)):
        with mesh.conversation(version, port) as one:
            found.append(one.seen_from())
    return found


def test_a_nearer_gateway_without_trust_is_not_used_and_sees_esp_alone(mesh: WaysOut) -> None:
    a, b = mesh.lab["a"], mesh.lab["b"]
    assert b.control.ask("gateway")["gateway"]["offers"] == [*DEFAULTS]
    a.wait_for("word of the stranger's offer", lambda: _announced(a, b) == {"::/0", "::ffff:0.0.0.0/96"}, 60)
    with captured(mesh.lab, "strange") as captures, mesh.sending() as flows:
        assert _seen_from(mesh) == [*mesh.uplinks["g"].inner]
        for flow in flows:
            wait_arrivals(flow, 20)
    assert_nothing_clear(captures)
    assert captures["b"].counts[Kind.ESP] > 0
    assert set(mesh.used().values()) == {"g"}
    assert _offering(a) == {"g", "h"}
    for version in ("-4", "-6"):
        assert not a.run("ip", version, "route", "show", "default", "proto", "100").stdout


def test_it_forwards_nothing_of_a_stranger_in_the_clear(mesh: WaysOut) -> None:
    b, r = mesh.lab["b"], mesh.lab["r"]
    r.run("ip", "route", "add", OUTSIDE6, "via", mesh.lab.end_of("b", "r").link_local(), "dev", "mesh-b")
    with traffic.udp_socket(mesh.outside, OUTSIDE6, traffic.PORT) as heard:
        assert traffic.send((r.namespace, r.address), OUTSIDE6) == 5
        b.wait_for("five drops", partial(_has_dropped, b, 5), 30)
        heard.setblocking(False)
        with pytest.raises(BlockingIOError):
            heard.recv(100)


def _has_dropped(node: Node, count: int) -> bool:
    shown = json.loads(node.run("nft", "-j", "list", "counter", "inet", "meshsec", "into_networks").stdout)
    return any(one["counter"]["packets"] >= count for one in shown["nftables"] if "counter" in one)


def test_with_trust_it_is_used_and_without_it_no_longer(mesh: WaysOut) -> None:
    """The control: trust alone kept it out. It must be mutual, or there is no protected channel."""
    a, b = mesh.lab["a"], mesh.lab["b"]
    a.trust(b)
    a.wait_for("an offer that counts", lambda: "b" in _offering(a), 60)
    assert _seen_from(mesh) == [*mesh.uplinks["g"].inner]
    assert set(mesh.used().values()) == {"g"}
    b.trust(a)
    _wait_way_out(mesh, "b")
    a.distrust(b)
    _wait_way_out(mesh, "g")


def _wait_way_out(mesh: WaysOut, name: str) -> None:
    """Wait until a uses a gateway, and flows that begin leave by it."""
    mesh.wait_used(name)
    mesh.lab["a"].wait_for(f"flows through {name}", lambda: _seen_from(mesh) == [*mesh.uplinks[name].inner], 30)
