"""A gateway without meshsec, configured by hand from the guide, reaches the hosts behind a node by traffic selectors.

The mesh is a - b - c. meshsecd drives a; b is a relay that nobody trusts. c is the gateway: it has a router, and charon
or libreswan with what docs/guide/selectors.md says.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import pytest

from tests.lab.basics.places import REPOSITORY
from tests.lab.basics.shell import run
from tests.lab.basics.waiting import wait_until
from tests.lab.lab import Lab
from tests.lab.net import traffic
from tests.lab.net.links import End, Link
from tests.lab.net.packets import Kind
from tests.lab.net.topology import line, names
from tests.lab.node import capabilities, libreswan
from tests.lab.node.behind import INTERFACE, Host
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.lab.observe.schemas import schema
from tests.scenarios.expectations import assert_nothing_clear, captured, ipsec_errors, wait_no_drift
from tests.scenarios.networks.sites import Sites, assert_hosts_talk, is_heard

pytestmark = pytest.mark.skipif(
    capabilities.probe().esp != "kernel", reason="this kernel has no ESP; `make guest` runs this there"
)

GUIDE = REPOSITORY / "docs/guide/selectors.md"
STRONGSWAN = "strongswan"
GATEWAYS = [STRONGSWAN, *libreswan.suites()]


@dataclass(frozen=True)
class Joined(Sites):
    """The node a with a host, the gateway c with two: one in the traffic selectors, and one outside of them."""

    outside: Host


@pytest.fixture(scope="module", params=GATEWAYS)
def joined(request: pytest.FixtureRequest) -> Iterator[Joined]:
    """Start the mesh with a gateway of this kind."""
    own, others = (Host("", number).networks for number in (1, 3))
    suite = "" if request.param == STRONGSWAN else request.param
    options = Options(attached=own, accept=dict.fromkeys(others, ("gateway",)), selectors=True)
    with Lab("selectors", line(names(3)), Options()) as lab:
        lab.set_up({"a": options})
        a, b, c = (lab[name] for name in "abc")
        c.become(replace(lab.options, libreswan=suite))
        hosts = Host.behind(a, lab.outsider("ha"), 1), Host.behind(c, lab.outsider("hc"), 3)
        outside = beside(c, lab.outsider("ho"), 4)
        (a.peers / "gateway.card").write_text(f"{c.card}\n", encoding="ascii")
        (c.peers / "node.card").write_text(f"{a.card}\n", encoding="ascii")
        b.assign_addresses()
        for command in commands(a, c):
            c.run("sh", "-c", command)
        lab.start("router", nodes=[b, c])
        configure_libreswan(a, c) if suite else configure_strongswan(a, c)
        lab.start(nodes=[a])
        wait_protected(a)
        yield Joined(lab, hosts, outside)


def wait_protected(a: Node) -> None:
    """Wait until all SAs with the gateway are there."""
    a.wait_for("gateway protected", lambda: a.control.peer("gateway").get("state") == "protected" or None, 120)


# --- what an operator does at the gateway ---


def commands(a: Node, c: Node) -> list[str]:
    """Return the commands of the guide that set addresses and routes."""
    return [one for one in block("ip address add", a, c).splitlines() if not one.startswith("sysctl")]


def block(beginning: str, a: Node, c: Node) -> str:
    """Return the block of the guide that begins so, for these two."""
    blocks = re.findall(r"^```\w*\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    (text,) = (one for one in blocks if one.startswith(beginning))
    return str(text).replace("GATEWAY", c.address).replace("NODE", a.address)


def configure_strongswan(a: Node, c: Node) -> None:
    """Start charon and load the guide's connections."""
    directory = c.etc / "swanctl"
    for name in ("conf.d", "pkcs8"):
        (directory / name).mkdir(parents=True)
    c.meshsec("export", "swanctl", "--into", str(directory))
    for written in (directory / "conf.d").iterdir():
        written.unlink()
    (directory / "conf.d/mesh.conf").write_text(block("# /etc/swanctl", a, c), encoding="ascii")
    (directory / "swanctl.conf").write_text("include conf.d/*.conf\n", encoding="ascii")
    (directory / "pkcs8/meshsec.key").symlink_to(c.var / "node.key")
    c.daemons.charon.start()
    c.daemons.charon.wait_ready()
    environment = {"STRONGSWAN_CONF": str(c.etc / "strongswan.conf"), "SWANCTL_DIR": str(directory)}
    argv = ["swanctl", "--load-all", "--uri", f"unix://{c.run_directory}/charon.vici"]
    assert "loaded connection" in run(argv, env={**os.environ, **environment}).stdout


def configure_libreswan(a: Node, c: Node) -> None:
    """Start pluto with the guide's connections."""
    directory = c.etc / "ipsec"
    c.meshsec("export", "libreswan", "--into", str(directory))
    (directory / "meshsec.conf").write_text(block("# /etc/ipsec.d", a, c), encoding="ascii")
    c.daemons.pluto.daemon.start()
    c.daemons.pluto.wait_said("loading secrets from", 120)


def beside(node: Node, namespace: str, number: int) -> Host:
    """Connect another host to a node that has one already."""
    host = Host(namespace, number)
    Link.create(End(node.namespace, f"{INTERFACE}b"), End(namespace, "eth0"))
    for end, interface, suffix in ((node.namespace, f"{INTERFACE}b", 1), (namespace, "eth0", 5)):
        run(["ip", "-n", end, "address", "add", f"2001:db8:{number}::{suffix}/64", "dev", interface, "nodad"])
        run(["ip", "-n", end, "address", "add", f"192.168.{number}.{suffix}/24", "dev", interface])
    run(["ip", "-n", namespace, "route", "add", "default", "via", f"192.168.{number}.1"])
    run(["ip", "-n", namespace, "route", "add", "default", "via", f"2001:db8:{number}::1"])
    return host


# --- the claims ---


def test_hosts_behind_both_talk_and_the_relay_sees_esp_alone(joined: Joined) -> None:
    assert_hosts_talk(joined)


@pytest.mark.parametrize("family", [4, 6])
def test_a_large_transfer_fits(joined: Joined, family: int) -> None:
    first, second = joined.hosts
    source, target = (first.ipv4, second.ipv4) if family == 4 else (first.address, second.address)
    done = traffic.tcp_stream((first.namespace, source), (second.namespace, target), 300_000)
    assert done.octets == 300_000


def test_the_commands_know_the_networks(joined: Joined) -> None:
    a = joined.lab["a"]
    host = joined.hosts[1]
    status = json.loads(a.meshsec("status", "--json").stdout)
    schema("meshsec-status-1").validate(status)
    found = {one["network"]: (one["by"], one["peer"], one["problem"]) for one in status["networks"]}
    assert found == dict.fromkeys(host.networks, ("selectors", "gateway", ""))
    assert f"{host.networks[0]} through gateway by traffic selectors" in a.meshsec("status").stdout
    assert "inside its SA alone" in a.meshsec("explain", host.ipv4).stdout
    wait_no_drift(a)


def test_another_route_to_a_network_makes_no_difference(joined: Joined) -> None:
    a, first, second = joined.lab["a"], *joined.hosts
    past = [second.networks[1], "via", "inet6", joined.lab.end_of("b", "a").link_local(), "dev", "mesh-b"]
    a.run("ip", "route", "add", *past)
    with captured(joined.lab, "route") as captures:
        assert is_heard(second, (first.namespace, first.ipv4), 60)
    assert_nothing_clear(captures)
    wait_no_drift(a)
    a.run("ip", "route", "del", *past)


def test_the_gateway_may_begin(joined: Joined) -> None:
    """meshsecd takes over the SAs that it did not ask for."""
    a, c = joined.lab["a"], joined.lab["c"]
    a.daemons.agent.kill()
    a.charon.terminate("gateway")
    for child in ("pair", "lan4", "lan6"):
        if c.options.libreswan:
            c.daemons.pluto.whack("--initiate", "--name", child)
        else:
            c.charon.initiate("node", child)
    (before,) = a.charon.sas_with("gateway")
    assert len(before.installed) == 3
    a.daemons.agent.start()
    a.daemons.agent.wait_ready()
    wait_protected(a)
    first, second = joined.hosts
    for source in (second.address, second.ipv4):
        assert is_heard(first, (second.namespace, source), 60), source
    wait_no_drift(a)
    (after,) = a.charon.sas_with("gateway")
    assert after.child_spis == before.child_spis


def test_a_host_outside_of_the_selectors_is_not_heard(joined: Joined) -> None:
    """Nor does its gateway help: it puts the packets into the SA that is there for others."""
    first, (second, outside) = joined.hosts[0], (joined.hosts[1], joined.outside)
    for number, source in enumerate((outside.address, outside.ipv4)):
        assert not is_heard(first, (outside.namespace, source)), source
        sa = second.networks[number], first.networks[number]
        with (
            put_into_sa(joined.lab["c"], outside.networks[number], sa[1], sa),
            dropped_by_ipsec(joined, "XfrmInNoPols"),
        ):
            assert not is_heard(first, (outside.namespace, source)), source
    assert is_heard(first, (second.namespace, second.ipv4), 60)


def test_a_network_is_heard_through_its_own_sa_alone(joined: Joined) -> None:
    """So another peer cannot speak for it either, whose SA is not this one."""
    first, second = joined.hosts
    other = second.networks[0], first.networks[0]
    assert is_heard(first, (second.namespace, second.ipv4), 60)
    with (
        put_into_sa(joined.lab["c"], second.ipv4, first.ipv4, other),
        dropped_by_ipsec(joined, "XfrmInTmplMismatch"),
    ):
        assert not is_heard(first, (second.namespace, second.ipv4))
    assert is_heard(first, (second.namespace, second.ipv4), 60)


def test_a_node_sends_nothing_from_an_address_outside_of_the_selectors(joined: Joined) -> None:
    a, host = joined.lab["a"], joined.hosts[1]
    assert traffic.send((a.namespace, a.address), host.address) == 0, "the rules refuse it"
    assert is_heard(host, (a.namespace, "192.168.1.1"), 60)


def test_without_the_sa_nothing_passes_in_the_clear(joined: Joined) -> None:
    """Neither what comes from behind a, nor what a host of the gateway sends in the clear."""
    a, first, second = joined.lab["a"], *joined.hosts
    a.daemons.charon.kill()
    for node in (a, joined.lab["c"]):
        node.run("ip", "xfrm", "state", "flush")
        node.run("ip", "xfrm", "policy", "deleteall", "action", "allow")
    before = joined.dropped("networks_out"), joined.dropped("networks_in")
    with captured(joined.lab, "dead") as captures:
        for source, target in ((first.address, second.address), (first.ipv4, second.ipv4)):
            assert traffic.send((first.namespace, source), target) == 5, "the host itself is free to send"
        a.wait_for("ten drops", partial(joined.has_dropped, "networks_out", before[0] + 10), 60)
    assert_nothing_clear(captures)
    with ways_in_the_clear(joined):
        for source in (second.address, second.ipv4):
            assert not is_heard(first, (second.namespace, source)), source
        a.wait_for("ten drops", partial(joined.has_dropped, "networks_in", before[1] + 10), 60)
        for target in (second.address, second.ipv4):
            assert not is_heard(second, (first.namespace, first.address if ":" in target else first.ipv4)), target


def test_without_the_rules_each_of_these_packets_arrives(joined: Joined) -> None:
    """The control: same nodes, same packets. It removes the rules, so no test with these nodes follows."""
    a, first, second = joined.lab["a"], *joined.hosts
    a.daemons.agent.kill()
    a.run("nft", "flush", "ruleset")
    with ways_in_the_clear(joined), a.capture("control") as seen:
        for one, other in ((first, second), (second, first)):
            for source in (one.address, one.ipv4):
                assert is_heard(other, (one.namespace, source), 60), source
        wait_until("user data on the link", lambda: seen.sent[Kind.CLEAR] >= 5, [seen], 60)


@contextmanager
def dropped_by_ipsec(joined: Joined, reason: str) -> Iterator[None]:
    """Expect a's kernel to drop five packets for this reason."""
    before = ipsec_errors(joined.lab["a"])[reason]
    yield
    assert ipsec_errors(joined.lab["a"])[reason] >= before + 5, reason


@contextmanager
def put_into_sa(c: Node, source: str, target: str, sa: tuple[str, str]) -> Iterator[None]:
    """Let the gateway put what goes from ``source`` to ``target`` into the SA between two networks, whatever it is."""
    listing = c.run("ip", "xfrm", "policy").stdout
    found = re.search(
        rf"src {sa[0]} dst {sa[1]}.*?dir out.*?tmpl src (\S+) dst (\S+).*?reqid (\d+)", listing, re.DOTALL
    )
    assert found, listing
    selector = ["src", source, "dst", target, "dir", "out"]
    template = ["src", found[1], "dst", found[2], "proto", "esp", "reqid", found[3], "mode", "tunnel"]
    c.run("ip", "xfrm", "policy", "add", *selector, "priority", "1", "tmpl", *template)
    try:
        yield
    finally:
        c.run("ip", "xfrm", "policy", "delete", *selector)


@contextmanager
def ways_in_the_clear(joined: Joined) -> Iterator[None]:
    """Let routes lead between the two networks through the relay, as if there were no IPsec."""
    lab = joined.lab
    first, second = joined.hosts
    hops = [("a", "b", second), ("b", "c", second), ("c", "b", first), ("b", "a", first)]
    routes = [
        (lab[node], [family, "route", "replace", network, *way, "dev", f"mesh-{to}"])
        for node, to, host in hops
        for family, network in zip(("-6", "-4"), host.networks, strict=True)
        for way in [["via", *(["inet6"] if family == "-4" else []), lab.end_of(to, node).link_local()]]
    ]
    for node, route in routes:
        node.run("ip", *route)
    try:
        yield
    finally:
        for node, route in routes:
            node.run("ip", *("del" if word == "replace" else word for word in route))
