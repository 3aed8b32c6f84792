"""Doctor's check of the date: a clock that is behind is noticed by what has been dated later."""

import pytest

from meshsec.core.explain.date_doctor import DAY, Evidence, judged
from meshsec.core.explain.findings import Level

NOW = 1_764_331_200.0
"""2025-11-28 12:00 UTC."""


def written(at: float, name: str = "node.key") -> Evidence:
    return Evidence(f"{name} was written", at, f"`touch {name}`")


@pytest.mark.parametrize("evidence", [[], [written(0.0)], [written(NOW - 400 * DAY), written(NOW + DAY)]])
def test_a_clock_that_is_not_behind_is_printed_for_a_person_to_read(evidence: list[Evidence]) -> None:
    check = judged(NOW, evidence)
    assert (check.level, check.fix) == (Level.OK, "")
    assert check.found == "it is 2025-11-28 12:00 UTC, if this node's clock is right"


def test_a_clock_that_is_a_year_behind_is_reported_with_the_latest_date_and_the_command_that_sets_it() -> None:
    check = judged(NOW, [written(NOW + 365 * DAY, "card"), written(NOW + 2 * DAY), written(0.0)])
    assert check.level is Level.WARN
    assert check.found == (
        "it says 2025-11-28 12:00 UTC, but card was written on 2026-11-28 12:00 UTC: it is at least 365 days behind"
    )
    assert "`date -s 'YYYY-MM-DD HH:MM'`" in check.fix
    assert check.fix.endswith("if the clock is right, `touch card`")


@pytest.mark.parametrize("now", [-1.0, 0.0, NOW, 2e12])
@pytest.mark.parametrize("at", [-1.0, 0.0, float(2**63 - 1)])
def test_dates_that_no_calendar_has_are_reported_all_the_same(now: float, at: float) -> None:
    check = judged(now, [Evidence("the fleet rescue signed its list", at, "tell him")])
    assert check.level is (Level.OK if at <= now + DAY else Level.WARN)
    assert " UTC" in check.found
