"""What is behind two peers is protected as they are: hosts talk through the relay, and it sees ESP alone.

The mesh is a - b - c, where a and c are peers and b is a relay that nobody trusts. The stranger m hears a. No node has
an IPv4 address.
"""

import json
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet, Raw

from tests.lab.basics.waiting import wait_until
from tests.lab.forge.raw import Forger, Way
from tests.lab.net import traffic
from tests.lab.net.packets import MARK, Kind
from tests.lab.net.traffic import Flow, wait_arrivals
from tests.lab.node.behind import Host
from tests.lab.node.node import Node
from tests.lab.observe.schemas import schema
from tests.scenarios.expectations import (
    assert_no_drift,
    assert_nothing_clear,
    captured,
    differences,
    drift,
    wait_no_drift,
)
from tests.scenarios.networks.sites import Sites, assert_hosts_talk, connected, flows_between, is_heard, is_routed
from tests.scenarios.protection import leaktests

LARGE = 3_000_000
"""Bytes: some thousand segments, so that a path MTU that is wrong by one header stalls the transfer."""


@pytest.fixture(scope="module")
def sites() -> Iterator[Sites]:
    with connected("networks") as made:
        yield made


def test_hosts_behind_peers_talk_and_the_relay_sees_esp_alone(sites: Sites) -> None:
    assert_hosts_talk(sites)


def test_a_node_itself_talks_with_a_host_behind_its_peer(sites: Sites) -> None:
    a, host = sites.lab["a"], sites.hosts[1]
    ends = [((a.namespace, a.address), (host.namespace, host.address))]
    ends += [((host.namespace, host.address), (a.namespace, a.address))]
    with captured(sites.lab, "node") as captures:
        for source, target in ends:
            flow = Flow(source, target)
            flow.grace = 30.0
            with flow:
                wait_arrivals(flow, 20)
            assert flow.result.lost == 0
    assert_nothing_clear(captures)


@pytest.mark.parametrize("family", [4, 6])
def test_a_large_transfer_between_hosts_fits(sites: Sites, family: int) -> None:
    first, second = sites.hosts
    source, target = (first.ipv4, second.ipv4) if family == 4 else (first.address, second.address)
    with captured(sites.lab, "transfer") as captures:
        done = traffic.tcp_stream((first.namespace, source), (second.namespace, target), LARGE)
    assert done.octets == LARGE
    assert_nothing_clear(captures)


def test_the_commands_say_how_a_network_is_reached(sites: Sites) -> None:
    a, _ = sites.ends
    _, second = sites.hosts
    for asked in (second.ipv4, second.address):
        view = json.loads(a.meshsec("explain", asked, "--json").stdout)
        schema("meshsec-explain-network-1").validate(view)
        assert (view["peer"], view["problem"]) == ("c", ""), view
    assert "is reached through it" in a.meshsec("explain", "c").stdout
    wait_no_drift(a)
    assert "networks of peers" not in {one["name"] for one in doctor(a) if one["level"] != "ok"}


def test_what_leads_past_the_tunnel_is_reported(sites: Sites) -> None:
    a, host = sites.lab["a"], sites.hosts[1]
    with clear_route(sites):
        a.wait_for("drift", lambda: ("network", None) in differences(a), 60)
        (check,) = (one for one in doctor(a) if one["name"] == "routes past the tunnel")
        assert check["level"] == "fail"
        assert "leads past the tunnel" in a.meshsec("explain", host.address).stdout
        assert "leads past the tunnel" in " ".join(a.meshsec("status", check=False).stdout.split())
    wait_no_drift(a)


def test_a_network_route_that_another_program_removed_and_those_that_it_added_are_reported(sites: Sites) -> None:
    """meshsecd looks for such changes once a minute, so they are made again until ``drift`` has seen them."""
    a, c = sites.ends
    network, *_ = sites.hosts[1].networks
    lacking = f"route to {network}", "none", f"through the tunnel to {c.address}"
    extra = "route to 2001:db8:66::/64", f"through the tunnel to {c.address}", "none"
    encap = ["encap", "ip6", "id", "1", "dst", c.address, "src", a.address, "dev", "meshsec-nets"]

    def are_reported() -> bool:
        a.run("ip", "-6", "route", "del", network, "dev", "meshsec-nets", check=False)
        a.run("ip", "-6", "route", "replace", "2001:db8:66::/64", *encap, "proto", "102", "metric", "32768")
        return {(one["what"], one["is"], one["should"]) for one in drift(a)["differences"]} == {lacking, extra}

    a.wait_for("drift", are_reported, 60)
    assert {one["mend"].partition(": ")[0] for one in drift(a)["differences"]} == {"systemctl restart meshsecd"}
    a.daemons.agent.stop()
    a.daemons.agent.start()
    a.daemons.agent.wait_ready()
    wait_no_drift(a)
    assert is_routed(a, network)
    assert not is_routed(a, "2001:db8:66::/64")
    a.run("ip", "-6", "route", "add", network, *encap, "metric", "7")
    (found,) = drift(a)["differences"]
    assert (found["where"], found["is"]) == ("network", "set by another program")
    a.run(*shlex.split(found["mend"]))
    assert_no_drift(a)
    assert is_routed(a, network), "meshsecd's own stays"


def test_a_network_that_the_router_forgot_is_announced_again(sites: Sites) -> None:
    """A new router knows nothing of what is behind its node, and meshsecd says it again."""
    a, c = sites.ends
    network = Host("", 3).networks[1]
    c.daemons.router.kill()
    sites.lab.start("router", nodes=[c])
    c.wait_for("its own networks announced", lambda: ("network", None) not in differences(c), 60)
    a.wait_for(f"a route to {network}", partial(is_routed, a, network), 60)
    sites.lab.heal()
    a.wait_protected(c)


def test_meshsecd_killed_and_restarted_interrupts_nothing(sites: Sites) -> None:
    """While the rules are replaced, the kernel may miss an element of an interval set, and drops that packet."""
    a, c = sites.ends
    flows = flows_between(sites)
    with ExitStack() as stack, captured(sites.lab, "restart") as captures:
        for flow in flows:
            flow.grace = 30.0
            stack.enter_context(flow)
            wait_arrivals(flow, 5)
        for node in (a, c):
            node.daemons.agent.kill()
            node.daemons.agent.start()
            node.daemons.agent.wait_ready()
        for flow in flows:
            wait_arrivals(flow, 20)
    assert max(flow.result.lost for flow in flows) <= len(sites.ends), [flow.summary() for flow in flows]
    assert_nothing_clear(captures)
    wait_no_drift(a)


def test_the_leak_test_sends_into_networks_too(sites: Sites, tmp_path: Path) -> None:
    """The far end sees the data leave for the host behind it, which is no leak."""
    a, b, c = (sites.lab[name] for name in "abc")
    waits = f"sh -c {shlex.quote(leaktests.waits_for(tmp_path / 'looks'))}"
    test = leaktests.started(a, "c", "--seconds", "2", "--while", waits)
    mark = leaktests.mark_of(test)
    others = [leaktests.watching(node, mark) for node in (b, c)]
    (tmp_path / "looks").touch()
    (status, view), *seen = leaktests.ended(test), *map(leaktests.relayed_until_now, others)
    assert (status, view["verdict"]) == (0, "tight"), view
    assert all(report["verdict"] == "tight" for _, report in seen), seen
    assert [(one["peer"], one["sent"] > 0, one["held"]) for one in view["networks"]] == [("c", True, 0)] * 2, view


def test_the_leak_test_finds_a_leak_into_a_network(sites: Sites) -> None:
    """The control: without the rules, packets take a route that leads past the tunnel. meshsecd would restore them."""
    a, c = sites.ends
    network, gateway = sites.hosts[1].networks[1], sites.lab.end_of("b", "a").link_local()
    ipv4 = [network, "via", "inet6", gateway, "dev", "mesh-b", "metric", "1"]
    past = f"ip -6 route add {shlex.join(past_tunnel(sites))}; ip -4 route add {shlex.join(ipv4)}"
    undone = f"kill -9 {a.daemons.agent.pid}; nft delete table inet meshsec; {past}"
    test = leaktests.started(a, "c", "--seconds", "2", "--while", f"sh -c {shlex.quote(undone)}", "--while", "true")
    status, view = leaktests.ended(test)
    a.run("ip", "-6", "route", "del", *past_tunnel(sites))
    a.run("ip", "-4", "route", "del", *ipv4)
    assert (status, view["verdict"], view["phases"][0]["packets"]["clear"]) == (1, "leak", 0), view
    leaked = [ip_address(one["destination"]) for one in view["clear"] if one["outgoing"]]
    assert all(any(one in ip_network(within) for one in leaked) for within in sites.hosts[1].networks), view
    sites.lab.heal()
    a.wait_protected(c)


def test_without_an_sa_nothing_leaves_for_the_networks(sites: Sites) -> None:
    a, c = sites.ends
    first, second = sites.hosts
    with captured(sites.lab, "dead") as captures:
        a.daemons.charon.kill()
        for source, target in ((first.address, second.address), (first.ipv4, second.ipv4)):
            assert traffic.send((first.namespace, source), target) == 5, "the host itself is free to send"
            assert traffic.send((a.namespace, a.address), second.address) == 5, "the tunnel drops it, not the socket"
    assert_nothing_clear(captures)
    sites.lab.heal()
    a.wait_protected(c)


def test_a_route_in_the_clear_carries_nothing_to_a_network_of_a_peer(sites: Sites) -> None:
    a = sites.lab["a"]
    first, second = sites.hosts
    with clear_route(sites), captured(sites.lab, "route") as captures:
        before = sites.dropped("networks_out")
        assert traffic.send((first.namespace, first.address), second.address) == 5
        a.wait_for("five drops", partial(sites.has_dropped, "networks_out", before + 5), 60)
    assert_nothing_clear(captures)


def test_a_peer_sends_only_from_what_it_may_speak_for(sites: Sites) -> None:
    """c gives itself an address of a's network and one of nobody's, and sends through the tunnel."""
    a, c = sites.ends
    first, second = sites.hosts
    c.daemons.agent.kill()
    c.run("nft", "flush", "ruleset")
    stolen = [first.ipv4.replace(".5", ".77"), "192.168.99.9", first.address.replace("::5", "::77"), "2001:db8:99::9"]
    try:
        for source in stolen:
            c.run("ip", "address", "add", source, "dev", "lo")
            before = sites.dropped("networks_in")
            assert not is_heard(first, (c.namespace, source)), source
            a.wait_for(f"five drops of {source}", partial(sites.has_dropped, "networks_in", before + 5), 60)
        assert is_heard(first, (second.namespace, second.ipv4))
        assert is_heard(first, (second.namespace, second.address))
    finally:
        for source in stolen:
            c.run("ip", "address", "del", source, "dev", "lo", check=False)
        sites.lab.heal()
        c.wait_protected(a)


def test_a_stranger_reaches_no_network_and_speaks_for_none(sites: Sites) -> None:
    first, second = sites.hosts
    through = [data("2001:db8:66::6", second.address), data("10.66.0.6", second.ipv4)]
    forged = [data(second.address, first.address), data(second.ipv4, first.ipv4)]
    with transmitter(sites) as forger:
        for packet, host in zip((*through, *forged), (second, second, first, first), strict=True):
            assert not is_heard(host, partial(forger.send, *[packet] * 5)), packet.summary()
        for packet in tunnelled(sites, forged):
            before = sites.dropped("networks_in")
            assert not is_heard(first, partial(forger.send, *[packet] * 5)), packet.summary()
            sites.lab["a"].wait_for("five drops", partial(sites.has_dropped, "networks_in", before + 5), 60)


def test_without_the_rules_each_of_these_packets_arrives(sites: Sites) -> None:
    """The control: same nodes, same packets. It removes the rules, so no test with these nodes follows."""
    a, c = sites.ends
    first, second = sites.hosts
    for node in (a, c):
        node.daemons.agent.kill()
        node.run("nft", "flush", "ruleset")
    c.run("ip", "address", "add", "192.168.99.9", "dev", "lo")
    assert is_heard(first, (c.namespace, "192.168.99.9"), 60)
    forged = [data(second.address, first.address), data(second.ipv4, first.ipv4)]
    with transmitter(sites) as forger:
        assert is_heard(second, lambda: forger.send(data("2001:db8:66::6", second.address)), 60)
        for packet in (*forged, *tunnelled(sites, forged)):
            assert is_heard(first, partial(forger.send, packet), 60), packet.summary()
    with clear_route(sites), a.capture("control") as seen:
        traffic.send((first.namespace, first.address), second.address)
        wait_until("user data on the link", lambda: seen.sent[Kind.CLEAR] >= 5, [seen], 60)


def doctor(node: Node) -> list[dict[str, Any]]:
    """Return what ``meshsec doctor`` has checked."""
    checks: list[dict[str, Any]] = json.loads(node.meshsec("doctor", "--json", check=False).stdout)["checks"]
    return checks


# --- what the tests send ---


def data(source: str, target: str) -> Packet:
    """Build user data."""
    header = IPv6(src=source, dst=target) if ":" in target else IP(src=source, dst=target)
    return header / UDP(sport=traffic.PORT, dport=traffic.PORT) / Raw(MARK)


def tunnelled(sites: Sites, packets: list[Packet]) -> list[Packet]:
    """Build VXLAN-GPE packets in the name of c, in the clear."""
    a, c = sites.ends
    outer = IPv6(src=c.address, dst=a.address) / UDP(sport=49152, dport=4790)
    return [outer / Raw(bytes([0x0C, 0, 0, 2 if IPv6 in one else 1, 0, 0, 1, 0]) + bytes(one)) for one in packets]


@contextmanager
def transmitter(sites: Sites) -> Iterator[Forger]:
    """Give the stranger m, one hop from a, a transmitter."""
    with Forger(Way.between(sites.lab.end_of("m", "a"), sites.lab.end_of("a", "m"))) as forger:
        yield forger


@contextmanager
def clear_route(sites: Sites) -> Iterator[None]:
    """Let a route lead from a to the network behind c through the relay, as a router would that knows no tunnel."""
    a = sites.lab["a"]
    a.run("ip", "-6", "route", "add", *past_tunnel(sites))
    try:
        yield
    finally:
        a.run("ip", "-6", "route", "del", *past_tunnel(sites))


def past_tunnel(sites: Sites) -> list[str]:
    """Return a route from a to the network behind c that leads through the relay, past the tunnel."""
    network = sites.hosts[1].networks[0]
    return [network, "via", sites.lab.end_of("b", "a").link_local(), "dev", "mesh-b", "metric", "1"]
