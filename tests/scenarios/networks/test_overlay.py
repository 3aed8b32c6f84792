"""What is behind peers is as well protected when the overlay carries what they send each other."""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import permutations

import pytest

from tests.lab.basics.shell import run
from tests.lab.gateways import OUTSIDE4, OUTSIDE6
from tests.lab.lab import Lab
from tests.lab.net import traffic
from tests.lab.net.packets import Kind
from tests.lab.net.traffic import Flow, wait_arrivals
from tests.lab.node import capabilities
from tests.lab.node.node import Node
from tests.lab.roaming import Roaming, roaming
from tests.scenarios.expectations import assert_nothing_clear, captured
from tests.scenarios.networks.sites import Sites, connected, flows_between, is_heard

pytestmark = pytest.mark.skipif(not capabilities.probe().tun, reason="there is no /dev/net/tun")

LARGE = 1_000_000
"""Bytes: a path MTU that is wrong by one header stalls the transfer."""


@pytest.fixture(scope="module")
def mesh() -> Iterator[Sites]:
    with connected("behind-overlay", overlay=True) as made:
        yield made


@pytest.fixture
def sites(mesh: Sites) -> Sites:
    """Return the healthy mesh; the overlay carries what the peers send each other."""
    mesh.lab.heal()
    choose(mesh.lab, "ac", "overlay")
    return mesh


def choose(lab: Lab, names: str, plane: str) -> None:
    """Choose a data plane for each pair of nodes, at both ends, and wait until it carries."""
    pairs = [(lab[one], lab[other]) for one, other in permutations(names, 2)]
    for node, peer in pairs:
        node.meshsec("mode", plane, peer.name)
    for node, peer in pairs:
        node.wait_for(f"{peer.name} is carried by {plane}", partial(_is_carried, node, peer, plane), 60)


def _is_carried(node: Node, peer: Node, plane: str) -> bool:
    status = node.control.peer(peer.name)
    return (status.get("state"), status.get("data_plane")) == ("protected", plane)


def test_hosts_behind_peers_talk_and_the_relay_sees_the_overlay_alone(sites: Sites) -> None:
    with captured(sites.lab, "hosts") as captures:
        for flow in flows_between(sites):
            with flow:
                wait_arrivals(flow, 20)
    assert_nothing_clear(captures)
    assert captures["b"].counts[Kind.OVERLAY] >= 80
    assert captures["b"].counts[Kind.ESP] == 0


@pytest.mark.parametrize("family", [4, 6])
def test_a_large_transfer_between_hosts_fits(sites: Sites, family: int) -> None:
    ends = [(one.namespace, one.ipv4 if family == 4 else one.address) for one in sites.hosts]
    assert traffic.tcp_stream(ends[0], ends[1], LARGE).octets == LARGE


def test_a_packet_that_is_one_octet_too_long_is_told_so(sites: Sites) -> None:
    """A black hole would be silent."""
    near, far = sites.hosts
    room = int(sites.lab["a"].run("cat", "/sys/class/net/meshsec-nets/mtu").stdout) - 28
    sizes = {size: _ping(near.namespace, far.ipv4, size) for size in (room, room + 1)}
    assert "1 received" in sizes[room], sizes[room]
    assert "Frag needed" in sizes[room + 1], sizes[room + 1]


def _ping(namespace: str, target: str, size: int) -> str:
    argv = ["ping", "-n", "-M", "do", "-c", "1", "-W", "5", "-s", f"{size}", target]
    return run(["ip", "netns", "exec", namespace, *argv], check=False).stdout


def test_flows_go_on_while_the_data_plane_changes_and_nothing_leaves_in_the_clear(sites: Sites) -> None:
    with captured(sites.lab, "change") as captures, ExitStack() as stack:
        flows = [stack.enter_context(flow) for flow in flows_between(sites)]
        for plane in ("ipsec", "overlay"):
            choose(sites.lab, "ac", plane)
            for flow in flows:
                wait_arrivals(flow, 20)
    assert_nothing_clear(captures)


def test_without_overlayd_nothing_passes_and_nothing_leaves_in_the_clear(sites: Sites) -> None:
    near, far = sites.hosts
    overlayd = sites.lab["a"].daemons.overlay
    overlayd.kill()
    try:
        with captured(sites.lab, "dead") as captures:
            assert not is_heard(far, (near.namespace, near.address))
            assert not is_heard(far, (near.namespace, near.ipv4))
        assert_nothing_clear(captures)
    finally:
        sites.lab.heal()
    for flow in flows_between(sites):
        with flow:
            wait_arrivals(flow, 10)


@pytest.fixture(scope="module")
def walk() -> Iterator[Roaming]:
    with roaming("clients-overlay", overlay=True) as made:
        choose(made.lab, "abgh", "overlay")
        made.join("a")
        yield made


def test_a_client_moves_and_keeps_its_way_out_and_its_camera(walk: Roaming) -> None:
    camera, near = walk.camera, walk.uplinks["g"].inner[0]
    filmed = Flow((camera.namespace, camera.address), walk.station.end(6), port=7060)
    with captured(walk.lab, "walk") as captures, walk.conversation(4, 7061) as call, filmed as film:
        assert call.seen_from() == near
        for name in ("b", "a", "b"):
            walk.move(name)
            wait_arrivals(film, 20)
            assert call.seen_from() == near
    assert_nothing_clear(captures)
    assert captures["r"].counts[Kind.OVERLAY] > 0
    assert captures["r"].counts[Kind.ESP] == 0


@pytest.mark.parametrize("target", [OUTSIDE4, OUTSIDE6])
def test_a_large_transfer_from_a_client_to_the_outside_fits(walk: Roaming, target: str) -> None:
    version = 6 if ":" in target else 4
    assert traffic.tcp_stream(walk.station.end(version), (walk.outside, target), LARGE).octets == LARGE
    assert traffic.tcp_download(walk.station.end(version), (walk.outside, target), LARGE).octets == LARGE
