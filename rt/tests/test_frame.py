"""The frame of all benchmarks: a run keeps what it has measured whatever ends it, and all results have one form."""

import importlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rt.kernels import figure as kernels_figure
from rt.measure import plot, results
from rt.measure.frame import MOST_LEFT_OUT, Bench
from rt.sa_setup import figures as setup_figures
from rt.throughput import figures as throughput_figures
from tests.lab.basics.places import REPOSITORY
from tests.lab.basics.waiting import NotInTimeError

pytestmark = pytest.mark.thorough

MAINS = sorted(path.stem for path in (REPOSITORY / "rt").glob("bench_*.py"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the folder in which results are written."""
    monkeypatch.setattr(results, "DIRECTORY", tmp_path)
    monkeypatch.setattr(plot, "DIRECTORY", tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def _handlers() -> Any:
    """Restore the signal handlers that the frame replaces."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def run(faults: dict[int, list[BaseException]]) -> tuple[list[float], Bench]:
    """Return the samples of four visits, some of which fail."""
    bench = Bench("trial", "A trial.", 4)
    with bench.measuring():
        for number, _ in bench.in_rounds(["it"]):
            bench.take({"what": "visit"}, "s", [bench.visit("it", lambda number=number: _visit(number, faults))])  # type: ignore[misc]
    return [sample for cell in bench.cells() for sample in cell.samples], bench


def _visit(number: int, faults: dict[int, list[BaseException]]) -> float:
    if faults.get(number):
        raise faults[number].pop()
    return number


def test_what_was_given_up_is_counted_over_all_visits_of_a_cell() -> None:
    bench = Bench("trial", "A trial.", 2)
    for samples, given_up in (([1.0, 9.0], 1), ([2.0, 3.0], 0), ([9.0, 9.0], 2)):
        bench.take({"what": "visit"}, "s", samples, given_up)
    bench.take({"what": "other"}, "s", [1.0])
    first, other = bench.cells()
    assert (first.given_up, other.given_up) == (3, 0)


def test_a_visit_that_a_busy_machine_spoils_is_repeated_once() -> None:
    taken, bench = run({1: [NotInTimeError("no SA in 60 s")]})
    assert (taken, bench.cut_short) == ([0, 1, 2, 3], "")


def test_a_visit_that_is_spoilt_twice_ends_the_run_and_what_was_measured_stays() -> None:
    taken, bench = run({2: [NotInTimeError("again"), NotInTimeError("once")]})
    assert (taken, bench.cut_short) == ([0, 1], "again")


def test_what_cannot_be_measured_is_left_out_and_named_and_the_run_goes_on(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def starve() -> float:
        raise NotInTimeError("no SA in 60 s")

    bench = Bench("trial", "A trial.", 1)
    with bench.measuring():
        for _, name in bench.in_rounds(["quiet", "starving", "last"]):
            found = bench.attempt(name, starve if name == "starving" else lambda: 1.0)
            bench.take({"what": name}, "s", [] if found is None else [found])
    assert [cell.key["what"] for cell in bench.cells()] == ["quiet", "last"]
    assert bench.finish(bench.result({}), lambda _: None) == 0
    assert json.loads((folder / "trial.json").read_text())["params"]["left_out"] == ["starving: no SA in 60 s"]
    assert "left out: starving: no SA in 60 s" in capsys.readouterr().out


def test_when_nothing_can_be_measured_any_more_the_run_ends() -> None:
    def starve() -> float:
        raise NotInTimeError("no node answers")

    bench = Bench("trial", "A trial.", 100)
    with bench.measuring():
        for number, _ in bench.in_rounds(["it"]):
            if bench.attempt("it", starve if number >= 2 else lambda: 1.0):
                bench.take({"what": "it"}, "s", [1.0])
    assert (len(bench.left_out), bench.cut_short) == (MOST_LEFT_OUT, "no node answers")
    assert [cell.samples for cell in bench.cells()] == [[1.0, 1.0]]


def test_a_run_says_how_long_it_still_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([0.0, 60.0, 60.0, 180.0, 180.0, 200.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    bench = Bench("trial", "A trial.", 3)
    for _ in bench.in_rounds(["it"]):
        bench.visit("it", lambda: None)
    said = capsys.readouterr().err.splitlines()
    assert [line.partition("trial: ")[2] for line in said] == [
        "1 of 3: it",
        "2 of 3, 2 min left: it",
        "3 of 3, 2 min left: it",
    ]


def resumable(*argv: str) -> Bench:
    bench = Bench("trial", "A trial.", 2, resumable=True)
    bench.parse(argv)
    return bench


def visits(bench: Bench, faults: dict[int, list[BaseException]], made: list[int]) -> list[float]:
    """Return the samples of four visits; ``made`` are those that were measured in this run."""
    journal = bench.journal({"rounds": 4})
    bench.options.rounds = 4
    taken = []
    with bench.measuring():
        for number, _ in bench.in_rounds(["it"]):
            if str(number) in journal:
                bench.made_before()
            else:
                journal.add(str(number), bench.visit("it", lambda number=number: _visit(number, faults)))  # type: ignore[misc]
                made.append(number)
            taken.append(journal[str(number)])
    return taken


def test_a_run_that_was_interrupted_goes_on_where_it_ended(folder: Path) -> None:
    made: list[int] = []
    assert visits(resumable(), {2: [KeyboardInterrupt()]}, made) == [0, 1]
    with (folder / "trial.visits.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"visit": "2", "fou')  # the machine died meanwhile
    assert visits(resumable("--resume"), {}, made) == [0, 1, 2, 3]
    assert made == [0, 1, 2, 3], "none was measured twice"
    assert visits(resumable("--resume"), {}, made) == [0, 1, 2, 3]
    assert made == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("before", "told"),
    [
        (None, "no run that could go on; begin one without --resume"),
        ("nonsense\n", "no run that could go on; begin one without --resume"),
        ('{"about": {"rounds": 9}, "machine": {}, "versions": {}}\n', "about, rounds: 9 then, 4 now"),
    ],
)
def test_a_run_that_cannot_go_on_is_refused_and_what_is_there_stays(
    folder: Path, before: str | None, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "trial.visits.jsonl"
    if before is not None:
        path.write_text(before, encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        resumable("--resume").journal({"rounds": 4})
    assert ended.value.code == 2
    assert told in capsys.readouterr().err
    assert (path.read_text(encoding="utf-8") if path.exists() else None) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_keeps_what_was_measured(number: signal.Signals) -> None:
    bench = Bench("trial", "A trial.", 1)
    with bench.measuring():
        bench.take({"what": "before"}, "s", [1.0])
        os.kill(os.getpid(), number)
        bench.take({"what": "after"}, "s", [2.0])
    assert [cell.key["what"] for cell in bench.cells()] == ["before"]
    assert bench.cut_short == "interrupted"


def test_a_fault_of_the_benchmark_is_shown_and_loses_no_sample(capsys: pytest.CaptureFixture[str]) -> None:
    taken, bench = run({1: [LookupError("no such node")]})
    assert (taken, bench.cut_short) == ([0], "LookupError: no such node")
    assert "Traceback" in capsys.readouterr().err


def test_every_other_round_goes_in_reverse_order() -> None:
    bench = Bench("trial", "A trial.", 3)
    assert "".join(thing for _, thing in bench.in_rounds("abc")) == "abccbaabc"


def test_a_run_that_was_cut_short_is_written_drawn_and_marked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, bench = run({2: [KeyboardInterrupt()]})
    titles: list[str] = []

    def draw(result: results.Result) -> None:
        plot.boxes(result, "A trial")
        titles.append(plot.marked("A trial", result))

    assert bench.finish(bench.result({"rounds": 4}), draw) == 1
    written = json.loads((folder / "trial.json").read_text(encoding="utf-8"))
    assert written["params"]["cut_short"] == "interrupted"
    assert written["cells"][0]["samples"] == [0, 1]
    assert titles == ["A trial\n(cut short)"]
    assert all((folder / f"trial.{kind}").stat().st_size for kind in ("svg", "png"))
    assert "cut short: interrupted" in capsys.readouterr().err


def test_a_complete_run_ends_well_and_says_so_in_the_result(folder: Path) -> None:
    _, bench = run({})
    assert bench.finish(bench.result({"rounds": 4}), lambda _: None) == 0
    assert json.loads((folder / "trial.json").read_text(encoding="utf-8"))["params"]["cut_short"] == ""


def test_a_run_without_a_sample_leaves_an_earlier_result_alone(folder: Path) -> None:
    (folder / "trial.json").write_text("earlier", encoding="utf-8")
    _, bench = run({0: [KeyboardInterrupt()]})
    assert bench.finish(bench.result({}), lambda _: None) == 1
    assert (folder / "trial.json").read_text(encoding="utf-8") == "earlier"


@pytest.mark.parametrize("rounds", ["0", "-1", "many"])
def test_an_impossible_number_of_rounds_is_refused(rounds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        Bench("trial", "A trial.", 1).parse(["--rounds", rounds])
    assert ended.value.code == 2
    assert "--rounds" in capsys.readouterr().err


@pytest.mark.parametrize("module", MAINS)
def test_every_main_has_the_flags_of_all(
    module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [module, "--help"])
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(f"rt.{module}").main()
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    name = module.removeprefix("bench_").replace("_", "-")
    assert shown.startswith(f"usage: bench-{name}")
    assert "--rounds" in shown
    assert "QUICK=1" in shown


def test_a_plot_has_a_row_for_each_cell_with_its_median_and_says_what_is_good(folder: Path) -> None:
    cells = [results.Cell({"what": "slow", "of": "a"}, "ms", [1, 2, 900]), results.Cell({"what": "b"}, "Mbit/s", [5])]
    plot.boxes(results.Result("trial", {}, cells), "A trial", compare="of")
    drawn = (folder / "trial.svg").read_text(encoding="utf-8")
    for text in ("A trial", "slow, a", "ms (less is better)", "Mbit/s (more is better)"):
        assert f"<!-- {text} -->" in drawn


def height(path: Path) -> int:
    """Return the height of a PNG in pixels (its specification, section 11.2.2)."""
    return int.from_bytes(path.read_bytes()[20:24], "big")


@pytest.mark.parametrize("count", [1, 20, 21, 22, 100])
def test_cells_that_are_too_many_for_a_page_are_on_several_and_none_is_lost(folder: Path, count: int) -> None:
    (folder / "trial-99.png").write_bytes(b"of a run with more cells")
    (folder / "trial-figure.png").write_bytes(b"another figure")
    cells = [results.Cell({"what": f"row {number}."}, "ms", [1, 2]) for number in range(count)]
    cells += [results.Cell({"what": f"rate {number}."}, "Mbit/s", [1, 2]) for number in range(3)]
    plot.boxes(results.Result("trial", {}, cells), "A trial")
    drawn = sorted(path for path in folder.glob("trial*.png") if path.stem != "trial-figure")
    assert "trial-99.png" not in [path.name for path in drawn]
    assert all(height(path) <= plot.TALLEST for path in drawn)
    text = "".join(path.read_text(encoding="utf-8") for path in folder.glob("trial*.svg"))
    assert all(text.count(f"<!-- {cell.key['what']} -->") == 1 for cell in cells)


def test_no_page_is_taller_or_wider_than_the_limit_whatever_is_asked_for(folder: Path) -> None:
    with plot.page("trial", "A trial", (40, 40), "a line below"):
        pass
    assert height(folder / "trial.png") <= plot.TALLEST
    assert int.from_bytes((folder / "trial.png").read_bytes()[16:20], "big") <= plot.WIDEST
    assert "<!-- a line below -->" in (folder / "trial.svg").read_text(encoding="utf-8")


def test_a_footer_says_how_often_and_where_and_names_the_guest_that_measured() -> None:
    cells = [results.Cell({}, "ms", [1.0] * count) for count in (3, 5)]
    here = plot.footer(cells)
    assert here.startswith("n = 3 to 5 for each median; ")
    assert f"strongswan {results.versions()['strongswan']}" in here
    guest = plot.footer(cells, {"kernel": "6.12-rt", "system": "Debian 13", "strongswan": "6.0.1"})
    assert "in a guest: Linux 6.12-rt, Debian 13; host: " in guest
    assert "strongswan 6.0.1" in guest
    assert results.versions()["strongswan"] not in guest
    assert plot.origin([]).startswith("no sample")


SET_UPS = [
    results.Cell(
        {"part": "priority", "profile": profile, "place": "receiver", "nice": nice, "load": "saturating", "what": what},
        unit,
        samples,
    )
    for profile, nice in (("stock", -20), ("stock", 0), ("governor", 0), ("governor", -20))
    for what, unit, samples in (("total", "ms", [5.0, 7.0, 90.0]), ("frames missing", "% of frames", [0.0, 2.0]))
]
KERNELS = [
    results.Cell({"what": what, "profile": "stock", "load": load, "kernel": kernel}, unit, [3.0, 5.0, 400.0])
    for load in ("none", "loaded")
    for kernel in ("rt", "preempt=none")
    for what, unit in (("total", "ms"), ("cyclictest", "us"))
]
PLANES = [
    results.Cell({"what": what, "plane": plane, "hops": hops, "testbed": "namespaces"}, unit, [rate / hops])
    for plane, rate in (("plain", 9000.0), ("overlay", 900.0))
    for hops in (1, 2)
    for what, unit in (("TCP", "Mbit/s"), ("UDP left of the peak", "%"))
]


@pytest.mark.parametrize(
    ("draw", "cells", "name", "texts"),
    [
        (
            setup_figures.draw,
            SET_UPS,
            "figure-9-receiver",
            ("our suite, at nice 0", "our suite, governed", "nice value of the load"),
        ),
        (kernels_figure.draw, KERNELS, "by-kernel", ("rt", "preempt=none", "no load, stock")),
        (
            throughput_figures.draw,
            PLANES,
            "namespaces-figure-4-tcp",
            ("overlay", "TCP, Mbit/s (more is better), logarithmic", "hops"),
        ),
    ],
)
def test_the_figures_of_their_own_have_the_style_of_all(
    folder: Path, draw: Any, cells: list[results.Cell], name: str, texts: tuple[str, ...]
) -> None:
    draw(results.Result("throughput", {}, cells))
    drawn = (folder / f"throughput-{name}.svg").read_text(encoding="utf-8")
    assert (folder / f"throughput-{name}.png").stat().st_size
    assert all(f"<!-- {text} -->" in drawn for text in texts)


def test_a_figure_has_three_digits_and_no_exponent() -> None:
    assert [plot.figure(value) for value in (0.01234, 7.777, 7780.4)] == ["0.0123", "7.78", "7780"]
