"""Two nodes that trust each other talk through a relay, and nobody else can read a word of it."""

from ipaddress import ip_address

import pytest

from tests.lab.basics.waiting import wait_until
from tests.lab.lab import Lab
from tests.lab.net import traffic
from tests.lab.net.packets import MARK, Kind
from tests.lab.net.topology import line, names
from tests.lab.net.traffic import wait_arrivals
from tests.lab.node.options import Options
from tests.scenarios.expectations import assert_nothing_clear, captured, flow, flow_without_loss


def test_a_relay_sees_ike_and_esp_and_nothing_in_the_clear_from_the_start_on() -> None:
    with Lab("start", line(names(3)), Options(ipv4=True)) as lab:
        lab.set_up().trust_all()
        a, c = lab["a"], lab["c"]
        with captured(lab, "start") as captures:
            lab.start()
            for source, target in ((a, c), (c, a)):
                source.wait_protected(target)
            with flow_without_loss(a, c) as running:
                wait_arrivals(running, 20)
            stream = traffic.tcp_stream((a.namespace, a.address), (c.namespace, c.address), 2_000_000)
        assert stream.octets == 2_000_000
        assert running.result.lost == 0
        assert_nothing_clear(captures)
        relayed = captures["b"].counts
        assert relayed[Kind.ESP] > 1000
        assert relayed[Kind.IKE] >= 8, "two exchanges of two messages, each seen coming and going"
        assert relayed[Kind.OLSR] > 0


def test_user_data_sent_before_there_is_an_sa_is_dropped_and_not_leaked() -> None:
    with Lab("early", line(names(3)), Options(ipv4=True)) as lab:
        lab.set_up().trust_all()
        a, c = lab["a"], lab["c"]
        with captured(lab, "early") as captures:
            lab.start("meshsecd", "router")
            a.wait_route(c)
            a.wait_for("IPv4 route to c", lambda: a.kernel.interfaces().get(c.ipv4), 60)
            for address in (c.address, c.locator, c.ipv4):
                traffic.send((a.namespace, "::" if ":" in address else a.ipv4), address)
            lab.start("charon")
            a.wait_protected(c)
            with flow(a, c) as running:
                wait_arrivals(running)
        assert_nothing_clear(captures)


def test_the_rules_hold_before_any_daemon_of_ours_runs() -> None:
    """At boot the firewall's unit loads the rules from the cards before there is a network."""
    with Lab("boot", line(names(3)), Options(ipv4=True)) as lab:
        a, c = lab["a"], lab["c"]
        lab.set_up().trust_all()
        for node in lab.nodes.values():
            node.assign_addresses()
        a.run("nft", "-f", "-", stdin=a.meshsec("export", "nftables").stdout)
        lab.start("router")
        for target, port in ((c.locator, 7000), (c.ipv4, 7000), (c.ipv4, 500), (c.locator, 53)):
            a.wait_for(f"route to {target}", lambda address=target: a.kernel.interfaces().get(address), 60)  # type: ignore[misc]
            with captured(lab, "boot") as captures:
                assert traffic.send((a.namespace, "::" if ":" in target else a.ipv4), target, port=port) == 0
            assert_nothing_clear(captures)
        a.run("nft", "flush", "ruleset")
        assert traffic.send((a.namespace, a.ipv4), c.ipv4) == 5, "without the rules nothing else holds it back"


def test_without_the_rules_the_capture_sees_what_they_hold_back() -> None:
    """The negative case of this module: the same nodes, route and data, but without rules and SAs."""
    with Lab("open", line(names(3)), Options(ipv4=True)) as lab:
        lab.set_up().trust_all().start("meshsecd", "router")
        a, c = lab["a"], lab["c"]
        a.wait_for("IPv4 route to c", lambda: a.kernel.interfaces().get(c.ipv4), 60)
        with lab["b"].capture("open") as seen:
            for node in lab.nodes.values():
                node.daemons.agent.kill()
                node.run("nft", "flush", "ruleset")
            traffic.send((a.namespace, a.ipv4), c.ipv4)
            wait_until("user data in the clear", lambda: seen.counts[Kind.CLEAR] >= 5, [seen], 60)


def test_ipv4_user_data_is_protected_too(mesh: Lab) -> None:
    a, c = mesh["a"], mesh["c"]
    assert ip_address(a.ipv4).version == 4
    with captured(mesh, "ipv4") as captures:
        stream = traffic.tcp_stream((a.namespace, a.ipv4), (c.namespace, c.ipv4), 500_000)
    assert stream.octets == 500_000
    assert_nothing_clear(captures)
    assert captures["b"].counts[Kind.ESP] > 300


def test_user_data_to_a_locator_goes_nowhere(mesh: Lab) -> None:
    a, c = mesh["a"], mesh["c"]
    with captured(mesh, "locator") as captures:
        assert traffic.send((a.namespace, a.locator), c.locator, count=10) == 0
    assert_nothing_clear(captures)


def test_a_forged_packet_in_the_clear_is_not_delivered() -> None:
    """A stranger forges unencrypted user data from a to c: c sees it on its link and does not deliver it."""
    with Lab("forged", line(names(3)), Options(ipv4=True)) as lab:
        a, stranger, c = lab["a"], lab["b"], lab["c"]
        lab.set_up()
        c.trust(a)
        stranger.assign_addresses()
        stranger.run("ip", "address", "add", a.ipv4, "dev", "lo")
        lab.start("meshsecd", nodes=[c]).start("router", nodes=[stranger, c])
        stranger.wait_for("IPv4 route to c", lambda: stranger.kernel.interfaces().get(c.ipv4), 60)
        with c.capture("forged") as seen, traffic.udp_socket(c.namespace, c.ipv4, traffic.PORT) as inside:
            inside.settimeout(0.5)
            traffic.send((stranger.namespace, a.ipv4), c.ipv4)
            wait_until("the forged packet on c's link", lambda: seen.counts[Kind.CLEAR] >= 1, [seen], 60)
            with pytest.raises(TimeoutError):
                inside.recv(100)
            c.daemons.agent.kill()
            c.run("nft", "flush", "ruleset")
            inside.settimeout(60)
            traffic.send((stranger.namespace, a.ipv4), c.ipv4)
            assert inside.recv(100).startswith(MARK), "without the rules it would have been delivered"


def test_lossy_links_delay_the_sa_and_leak_nothing() -> None:
    with Lab("lossy", line(names(3)), Options(ipv4=True)) as lab:
        lab.set_up().trust_all()
        a, c = lab["a"], lab["c"]
        for link in lab.links.values():
            link.lose(15)
        with captured(lab, "lossy") as captures:
            lab.start()
            a.wait_protected(c, 120)
            c.wait_protected(a, 120)
            with flow(a, c) as running:
                wait_arrivals(running, 50, 120)
        assert running.result.lost > 0, "the links were not lossy"
        assert_nothing_clear(captures)
