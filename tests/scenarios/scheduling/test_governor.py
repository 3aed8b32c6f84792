"""Under a load that starves charon with stock scheduling, the governor raises charon for negotiations only.

The load is a program that computes without end at nice -20 on the only processor that the responder's charon may use.
Where the kernel makes autogroups (sched(7)), which rank above nice values, its autogroup has that value too. The tests
compare how long charon's threads waited for that processor, and not how long a set-up took, because other work on this
machine does not change the former.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from meshsec.adapters.scheduler import look, pressure, threads
from meshsec.core.scheduling.profiles import SchedulingClass, SchedulingPolicy
from tests.lab.basics.patience import patient
from tests.lab.lab import Lab
from tests.lab.net.topology import line, names
from tests.lab.node.node import Node
from tests.lab.node.slices import short_slices

SETUPS = 7
STARVED = 0.2
"""Seconds that charon's threads wait in one set-up beside the load; without it they wait some milliseconds."""
BASE = SchedulingClass()
RAISED = SchedulingClass(SchedulingPolicy.RR, priority=3)
BEHIND = SchedulingClass(SchedulingPolicy.RR, priority=2)
"""The class of the thread that waits for charon's sockets."""
PROFILE = """\
description = "charon as it is started, and one level above."
[charon]
nice = 0
[[ladder]]
policy = "rr"
priority = 3
"""
GENEROUS = "\n[scheduling.governor]\nburst = 1.0\nshare = 0.5\nbusy_limit = {limit}\n"
"""A budget that lasts until the set-ups are done, however slow the machine; the budget has its own tests."""

SPIN = """
import os
os.sched_setaffinity(0, {cpu})
os.setpriority(os.PRIO_PROCESS, 0, -20)
if os.path.exists("/proc/self/autogroup"):
    with open("/proc/self/autogroup", "w") as file:
        file.write("-20")
print(flush=True)
while True:
    pass
"""

pytestmark = [
    pytest.mark.skipif(bool(look().realtime_refused), reason="real-time classes are refused here"),
    pytest.mark.skipif(pressure.runs(os.getpid()) is None, reason="this kernel counts no run-queue delay"),
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="the load would take the only processor"),
]


@pytest.fixture
def short() -> Iterator[None]:
    """Set round-robin slices as on a node."""
    with short_slices() as refused:
        if refused:
            pytest.skip(refused)
        yield


@contextmanager
def loaded(cpu: int) -> Iterator[None]:
    """Occupy the whole processor."""
    argv = [sys.executable, "-c", SPIN.format(cpu={cpu})]
    spinner = subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert spinner.stdout
        spinner.stdout.readline()
        yield
    finally:
        spinner.kill()
        spinner.communicate()


def pin(pid: int, cpu: int) -> None:
    """Keep all threads of a process on these processors; threads that it starts later inherit this."""
    for thread in threads.threads_of(pid):
        os.sched_setaffinity(thread.tid, {cpu})


def classes(pid: int) -> set[SchedulingClass | None]:
    return {threads.read(thread).scheduling for thread in threads.threads_of(pid)}


def starved(node: Node, peer: Node, measured: Node) -> float:
    """Return what a set-up waits under load, after some others: a thread that slept has a credit first."""
    end = time.monotonic() + patient(120)
    while (spent := negotiate_from(node, peer, measured)) < STARVED:
        assert time.monotonic() < end, f"charon does not yield to the load: it waited {spent} s"
    return spent


def wait_until_idle(node: Node) -> None:
    """Wait until no thread of charon has or wants a processor. What it waited before is counted by then."""
    end = time.monotonic() + patient(120)
    while pressure.runnable(node.daemons.charon.pid):
        assert time.monotonic() < end, "charon never came to rest"
        time.sleep(0.002)  # The kernel sends no event for this.


def waited(node: Node) -> float:
    """Return the seconds that charon's threads have waited for a processor so far."""
    found = pressure.runs(node.daemons.charon.pid)
    assert found is not None
    return sum(one.waited for one in found.values())


def negotiate(node: Node, peer: Node) -> float:
    """Do one set-up from the beginning. Return what the threads of the node's charon waited meanwhile."""
    return negotiate_from(node, peer, measured=node)


def negotiate_from(node: Node, peer: Node, measured: Node | None = None) -> float:
    """Have the node initiate one set-up. Return what the threads of ``measured``'s charon waited, by default the
    peer's."""
    measured = measured or peer
    before = node.wait_state(peer, "protected", 120)["ike_spis"]
    peer.wait_state(node, "protected", 120)
    wait_until_idle(measured)
    begun = waited(measured)
    node.control.ask("renegotiate", peer=peer.name)

    def is_anew() -> bool:
        """Return whether there is a new SA, whichever end initiated it."""
        status = node.control.peer(peer.name)
        return status.get("state") == "protected" and status["ike_spis"] != before

    node.wait_for(f"another SA with {peer.name}", is_anew, 120)
    spent = waited(measured) - begun
    wait_until_idle(measured)
    return spent


def scheduling(node: Node) -> dict[str, Any]:
    governor: dict[str, Any] = node.control.ask("scheduling")["governor"]
    return governor


def govern(lab: Lab, node: Node, limit: float) -> None:
    """Start the same node's meshsecd again with a governor; charon and its SAs stay.

    ``limit``: how busy others may keep charon's processor before charon is raised; 1.0: it never is.
    """
    node.daemons.agent.stop()
    text = node.config.read_text(encoding="utf-8")
    node.config.write_text(
        text.replace('profile = "stock"', 'profile = "loop"') + GENEROUS.format(limit=limit), encoding="utf-8"
    )
    lab.start("meshsecd", nodes=[node])


@pytest.fixture
def pair() -> Iterator[Lab]:
    """Start two nodes with the profile of this file."""
    with Lab("governor", line(names(2))) as lab:
        for node in lab.nodes.values():
            profiles = node.etc / "scheduling"
            profiles.mkdir(parents=True)
            (profiles / "loop.toml").write_text(PROFILE, encoding="utf-8")
        lab.set_up().trust_all().start()
        lab.wait_full_mesh()
        yield lab


@pytest.mark.usefixtures("short")
@pytest.mark.timeout(900)
def test_the_governor_spares_charon_the_load_that_stock_yields_to_and_takes_the_class_back(pair: Lab) -> None:
    cpu = max(os.sched_getaffinity(0))
    peer, node = sorted(pair.nodes.values(), key=lambda one: is_initiator(one, pair))
    pin(node.daemons.charon.pid, cpu)
    with loaded(cpu):
        stock = starved(node, peer, measured=node)
        govern(pair, node, limit=1.0)
        negotiate(node, peer)  # What it lacked is known from here on.
        governed = [negotiate(node, peer) for _ in range(SETUPS)]
        decisions = scheduling(node)["decisions"]
    node.wait_for("charon has its class back", lambda: classes(node.daemons.charon.pid) == {BASE}, 120)
    assert scheduling(node)["level"] == 0
    explained = node.meshsec("explain", "--scheduling").stdout
    raised = [one for one in decisions if one["level"]]
    assert raised, "nothing was raised"
    assert {one["class"] for one in raised} == {str(RAISED)}
    assert f"negotiation with {peer.name}" in raised[0]["reason"]
    assert f"from nice 0 to rr 3, negotiation with {peer.name}" in explained
    assert "from rr 3 to nice 0" in explained
    # bench-sa-setup measures by how much: other load on this machine slows single set-ups of both.
    assert min(governed) < stock, f"stock {stock}, governed {governed}"


@pytest.mark.usefixtures("short")
@pytest.mark.timeout(900)
def test_beside_a_load_a_level_stands_before_a_peer_begins(pair: Lab) -> None:
    """The unit tests simulate that it ends with the load: here other programs may keep the processor busy too."""
    cpu = max(os.sched_getaffinity(0))
    node, peer = sorted(pair.nodes.values(), key=lambda one: is_initiator(one, pair))
    pin(node.daemons.charon.pid, cpu)
    with loaded(cpu):
        stock = starved(peer, node, measured=node)
        govern(pair, node, limit=0.5)
        node.wait_for("a level in force", lambda: scheduling(node)["mode"] == "guarding", 120)
        node.wait_for("one thread of lower priority", lambda: classes(node.daemons.charon.pid) == {RAISED, BEHIND}, 120)
        governed = [negotiate_from(peer, node) for _ in range(SETUPS)]
        explained = node.meshsec("explain", "--scheduling").stdout
    assert "others keep its processors busy" in explained
    assert statistics.median(governed) < stock / 2, f"stock {stock}, governed {governed}"


@pytest.mark.timeout(900)
def test_a_peer_that_begins_anew_at_once_is_met_with_the_class_without_any_load(pair: Lab) -> None:
    """Reading the SAs back comes too late: the set-up may be over by then."""
    node, peer = sorted(pair.nodes.values(), key=lambda one: is_initiator(one, pair))
    govern(pair, node, limit=1.0)
    node.wait_for("the governor at rest", lambda: scheduling(node)["mode"] == "rest", 120)
    before = len(scheduling(node)["decisions"])
    negotiate_from(peer, node)
    raised = node.wait_for("a decision", lambda: scheduling(node)["decisions"][before:], 120)[0]
    assert (raised["class"], peer.name in raised["reason"]) == (str(RAISED), True), raised
    node.wait_for("charon has its class back", lambda: classes(node.daemons.charon.pid) == {BASE}, 120)


def is_initiator(node: Node, lab: Lab) -> bool:
    """Return whether the node is the end whose turn it is, so that the other does not initiate too."""
    (other,) = (one for one in lab.nodes.values() if one is not node)
    return bool(node.control.peer(other.name)["initiator"])
