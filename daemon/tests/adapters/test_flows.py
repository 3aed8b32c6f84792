"""The table of flows in a real kernel: which flows get the mark of a gateway, and what the mark does to packets."""

import asyncio
import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network

import pytest

from adapters.test_nftables import PATIENCE, listening, received, sendto, within
from meshsec.adapters.kernel.nft import Table
from meshsec.core.channels import nft_flows
from meshsec.core.networks.flow_marks import BASE
from meshsec.core.networks.networks import DEFAULTS, DEVICE
from meshsec.core.values.networks import TunnelRoute
from namespaces import ip, needs_root, wait_for

pytestmark = needs_root

NEAR, FAR = IPv6Address("fc00::5"), IPv6Address("fc00::6")
ONE, TWO, THREE = BASE + 1, BASE + 2, BASE + 3
CLIENT4, CLIENT6 = "10.1.0.5", "2001:db8:1::5"
OUTSIDE4, OUTSIDE6 = "203.0.113.9", "2001:db8:b::9"
INSIDE = tuple(map(ip_network, ("198.51.100.0/24", "2001:db8:3::/64", "::/0")))
TUNNEL = ip_address("2001:db8:8::9")
LIVING = f"the set living of the table inet {nft_flows.TABLE}"
MARKS = (0, 7, ONE, TWO, THREE)
_COUNTERS = [f"{kind}_{mark}" for kind in ("flow", "packet") for mark in MARKS]
_SEEN = "\n".join(
    [
        "table inet seen {",
        *(f"counter {name} {{ }}" for name in _COUNTERS),
        "chain forward { type filter hook forward priority 50;",
        *(f"meta l4proto udp meta mark {mark} counter name packet_{mark}" for mark in MARKS),
        "}",
        "chain output { type filter hook output priority 50;",
        *(f"udp dport 9 meta mark {mark} counter name packet_{mark}" for mark in MARKS),
        "}",
        "chain leaving { type filter hook postrouting priority 50;",
        f'oifname "{DEVICE}" meta mark != 0 drop',
        *(f"udp dport 9 ct mark {mark} counter name flow_{mark}" for mark in MARKS),
        "}",
        "}",
    ]
)


@dataclass
class Node:
    """A node between a client and the tunnel; the test runs in it."""

    client: str
    tunnel: str
    table: Table

    def apply(self, used: IPv6Address, **marks: int) -> bool:
        """Set the table for default routes to this peer, and the marks of the living gateways.

        Return whether another program had changed it.
        """
        return asyncio.run(self.table.settle(nft_flows.render(INSIDE), nft_flows.contents(_routes(used, **marks))))

    def send(self, target: str, port: int = 4000, *, own: bool = False) -> tuple[str, str]:
        """Send a datagram, and return the mark of its flow, and of the packet when it is routed."""
        source = CLIENT6 if ":" in target else CLIENT4
        if own:
            source = "2001:db8:1::1" if ":" in target else "10.1.0.1"
        before = _counted()
        within(None if own else self.client, lambda: sendto(ip_address(source), ip_address(target), 9, port))
        wait_for(lambda: _raised(before, "flow") != "", "a datagram that leaves")
        return _raised(before, "flow"), _raised(before, "packet")


def _routes(used: IPv6Address, **marks: int) -> list[TunnelRoute]:
    peers = {"near": NEAR, "far": FAR}
    routes = [TunnelRoute(network, used) for network in DEFAULTS.values()]
    for name, mark in marks.items():
        routes += [TunnelRoute(network, peers[name], mark=mark) for network in DEFAULTS.values()]
    return routes


def _counted() -> dict[str, int]:
    command = ["nft", "-j", "list", "counters", "table", "inet", "seen"]
    listed = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return {one["counter"]["name"]: one["counter"]["packets"] for one in listed["nftables"] if "counter" in one}


def _raised(before: dict[str, int], kind: str) -> str:
    after = _counted()
    return ", ".join(hex(mark) for mark in MARKS if after[f"{kind}_{mark}"] > before[f"{kind}_{mark}"])


@pytest.fixture
def node(new_namespace: Callable[[], str], inside: str) -> Node:
    client, tunnel = new_namespace(), new_namespace()
    subprocess.run(["sysctl", "-qw", "net.ipv6.conf.all.forwarding=1", "net.ipv4.ip_forward=1"], check=True)
    for device, other, address in (("lan0", client, "10.1.0.1/24"), (DEVICE, tunnel, "10.3.0.1/24")):
        ip("link", "add", device, "type", "veth", "peer", "name", device, "netns", other)
        for space in (inside, other):
            ip("-n", space, "link", "set", device, "up")
        ip("address", "add", address, "dev", device)
    ip("-6", "address", "add", "2001:db8:1::1/64", "dev", "lan0", "nodad")
    ip("-n", client, "address", "add", f"{CLIENT4}/24", "dev", "lan0")
    ip("-n", client, "-6", "address", "add", f"{CLIENT6}/64", "dev", "lan0", "nodad")
    for via in ("10.1.0.1", "2001:db8:1::1"):
        ip("-n", client, "route", "add", "default", "via", via)
    ip("-6", "address", "add", "2001:db8:8::1/64", "dev", DEVICE, "nodad")
    ip("-n", tunnel, "address", "add", "10.3.0.9/24", "dev", DEVICE)
    ip("-n", tunnel, "-6", "address", "add", f"{TUNNEL}/64", "dev", DEVICE, "nodad")
    ip("-n", tunnel, "-6", "route", "add", "2001:db8:1::/64", "via", "2001:db8:8::1")
    for via in ("10.3.0.9", str(TUNNEL)):
        ip("route", "add", "default", "via", via)
    subprocess.run(["nft", _SEEN], check=True)
    return Node(client, tunnel, Table(nft_flows.TABLE))


@pytest.mark.parametrize("target", [OUTSIDE4, OUTSIDE6])
@pytest.mark.parametrize("own", [False, True])
def test_a_flow_has_the_mark_of_the_gateway_through_which_it_began(node: Node, target: str, own: bool) -> None:
    node.apply(NEAR, near=ONE, far=TWO)
    assert node.send(target, own=own) == (hex(ONE), hex(ONE)), "its first packet too"
    node.apply(FAR, near=ONE, far=TWO)
    assert node.send(target, own=own) == (hex(ONE), hex(ONE)), "it stays"
    assert node.send(target, 4001, own=own) == (hex(TWO), hex(TWO)), "one that begins takes the gateway in use"


def test_a_flow_whose_gateway_died_gets_another_one_and_does_not_come_back(node: Node) -> None:
    node.apply(NEAR, near=ONE, far=TWO)
    assert node.send(OUTSIDE6)[0] == hex(ONE)
    node.apply(FAR, far=TWO)
    assert node.send(OUTSIDE6) == (hex(TWO), hex(TWO)), "the mark that is gone chooses nothing"
    node.apply(NEAR, near=THREE, far=TWO)
    assert node.send(OUTSIDE6) == (hex(TWO), hex(TWO))


@pytest.mark.parametrize("target", ["198.51.100.7", "2001:db8:3::7", "10.2.0.7", "fd77::7"])
def test_what_does_not_lie_outside_has_no_mark(node: Node, target: str) -> None:
    node.apply(NEAR, near=ONE, far=TWO)
    assert node.send(target) == (hex(0), hex(0))


def test_a_flow_that_leaves_by_an_uplink_of_the_nodes_own_has_no_mark(node: Node) -> None:
    ip("link", "add", "wan0", "type", "veth", "peer", "name", "wan1")
    for end in ("wan0", "wan1"):
        ip("link", "set", end, "up")
    ip("route", "add", "203.0.113.128/25", "dev", "wan0")
    node.apply(NEAR, near=ONE, far=TWO)
    assert node.send("203.0.113.200") == (hex(0), hex(0))


def test_a_flow_that_another_program_marked_is_left_alone(node: Node) -> None:
    other = "table inet other { chain in { type filter hook prerouting priority -160; ct mark set 7; }; }"
    subprocess.run(["nft", other], check=True)
    node.apply(NEAR, near=ONE, far=TWO)
    assert node.send(OUTSIDE6) == (hex(7), hex(0))


def test_flows_that_begin_in_the_tunnel_and_their_answers_are_routed_as_without_a_mark(node: Node) -> None:
    node.apply(NEAR, near=ONE, far=TWO)
    marked = f"table inet other {{ chain in {{ type filter hook prerouting priority -160; ct mark set {ONE}; }}; }}"
    subprocess.run(["nft", marked], check=True)
    before = _counted()
    with listening(node.client, ip_address(CLIENT6), 9) as heard, listening(node.tunnel, TUNNEL, 10) as back:
        back.sendto(b"user data", (CLIENT6, 9))
        assert received(heard, PATIENCE)
        heard.sendto(b"user data", (str(TUNNEL), 10))
        assert received(back, PATIENCE)
    assert _raised(before, "packet") == hex(0)
    node.apply(NEAR, near=ONE)
    assert node.send(OUTSIDE6) == (hex(ONE), hex(ONE)), "the control: a flow of the client with that mark"


def test_without_a_living_gateway_there_is_no_table(node: Node) -> None:
    assert nft_flows.contents([TunnelRoute(DEFAULTS[4], NEAR)]) == ""


def test_another_gateway_changes_no_rule_so_that_no_packet_misses_one(node: Node) -> None:
    def handles() -> list[str]:
        text = subprocess.run(["nft", "-a", "list", "table", "inet", nft_flows.TABLE], check=True, capture_output=True)
        return [line for line in text.stdout.decode().splitlines() if "chain" in line or "meta mark set" in line]

    node.apply(NEAR, near=ONE)
    before = handles()
    node.apply(FAR, near=ONE, far=TWO)
    assert handles() == before
    assert not node.apply(FAR, near=ONE, far=TWO)
    subprocess.run(["nft", "flush", "set", "inet", nft_flows.TABLE, "living"], check=True)
    assert asyncio.run(node.table.altered()) == [
        f"{LIVING} is not there as it was applied",
        f"{LIVING} is not meshsecd's",
    ]
    assert node.apply(FAR, near=ONE, far=TWO), "somebody else changed it"
    assert asyncio.run(node.table.altered()) == []
    assert node.send(OUTSIDE6)[0] == hex(TWO)


def test_what_another_program_changes_in_the_table_is_named(node: Node) -> None:
    def altered(*command: str) -> list[str]:
        node.apply(NEAR, near=ONE)
        subprocess.run(["nft", *command], check=True)
        return asyncio.run(node.table.altered())

    assert asyncio.run(node.table.altered()) == [], "nothing was applied"
    where = f"the table inet {nft_flows.TABLE}"
    assert set(altered("flush", "chain", "inet", nft_flows.TABLE, "beginning")) == {
        f"a rule of the chain beginning of {where} is not there as it was applied"
    }
    assert altered("insert", "rule", "inet", nft_flows.TABLE, "output", "accept") == [
        f"a rule of the chain output of {where} is not meshsecd's"
    ]
    assert altered("delete", "table", "inet", nft_flows.TABLE) == [f"{where} is not there"]
    node.apply(NEAR, near=ONE)
    first = ["nft", "insert", "rule", "inet", nft_flows.TABLE, "output", "ct", "mark", "@living", "meta", "mark", "set"]
    handle = _handle_of_last("output")
    subprocess.run([*first, "ct", "mark"], check=True)
    subprocess.run(["nft", "delete", "rule", "inet", nft_flows.TABLE, "output", "handle", handle], check=True)
    assert asyncio.run(node.table.altered()) == [
        f"the rules of {where} are not in the order in which they were applied"
    ]


def _handle_of_last(chain: str) -> str:
    command = ["nft", "-a", "list", "chain", "inet", nft_flows.TABLE, chain]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [line for line in text.splitlines() if "# handle" in line][-1].rpartition(" ")[2]
