"""The rig of bench-sa-setup measures what it says: cold set-ups, timed twice, in the profile that was asked for."""

import pytest

from rt.sa_setup import rig as setup_rig
from rt.sa_setup.rig import Circumstances, Rig
from tests.lab.node.node import Node


def test_each_sample_is_a_cold_set_up_timed_by_the_capture_and_by_charons_events() -> None:
    with Rig() as rig:
        before = _spis(rig)
        calm = rig.take(Circumstances(), 3)
        assert len(calm.times) == len(calm.phases) == 3
        assert before != _spis(rig)
        assert all(one.ike_sa_init + one.ike_auth <= one.total for one in calm.times)
        assert any(phases.get("ike_auth") is not None for phases in calm.phases)
        assert calm.round_trips
        assert calm.overdue == 0

        ranked = rig.take(Circumstances("paper-2007"), 1)
        assert len(ranked.times) == 1
        rig.responder.wait_for("charon's class", lambda: _nice(rig.responder) == {10}, 60)
        rig.take(Circumstances("stock"), 1)
        rig.responder.wait_for("charon's class of before", lambda: _nice(rig.responder) == {0}, 60)


def test_a_set_up_that_does_not_come_is_counted_and_the_next_block_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with Rig() as rig:
        with monkeypatch.context() as impatient:
            impatient.setattr(setup_rig, "SAMPLE_TIMEOUT", 1.0)
            cut = rig.take(Circumstances(loss=99), 1)
        assert (len(cut.phases), cut.overdue) == (0, 1)
        assert rig.take(Circumstances(), 1).overdue == 0


def _spis(rig: Rig) -> tuple[str, str]:
    return rig.initiator.wait_protected(rig.responder).spis


def _nice(node: Node) -> set[int]:
    """Return the nice values of charon's threads."""
    shown = node.run("ps", "-L", "-o", "ni=", "-p", str(node.daemons.charon.pid)).stdout
    return {int(value) for value in shown.split()}
