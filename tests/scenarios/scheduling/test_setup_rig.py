"""The rig of bench-sa-setup measures what it says: cold set-ups, timed twice, in the profile that was asked for."""

import pytest

from rt.loads import encoder, on_demand
from rt.sa_setup import rig as setup_rig
from rt.sa_setup.policy import PAPERS, SUITES
from rt.sa_setup.rig import Circumstances, Load, Rig
from tests.lab.basics.waiting import NotInTimeError
from tests.lab.node.node import Node


def test_each_sample_is_a_cold_set_up_timed_by_the_capture_and_by_charons_events() -> None:
    with Rig() as rig:
        before = _spis(rig)
        calm = rig.take(Circumstances(), 3)
        assert (len(calm.timed), calm.unseen, calm.capture_alone) == (3, 0, 0)
        assert before != _spis(rig)
        assert all(one.ike_sa_init + one.ike_auth <= one.total for one, _ in calm.timed)
        assert any(phases.get("ike_auth") is not None for _, phases in calm.timed)
        assert calm.round_trips
        assert calm.overdue == 0

        ranked = rig.take(Circumstances("paper-2007"), 1)
        assert len(ranked.timed) == 1
        rig.responder.wait_for("charon's class", lambda: _nice(rig.responder) == {10}, 60)
        rig.take(Circumstances("stock"), 1)
        rig.responder.wait_for("charon's class of before", lambda: _nice(rig.responder) == {0}, 60)


def test_a_set_up_that_does_not_come_is_counted_and_the_next_block_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with Rig() as rig:
        with monkeypatch.context() as impatient:
            impatient.setattr(setup_rig, "SAMPLE_TIMEOUT", 1.0)
            cut = rig.take(Circumstances(loss=99), 1)
        assert (cut.timed, cut.overdue) == ([], 1)
        assert rig.take(Circumstances(), 1).overdue == 0


def test_with_the_papers_suite_and_beside_each_load_set_ups_are_timed() -> None:
    obstacle = encoder.missing() or on_demand.missing()
    if obstacle:
        pytest.skip(obstacle)
    with Rig() as rig:
        papers = Circumstances("paper-2007", Load("receiver", 19, "viewers"), policy=SUITES[PAPERS])
        watched = rig.take(papers, 2)
        assert rig.initiator.control.peer(rig.responder.name)["ike_algorithms"] == ["3DES_CBC", "MODP_1536"]
        assert len(watched.timed) == 2
        assert watched.delivered
        assert watched.delivered.missing_percent is not None
        assert watched.delivered.arrived > 0
        fetched = rig.take(Circumstances("stock", Load("relay", 0, "downloads")), 2)
        assert fetched.delivered
        assert (fetched.delivered.mbit_per_second or 0) > 8 * 4, "more than the viewers would take"
        assert rig.initiator.control.peer(rig.responder.name)["ike_algorithms"] != ["3DES_CBC", "MODP_1536"]
        live = rig.take(Circumstances("stock", Load("relay", 0, "keeping")), 1)
        assert (len(live.timed), bool(live.delivered and live.delivered.arrived)) == (1, True)


def test_after_a_visit_that_failed_the_next_one_finds_its_circumstances() -> None:
    with Rig() as rig:
        rig.responder.daemons.charon.stop()
        with pytest.raises(NotInTimeError):
            rig.take(Circumstances(), 1)
        assert len(rig.take(Circumstances(), 1).timed) == 1


def _spis(rig: Rig) -> tuple[str, str]:
    return rig.initiator.wait_protected(rig.responder).spis


def _nice(node: Node) -> set[int]:
    """Return the nice values of charon's threads."""
    shown = node.run("ps", "-L", "-o", "ni=", "-p", str(node.daemons.charon.pid)).stdout
    return {int(value) for value in shown.split()}
