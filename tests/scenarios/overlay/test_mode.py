"""User data of two nodes uses IPsec or the overlay, as the nodes choose, and never leaves in the clear.

The line a - b - c: a and c trust each other, b is a stranger that relays.
"""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from scapy.layers.inet import IP, UDP
from scapy.packet import Raw

from tests.lab.basics.processes import Daemon
from tests.lab.basics.waiting import wait_until
from tests.lab.faults.out_of_memory import knock, without_memory
from tests.lab.forge.raw import Forger, Way
from tests.lab.lab import Lab
from tests.lab.net import traffic
from tests.lab.net.packets import MARK, Kind
from tests.lab.net.stream import Stream
from tests.lab.net.topology import line, names
from tests.lab.net.traffic import Flow, wait_arrivals
from tests.lab.node import capabilities
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.lab.observe.overlay_control import OverlayControl
from tests.scenarios.expectations import assert_nothing_clear, captured, flow

pytestmark = pytest.mark.skipif(not capabilities.probe().tun, reason="there is no /dev/net/tun")

SEALED = {Kind.IKE, Kind.ESP, Kind.OVERLAY, Kind.OLSR, Kind.CONTROL}
ENOUGH = 50_000
"""Bytes of a stream that show that it goes on: a hundred packets."""
PATIENCE = 60.0


@pytest.fixture(scope="module")
def planes() -> Iterator[Lab]:
    """Start the line with both data planes."""
    with Lab("mode", line(names(3)), Options(overlay=True, ipv4=True)) as lab:
        yield lab.set_up().trust("a", "c").start()


@pytest.fixture
def lab(planes: Lab) -> Lab:
    """Return the healthy line; both ends have chosen IPsec."""
    planes.heal()
    a, c = planes["a"], planes["c"]
    for node, peer in ((a, c), (c, a)):
        choose(node, peer, "ipsec")
    for node, peer in ((a, c), (c, a)):
        wait_carried(node, peer, "ipsec")
    return planes


def choose(node: Node, peer: Node, plane: str) -> None:
    """Choose a data plane as a person would."""
    node.meshsec("mode", plane, peer.name)


def wait_carried(node: Node, peer: Node, plane: str) -> None:
    """Wait until a node reports that a data plane carries what it sends to a peer."""

    def carried() -> bool:
        status = node.control.peer(peer.name)
        return (status.get("state"), status.get("data_plane"), status.get("mode")) == ("protected", plane, plane)

    node.wait_for(f"{peer.name} is carried by {plane}", carried, PATIENCE)


def switch(a: Node, c: Node, plane: str) -> None:
    """Choose a data plane at both ends, one after the other."""
    for node, peer in ((a, c), (c, a)):
        choose(node, peer, plane)
        wait_carried(node, peer, plane)


def wait_octets(stream: Stream) -> None:
    """Wait for more bytes of a stream."""
    goal = stream.received + ENOUGH
    wait_until(
        f"{ENOUGH} bytes", lambda: stream.received >= goal or bool(stream.fault), [stream], PATIENCE, stream.summary
    )
    assert not stream.fault, stream.summary()


def test_a_connection_survives_the_switch_to_the_overlay_and_back_and_a_relay_reads_nothing(lab: Lab) -> None:
    a, c = lab["a"], lab["c"]
    with captured(lab, "switch") as captures, Stream((a.namespace, a.address), (c.namespace, c.address)) as stream:
        wait_octets(stream)
        switch(a, c, "overlay")
        wait_octets(stream)
        with lab["b"].capture("overlay") as later:
            wait_octets(stream)
        assert later.counts[Kind.OVERLAY] > 0
        assert later.counts[Kind.ESP] == 0, "not all goes by the overlay"
        switch(a, c, "ipsec")
        wait_octets(stream)
        sealed = _by_overlay(a, c)
        with lab["b"].capture("ipsec") as later:
            wait_octets(stream)
        assert later.counts[Kind.ESP] > 0
        assert _by_overlay(a, c) == sealed, "not all goes by IPsec"
    stream.verify()
    assert_nothing_clear(captures)
    assert set(captures["b"].counts) <= SEALED


def test_ipv4_of_a_peer_that_the_overlay_carries_is_dropped_and_never_in_the_clear(lab: Lab) -> None:
    """The overlay carries only IPv6."""
    a, c = lab["a"], lab["c"]
    ends = (a.namespace, a.ipv4), (c.namespace, c.ipv4)
    with Flow(*ends) as protected:
        wait_arrivals(protected, 10, PATIENCE)
    switch(a, c, "overlay")
    with captured(lab, "ipv4") as captures, flow(a, c) as beside, Flow(*ends) as dropped:
        wait_arrivals(beside, 50, PATIENCE)
    assert dropped.result.sent + dropped.result.refused > 0
    assert not dropped.result.arrivals
    assert_nothing_clear(captures)


def _by_overlay(*nodes: Node) -> list[int]:
    """Return how many packets of user data each node has sent over the overlay."""
    counts = []
    for node in nodes:
        with OverlayControl(node.overlay_socket) as control:
            counts.append(int(control.status["sent"]))
    return counts


def test_in_mode_ipsec_the_overlay_carries_nothing_when_the_ike_daemon_dies(lab: Lab) -> None:
    """The overlay has a session, which the peer asked for, and could carry data, but the policy does not allow it."""
    a, c = lab["a"], lab["c"]
    choose(c, a, "overlay")
    wait_carried(c, a, "overlay")
    wait_carried(a, c, "ipsec")
    with captured(lab, "no-fallback") as captures, flow(a, c) as running:
        wait_arrivals(running, 10, PATIENCE)
        sealed = _by_overlay(a)
        a.daemons.charon.kill()
        a.wait_for("nothing carries", lambda: a.control.peer(c.name).get("data_plane") is None, PATIENCE)
        lab.start("charon", nodes=[a])
        wait_carried(a, c, "ipsec")
        wait_arrivals(running, 25, PATIENCE)
        assert _by_overlay(a) == sealed
    assert_nothing_clear(captures)


def test_the_same_captures_see_user_data_in_the_clear(lab: Lab) -> None:
    """The negative case of this module: the same marked data, in frames that pass no rule."""
    way = Way.between(lab.end_of("a", "b"), lab.end_of("b", "a"))
    clear = IP(src="10.78.0.1", dst="10.78.0.2") / UDP(sport=traffic.PORT, dport=traffic.PORT) / Raw(MARK)
    with captured(lab, "plain") as captures, Forger(way) as sender:
        seen = captures["b"]
        sender.send(*[clear] * 5)
        wait_until("user data in the clear", lambda: seen.counts[Kind.CLEAR] >= 5, [seen], PATIENCE)
    assert not set(seen.counts) <= SEALED
    with pytest.raises(AssertionError, match="in the clear at a"):
        assert_nothing_clear(captures)


def test_ends_that_choose_differently_talk(lab: Lab) -> None:
    a, c = lab["a"], lab["c"]
    choose(a, c, "overlay")
    wait_carried(a, c, "overlay")
    wait_carried(c, a, "ipsec")
    with captured(lab, "differ") as captures, flow(a, c) as there, flow(c, a) as back:
        wait_arrivals(there, 20, PATIENCE)
        wait_arrivals(back, 20, PATIENCE)
        relayed = captures["b"].counts
        both = (Kind.OVERLAY, Kind.ESP)
        wait_until("both carry", lambda: all(relayed[kind] >= 40 for kind in both), [there, back], PATIENCE)
        # Neighbours whose session only finds routes are not mentioned.
        c.wait_for("doctor names a alone", lambda: data_planes(c).endswith("other data plane: a"), PATIENCE)
    assert_nothing_clear(captures)
    for node, peer, plane in ((a, c, "overlay"), (c, a, "ipsec")):
        meant = {"name": peer.name, "plane": plane, "override": True, "carries": plane}
        node.wait_for(f"mode shows {meant}", lambda n=node, m=meant: shown(n) == [m], PATIENCE)  # type: ignore[misc]


def data_planes(node: Node) -> str:
    """Return what ``meshsec doctor`` finds about the data planes."""
    checks = json.loads(node.meshsec("doctor", "--json", check=False).stdout)["checks"]
    return next((str(check["found"]) for check in checks if check["name"] == "data planes"), "")


def shown(node: Node) -> list[dict[str, object]]:
    """Return what ``meshsec mode`` shows of the peers."""
    return list(json.loads(node.meshsec("mode", "--json").stdout)["peers"])


def test_meshsecd_killed_and_restarted_keeps_the_mode_and_user_data_goes_on(lab: Lab) -> None:
    a, c = lab["a"], lab["c"]
    switch(a, c, "overlay")
    with captured(lab, "restart") as captures, flow(a, c) as running:
        wait_arrivals(running, 10, PATIENCE)
        a.daemons.agent.kill()
        wait_arrivals(running, 25, PATIENCE)
        lab.start("meshsecd", nodes=[a])
        wait_carried(a, c, "overlay")
        wait_arrivals(running, 25, PATIENCE)
    assert running.result.refused == 0, "the way into the overlay was gone for a while"
    assert_nothing_clear(captures)


@pytest.mark.parametrize("end", [Daemon.kill, Daemon.stop])
def test_overlayd_ended_leaks_nothing_and_user_data_passes_again_when_it_is_back(
    lab: Lab, end: Callable[[Daemon], object]
) -> None:
    a, c = lab["a"], lab["c"]
    switch(a, c, "overlay")
    with captured(lab, end.__name__) as captures, flow(a, c) as running:
        wait_arrivals(running, 10, PATIENCE)
        end(a.daemons.overlay)
        a.wait_for("a knows", lambda: not (a.control.ask("status").get("overlay") or {}).get("up", True), PATIENCE)
        before = running.result.refused
        a.wait_for("the sender's kernel refuses", lambda: running.result.refused > before, PATIENCE)
        lab.start("overlayd", nodes=[a])
        wait_carried(a, c, "overlay")
        wait_arrivals(running, 25, PATIENCE)
    assert_nothing_clear(captures)


def test_overlayd_killed_for_want_of_memory_leaks_nothing(lab: Lab) -> None:
    """For the other daemons see test_disturbed.py."""
    a, c = lab["a"], lab["c"]
    switch(a, c, "overlay")
    with captured(lab, "memory") as captures, flow(a, c) as running, Flow((a.namespace, a.ipv4), (c.namespace, c.ipv4)):
        wait_arrivals(running, 10, PATIENCE)
        with without_memory(a.daemons.overlay.pid) as kills:
            wait_until("overlayd is killed", lambda: dies_when_asked(a), [], PATIENCE)
            assert kills() > 0, "it was not the kernel that killed it"
        lab.start("overlayd", nodes=[a])
        wait_carried(a, c, "overlay")
        wait_arrivals(running, 25, PATIENCE)
    assert_nothing_clear(captures)


def dies_when_asked(node: Node) -> bool:
    """Send overlayd a request, which needs memory. Return whether it is dead."""
    knock(node.overlay_socket)
    return not node.daemons.overlay.running


def test_a_stranger_gets_nothing_by_the_overlay(lab: Lab) -> None:
    """b, which has no card at c, has its own overlayd exchange user data with c, and removes its own rules."""
    b, c = lab["b"], lab["c"]
    b.daemons.agent.kill()
    b.run("nft", "flush", "ruleset")
    with stranger_route(b, c), OverlayControl(b.overlay_socket) as stranger, OverlayControl(c.overlay_socket) as target:
        for command in ("permit", "keep"):
            stranger.command(command, c.address)
        stranger.wait_kept(c.address, up=True, seconds=PATIENCE)
        with traffic.udp_socket(c.namespace, c.address, traffic.PORT) as inside:

            def refused() -> bool:
                traffic.send((b.namespace, b.address), c.address, count=1)
                return target.dropped("not-permitted") >= 5

            wait_until("c drops what is not permitted", refused, [], PATIENCE, lambda: target.status)
            inside.settimeout(0.2)
            with pytest.raises(TimeoutError):
                inside.recv(100)
            c.trust(b)
            try:
                assert _arrives(b, c, inside), "with its card it would have been delivered"
            finally:
                c.distrust(b)
            before = target.dropped("not-permitted")
            wait_until("c drops it again", lambda: refused() and target.dropped("not-permitted") > before, [], PATIENCE)


@contextmanager
def stranger_route(source: Node, target: Node) -> Iterator[None]:
    """Add a route to a node over the overlay that no meshsecd has made."""
    route = [target.address, "dev", "overlay0", "src", source.address, "metric", "1"]
    source.run("ip", "-6", "route", "replace", *route)
    try:
        yield
    finally:
        source.run("ip", "-6", "route", "delete", *route)


def _arrives(source: Node, target: Node, inside: socket.socket) -> bool:
    """Return whether at least one of some marked datagrams is delivered."""

    def delivered() -> bool:
        traffic.send((source.namespace, source.address), target.address, count=1)
        try:
            return inside.recv(100).startswith(MARK)
        except TimeoutError:
            return False

    return wait_until("it is delivered", delivered, [], PATIENCE)
