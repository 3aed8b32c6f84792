"""Islands that a link over the internet joins: routed through, protected, and kept by a second uplink."""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from ipaddress import IPv6Network

import pytest

from meshsec.adapters.ike import vici_connections
from meshsec.core.channels.islands import Ends, connection_spec
from meshsec.core.islands import paths
from meshsec.core.islands.paths import device
from meshsec.core.policy.policy import Policy
from meshsec.core.trust import card as cards
from meshsec.core.values.islands import InternetLink
from meshsec.core.values.model import ChildSpec, EspBackend
from tests.lab.basics.patience import patient
from tests.lab.islands import FIRST, SECOND, Islands, islands
from tests.lab.net import traffic
from tests.lab.net.packets import Kind
from tests.lab.net.traffic import wait_arrivals
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.lab.observe.schemas import schema
from tests.scenarios.expectations import assert_no_drift, flow
from tests.scenarios.networks.joined import (
    LARGE,
    TAKEN_OVER,
    assert_closed_without_daemons,
    assert_flood_keeps_nobody_out,
    assert_joined_and_hidden,
    assert_second_uplink_takes_over,
    pauses,
    visible,
)

_UPLINKS = ("nat", "b")
"""The uplink that each path of b leads through, as the islands name it."""
_GREEDY = "link:c:9"
"""A connection that meshsecd takes for a link's, so that it does not close its SAs as a stranger's."""


@pytest.fixture(scope="module")
def mesh() -> Iterator[Islands]:
    with islands("links") as made:
        yield made


def test_far_ends_reach_each_other_and_the_internet_sees_ike_and_esp_alone(mesh: Islands) -> None:
    assert_joined_and_hidden(mesh)


def test_a_second_uplink_takes_over_when_the_first_falls_silent(mesh: Islands) -> None:
    assert_second_uplink_takes_over(mesh)


def test_a_second_uplink_takes_over_when_the_first_loses_its_carrier(mesh: Islands) -> None:
    router = mesh.uplinks["b-nat"].ends[1]
    try:
        assert max(pauses(mesh, router.down)) <= patient(TAKEN_OVER)
    finally:
        router.up()


def test_the_first_uplink_is_used_again(mesh: Islands) -> None:
    b, c = mesh.lab["b"], mesh.lab["c"]
    mesh.wait_paths(0, 1)
    b.wait_for("the first path", lambda: b.kernel.interfaces().get(c.announced) == device("c", 0), 60)


def test_the_commands_know_the_link(mesh: Islands) -> None:
    mesh.wait_paths(0, 1)
    b, c = mesh.lab["b"], mesh.lab["c"]
    status = json.loads(b.meshsec("status", "--json", check=False).stdout)
    schema("meshsec-status-1").validate(status)
    (link,) = status["links"]
    assert (link["peer"], link["up"], link["problems"]) == ("c", True, [])
    assert [(one["uplink"], one["behind_nat"]) for one in link["paths"]] == [(FIRST, True), (SECOND, False)]
    assert "Link to c: eth1 with 203.0.113.2, behind a NAT, for" in b.meshsec("status", check=False).stdout
    assert "A link over the internet joins the two" in c.meshsec("explain", "b", check=False).stdout
    for node in (b, c):
        checks = {one["name"]: one for one in node.control.ask("doctor")["checks"]}
        assert checks["links"]["level"] == "ok", checks["links"]
        assert not [name for name in checks if name.startswith("interface ml")]
        assert_no_drift(node)
    assert not [one for one in b.control.ask("plan")["actions"] if one["detail"].startswith("link")]


def _without_ml(proposals: tuple[str, ...]) -> tuple[str, ...]:
    """Return what every charon can propose."""
    return tuple(one for one in proposals if "mlkem" not in one)


def test_a_linked_node_gets_no_selectors_beside_the_paths(mesh: Islands) -> None:
    b, c = mesh.lab["b"], mesh.lab["c"]
    here, there = (cards.parse(node.card) for node in (b, c))
    link = InternetLink("c", mesh.public[0], (FIRST, SECOND))
    joints = paths.joints(here, there, "c")
    backend = EspBackend(c.control.ask("status")["esp_ground"])
    wanted = connection_spec(Ends(link, here, there, joints), 0, [], backend, Policy())
    wanted = replace(wanted, ike_proposals=_without_ml(wanted.ike_proposals))
    wide = (IPv6Network("::/0"),)
    selectors = {"all": (wide, wide), "node": (wide, (IPv6Network(c.address),))}
    children = tuple(
        ChildSpec(name, "tunnel", *ts, _without_ml(Policy().esp_proposals)) for name, ts in selectors.items()
    )
    b.charon.configure(
        _GREEDY, vici_connections.message(replace(wanted, children=children)) | {"local_addrs": ["%any"]}
    )
    allowed = {f"{one}/128" for joint in joints for one in (joint.own, joint.peer)}
    for name in selectors:
        b.charon.initiate(_GREEDY, name)
        assert c.charon.selectors("link:b:0") <= allowed
    assert b.charon.selectors(_GREEDY), "what is asked for is narrowed to a path, so the negotiation was a real one"
    b.charon.terminate(_GREEDY)
    b.charon.forget(_GREEDY)
    mesh.wait_paths(0, 1)


def test_frames_from_elsewhere_do_not_get_into_a_path(mesh: Islands) -> None:
    """Neither a host in the internet that knows the numbers, nor an account of the node itself."""
    b, c = mesh.lab["b"], mesh.lab["c"]
    mesh.wait_paths(0, 1)
    joint = paths.joints(cards.parse(b.card), cards.parse(c.card), "c")[0]
    forged = bytes((8, 0, 0, 0)) + joint.network_id.to_bytes(3) + bytes(15)
    before = mesh.dropped("c", counter="joints_in"), mesh.dropped("b", counter="joints_out")
    with traffic.udp_socket(mesh.internet, mesh.public[1]) as stranger:
        stranger.sendto(forged, (mesh.public[0], paths.PORT))
    c.wait_for("a drop", lambda: mesh.dropped("c", counter="joints_in") > before[0], 60)
    words = f"echo forged > /dev/udp/{joint.peer}/{paths.PORT}"
    b.run("setpriv", "--reuid", "65534", "--clear-groups", "bash", "-c", words, check=False)
    b.wait_for("a drop", lambda: mesh.dropped("b", counter="joints_out") > before[1], 60)


def _is_up(node: Node) -> bool:
    return bool(node.control.ask("status")["links"][0]["up"])


def test_a_restart_of_meshsecd_moves_nothing(mesh: Islands) -> None:
    a, b, c, d = (mesh.lab[name] for name in "abcd")
    mesh.wait_paths(0, 1)
    with flow(a, d) as running:
        wait_arrivals(running, 20)
        for node in (b, c):
            node.daemons.agent.stop()
            wait_arrivals(running, 20)
            node.daemons.agent.start()
            node.daemons.agent.wait_ready()
            node.wait_for("the link", partial(_is_up, node), 60)
        wait_arrivals(running, 20)
    assert running.result.lost == 0
    assert mesh.paths("b", "c") == mesh.paths("c", "b") == {0, 1}


def test_nothing_leaves_in_the_clear_when_the_daemons_die(mesh: Islands) -> None:
    """The control: without the rules the same node sends the path's frames into the internet, readable."""
    mesh.add_ipv6()
    assert_closed_without_daemons(mesh)
    mesh.lab.heal()
    mesh.wait_paths(0, 1)
    mesh.wait_joined()
    assert mesh.lab["c"].control.ask("status")["links"][0]["up"]


def test_a_flood_at_an_uplink_does_not_keep_the_linked_node_out(mesh: Islands) -> None:
    assert_flood_keeps_nobody_out(mesh)


def test_a_node_that_is_not_trusted_gets_no_link(mesh: Islands) -> None:
    b, c = mesh.lab["b"], mesh.lab["c"]
    mesh.wait_paths(0, 1)
    c.distrust(b)
    c.wait_for("no path", lambda: not mesh.paths("c", "b"), 60)
    b.wait_for("a refusal", lambda: mesh.link_problems("b"), 60)
    c.wait_for(
        "no SA of the link",
        lambda: not [sa for sa in c.charon.sas() if sa.peer.startswith("link:") and sa.installed],
        60,
    )
    assert mesh.link_problems("c") == ["b is not trusted: `meshsec peer add b CARD`"]
    c.trust(b)
    mesh.wait_paths(0, 1)
    mesh.wait_joined()


@pytest.fixture(scope="module")
def overlay() -> Iterator[Islands]:
    """The islands with all nodes in mode ``overlay``."""
    with islands("links-overlay", Options(overlay=True)) as made:
        for node in made.lab.nodes.values():
            node.meshsec("mode", "overlay")
        a = made.lab["a"]
        a.wait_for("the overlay", lambda: a.control.peer("d")["data_plane"] == "overlay", 60)
        yield made


def test_the_overlay_passes_through_a_link(overlay: Islands) -> None:
    a, d = overlay.lab["a"], overlay.lab["d"]
    with overlay.capture("overlay") as seen:
        with flow(a, d) as there, flow(d, a) as back:
            wait_arrivals(there, 20)
            wait_arrivals(back, 20)
        for one, other in ((a, d), (d, a)):
            done = traffic.tcp_stream((one.namespace, one.address), (other.namespace, other.address), LARGE)
            assert done.octets == LARGE
    assert there.result.lost == back.result.lost == 0
    assert not visible(seen)
    assert seen.counts[Kind.ESP] > 0


def test_either_uplink_takes_over_for_the_overlay(overlay: Islands) -> None:
    for _ in range(2):
        overlay.wait_paths(0, 1)
        number = overlay.overlay_path()
        used = overlay.uplinks[_UPLINKS[number]]
        try:
            assert max(pauses(overlay, used.cut)) <= patient(TAKEN_OVER)
            assert overlay.overlay_path() != number
        finally:
            used.fix()
