"""Two peers with a host behind each, and a relay between them that nobody trusts."""

import re
import select
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

from tests.lab.lab import Lab
from tests.lab.net import traffic
from tests.lab.net.packets import Kind
from tests.lab.net.topology import line, names
from tests.lab.net.traffic import Flow, wait_arrivals
from tests.lab.node.behind import Host
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.scenarios.expectations import assert_nothing_clear, captured

SILENCE = 0.5
"""Seconds to wait for a datagram that must not come."""


@dataclass(frozen=True)
class Sites:
    """Two peers, and a host behind each."""

    lab: Lab
    hosts: tuple[Host, Host]

    @property
    def ends(self) -> tuple[Node, Node]:
        """Return the two peers."""
        return self.lab["a"], self.lab["c"]

    def has_dropped(self, counter: str, count: int) -> bool:
        """Return whether a counter of a's rules has counted that many packets."""
        return self.dropped(counter) >= count

    def dropped(self, counter: str) -> int:
        """Return how many packets a counter of a's rules has counted."""
        text = self.lab["a"].run("nft", "list", "counter", "inet", "meshsec", counter).stdout
        found = re.search(r"packets (\d+)", text)
        assert found, text
        return int(found[1])


@contextmanager
def connected(prefix: str, *, a_accepts: bool = True, olsrd2: str = "", overlay: bool = False) -> Iterator[Sites]:
    """Start the mesh and yield it when each peer has a route to what is behind the other.

    Without ``a_accepts`` the configuration of a names no networks, so that it has no route. ``olsrd2`` are the nodes on
    which olsrd2 is the router. With ``overlay`` all nodes have the overlay beside ESP.
    """
    routers = {name: "olsrd2" if name in olsrd2 else "olsrv2d" for name in "abc"}
    first, second = (Host("", number).networks for number in (1, 3))
    accepted = dict.fromkeys(second if a_accepts else (), ("c",))
    a_options = Options(routers["a"], attached=first, accept=accepted, overlay=overlay)
    c_options = Options(routers["c"], attached=second, accept=dict.fromkeys(first, ("a",)), overlay=overlay)
    with Lab(prefix, [*line(names(3)), ("a", "m")], Options(overlay=overlay)) as lab:
        lab.set_up({"a": a_options, "b": Options(routers["b"], overlay=overlay), "c": c_options})
        a, b, c = (lab[name] for name in "abc")
        hosts = Host.behind(a, lab.outsider("ha"), 1), Host.behind(c, lab.outsider("hc"), 3)
        lab.trust("a", "c")
        b.assign_addresses()
        lab.start("router", "overlayd", nodes=[b]).start(nodes=[a, c])
        a.wait_protected(c)
        c.wait_protected(a)
        made = Sites(lab, hosts)
        for node, networks in ((a, second if a_accepts else ()), (c, first)):
            for network in networks:
                node.wait_for(f"a route to {network}", partial(is_routed, node, network), 60)
        yield made


def is_routed(node: Node, network: str) -> bool:
    """Return whether the node has a route to the network through the tunnel."""
    return "meshsec-nets" in node.run("ip", "route", "show", network, check=False).stdout + (
        node.run("ip", "-6", "route", "show", network, check=False).stdout
    )


def flows_between(sites: Sites) -> list[Flow]:
    """Return flows between the hosts, in both directions and both families."""
    first, second = sites.hosts
    return [
        Flow((one.namespace, source), (other.namespace, target))
        for one, other in ((first, second), (second, first))
        for source, target in ((one.address, other.address), (one.ipv4, other.ipv4))
    ]


def assert_hosts_talk(sites: Sites) -> None:
    """Assert that all flows between the hosts arrive completely, and that the relay sees ESP alone."""
    with captured(sites.lab, "hosts") as captures:
        for flow in flows_between(sites):
            flow.grace = 30.0
            with flow:
                wait_arrivals(flow, 20)
            assert flow.result.lost == 0
    assert_nothing_clear(captures)
    assert captures["b"].counts[Kind.ESP] >= 80


def is_heard(host: Host, sent: tuple[str, str] | Callable[[], object], seconds: float = SILENCE) -> bool:
    """Send user data to a host, from the address of a namespace or otherwise. Return whether it arrives."""
    with ExitStack() as stack:
        sockets = (traffic.udp_socket(host.namespace, one, traffic.PORT) for one in (host.address, host.ipv4))
        heard = [stack.enter_context(one) for one in sockets]
        if isinstance(sent, tuple):
            traffic.send(sent, host.address if ":" in sent[1] else host.ipv4)
        else:
            sent()
        return bool(select.select(heard, [], [], seconds)[0])
