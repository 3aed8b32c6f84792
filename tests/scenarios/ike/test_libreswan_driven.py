"""meshsecd drives libreswan's pluto as it drives charon: `[ike] daemon = "libreswan"`.

Where the kernel has no ESP, pluto gets no further than authentication. There the tests cover connections, a pluto that
dies and one that hangs; that user data is protected is shown in the guest.
"""

import shlex
import signal
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.lab.basics.waiting import wait_until
from tests.lab.faults.small_disk import small
from tests.lab.lab import Lab
from tests.lab.net.links import End
from tests.lab.net.packets import Kind
from tests.lab.net.topology import line, names
from tests.lab.net.traffic import wait_arrivals
from tests.lab.node import capabilities, libreswan
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.scenarios.expectations import (
    assert_no_drift,
    assert_nothing_clear,
    captured,
    differences,
    drift,
    flow,
    flow_without_loss,
    wait_no_drift,
)
from tests.scenarios.protection.leaktests import ended, started, waits_for

SUITES = list(libreswan.suites())
TRIES = 8
AUTHENTICATED = "established IKE SA; authenticated peer using authby=secret"

pytestmark = pytest.mark.skipif(not SUITES, reason="libreswan is not unpacked: tools/setup system")
needs_esp = pytest.mark.skipif(
    capabilities.probe().esp != "kernel", reason="this kernel has no ESP; `make guest` runs this there"
)


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Node, Node]]:
    """Start two nodes with the same libreswan that trust each other. The first is the initiator."""
    with Lab("driven", line(names(2)), Options(libreswan=SUITES[0], ipv4=True)) as lab:
        lab.set_up().trust_all().start("pluto", "router", "meshsecd")
        first, second = sorted(lab.nodes.values(), key=lambda node: node.fingerprint)
        yield first, second


def connections(node: Node) -> set[str]:
    """Return the names of pluto's connections."""
    lines = (line.removeprefix("000 ") for line in node.daemons.pluto.whack("--status").splitlines())
    return {line.split('"')[1] for line in lines if line.startswith('"')}


def wait_connections(node: Node, *expected: str) -> None:
    """Wait until pluto has these connections and no others."""
    node.wait_for(f"connections {expected}", lambda: connections(node) == set(expected) or None, 120)


def both(peer: Node) -> tuple[str, str]:
    """Return the names of the connections for a peer's two CHILD_SAs."""
    return f"meshsec-{peer.name}.mesh", f"meshsec-{peer.name}.mesh4"


def daemon_state(node: Node, *, up: bool) -> dict[str, Any]:
    """Wait for what meshsecd reports of pluto."""

    def reported() -> dict[str, Any] | None:
        found = node.control.ask("status").get("ike_daemon", {})
        return found if found.get("up") is up else None

    return node.wait_for(f"the IKE daemon {'up' if up else 'down'}", reported, 120)


def test_peers_are_configured_and_authenticate_by_the_pairs_secret(pair: tuple[Node, Node]) -> None:
    """A removed peer's connections and secret are removed too."""
    first, second = pair
    wait_connections(first, *both(second))
    wait_connections(second, *both(first))
    for node in pair:
        node.daemons.pluto.wait_said(AUTHENTICATED, 120)
    found = first.meshsec("doctor", check=False).stdout
    assert "libreswan" in found
    first.distrust(second)
    wait_connections(first)
    assert not list(first.run_directory.glob("*.secrets"))
    first.trust(second)
    wait_connections(first, *both(second))


def test_a_pluto_that_was_killed_is_configured_again(pair: tuple[Node, Node]) -> None:
    first, second = pair
    wait_connections(first, *both(second))
    first.daemons.pluto.daemon.kill()
    daemon_state(first, up=False)
    first.daemons.pluto.daemon.start()
    daemon_state(first, up=True)
    wait_connections(first, *both(second))


def test_a_pluto_that_hangs_is_reported(pair: tuple[Node, Node]) -> None:
    """The unit's watchdog uses the same check. meshsecd connects again to a pluto that goes on."""
    first, _ = pair
    daemon_state(first, up=True)
    first.daemons.pluto.daemon.send_signal(signal.SIGSTOP)
    assert "does not answer in time" in daemon_state(first, up=False)["reason"]
    first.daemons.pluto.daemon.send_signal(signal.SIGCONT)
    daemon_state(first, up=True)


@needs_esp
@pytest.mark.parametrize(("one", "other"), list(product(["", *SUITES], SUITES)))
def test_user_data_passes_as_esp_alone_and_again_after_pluto_was_killed(one: str, other: str) -> None:
    """``one`` and ``other`` are the Debian suites of libreswan at the two ends; empty: strongSwan."""
    with Lab("drivenesp", line(names(3)), Options(ipv4=True)) as lab:
        lab.set_up()
        a, b, c = lab["a"], lab["b"], lab["c"]
        b.assign_addresses()
        a.become(Options(ipv4=True, libreswan=one))
        c.become(Options(ipv4=True, libreswan=other))
        lab.trust("a", "c").start("router")
        for node in (a, c):
            lab.start("pluto" if node.options.libreswan else "charon", "meshsecd", nodes=[node])
        with captured(lab, "driven") as captures:
            wait_answers(a, c)
            c.daemons.pluto.daemon.kill()
            c.daemons.pluto.daemon.start()
            wait_answers(c, a)
        assert_nothing_clear(captures)
        assert captures[b.name].counts[Kind.ESP] >= 8, "two requests and two answers, twice"


@pytest.fixture(scope="module", params=SUITES)
def channel(request: pytest.FixtureRequest) -> Iterator[tuple[Node, Node]]:
    """Start two nodes with the same libreswan and wait for their channel. The first is the initiator."""
    with Lab("channel", line(names(2)), Options(libreswan=request.param, ipv4=True)) as lab:
        lab.set_up().trust_all().start("pluto", "router", "meshsecd")
        first, second = sorted(lab.nodes.values(), key=lambda node: node.fingerprint)
        wait_answers(first, second)
        yield first, second


@needs_esp
def test_what_changes_by_itself_is_no_drift(channel: tuple[Node, Node]) -> None:
    """SAs come, are rekeyed and go; one pluto is killed; a peer is removed and comes back. The other pluto goes on."""
    first, second = channel
    process = first.daemons.pluto.daemon.pid
    for options in (("--rekey-child", "--rekey-ipsec"), ("--rekey-ike",)):
        before = established_sas(first)
        rekey(first, second, options)
        assert_no_drift(first)
        first.wait_for("other SAs", partial(_differ, before, first), 60)
    for node in channel:
        assert_no_drift(node)
    second.daemons.pluto.daemon.kill()
    second.daemons.pluto.daemon.start()
    assert_no_drift(first)
    wait_answers(first, second)
    assert_no_drift(second)
    first.distrust(second)
    wait_no_drift(first)  # 5.2 deletes an SA whose peer was killed only after 12 s.
    first.trust(second)
    wait_answers(first, second)
    assert first.daemons.pluto.daemon.pid == process


@needs_esp
def test_what_others_remove_is_reported_until_it_is_fixed(channel: tuple[Node, Node]) -> None:
    first, second = channel
    wait_answers(first, second)
    ends = ("src", f"{first.address}/128", "dst", f"{second.address}/128")
    first.run("ip", "xfrm", "policy", "delete", *ends, "dir", "out")
    assert differences(first) == {("xfrm_policy", second.name)}
    first.run("ip", "xfrm", "state", "deleteall", "src", first.address, "dst", second.address, "proto", "esp")
    assert differences(first) == {("xfrm_policy", second.name), ("xfrm_state", second.name)}
    first.meshsec("bench", "sa-setup", second.name, "--count", "1", "--yes", "--into", str(first.directory))
    wait_answers(first, second)
    assert_no_drift(first)
    first.daemons.pluto.whack("--delete", "--name", f"meshsec-{second.name}.mesh4")
    assert ("connection", second.name) in differences(first)
    found = drift(first)["differences"]
    assert "CHILD_SA mesh4" in {one["what"] for one in found}
    for left in (one for one in found if one["where"] == "xfrm_state"):
        first.run(*left["mend"].split())  # 4.10 keeps states that it was told to delete.
    first.daemons.agent.stop()
    first.daemons.agent.start()
    first.daemons.agent.wait_ready()
    wait_answers(first, second)
    assert_no_drift(first)


@needs_esp
def test_its_own_leaktest_calls_a_node_with_libreswan_tight(channel: tuple[Node, Node], tmp_path: Path) -> None:
    """It stays tight after a rekeying, a kill and a restart of pluto, and without the rules."""
    first, second = channel
    wait_answers(first, second)
    killed, ended_in_order = (tmp_path / name for name in ("killed", "ended"))
    shutdown = shlex.join(first.daemons.pluto.whacking("--shutdown"))
    commands = (
        f"kill -9 {first.daemons.pluto.daemon.pid}; {waits_for(killed)}",
        f"{shutdown}; {waits_for(ended_in_order)}",
        "nft delete table inet meshsec",
    )
    asked = [word for command in commands for word in ("--while", f"sh -c {shlex.quote(command)}")]
    test = started(first, second.name, "--seconds", "2", "--provoke", "renegotiate", *asked)
    for flag in (killed, ended_in_order):
        wait_until(
            "pluto is gone", lambda: not first.daemons.pluto.daemon.running or None, [], 180, first.control.summary
        )
        first.daemons.pluto.daemon.start()
        wait_answers(first, second)
        flag.touch()
    status, view = ended(test)
    assert (status, view["verdict"]) == (0, "tight"), view
    assert view["phases"][0]["packets"]["esp"] > 0, view
    assert len(view["phases"]) == 5, view


@needs_esp
@pytest.mark.parametrize("suite", SUITES)
def test_meshsecd_and_pluto_start_where_run_is_full_and_nothing_leaks(suite: str) -> None:
    with Lab("full-run", line(names(2)), Options(libreswan=suite, ipv4=True)) as lab:
        a, b = lab["a"], lab["b"]
        with small(a.run_directory) as fill:
            lab.set_up().trust_all().start("pluto", "router", "meshsecd")
            wait_answers(a, b)
            with captured(lab, "full-run") as captures, flow(a, b) as running:
                before = established_sas(a)
                a.daemons.agent.kill()
                fill()
                a.daemons.agent.start()
                a.daemons.agent.wait_ready()
                wait_answers(a, b)
                assert established_sas(a) == before
                a.daemons.pluto.daemon.kill()
                fill()
                a.daemons.pluto.daemon.start()
                wait_answers(a, b)
                wait_arrivals(running)
            assert_nothing_clear(captures)


@needs_esp
def test_an_sa_that_the_other_end_has_lost_is_detected_and_made_again(channel: tuple[Node, Node]) -> None:
    """One end loses its SA, its DELETE is lost too, and its meshsecd, which would fix it, does not run."""
    first, second = channel
    wait_answers(first, second)
    before = established_sas(first)
    link = End(first.namespace, first.interfaces[0])
    second.daemons.agent.kill()
    link.filter("udp dport { 500, 4500 } drop")
    for conn in both(first):
        second.daemons.pluto.whack("--terminate", "--asynchronous", "--name", conn)
    second.wait_for("its SAs are gone", lambda: not established_sas(second) or None, 120)
    link.unfilter()
    with flow(first, second) as running:
        wait_arrivals(running, 10, 180)
    assert established_sas(first).isdisjoint(before)
    assert running.result.lost > 0, "the other end had not lost its SA"
    second.daemons.agent.start()
    second.daemons.agent.wait_ready()
    wait_answers(second, first)


@needs_esp
def test_negotiations_that_cross_leave_one_channel_that_carries(channel: tuple[Node, Node]) -> None:
    """Each pluto makes the SA that it initiated again when it ends, so closing one of two is not enough."""
    first, second = channel
    wait_answers(first, second)
    for node in channel:
        node.daemons.agent.kill()
    assert any(_cross(first, second) for _ in range(TRIES)), "their negotiations never crossed"
    for node in channel:
        node.daemons.agent.start()
        node.daemons.agent.wait_ready()
    for node in channel:
        node.wait_for("one IKE_SA", partial(_alone, node), 120)
    wait_answers(first, second)
    wait_answers(second, first)
    assert all(map(_alone, channel))


def _alone(node: Node) -> bool | None:
    return len(ike_sas(node)) == 1 or None


def _cross(first: Node, second: Node) -> bool:
    """Have both plutos negotiate at once. Return whether one of them then has both IKE_SAs."""
    for node, peer in ((first, second), (second, first)):
        for conn in reversed(both(peer)):
            node.daemons.pluto.whack("--terminate", "--name", conn)
        for number in ike_sas(node):
            node.daemons.pluto.whack("--deletestate", number)
        node.daemons.pluto.daemon.send_signal(signal.SIGSTOP)
    with ThreadPoolExecutor() as pool:
        try:
            for node, peer in ((first, second), (second, first)):
                pool.submit(node.daemons.pluto.whack, "--initiate", "--name", both(peer)[0])
        finally:
            for node in (first, second):
                node.daemons.pluto.daemon.send_signal(signal.SIGCONT)
    return 2 in (len(ike_sas(first)), len(ike_sas(second)))


@needs_esp
@pytest.mark.parametrize("what", ["IKE_SA", "CHILD_SA"])
def test_a_rekeying_between_two_libreswan_loses_little(channel: tuple[Node, Node], what: str) -> None:
    """Only a CHILD_SA's loses any: the responder, libreswan, uses it at once (RFC 7296, section 2.8)."""
    first, second = channel
    wait_answers(first, second)
    options = ("--rekey-ike",) if what == "IKE_SA" else ("--rekey-child", "--rekey-ipsec")
    with flow_without_loss(first, second) as going, flow_without_loss(second, first) as coming:
        wait_arrivals(going)
        wait_arrivals(coming)
        before = established_sas(first)
        rekey(first, second, options)
        first.wait_for(f"another {what}", partial(_differ, before, first), 60)
        wait_arrivals(going)
        wait_arrivals(coming)
    lost = going.result.lost, coming.result.lost
    print(f"{what} rekeyed by the first with {first.options.libreswan}'s libreswan, lost there and back: {lost}")
    assert lost[0] == 0
    assert lost[1] <= (0 if what == "IKE_SA" else 100), "what came before the keys were computed, at 50 a second"


def rekey(node: Node, peer: Node, options: Iterable[str]) -> None:
    """Rekey with the option that the node's version knows; the IKE_SA belongs to one of the two connections."""
    for option, conn in product(options, both(peer)):
        node.daemons.pluto.whack("--asynchronous", "--name", conn, option)


def established_sas(node: Node, kind: str = "") -> frozenset[str]:
    """Return the numbers of pluto's established SAs; a number is not used twice."""
    lines = (line.removeprefix("000 ") for line in node.daemons.pluto.whack("--showstates").splitlines())
    return frozenset(line[1:].split(":")[0] for line in lines if line.startswith("#") and f"ESTABLISHED_{kind}" in line)


def ike_sas(node: Node) -> frozenset[str]:
    """Return the numbers of pluto's established IKE_SAs."""
    return established_sas(node, "IKE_SA")


def _differ(before: frozenset[str], node: Node) -> bool | None:
    return not established_sas(node) <= before or None


def wait_answers(source: Node, target: Node) -> None:
    """Wait until meshsecd reports the channel protected and the target answers in both families."""
    source.wait_state(target, "protected", 180)
    for address in (target.address, target.ipv4):
        wait_until(f"an answer of {address}", partial(_answered, source, address), [], 180, source.control.summary)


def _answered(source: Node, address: str) -> bool | None:
    return source.run("ping", "-c1", "-W2", address, check=False).returncode == 0 or None
