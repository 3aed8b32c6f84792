"""A partition heals: the SA is kept for the hold time and closed after it."""

from tests.lab.lab import Lab
from tests.lab.net.packets import Kind
from tests.lab.net.topology import line, names
from tests.lab.net.traffic import wait_arrivals
from tests.lab.node.options import Options
from tests.scenarios.expectations import assert_nothing_clear, captured, flow, spis


def test_a_peer_that_returns_within_the_hold_time_finds_its_sa(mesh: Lab) -> None:
    a, c = mesh["a"], mesh["c"]
    before = spis(a, c)
    with captured(mesh, "held") as captures, flow(a, c) as running:
        wait_arrivals(running)
        mesh.link("b", "c").down()
        a.wait_state(c, "held")
        c.wait_state(a, "held")
        mesh.link("b", "c").up()
        a.wait_state(c, "protected")
        wait_arrivals(running, 10)
    assert spis(a, c) == before
    assert captures["a"].counts[Kind.IKE] == 0, "somebody negotiated"
    assert_nothing_clear(captures)


def test_a_peer_that_stays_away_longer_loses_its_sa_and_gets_a_new_one() -> None:
    with Lab("hold", line(names(3)), Options(policy={"hold_time": 2})) as lab:
        lab.set_up().trust_all().start()
        a, c = lab["a"], lab["c"]
        a.wait_protected(c)
        c.wait_protected(a)
        before = spis(a, c)
        lab.link("b", "c").down()
        a.wait_state(c, "no-route")
        a.wait_for("no SA", lambda: not a.charon.sas_with(c.name), 60)
        lab.link("b", "c").up()
        a.wait_protected(c)
        c.wait_protected(a)
        assert spis(a, c).isdisjoint(before)
