"""The daemons get the classes of the profile, get them again after a restart, and get back their former ones."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from meshsec.adapters.scheduler import look, threads
from meshsec.core.scheduling.profiles import SchedulingClass, SchedulingPolicy
from tests.lab.basics import programs
from tests.lab.basics.processes import Daemon
from tests.lab.lab import Lab
from tests.lab.net.topology import line, names
from tests.lab.node.node import Node
from tests.lab.node.options import Options

CHARON = SchedulingClass(SchedulingPolicy.RR, priority=3)
POLLER = SchedulingClass(SchedulingPolicy.RR, priority=2)
"""The class of charon's thread that polls its sockets, once meshsecd knows the thread (ADR 0035)."""
ROUTER = SchedulingClass(nice=-3)
MESHSECD = SchedulingClass(nice=-2)
ORDINARY = SchedulingClass(nice=os.nice(0))
"""The class in which the tests, and so the daemons, were started."""
PROFILE = """\
description = "Low classes, for all daemons and none of the kernel's threads."
[charon]
policy = "rr"
priority = 3
[olsrv2d]
nice = -3
[meshsecd]
nice = -2
"""

pytestmark = pytest.mark.skipif(bool(look().realtime_refused), reason="real-time classes are refused here")


@pytest.fixture(scope="module")
def pair() -> Iterator[Lab]:
    """Start two nodes; a has a profile of its own besides its configuration, b has none."""
    with Lab("scheduling", line(names(2))) as lab:
        profiles = lab["a"].etc / "scheduling"
        profiles.mkdir(parents=True)
        (profiles / "mine.toml").write_text(PROFILE)
        lab.set_up({"a": Options(scheduling="mine")}).trust_all().start()
        yield lab


@pytest.fixture
def a(pair: Lab) -> Node:
    """Return node a with a protected channel to b, so that its meshsecd has seen the daemons."""
    pair["a"].wait_protected(pair["b"], 60)
    return pair["a"]


def classes(daemon: Daemon) -> set[SchedulingClass | None]:
    """Return the classes of all threads of a daemon."""
    return {threads.read(thread).scheduling for thread in threads.threads_of(daemon.pid)}


def wait_raised(node: Node) -> None:
    """Wait until charon's threads, the router and its signer have the profile's classes; charon's poller has the next
    lower one."""
    node.wait_for("charon's classes", lambda: classes(node.daemons.charon) == {CHARON, POLLER}, 60)
    node.wait_for("the router's class", lambda: classes(node.daemons.router) == {ROUTER}, 60)
    node.wait_for("its signer's class", lambda: classes(node.daemons.signer) == {ROUTER}, 60)


def journal(node: Node) -> Path:
    return node.run_directory / "scheduling.json"


def test_every_thread_of_every_daemon_has_its_class(a: Node) -> None:
    wait_raised(a)
    assert len(threads.threads_of(a.daemons.charon.pid)) > 10
    assert classes(a.daemons.router) == {ROUTER}
    assert MESHSECD in classes(a.daemons.agent)


def test_without_a_profile_nothing_is_touched(a: Node, pair: Lab) -> None:
    """The negative case: the same daemons with the profile that changes nothing."""
    b = pair["b"]
    b.wait_protected(a, 60)
    daemons = b.daemons.all()
    assert [classes(daemon) for daemon in daemons] == [{ORDINARY}] * len(daemons)
    assert not journal(b).exists()


def test_a_daemon_that_comes_back_has_its_class_again(a: Node, pair: Lab) -> None:
    a.daemons.charon.kill()
    a.wait_for("charon is gone", lambda: a.control.peer(pair["b"].name).get("state") != "protected", 60)
    pair.start("charon", nodes=[a])
    a.wait_protected(pair["b"], 60)
    wait_raised(a)


def test_a_signer_that_comes_back_has_its_class_again(a: Node, pair: Lab) -> None:
    wait_raised(a)
    a.daemons.signer.kill()
    pair.start("signer", nodes=[a])
    assert classes(a.daemons.signer) == {ORDINARY}, "it starts as whoever starts it has it"
    wait_raised(a)


def test_an_orderly_end_gives_back_what_was_there(a: Node, pair: Lab) -> None:
    wait_raised(a)
    a.daemons.agent.stop()
    try:
        given = [a.daemons.charon, a.daemons.router, a.daemons.signer]
        assert [classes(daemon) for daemon in given] == [{ORDINARY}] * 3
        assert not journal(a).exists()
    finally:
        pair.start("meshsecd", nodes=[a])


def test_what_a_killed_one_left_raised_is_put_back(a: Node, pair: Lab) -> None:
    wait_raised(a)
    a.daemons.agent.kill()
    try:
        assert (classes(a.daemons.charon), classes(a.daemons.router)) == ({CHARON, POLLER}, {ROUTER}), (
            "nobody could put it back"
        )
        a.run(programs.meshsecd(), "--config", str(a.config), "--restore-scheduling")
        assert (classes(a.daemons.charon), classes(a.daemons.router)) == ({ORDINARY}, {ORDINARY})
        assert not journal(a).exists()
    finally:
        pair.start("meshsecd", nodes=[a])


def test_a_successor_knows_what_a_killed_one_found(a: Node, pair: Lab) -> None:
    a.daemons.agent.kill()
    pair.start("meshsecd", nodes=[a])
    a.wait_protected(pair["b"], 60)
    wait_raised(a)
    a.daemons.agent.stop()
    try:
        assert (classes(a.daemons.charon), classes(a.daemons.router)) == ({ORDINARY}, {ORDINARY})
    finally:
        pair.start("meshsecd", nodes=[a])
