"""bench-sa-setup-guest: each boot gives the cells of bench-sa-setup, and the picture has all of them."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from rt import bench_sa_setup_guest as bench
from rt.kernels import paper_figure
from rt.kernels.boot import Ground
from rt.kernels.cases import Case, of_paper
from rt.kernels.rig import SAMPLE_TIMEOUT
from rt.measure import plot, results
from rt.measure.results import Cell, MeasurementError, Result
from rt.sa_setup.block import Block, Sample
from rt.sa_setup.times import SetupTimes
from tests.lab.machines import guest

pytestmark = pytest.mark.thorough

SECONDS = {None: 0.02, -20: 4.0, 0: 0.03, 19: 0.02}
LOADED = Case("paper-2007", "paper-2007", "receiver", -20)


def found(nice: int | None, overdue: int = 0) -> dict[str, Any]:
    """Return what the journal has of a case whose set-ups take so long by the load's nice value."""
    times = SetupTimes(begin=1.0, ike_sa_init=0.01, ike_auth=0.01, total=SECONDS[nice], first_esp=None)
    return {"block": Block([Sample(0.9, 9.0, {}, times)] * 3, overdue=overdue).as_dict(), "latest": 6}


def cells(ground: Ground = bench.GROUNDS[0]) -> list[Cell]:
    """Return the cells of one boot."""
    return list(bench._cells(ground, {case: found(case.nice) for case in of_paper((-20, 0, 19))}))


def test_every_case_has_its_cell_with_the_key_of_the_bench_on_the_host() -> None:
    totals = [cell for cell in cells() if cell.key["what"] == "total"]
    assert len(totals) == 16
    (loaded,) = (cell for cell in totals if (cell.key["suite"], cell.key["place"], cell.key.get("nice"))
                 == ("paper-2007", "receiver", -20))  # fmt: skip
    assert loaded.key == {
        "part": "priority", "profile": "paper-2007", "place": "receiver", "nice": -20, "suite": "paper-2007",
        "load": "light", "what": "total", "source": "capture", "testbed": "wire", "kernel": "rt",
    }  # fmt: skip
    assert loaded.samples == [4000.0] * 3
    idle = [cell.key for cell in totals if cell.key["place"] == "none"]
    assert sorted(key["apart"] for key in idle) == ["receiver", "receiver", "relay", "relay"]  # type: ignore[type-var]


def test_set_ups_that_were_given_up_took_at_least_so_long_and_are_counted() -> None:
    """Else the median of the others would say that few set-ups are slow, because the slow ones are missing."""
    taken = list(bench._cells(bench.GROUNDS[-1], {LOADED: found(-20, overdue=1)}))
    (given_up,) = (cell for cell in taken if cell.key["what"] == "given up")
    assert (given_up.samples, given_up.key["testbed"]) == ([1], "radio")
    (total,) = (cell for cell in taken if cell.key["what"] == "total")
    assert (total.samples, total.given_up) == ([4000.0] * 3 + [1000 * SAMPLE_TIMEOUT], 1)


def test_a_case_that_gave_up_all_set_ups_has_a_total() -> None:
    only = {"block": Block(overdue=2).as_dict(), "latest": 6}
    taken = list(bench._cells(bench.GROUNDS[0], {LOADED: only}))
    (total,) = (cell for cell in taken if cell.key["what"] == "total")
    assert (total.samples, total.given_up) == ([1000 * SAMPLE_TIMEOUT] * 2, 2)


def test_the_kernels_and_the_radio_are_booted() -> None:
    grounds = [str(ground) for ground in bench.GROUNDS]
    assert "wire, rt" in grounds
    assert grounds[-1] == "radio, preempt=none"
    assert "wire, preempt=none" in grounds, "cables and radio are compared on one kernel"


def test_the_picture_has_each_boot_in_each_panel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (results, plot):
        monkeypatch.setattr(module, "DIRECTORY", tmp_path)
    both = [*cells(), *cells(bench.GROUNDS[-1])]
    paper_figure.draw(Result("sa-setup-guest", {}, both))
    assert (tmp_path / "sa-setup-guest.svg").read_text(encoding="utf-8").count("<svg") == 1
    totals = [cell for cell in both if cell.key["what"] == "total"]
    series = paper_figure.series(totals, "receiver", "ours")
    assert list(series) == ["wire, rt", "radio, preempt=none"]
    assert {at: samples[0] for at, samples in series["wire, rt"].items()} == pytest.approx(
        {"no load": 0.02, "nice -20": 4.0, "nice 0": 0.03, "nice 19": 0.02}
    )


def leave(folder: Path, samples: int, cases: Sequence[Case]) -> None:
    """Write what a guest leaves of these cases."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "release").write_text("6.12", encoding="ascii")
    (folder / "versions").write_text("kernel 6.12\nsystem Debian 13\ncharon-systemd 6.0.1-6\n", encoding="ascii")
    times = SetupTimes(begin=1.0, ike_sa_init=0.01, ike_auth=0.01, total=0.02, first_esp=None)
    block = Block([Sample(0.9, 9.0, {}, times)] * samples).as_dict()
    latency = {"thread": {"0": {"histogram": {"3": 1, "6": 1}, "cycles": 2, "max": 6}}}
    for case in cases:
        left = {"block": block, "stream": {}, "cyclictest": latency}
        (folder / f"{case}.json").write_text(json.dumps(left), encoding="utf-8")


def booted(_ground: Ground, folder: Path, samples: int, cases: Sequence[Case], _pause: float) -> None:
    """Leave what a whole boot leaves, without one."""
    leave(folder, samples, cases)


class Runs:
    """Runs of the benchmark in a directory of their own."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.directory = directory
        for module in (results, plot, bench):
            monkeypatch.setattr(module, "DIRECTORY", directory)
        monkeypatch.setattr(guest, "obstacle", lambda: None)
        monkeypatch.setattr(guest, "prepare", lambda: None)

    def run(self, boot: Callable[..., None], *arguments: str) -> tuple[int, dict[str, Any]]:
        """Return the exit status and the result."""
        self._monkeypatch.setattr(bench, "boot", boot)
        self._monkeypatch.setattr(sys, "argv", ["bench-sa-setup-guest", "--rounds", "2", *arguments])
        status = bench.main()
        return status, json.loads((self.directory / "sa-setup-guest.json").read_text(encoding="utf-8"))

    def assert_resumes(self) -> None:
        """Assert that another run makes the result whole."""
        status, result = self.run(booted, "--resume")
        assert (status, result["params"]["cut_short"], result["params"]["left_out"]) == (0, "", [])
        totals = [cell for cell in result["cells"] if cell["key"]["what"] == "total"]
        assert len(totals) == len(bench.GROUNDS) * len(bench.CASES)
        assert result["guest"] == {"kernel": "6.12", "system": "Debian 13", "strongswan": "6.0.1-6"}
        assert not list(self.directory.glob("*.jsonl")), "nothing is left to go on with"


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(tmp_path, monkeypatch)


def test_boots_may_be_made_one_by_one_and_the_result_is_whole_when_all_are(
    runs: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *others = map(str, bench.GROUNDS)
    status, result = runs.run(booted, "--boot", first)
    lacking = ", ".join(f"{name} ({len(bench.CASES)} of {len(bench.CASES)} cases)" for name in others)
    assert (status, result["params"]["cut_short"]) == (1, f"not measured yet: {lacking}")
    assert {cell["key"]["kernel"] for cell in result["cells"]} == {"rt"}
    assert "cut short: not measured yet" in capsys.readouterr().err
    runs.assert_resumes()


def test_cases_that_were_measured_before_an_interruption_are_kept(runs: Runs) -> None:
    """A boot takes a quarter of an hour; the case that was cut off while it was written does not count."""
    first = bench.GROUNDS[0]

    def interrupted(_ground: Ground, folder: Path, samples: int, cases: Sequence[Case], _pause: float) -> None:
        leave(folder, samples, cases[:3])
        (folder / f"{cases[2]}.json").write_text('{"block": {"sam', encoding="utf-8")
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)

    leave(bench._folder(first), 2, bench.CASES)  # of a run before, and no result of this one
    status, result = runs.run(interrupted, "--boot", str(first))
    assert (status, result["params"]["cut_short"].partition(";")[0]) == (1, "interrupted")
    totals = [cell for cell in result["cells"] if cell["key"]["what"] == "total"]
    assert [cell["key"].get("nice") for cell in totals] == [case.nice for case in bench.CASES[:2]]

    asked: list[Case] = []

    def others(_ground: Ground, folder: Path, samples: int, cases: Sequence[Case], _pause: float) -> None:
        asked.extend(cases)
        leave(folder, samples, cases)

    runs.run(others, "--resume", "--boot", str(first))
    assert asked == list(bench.CASES[2:]), "what was measured is not measured again"
    runs.assert_resumes()


def test_a_boot_that_fails_keeps_its_cases_and_does_not_end_the_others(runs: Runs) -> None:
    def fails(ground: Ground, folder: Path, samples: int, cases: Sequence[Case], _pause: float) -> None:
        leave(folder, samples, cases[:1] if ground == bench.GROUNDS[0] else cases)
        if ground == bench.GROUNDS[0]:
            raise MeasurementError("status 1")

    status, result = runs.run(fails)
    assert (status, len(result["params"]["left_out"])) == (1, 1)
    few, all_cases = len(bench.CASES) - 1, len(bench.CASES)
    assert result["params"]["cut_short"] == f"not measured yet: {bench.GROUNDS[0]} ({few} of {all_cases} cases)"
    runs.assert_resumes()
