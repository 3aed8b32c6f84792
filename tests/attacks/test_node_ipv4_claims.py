"""A trusted peer's card does not move traffic that is not the mesh's: its IPv4 address is a claim that is checked."""

import json
from collections.abc import Iterator

import pytest

from tests.lab.forge import account
from tests.lab.lab import Lab
from tests.lab.net.topology import line, names
from tests.lab.net.traffic import wait_arrivals
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.scenarios.expectations import flow

VICTIM = "9.9.9.9"
"""A host of the Internet. Nothing reaches it: the interface on the way leads nowhere."""
HONEST, DATAGRAMS = "10.77.0.2", 5


@pytest.fixture(scope="module")
def claimed() -> Iterator[Lab]:
    """Start a - b and put a card of b's that claims ``VICTIM`` into a's trust store, as a provisioning tool does.

    A routing rule of a's takes the traffic to ``VICTIM`` past the router, which believes b's routes: only the SA and
    the wall could move it here. charon's own rule comes before (220).
    """
    with Lab("claims", line(names(2)), Options(ipv4=True)) as lab:
        lab.set_up()
        a, b = lab["a"], lab["b"]
        _claim(b, VICTIM)
        for argv in (
            ("link", "add", "wan0", "type", "veth", "peer", "name", "wan1"),
            ("link", "set", "wan1", "up"),
            ("address", "add", "198.51.100.1/24", "dev", "wan0"),
            ("link", "set", "wan0", "up"),
            ("route", "add", "default", "via", "198.51.100.2", "table", "99"),
            ("rule", "add", "to", VICTIM, "lookup", "99", "pref", "300"),
            ("neighbour", "add", "198.51.100.2", "lladdr", "02:00:00:00:00:01", "dev", "wan0"),
        ):
            a.run("ip", *argv)
        lab.trust_all().start()
        a.wait_protected(b)
        yield lab


def _claim(node: Node, ipv4: str) -> None:
    """Have a node claim another IPv4 address, and read its card again."""
    text = node.config.read_text(encoding="utf-8").replace(f'ipv4 = "{node.ipv4}"', f'ipv4 = "{ipv4}"')
    node.config.write_text(text.replace('"10.77.0.0/16"', f'"10.77.0.0/16", "{VICTIM}/32"'), encoding="utf-8")
    node.ipv4 = ipv4
    node.card = json.loads(node.meshsec("key", "show", "--json").stdout)["card"]


def sent_by_wan(a: Node, target: str) -> int:
    """Return how many datagrams of an account to ``target`` leave by the interface to the Internet."""
    path = "/sys/class/net/wan0/statistics/tx_packets"
    before = int(a.run("cat", path).stdout)
    code = f"import socket; s = socket.socket(type=2); [s.sendto(b'x', ({target!r}, 9)) for _ in range({DATAGRAMS})]"
    account.try_once(a, code)
    return int(a.run("cat", path).stdout) - before


def closed(node: Node) -> str:
    """Return the addresses that the rules close."""
    return node.run("nft", "list", "set", "inet", "meshsec", "protected4").stdout


def selected(node: Node) -> str:
    """Return where charon leads traffic: its routes (ESP in user space) and the kernel's policies (kernel ESP)."""
    routes = node.run("ip", "-4", "route", "show", "table", "220", check=False).stdout
    return routes + node.run("ip", "xfrm", "policy", check=False).stdout


def test_traffic_to_a_host_that_a_peer_claims_goes_where_it_went(claimed: Lab) -> None:
    a, b = claimed["a"], claimed["b"]
    assert sent_by_wan(a, VICTIM) >= DATAGRAMS
    assert VICTIM not in closed(a)
    assert "wan0" in a.run("ip", "route", "get", VICTIM).stdout
    assert VICTIM not in selected(a)
    a.wait_protected(b)
    with flow(a, b) as running:
        wait_arrivals(running)


def test_the_operator_reads_which_claim_is_not_believed_and_why(claimed: Lab) -> None:
    a, b = claimed["a"], claimed["b"]
    said = f"{VICTIM} is outside of the mesh; allowed: 10.77.0.0/16"
    assert said in a.meshsec("explain", "b").stdout
    assert said in a.meshsec("doctor", check=False).stdout
    assert said in " ".join(a.meshsec("status", check=False).stdout.split())
    assert f"{VICTIM} (not believed: {said}" in a.meshsec("peer", "show", "b").stdout
    listed = a.meshsec("peer", "list", check=False)
    assert said in listed.stderr
    assert json.loads(a.meshsec("peer", "list", "--json", check=False).stdout)["peers"][0]["card"] == b.card


def test_a_card_that_claims_such_an_address_is_refused_and_the_address_is_shown(claimed: Lab) -> None:
    """The control: the same node's card with an address of the mesh is accepted."""
    a, b = claimed["a"], claimed["b"]
    a.distrust(b)
    refused = a.meshsec("peer", "add", "b", b.card, check=False)
    assert (refused.returncode, VICTIM in refused.stderr, "mesh_prefixes" in refused.stderr) == (1, True, True)
    _claim(b, HONEST)
    try:
        assert HONEST in a.meshsec("peer", "add", "b", b.card).stdout
    finally:
        a.distrust(b)
        _claim(b, VICTIM)
        a.install_card(b)
        a.meshsec("peer", "list", check=False)
        a.control.ask("reload")


def test_an_address_of_the_mesh_is_protected_until_the_node_reaches_it_elsewhere(claimed: Lab) -> None:
    """The control of the first test: a believed address is closed to clear traffic. A new LAN then ends the belief."""
    a, b = claimed["a"], claimed["b"]
    _claim(b, HONEST)
    b.daemons.agent.stop()
    claimed.start("meshsecd", nodes=[b])
    b.wait_for("b's charon has the address", lambda: f"{HONEST}/32" in b.charon.wanted_selectors(a.name), 60)
    a.install_card(b)
    a.control.ask("reload")
    a.wait_for("the address is closed and protected", lambda: HONEST in closed(a) and HONEST in selected(a), 60)
    assert sent_by_wan(a, HONEST) < DATAGRAMS
    a.run("ip", "address", "add", "10.77.0.200/24", "dev", "wan0")
    try:
        a.wait_for("it is not believed", lambda: "wan0" in a.meshsec("explain", "b").stdout, 30)
        assert sent_by_wan(a, HONEST) < DATAGRAMS, "what was a peer's address must not be reached in the clear"
        a.wait_protected(b)
    finally:
        a.run("ip", "address", "del", "10.77.0.200/24", "dev", "wan0")
    a.wait_for("it is believed again", lambda: "believed" not in a.meshsec("explain", "b").stdout, 30)
