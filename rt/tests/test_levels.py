"""What bench-levels configures and draws."""

from pathlib import Path
from typing import Any

import pytest

from rt import bench_levels
from rt.measure import plot, results
from rt.measure.results import Cell, Result


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


def test_a_result_is_drawn_also_when_it_was_cut_short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(plot, "DIRECTORY", tmp_path)
    monkeypatch.setattr(results, "DIRECTORY", tmp_path)
    key = {"profile": "stock", "level": "card, x25519", "load": "idle"}
    cells = [Cell({**key, "what": "total"}, "ms", [3.0, 5.0]), Cell({**key, "what": "given up"}, "set-ups", [0])]
    bench_levels._draw(Result("levels", {"cut_short": "interrupted"}, cells))
    assert {path.suffix for path in tmp_path.iterdir()} == {".svg", ".png"}
