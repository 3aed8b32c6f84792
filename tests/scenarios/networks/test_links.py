"""Islands that a link over the internet joins: routed through, protected, and kept by a second uplink."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from ipaddress import IPv6Network

import pytest

from meshsec.adapters.ike import vici_connections
from meshsec.adapters.kernel.islands import PROTOCOL
from meshsec.core.channels.islands import Ends, connection_spec
from meshsec.core.islands import paths
from meshsec.core.islands.paths import device
from meshsec.core.policy.policy import Policy
from meshsec.core.trust import card as cards
from meshsec.core.values.islands import InternetLink
from meshsec.core.values.model import ChildSpec, EspBackend
from tests.lab.basics.patience import patient
from tests.lab.basics.shell import run
from tests.lab.islands import FIRST, PUBLIC, SECOND, Flooding, Islands, islands
from tests.lab.net import traffic
from tests.lab.net.packets import Kind
from tests.lab.net.traffic import wait_arrivals
from tests.lab.node import capabilities
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.lab.observe.capture import Capture
from tests.lab.observe.schemas import schema
from tests.scenarios.expectations import assert_no_drift, flow, spis

TAKEN_OVER = 1.0
"""Seconds in which a second uplink carries what the first one did."""
LARGE = 2_000_000
"""Bytes: more than a thousand segments, so that a path MTU that is wrong by one header stalls the transfer."""
_UPLINKS = ("nat", "b")
"""The uplink that each path of b leads through, as the islands name it."""
_GREEDY = "link:c:9"
"""A connection that meshsecd takes for a link's, so that it does not close its SAs as a stranger's."""
_SEEN = "not (arp or icmp or icmp6 or ip6 proto 0 or udp port 500 or udp port 4500 or ip proto 50)"
"""What a capture on the internet may not show, as tcpdump filters it."""


@pytest.fixture(scope="module")
def mesh() -> Iterator[Islands]:
    with islands("links") as made:
        yield made


def _visible(capture: Capture) -> str:
    """Return what of a capture is neither IKE nor ESP, or bears an address of the mesh."""
    shown = ""
    for interface in capture.interfaces:
        file = str(capture.directory / f"{interface}.pcap")
        shown += run(["tcpdump", "-nr", file, f"({_SEEN}) or ip6 net fc00::/7"]).stdout
    return shown


def _renew(mesh: Islands, connection: str) -> None:
    """End the SA of a path, and wait until it has another one."""
    b = mesh.lab["b"]
    before = {sa.unique_id for sa in b.charon.sas_with(connection)}
    b.charon.terminate(connection)
    b.wait_for("another SA", lambda: {one.unique_id for one in b.charon.sas_with(connection)} - before, 60)
    mesh.wait_paths(0, 1)


def test_far_ends_reach_each_other_and_the_internet_sees_ike_and_esp_alone(mesh: Islands) -> None:
    a, d = mesh.lab["a"], mesh.lab["d"]
    with mesh.capture("seen") as seen:
        with flow(a, d) as there, flow(d, a) as back:
            wait_arrivals(there, 20)
            wait_arrivals(back, 20)
        done = traffic.tcp_stream((a.namespace, a.address), (d.namespace, d.address), LARGE)
        assert done.octets == LARGE
        _renew(mesh, "link:c:1")  # so that IKE is among what is seen
    assert not _visible(seen)
    assert seen.counts[Kind.CLEAR] == 0, seen.clear
    assert seen.counts[Kind.ESP] > 0
    assert seen.counts[Kind.IKE] > 0
    assert there.result.lost == 0


def _pauses(mesh: Islands, fail: Callable[[], None]) -> list[float]:
    """Return how long user data pauses in both directions when something fails."""
    a, d = mesh.lab["a"], mesh.lab["d"]
    mesh.wait_paths(0, 1)
    with flow(a, d, 0.01) as there, flow(d, a, 0.01) as back:
        for one in (there, back):
            wait_arrivals(one, 150)
        fail()
        for one in (there, back):
            wait_arrivals(one, 150)
    return [one.result.longest_gap for one in (there, back)]


def test_a_second_uplink_takes_over_when_the_first_falls_silent(mesh: Islands) -> None:
    """No SA between the far ends is negotiated again."""
    ends = mesh.lab["a"], mesh.lab["d"]
    before = spis(*ends)
    try:
        assert max(_pauses(mesh, mesh.uplinks["nat"].cut)) <= patient(TAKEN_OVER)
        assert spis(*ends) == before
    finally:
        mesh.uplinks["nat"].fix()


def test_a_second_uplink_takes_over_when_the_first_loses_its_carrier(mesh: Islands) -> None:
    router = mesh.uplinks["b-nat"].ends[1]
    try:
        assert max(_pauses(mesh, router.down)) <= patient(TAKEN_OVER)
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
    link = InternetLink("c", PUBLIC, (FIRST, SECOND))
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
    with traffic.udp_socket(mesh.internet, "203.0.113.1") as stranger:
        stranger.sendto(forged, (PUBLIC, paths.PORT))
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


def _forget_sas(node: Node) -> None:
    """Empty the kernel of SAs, policies and the routes to them, which outlive daemons that are killed.

    With ESP in user space it has none.
    """
    if capabilities.probe().esp == EspBackend.KERNEL:
        node.run("ip", "xfrm", "state", "flush")
        node.run("ip", "xfrm", "policy", "flush")
        node.run("ip", "-6", "route", "flush", "table", "main", "proto", str(PROTOCOL))


def test_nothing_leaves_in_the_clear_when_the_daemons_die(mesh: Islands) -> None:
    """The control: without the rules the same node sends the path's frames into the internet, readable."""
    b, c = mesh.lab["b"], mesh.lab["c"]
    mesh.wait_paths(0, 1)
    mesh.add_ipv6()
    with mesh.capture("dead") as seen, flow(mesh.lab["a"], mesh.lab["d"]) as lost:
        wait_arrivals(lost, 10)
        b.daemons.agent.kill()
        b.daemons.charon.kill()
        _forget_sas(b)
        b.wait_for("HELLO messages that the rules drop", lambda: mesh.dropped("b") > 20, 60)
    assert not _visible(seen)
    b.run("nft", "flush", "ruleset")
    with mesh.capture("open") as seen:
        b.wait_for("frames in the clear", lambda: seen.counts[Kind.CONTROL] + seen.counts[Kind.CLEAR] > 5, 60)
    assert _visible(seen)
    mesh.lab.heal()
    mesh.wait_paths(0, 1)
    mesh.wait_joined()
    assert c.control.ask("status")["links"][0]["up"]


def test_a_flood_at_an_uplink_does_not_keep_the_linked_node_out(mesh: Islands) -> None:
    c = mesh.lab["c"]
    with Flooding(mesh.internet, "203.0.113.1", PUBLIC) as sent:
        c.wait_for("dropped first messages", lambda: mesh.dropped("c", "meshsec_ike", "outside") > 200, 60)
        _renew(mesh, "link:c:1")
        _renew(mesh, "link:c:0")
    assert sent.count > 200


def test_a_node_that_is_not_trusted_gets_no_link(mesh: Islands) -> None:
    b, c = mesh.lab["b"], mesh.lab["c"]
    mesh.wait_paths(0, 1)
    c.distrust(b)
    c.wait_for("no path", lambda: not mesh.paths("c", "b"), 60)
    b.wait_for("a refusal", lambda: mesh.link_problems("b"), 60)
    assert not [sa for sa in c.charon.sas() if sa.peer.startswith("link:") and sa.installed]
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
    assert not _visible(seen)
    assert seen.counts[Kind.ESP] > 0


def test_either_uplink_takes_over_for_the_overlay(overlay: Islands) -> None:
    for _ in range(2):
        overlay.wait_paths(0, 1)
        number = overlay.overlay_path()
        used = overlay.uplinks[_UPLINKS[number]]
        try:
            assert max(_pauses(overlay, used.cut)) <= patient(TAKEN_OVER)
            assert overlay.overlay_path() != number
        finally:
            used.fix()
