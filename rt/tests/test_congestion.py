"""The congestion experiment: what the guest leaves is judged, and the paper's values are those of its text."""

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from rt import bench_congestion
from rt.congestion import figures, paper
from rt.congestion.rig import AIR, CIRCUMSTANCES, NO_AIR, TOGETHER, in_turn
from rt.measure import plot, results
from rt.measure.results import Cell, MeasurementError, Result
from tests.lab.machines import guest as lab
from tests.lab.machines.guest import Outcome
from tests.lab.radio.cell import names

pytestmark = pytest.mark.thorough


def rows() -> list[dict[str, Any]]:
    """Return what a guest leaves in which congestion triples the delay."""
    return [
        {
            **under._asdict(),
            "how": names(clients),
            "client": client,
            "delay": (0.3 if under.congestion > under.wire / 2 else 10 / under.wire) * (1 + (under.air == AIR)),
            "throughput": 10.0 if under.congestion > under.wire / 2 else 30.0,
            "carried": 0.9 * min(under.congestion, under.wire),
        }
        for under, clients in product(CIRCUMSTANCES, TOGETHER)
        for client in clients
    ]


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, guest: Callable[[int, int], str], *flags: str) -> int:
    """Run the benchmark with a guest that leaves what ``guest`` returns of the rounds, or raises it."""

    def run_in_guest(command: str, results: Path, **_: object) -> Outcome:
        first, end = map(int, command.split()[-2:])
        results.mkdir(parents=True)
        (results / "versions").write_text("kernel 6.12\nsystem Debian 13\niperf3 3.18-2\n", encoding="utf-8")
        (results / "congestion.jsonl").write_text(guest(first, end), encoding="utf-8")
        if end - first > 1:
            raise KeyboardInterrupt
        return Outcome(0, "", "")

    for module in (results, plot):
        monkeypatch.setattr(module, "DIRECTORY", folder)
    for name, fake in (("obstacle", lambda: None), ("prepare", lambda: None), ("run_in_guest", run_in_guest)):
        monkeypatch.setattr(lab, name, fake)
    monkeypatch.setattr("sys.argv", ["bench-congestion", "--rounds", "3", *flags])
    return bench_congestion.main()


def test_a_run_that_is_interrupted_keeps_its_complete_rounds_and_resume_measures_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []

    def guest(first: int, end: int) -> str:
        asked.append((first, end))
        whole = json.dumps(rows()) + "\n"
        return whole * 2 + whole[:99] if first == 0 else whole

    def kept() -> tuple[str, set[int]]:
        found = json.loads((tmp_path / "congestion.json").read_text(encoding="utf-8"))
        return found["params"]["cut_short"], {cell["n"] for cell in found["cells"]}

    assert run(tmp_path, monkeypatch, guest) == 1
    assert kept() == ("interrupted", {2})
    assert run(tmp_path, monkeypatch, guest, "--resume") == 0
    assert kept() == ("", {3})
    assert asked == [(0, 3), (2, 3)]
    result = json.loads((tmp_path / "congestion.json").read_text(encoding="utf-8"))
    assert result["guest"] == {"kernel": "6.12", "system": "Debian 13", "iperf3": "3.18-2"}
    assert result["params"]["order"] == "who asks first alternates"
    assert not (tmp_path / "congestion.visits.jsonl").exists()


def test_who_asks_first_alternates_whichever_way_the_circumstances_go() -> None:
    assert [in_turn(number)[0] for number in range(4)] == [TOGETHER[0], TOGETHER[-1], TOGETHER[-1], TOGETHER[0]]
    for even in (0, 1):  # every other round has the circumstances backwards
        assert {in_turn(number)[0] for number in (even, even + 2)} == {TOGETHER[0], TOGETHER[-1]}
    assert all(set(map(tuple, in_turn(number))) == set(TOGETHER) for number in range(4))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda found: found[:-1], "47 pages, expected 48"),
        (lambda found: [{**row, "carried": 0.0} for row in found], "0 Mbit/s of others' traffic"),
        (lambda found: [{**row, "carried": min(row["carried"], 60)} for row in found], "60 Mbit/s .* to be 150"),
    ],
)
def test_a_page_that_is_missing_and_traffic_that_was_none_are_refused(spoil: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(MeasurementError, match=words):
        bench_congestion.read(json.dumps(spoil(rows())))


def result() -> Result:
    """Return the result of these rows."""
    keys = ("air", "wire", "congestion", "how", "client")
    cells = [
        Cell({"what": what, **{name: row[name] for name in keys}}, unit, [row[what]])
        for row in rows()
        for what, unit in (("throughput", "Mbit/s"), ("delay", "ms"))
    ]
    return Result("congestion", {}, cells)


def test_each_level_is_compared_with_no_congestion_on_the_same_wire() -> None:
    found = list(bench_congestion.ratios(result()))
    by_level = {
        (one["key"]["air"], one["key"]["congestion"], one["key"]["wire"]): one["median"]  # type: ignore[index]
        for one in found
        if one["key"]["what"] == "delay"  # type: ignore[index]
    }
    alike = {(100, 100): 3.0, (125, 100): 3.0, (150, 100): 3.0, (150, 1000): 1.0}
    assert by_level == pytest.approx({(air, *at): times for air in (AIR, NO_AIR) for at, times in alike.items()})


def test_the_plot_has_our_curves_and_the_papers(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (results, plot):
        monkeypatch.setattr(module, "DIRECTORY", tmp_path)
    figures.draw(result())
    drawn = (tmp_path / "congestion.svg").read_text(encoding="utf-8")
    assert drawn.count("<svg") == 1
    curves = figures._ours(result(), "delay", "paired")
    assert curves["client 2"] == {0: [0.2], 100: [0.6], 125: [0.6], 150: [0.6]}
    assert curves["client 2, no time on the air"] == {0: [0.1], 100: [0.3], 125: [0.3], 150: [0.3]}


def test_the_papers_values_agree_with_each_sentence_of_its_text() -> None:
    at = {(point.client, point.how, point.congestion): point for point in paper.POINTS}
    assert len(at) == len(paper.POINTS) == 16

    def change(client: str, how: str, of: str, levels: tuple[int, int]) -> float:
        values = [getattr(at[client, how, level], of) for level in levels]
        return float(values[1] - values[0])

    calm = [at[name, "paired", 0].throughput for name in ("iPhone", "iPad")]
    assert (mean(calm), calm[0] - calm[1]) == (14.5, 3)
    assert at["iPhone", "single", 0].throughput - at["iPad", "single", 0].throughput == 7
    assert change("iPhone", "paired", "delay", (0, 100)) == 64
    assert change("iPad", "single", "delay", (0, 100)) == 30
    assert change("iPad", "paired", "delay", (0, 100)) == -28
    assert [change(name, "single", "throughput", (100, 125)) for name in ("iPhone", "iPad")] == [-3, -3]
    assert [change(name, "paired", "throughput", (100, 125)) for name in ("iPhone", "iPad")] == [-4, -2]
    assert [change(name, "single", "delay", (100, 125)) for name in ("iPhone", "iPad")] == [19, 14]
    assert [change(name, "paired", "delay", (100, 125)) for name in ("iPhone", "iPad")] == [49, 64]
    assert [change("iPhone", how, "delay", (125, 150)) for how in ("single", "paired")] == [96, -108]
    assert [change("iPad", how, "delay", (125, 150)) for how in ("single", "paired")] == [-5, -16]
    assert [change("iPad", how, "throughput", (125, 150)) for how in ("single", "paired")] == [6, 1]
    assert [change("iPhone", how, "throughput", (125, 150)) for how in ("single", "paired")] == [-3, 6]
