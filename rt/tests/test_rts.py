"""bench-rts: the decision of meshsec-radio over the model of the air does what it promises, and the sums are right."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rt import bench_rts
from rt.measure import plot, results
from rt.measure.results import Cell, MeasurementError, Result
from rt.rts import figures
from rt.rts.places import LONG, PLACES
from rt.rts.run import MEASURED, OFF, Run, Sender, _summed, built, run

pytestmark = pytest.mark.thorough

SECONDS = 120
"""Of virtual time: three intervals of evidence, a trial, and what it gains."""


@pytest.fixture(scope="module")
def program() -> Path:
    """Return the program that steps through the model of the air."""
    if shutil.which("cargo") is None:
        pytest.skip("not installed: cargo")
    return built()


@pytest.fixture(scope="module")
def shown(program: Path) -> dict[tuple[str, str], Run]:
    """Return a short run of some places without RTS and with the measured threshold, and of two with RTS always."""
    always = ("all hear all", "weak signal")
    shown = [(place, threshold) for place in ("hidden", "line of 3", *always) for threshold in (OFF, MEASURED)]
    shown += [(place, "0") for place in always]
    return {(place, threshold): run(program, PLACES[place], threshold, SECONDS, 1) for place, threshold in shown}


@pytest.mark.parametrize("place", ["hidden", "line of 3"])
def test_where_nodes_are_hidden_rts_is_found_and_gains(shown: dict[tuple[str, str], Run], place: str) -> None:
    measured, off = shown[place, MEASURED], shown[place, OFF]
    assert measured.goodput > 1.1 * off.goodput
    assert measured.repeated < off.repeated
    assert measured.changes > 0
    assert any("off delivers" in reason for reason in measured.reasons)


@pytest.mark.parametrize("place", ["all hear all", "weak signal"])
def test_where_nobody_is_hidden_it_stays_off_and_costs_next_to_nothing(
    shown: dict[tuple[str, str], Run], place: str
) -> None:
    measured, off, always = shown[place, MEASURED], shown[place, OFF], shown[place, "0"]
    assert measured.changes == 0
    assert measured.asking < 0.1
    assert always.goodput < off.goodput, "RTS costs something here, so staying off is right"
    assert measured.goodput > 0.98 * off.goodput


def test_the_same_seed_gives_the_same_run(program: Path) -> None:
    first, second = (run(program, PLACES["hidden"], MEASURED, 60, 7) for _ in range(2))
    assert first == second
    assert run(program, PLACES["hidden"], MEASURED, 60, 8) != first


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("", "there is no place"),
        ("{", "a line is no JSON"),
        ('{"stations": 65, "links": [], "flows": []}', "stations 65 is refused; allowed: 0 to 64"),
        ('{"stations": 2, "links": [[0, 2, 1.0]], "flows": []}', "station 2 is refused; allowed: 0 to 1"),
        ('{"stations": 2, "links": [], "flows": [{"path": [0]}]}', "allowed: two stations or more"),
        ('{"stations": 2, "links": [], "flows": []}\n{"seconds": 0, "rts": []}', "seconds 0 is refused"),
        ('{"stations": 2, "links": [], "flows": []}\n{"seconds": 1, "rts": [9999]}', "rts 9999 is refused"),
    ],
)
def test_a_place_that_cannot_be_is_refused(program: Path, lines: str, words: str) -> None:
    done = subprocess.run([program], input=lines, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert words in done.stderr


def test_a_program_that_ends_is_no_measurement(tmp_path: Path) -> None:
    program = tmp_path / "ends"
    program.write_text("#!/bin/sh\nread line\n")
    program.chmod(0o755)
    with pytest.raises(MeasurementError, match="has ended"):
        run(program, PLACES["hidden"], OFF, 1, 1)


def test_figures_are_summed_over_the_run() -> None:
    counted = {"frames": 10, "octets": 15000, "retries": 5, "failed": 1, "rts": 0}
    flow = {"delivered": 1000, "lost": 0, "delays": [0.002, 0.004]}
    voice = {"delivered": 98, "lost": 2, "delays": [0.01]}
    report = {"stations": [counted, {**counted, "retries": 0}], "flows": [flow, flow, voice]}
    found = _summed(PLACES["hidden"], [report], [Sender(None)], 0.25)
    assert found.goodput == pytest.approx(2000 * LONG * 8e-6)
    assert found.repeated == 0.25
    assert (found.bulk_delay, found.voice_delay, found.voice_lost) == pytest.approx((3.0, 10.0, 2.0))
    assert (found.asking, found.changes) == (0.25, 0)


def cells() -> list[Cell]:
    """Return goodput of two seeds in one place."""
    values = {OFF: [10.0, 20.0], "0": [15.0, 10.0], MEASURED: [20.0, 30.0]}
    return [
        Cell({"what": "goodput", "place": "hidden", "threshold": one}, "Mbit/s", got) for one, got in values.items()
    ]


def test_goodput_is_compared_seed_by_seed() -> None:
    assert bench_rts.ratios(cells()) == {("hidden", "0"): [1.5, 0.5], ("hidden", MEASURED): [2.0, 1.5]}


def test_the_report_names_the_best_fixed_threshold_which_may_be_none() -> None:
    (said,) = bench_rts._words(bench_rts.ratios(cells()))
    assert said == "hidden: goodput 1.75 of off by measuring, 1.00 with the best fixed one (off)"


def test_the_plot_has_each_threshold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (results, plot):
        monkeypatch.setattr(module, "DIRECTORY", tmp_path)
    result: Any = Result("rts", {"seconds": 1}, cells())
    figures.draw(result)
    assert (tmp_path / "rts.svg").read_text(encoding="utf-8").count("<svg") == 1
    assert figures.series(result, "goodput")[MEASURED] == {"hidden": [20.0, 30.0]}
