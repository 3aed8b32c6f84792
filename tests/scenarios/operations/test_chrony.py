"""The mesh keeps its own time: real chronyd processes take each other's time through the SAs."""

import json
from collections.abc import Iterator

import pytest

from meshsec.core.explain.clock import UnboundedError, apart
from tests.lab.basics.waiting import wait_until
from tests.lab.foreign import chrony
from tests.lab.foreign.chrony import Chrony, leader_of
from tests.lab.lab import Lab
from tests.scenarios.expectations import assert_nothing_clear, captured

MASTERS = ("a", "b")
SECONDS = 180.0

pytestmark = pytest.mark.skipif(not chrony.CHRONYD.exists(), reason="no chronyd is unpacked: tools/setup system")


@pytest.fixture
def clocks(mesh: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Chrony]]:
    """Prepare chronyd on a, b and c without starting it. doctor finds the chronyc that belongs to it."""
    monkeypatch.setenv("PATH", str(chrony.CHRONYC_DIRECTORY), prepend=":")
    made = {name: Chrony(mesh[name], MASTERS) for name in "abc"}
    yield made
    for one in made.values():
        one.daemon.kill()


def _time_check(one: Chrony) -> dict[str, str]:
    check: dict[str, str]
    (check,) = [check for check in json.loads(one.meshsec("doctor", "--json"))["checks"] if check["name"] == "time"]
    return check


@pytest.mark.timeout(900)
def test_masters_agree_one_follows_the_other_and_takes_over(mesh: Lab, clocks: dict[str, Chrony]) -> None:
    a, b, c = clocks.values()
    assert _time_check(c)["level"] == "warn"  # chronyd does not run.
    c.start()
    wait_until("chronyd of c answers", c.tracking, (), SECONDS)
    assert "not synchronised" in _time_check(c)["found"]
    assert _bound(clocks) == 0
    with captured(mesh, "time") as captures:
        a.start()
        b.start()
        leader = leader_of([a, b, c], [a, b], SECONDS)
        _doctor_agrees_with_chronyc(c, leader)
        wait_until("the clocks of a and c are bounded", lambda: 0 < _bound(clocks) < 1 or None, (), SECONDS)
        leader.daemon.kill()
        successor = b if leader is a else a
        leader_of([successor, c], [successor], SECONDS)
    assert_nothing_clear(captures)


def _bound(clocks: dict[str, Chrony]) -> float:
    """Return a bound in seconds on the clocks' difference between a and c; 0 while it is unknown."""
    known = {one.node.address: found for one in clocks.values() if (found := one.tracking())}
    try:
        return apart(clocks["a"].node.address, clocks["c"].node.address, known)
    except UnboundedError:
        return 0


def _doctor_agrees_with_chronyc(one: Chrony, leader: Chrony) -> None:
    def agreed() -> bool:
        check, tracking = _time_check(one), one.tracking()
        said = f"by {leader.node.address}, stratum {tracking.stratum if tracking else ''};"
        return check["level"] == "ok" and said in check["found"] and "error at most" in check["found"]

    wait_until("doctor says what chronyc says", agreed, (), SECONDS, last=lambda: _time_check(one))
