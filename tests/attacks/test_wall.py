"""A stranger one hop from a node cannot get past its rules, and neither can what is behind the node.

The mesh is a - b - c, where a and c are peers and b is a relay; the stranger m hears only a. The last test with
strongSwan removes the rules: then each of these attacks succeeds. The test with libreswan does the same by itself.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet, Raw

from tests.lab.basics.waiting import wait_until
from tests.lab.forge.raw import Forger, Way
from tests.lab.lab import Lab
from tests.lab.net import traffic
from tests.lab.net.packets import MARK, Kind
from tests.lab.net.traffic import wait_arrivals
from tests.lab.node import capabilities, libreswan
from tests.lab.node.behind import Host, masquerade
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.scenarios.expectations import assert_nothing_clear, captured, flow, flow_without_loss

SUITES = list(libreswan.suites())
NEW_RULES = ("spoofed", "disguised", "into_sa", "into_networks", "link_out", "link_in")
"""Counters of what no honest node sends."""
SILENCE = 0.5
"""Seconds to wait for a datagram that must not come."""
_SEGMENTED = """
import socket, struct, sys
last, first = (socket.inet_pton(socket.AF_INET6, one) for one in sys.argv[1:])
header = struct.pack("!BBBBBBH", 0, 4, 4, 1, 1, 0, 0) + last + first
out = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
out.setsockopt(socket.IPPROTO_IPV6, 57, header)  # IPV6_RTHDR
try:
    out.sendto(b"meshsec-lab-data", (sys.argv[1], 7000))
except PermissionError:
    sys.exit(3)
"""
"""Sends user data with a segment routing header (RFC 8754): first to the second address, then to the first."""


@dataclass(frozen=True)
class Siege:
    """The mesh, the stranger's transmitter and a host behind a."""

    lab: Lab
    forger: Forger
    host: Host

    @property
    def ends(self) -> tuple[Node, Node]:
        """Return the two peers."""
        return self.lab["a"], self.lab["c"]

    def dropped(self, node: str = "a") -> dict[str, int]:
        """Return what the rules of a node have dropped that no honest node sends."""
        text = self.lab[node].run("nft", "list", "counters", "table", "inet", "meshsec").stdout
        counted = dict(re.findall(r"counter (\w+) \{\s*packets (\d+)", text))
        return {name: int(count) for name, count in counted.items() if name in NEW_RULES and count != "0"}


@contextmanager
def besieged(label: str, options: Options, *kinds: str) -> Iterator[Siege]:
    """Make the lab and start these daemons of the peers, by default all."""
    with Lab(label, [("a", "b"), ("b", "c"), ("a", "m")], options) as lab:
        lab.set_up().trust("a", "c")
        a, b, c = (lab[name] for name in "abc")
        b.assign_addresses()
        lab.start("router", nodes=[b]).start(*kinds, nodes=[a, c])
        host = Host.behind(a, lab.outsider("alan"))
        with Forger(Way.between(lab.end_of("m", "a"), lab.end_of("a", "m"))) as forger:
            yield Siege(lab, forger, host)


@pytest.fixture(scope="module")
def siege() -> Iterator[Siege]:
    with besieged("siege", Options(ipv4=True)) as made:
        a, c = made.ends
        a.wait_protected(c)
        c.wait_protected(a)
        yield made


def data(source: str, target: str) -> Packet:
    """Build user data of the stranger."""
    header = IPv6(src=source, dst=target) if ":" in target else IP(src=source, dst=target)
    return header / UDP(sport=traffic.PORT, dport=traffic.PORT) / Raw(MARK)


def is_heard(siege: Siege, packet: Packet, at: tuple[str, str], seconds: float = SILENCE) -> bool:
    """Send a packet three times. Return whether a socket with the address receives it."""
    with traffic.udp_socket(*at, traffic.PORT) as heard:
        heard.settimeout(seconds)
        siege.forger.send(packet, packet, packet)
        try:
            return heard.recv(100).startswith(MARK)
        except TimeoutError:
            return False


def test_honest_nodes_send_nothing_that_these_rules_drop(siege: Siege) -> None:
    a, c = siege.ends
    for source, target in ((a, c), (c, a)):
        with flow_without_loss(source, target) as running:
            wait_arrivals(running, 20)
        assert running.result.lost == 0
    assert traffic.tcp_stream((a.namespace, a.ipv4), (c.namespace, c.ipv4), 200_000).octets == 200_000
    assert {node: siege.dropped(node) for node in "ac"} == {"a": {}, "c": {}}


def test_a_stranger_does_not_speak_with_a_nodes_authenticated_voice(siege: Siege) -> None:
    """The node forwards a packet that claims to come from itself; charon must not encrypt it as the node's own."""
    a, c = siege.ends
    before = siege.dropped().get("spoofed", 0)
    assert not is_heard(siege, data(a.address, c.address), (c.namespace, c.address))
    assert siege.dropped()["spoofed"] == before + 3
    with flow(a, c) as running:
        wait_arrivals(running)


def test_a_stranger_does_not_use_a_nodes_sa(siege: Siege) -> None:
    """A packet from the stranger's own address that the node forwards does not reach the protected device either."""
    _, c = siege.ends
    stranger = siege.lab["m"]
    assert not is_heard(siege, data(stranger.address, c.address), (c.namespace, c.address))
    assert not is_heard(siege, data("10.77.9.9", c.ipv4), (c.namespace, c.ipv4))


def test_a_stranger_does_not_reach_the_networks_behind_a_node(siege: Siege) -> None:
    host, stranger = siege.host, siege.lab["m"]
    for source, target in ((stranger.address, host.address), ("10.77.9.9", host.ipv4), ("fe80::9", host.address)):
        assert not is_heard(siege, data(source, target), (host.namespace, target))
    assert siege.dropped()["into_networks"] >= 6


def test_a_mapped_source_does_not_pose_as_an_ipv4_peer(siege: Siege) -> None:
    a, c = siege.ends
    assert not is_heard(siege, data(f"::ffff:{c.ipv4}", a.address), (a.namespace, "::"))
    assert siege.dropped()["disguised"] >= 3


def test_a_routing_header_carries_nothing_to_a_peer_in_the_clear(siege: Siege) -> None:
    """An account without privileges sends it to a node that would forward it."""
    a, c = siege.ends
    with captured(siege.lab, "segments") as captures:
        assert segmented(a, c.address, siege.lab["b"].announced) == 3, "refused"
    assert_nothing_clear(captures)


def segmented(node: Node, last: str, first: str) -> int:
    """Send user data by way of ``first``. Return 3 when the node's own rules refuse it."""
    account = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    return node.run(*account, sys.executable, "-I", "-c", _SEGMENTED, last, first, check=False).returncode


@pytest.mark.parametrize("direction", ["out", "in"])
def test_no_address_of_a_link_carries_user_data_in_the_clear(siege: Siege, direction: str) -> None:
    a = siege.lab["a"]
    here, there = siege.lab.end_of("a", "m").link_local(), siege.lab.end_of("m", "a").link_local()
    with captured(siege.lab, "link") as captures:
        if direction == "out":
            assert traffic.send((a.namespace, "::"), f"{there}%mesh-m") == 0
        else:
            assert not is_heard(siege, data(there, here), (a.namespace, "::"))
    assert captures["a"].sent[Kind.CLEAR] == 0
    assert siege.dropped()[f"link_{direction}"] >= 3


def test_what_is_behind_a_node_sends_nothing_to_a_peer_in_the_clear(siege: Siege) -> None:
    """It is refused from its own address and, by masquerading, from the node's, with and without an SA."""
    a, c = siege.ends
    with captured(siege.lab, "behind") as captures:
        send_all(siege, c)
        masquerade(a)
        send_all(siege, c)
        a.daemons.charon.kill()
        send_all(siege, c)
    assert_nothing_clear(captures)
    siege.lab.heal()
    a.wait_protected(c)


def send_all(siege: Siege, peer: Node) -> None:
    """Send from the host behind to every address of the peer, from the IKE port too."""
    for target in (peer.address, peer.locator, peer.ipv4):
        source = siege.host.ipv4 if "." in target else siege.host.address
        assert traffic.send((siege.host.namespace, source), target) == 5, "the host itself is free to send"
        with traffic.udp_socket(siege.host.namespace, source, 4500) as out:
            out.sendto(MARK, (target, 4500))


def test_without_the_rules_each_of_these_attacks_succeeds(siege: Siege) -> None:
    """The control: same nodes, same packets. It removes the rules, so no test with these nodes follows."""
    a, c = siege.ends
    host, stranger = siege.host, siege.lab["m"]
    for node in (a, c):
        node.daemons.agent.kill()
        node.run("nft", "flush", "ruleset")
    assert is_heard(siege, data(a.address, c.address), (c.namespace, c.address), 60), "with the node's voice"
    assert is_heard(siege, data(stranger.address, host.address), (host.namespace, host.address), 60)
    assert is_heard(siege, data("10.77.9.9", host.ipv4), (host.namespace, host.ipv4), 60)
    assert is_heard(siege, data(f"::ffff:{c.ipv4}", a.address), (a.namespace, "::"), 60)
    here, there = siege.lab.end_of("a", "m").link_local(), siege.lab.end_of("m", "a").link_local()
    assert is_heard(siege, data(there, here), (a.namespace, "::"), 60)
    with a.capture("control") as seen:
        assert traffic.send((a.namespace, "::"), f"{there}%mesh-m") == 5
        wait_until("user data on the link", lambda: seen.sent[Kind.CLEAR] >= 5, [seen], 60)
        before = seen.sent[Kind.CLEAR]
        assert segmented(a, c.address, siege.lab["b"].announced) == 0
        wait_until("user data behind a routing header", lambda: seen.sent[Kind.CLEAR] > before, [seen], 60)
        before = seen.sent[Kind.CLEAR]
        a.daemons.charon.kill()
        send_all(siege, c)
        wait_until("user data of the host behind", lambda: seen.sent[Kind.CLEAR] > before + 6, [seen], 60)


@pytest.mark.skipif(not SUITES, reason="libreswan is not unpacked: tools/setup system")
@pytest.mark.skipif(capabilities.probe().esp != "kernel", reason="this kernel has no ESP; `make guest` runs this there")
def test_the_wall_is_the_same_where_libreswan_makes_the_sas() -> None:
    """Nothing leaves before there is an SA, and no stranger uses the SA later. Without the rules both succeed."""
    with besieged("pluto", Options(ipv4=True, libreswan=SUITES[0]), "router", "meshsecd") as siege:
        a, c = siege.ends
        a.wait_route(c)
        c.wait_route(a)
        with captured(siege.lab, "no-sa") as captures:
            assert [traffic.send((a.namespace, own), other) for own, other in _both_families(a, c)] == [0, 0]
        assert_nothing_clear(captures)
        siege.lab.start("pluto", nodes=siege.ends)
        a.wait_state(c, "protected", 180)
        c.wait_state(a, "protected", 180)
        with flow(a, c) as running:
            wait_arrivals(running)
        assert not is_heard(siege, data(a.address, c.address), (c.namespace, c.address))
        assert siege.dropped()["spoofed"] >= 3
        for node in siege.ends:
            node.daemons.agent.kill()
            node.run("nft", "flush", "ruleset")
        assert is_heard(siege, data(a.address, c.address), (c.namespace, c.address), 60), "with the node's voice"
        for node in siege.ends:
            node.daemons.pluto.daemon.kill()
            node.run("ip", "xfrm", "state", "flush")
            node.run("ip", "xfrm", "policy", "flush")
        with a.capture("open") as seen:
            assert [traffic.send((a.namespace, own), other) for own, other in _both_families(a, c)] == [5, 5]
            wait_until("user data in the clear", lambda: seen.sent[Kind.CLEAR] >= 10, [seen], 60)


def _both_families(source: Node, target: Node) -> list[tuple[str, str]]:
    return [(source.address, target.address), (source.ipv4, target.ipv4)]
