"""What is expected of islands that a link over the internet joins, whichever IP version the internet has."""

from collections.abc import Callable

from meshsec.adapters.kernel.islands import PROTOCOL
from meshsec.core.values.model import EspBackend
from tests.lab.basics.patience import patient
from tests.lab.basics.shell import run
from tests.lab.islands import Flooding, Islands
from tests.lab.net import traffic
from tests.lab.net.packets import Kind
from tests.lab.net.traffic import wait_arrivals
from tests.lab.node import capabilities
from tests.lab.node.node import Node
from tests.lab.observe.capture import Capture
from tests.scenarios.expectations import flow, spis

TAKEN_OVER = 1.0
"""Seconds in which a second uplink carries what the first one did."""
LARGE = 2_000_000
"""Bytes: more than a thousand segments, so that a path MTU that is wrong by one header stalls the transfer."""
_SEEN = "not (arp or icmp or icmp6 or ip6 proto 0 or udp port 500 or udp port 4500 or ip proto 50 or ip6 proto 50)"
"""What a capture on the internet may not show, as tcpdump filters it."""


def visible(capture: Capture) -> str:
    """Return what of a capture is neither IKE nor ESP, or bears an address of the mesh."""
    shown = ""
    for interface in capture.interfaces:
        file = str(capture.directory / f"{interface}.pcap")
        shown += run(["tcpdump", "-nr", file, f"({_SEEN}) or ip6 net fc00::/7"]).stdout
    return shown


def renew(mesh: Islands, connection: str) -> None:
    """End the SA of a path, and wait until it has another one."""
    b = mesh.lab["b"]
    before = {sa.unique_id for sa in b.charon.sas_with(connection)}
    b.charon.terminate(connection)
    b.wait_for("another SA", lambda: {one.unique_id for one in b.charon.sas_with(connection)} - before, 60)
    mesh.wait_paths(0, 1)


def pauses(mesh: Islands, fail: Callable[[], None]) -> list[float]:
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


def assert_joined_and_hidden(mesh: Islands) -> None:
    """Assert that the far ends reach each other, and that the internet sees IKE and ESP alone."""
    a, d = mesh.lab["a"], mesh.lab["d"]
    with mesh.capture("seen") as seen:
        with flow(a, d) as there, flow(d, a) as back:
            wait_arrivals(there, 20)
            wait_arrivals(back, 20)
        done = traffic.tcp_stream((a.namespace, a.address), (d.namespace, d.address), LARGE)
        assert done.octets == LARGE
        renew(mesh, "link:c:1")  # so that IKE is among what is seen
    assert not visible(seen)
    assert seen.counts[Kind.CLEAR] == 0, seen.clear
    assert seen.counts[Kind.ESP] > 0
    assert seen.counts[Kind.IKE] > 0
    assert there.result.lost == 0


def assert_second_uplink_takes_over(mesh: Islands) -> None:
    """Assert that user data pauses shortly when the first uplink falls silent, and that the far ends keep their SA."""
    ends = mesh.lab["a"], mesh.lab["d"]
    before = spis(*ends)
    try:
        assert max(pauses(mesh, mesh.uplinks["nat"].cut)) <= patient(TAKEN_OVER)
        assert spis(*ends) == before
    finally:
        mesh.uplinks["nat"].fix()


def _forget_sas(node: Node) -> None:
    """Empty the kernel of SAs, policies and the routes to them, which outlive daemons that are killed.

    With ESP in user space it has none.
    """
    if capabilities.probe().esp == EspBackend.KERNEL:
        node.run("ip", "xfrm", "state", "flush")
        node.run("ip", "xfrm", "policy", "flush")
        node.run("ip", "-6", "route", "flush", "table", "main", "proto", str(PROTOCOL))


def assert_closed_without_daemons(mesh: Islands) -> None:
    """Assert that b sends nothing in the clear without its daemons. The control: it does so without its rules, too."""
    b = mesh.lab["b"]
    mesh.wait_paths(0, 1)
    with mesh.capture("dead") as seen, flow(mesh.lab["a"], mesh.lab["d"]) as lost:
        wait_arrivals(lost, 10)
        b.daemons.agent.kill()
        b.daemons.charon.kill()
        _forget_sas(b)
        b.wait_for("HELLO messages that the rules drop", lambda: mesh.dropped("b") > 20, 60)
    assert not visible(seen)
    b.run("nft", "flush", "ruleset")
    with mesh.capture("open") as seen:
        b.wait_for("frames in the clear", lambda: seen.counts[Kind.CONTROL] + seen.counts[Kind.CLEAR] > 5, 60)
    assert visible(seen)


def assert_flood_keeps_nobody_out(mesh: Islands) -> None:
    """Assert that the linked nodes negotiate while a host in the internet floods c with first messages of IKE."""
    c = mesh.lab["c"]
    with Flooding(mesh.internet, mesh.public[1], mesh.public[0]) as sent:
        c.wait_for("dropped first messages", lambda: mesh.dropped("c", "meshsec_ike", "outside") > 200, 60)
        renew(mesh, "link:c:1")
        renew(mesh, "link:c:0")
    assert sent.count > 200
