"""What bench-levels configures and draws."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rt import bench_levels
from rt.measure import plot, results
from rt.measure.results import Cell, MeasurementError, Result
from rt.sa_setup.block import Block, Sample
from rt.sa_setup.rig import SAMPLE_TIMEOUT
from rt.sa_setup.times import SetupTimes


@pytest.mark.parametrize("level", bench_levels.LEVELS)
def test_a_levels_policy_leaves_one_key_exchange(level: str) -> None:
    table: Any = bench_levels.policy(level)
    (suite,), (asked,) = table["suites"], table["levels"]
    assert suite["name"] == asked["suite"]
    assert asked["second_secret"] is level.startswith("secret")
    assert level.endswith(suite["name"])


def test_the_quick_run_has_fewer_levels_but_all_profiles_and_loads() -> None:
    quick, whole = (bench_levels.planned(quick=quick) for quick in (True, False))
    assert set(quick) < set(whole)
    assert {profile for profile, _, _ in quick} == set(bench_levels.PROFILES)
    assert {load for _, _, load in quick} == set(bench_levels.LOADS)


def test_a_set_up_that_was_given_up_is_the_last_and_the_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    sa = SimpleNamespace(second_secret=True)
    ends = [SimpleNamespace(name=name, charon=SimpleNamespace(sas_with=lambda _: [sa])) for name in "ac"]
    sample = Sample(1.0, 2.0, {}, SetupTimes(1.0, 0.001, 0.002, 0.004, None))
    rig: Any = SimpleNamespace(initiator=ends[0], responder=ends[1], take=lambda *_: Block([sample], overdue=1))
    monkeypatch.setattr(bench_levels, "_prepare", lambda *_, **_given: None)
    times, overdue = bench_levels._take(rig, "stock", "secret, x25519", None, 2)
    assert (times["total"], overdue) == ([4.0, 1000 * SAMPLE_TIMEOUT], 1)
    assert (times["ike_sa_init"], times["ike_auth"]) == ([1.0], [2.0])
    with pytest.raises(MeasurementError, match="not of the level"):
        bench_levels._take(rig, "stock", "card, x25519", None, 2)


def test_a_result_is_drawn_also_when_it_was_cut_short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(plot, "DIRECTORY", tmp_path)
    monkeypatch.setattr(results, "DIRECTORY", tmp_path)
    key = {"profile": "stock", "level": "card, x25519", "load": "idle"}
    cells = [Cell({**key, "what": "total"}, "ms", [3.0, 5.0]), Cell({**key, "what": "given up"}, "set-ups", [0])]
    bench_levels._draw(Result("levels", {"cut_short": "interrupted"}, cells))
    assert {path.suffix for path in tmp_path.iterdir()} == {".svg", ".png"}


def test_the_picture_of_both_profiles_is_no_wider_than_a_page_and_says_how_often(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for module in (plot, results):
        monkeypatch.setattr(module, "DIRECTORY", tmp_path)
    cells = [
        Cell({"profile": profile, "level": level, "load": load, "what": "total"}, "ms", [3.0, 5.0])
        for profile, level, load in bench_levels.planned(quick=False)
    ]
    bench_levels._draw(Result("levels", {}, cells))
    assert int.from_bytes((tmp_path / "levels.png").read_bytes()[16:20], "big") <= plot.WIDEST
    assert "n = 2 for each median" in (tmp_path / "levels.svg").read_text(encoding="utf-8")
