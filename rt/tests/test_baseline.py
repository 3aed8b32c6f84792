"""Baselines: which figures count as worse, and that no cell vanishes unnoticed."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from rt.measure import baseline


def _result(*figures: tuple[str, str, float], machine: str = "a") -> dict[str, Any]:
    cells = [
        {"key": {"what": what}, "unit": unit, "n": 1, **dict.fromkeys(baseline.FIGURES, value), "samples": [value]}
        for what, unit, value in figures
    ]
    return {"schema": 1, "name": "x", "machine": {"cpu": machine}, "versions": {}, "params": {}, "cells": cells}


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give empty folders of results and baselines."""
    monkeypatch.setattr(baseline, "DIRECTORY", tmp_path)
    monkeypatch.setattr(baseline, "BASELINES", tmp_path / "baselines")
    return tmp_path


def _measure(folder: Path, *figures: tuple[str, str, float], machine: str = "a") -> None:
    (folder / "x.json").write_text(json.dumps(_result(*figures, machine=machine)), encoding="utf-8")


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(baseline.main, arguments)


@pytest.mark.parametrize(
    ("unit", "now", "status", "told"),
    [
        ("ms", 10.0, 0, ""),
        ("ms", 14.0, 0, ""),
        ("ms", 16.0, 1, "worse, 1.6 times"),
        ("ms", 5.0, 0, "better, 2.0 times"),
        ("ms", 0.0, 0, ""),
        ("Mbit/s", 16.0, 0, "better, 1.6 times"),
        ("Mbit/s", 5.0, 1, "worse, 2.0 times"),
        ("Mbit/s", 0.0, 1, "worse, inf times"),
    ],
)
def test_the_unit_decides_which_direction_is_worse(
    folders: Path, unit: str, now: float, status: int, told: str
) -> None:
    _measure(folders, ("one", unit, 10.0))
    assert _run("keep", "x").exit_code == 0
    _measure(folders, ("one", unit, now))
    result = _run("compare")
    assert result.exit_code == status
    assert told in result.output


def test_a_cell_that_is_no_longer_measured_is_reported(folders: Path) -> None:
    _measure(folders, ("one", "ms", 10.0), ("other", "ms", 1.0))
    _run("keep", "x")
    _measure(folders, ("one", "ms", 10.0))
    result = _run("compare", "x")
    assert result.exit_code == 1
    assert "not measured" in result.output


def test_a_baseline_has_the_figures_without_the_samples(folders: Path) -> None:
    _measure(folders, ("one", "ms", 10.0))
    _run("keep", "x")
    (cell,) = json.loads((folders / "baselines/x.json").read_text(encoding="utf-8"))["cells"]
    assert cell == {"key": {"what": "one"}, "unit": "ms", "n": 1, **dict.fromkeys(baseline.FIGURES, 10.0)}


def test_another_machine_is_reported_first(folders: Path) -> None:
    _measure(folders, ("one", "ms", 10.0))
    _run("keep", "x")
    _measure(folders, ("one", "ms", 10.0), machine="b")
    assert "machine, cpu: 'a' then, 'b' now" in _run("compare", "x").output


@pytest.mark.parametrize(("content", "told"), [("{", "Expecting"), ("[]", "schema 'list'"), ('{"schema": 7}', "7")])
def test_a_file_that_is_no_result_is_refused(folders: Path, content: str, told: str) -> None:
    (folders / "x.json").write_text(content, encoding="utf-8")
    _assert_refused(["keep", "x"], f"{folders}/x.json: ", told)


def test_a_missing_result_is_named(folders: Path) -> None:
    _assert_refused(["compare", "x"], f"{folders}/baselines/x.json", "No such file")


def _assert_refused(arguments: Sequence[str], *told: str) -> None:
    result = _run(*arguments)
    assert result.exit_code == 2
    assert all(text in result.stderr for text in told), result.stderr
