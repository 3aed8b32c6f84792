"""Two ends that hold different SAs agree again: both negotiated at once, or one has lost an SA that the other still
uses."""

import signal
from concurrent.futures import ThreadPoolExecutor

from tests.lab.basics.waiting import wait_until
from tests.lab.lab import Lab
from tests.lab.net.traffic import wait_arrivals
from tests.lab.node.node import Node
from tests.scenarios.expectations import assert_nothing_clear, captured, flow, spis

TRIES = 8


def test_negotiations_that_cross_leave_one_channel_that_carries(mesh: Lab) -> None:
    a, c = mesh["a"], mesh["c"]
    child = a.wait_protected(c).children[0].name
    with captured(mesh, "crossing") as captures:
        for node in (a, c):
            node.daemons.agent.kill()
        assert any(_cross(a, c, child) for _ in range(TRIES)), "their negotiations never crossed"
        mesh.start("meshsecd", nodes=[a, c])
        a.wait_protected(c)
        c.wait_protected(a)
        with flow(a, c) as running:
            wait_arrivals(running)
        spis(a, c)
    assert_nothing_clear(captures)


def _cross(a: Node, c: Node, child: str) -> bool:
    """Have both charons negotiate. Return whether each then has both IKE_SAs. A stopped charon loses no packet."""
    if a.charon.sas_with(c.name):
        a.charon.terminate(c.name)
    c.daemons.charon.send_signal(signal.SIGSTOP)
    with ThreadPoolExecutor() as pool:
        try:
            pool.submit(a.charon.initiate, c.name, child)
            pool.submit(c.charon.initiate, a.name, child)
        finally:
            c.daemons.charon.send_signal(signal.SIGCONT)
    return len(a.charon.sas_with(c.name)) == len(c.charon.sas_with(a.name)) == 2


def test_an_sa_that_the_other_end_has_lost_is_detected_and_made_again(mesh: Lab) -> None:
    """c loses its SA, the DELETE is lost too, and c's meshsecd, which would fix it, does not run."""
    a, c, link = mesh["a"], mesh["c"], mesh.link("b", "c")
    before = spis(a, c)
    with captured(mesh, "silence") as captures:
        c.daemons.agent.kill()
        link.cut()
        c.charon.terminate(a.name, force=True)
        wait_until("c's SA is gone", lambda: not c.charon.sas_with(a.name), [], 60)
        link.fix()
        with flow(a, c) as running:
            wait_arrivals(running, 10, 120)
        assert spis(a, c).isdisjoint(before)
        mesh.start("meshsecd", nodes=[c])
        c.wait_protected(a)
    assert running.result.lost > 0, "c had not lost its SA"
    assert_nothing_clear(captures)
