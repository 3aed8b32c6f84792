"""The papers' page: no caption is missing, and page, pictures and claims are those of the kept results."""

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec import structs

from rt.ccm import paper
from rt.congestion import paper as congestion
from rt.measure.results import QUICK_RUNS, WHOLE_RUNS
from rt.papers import __main__ as command
from rt.papers import form, judge, kept, page, picture, progress
from rt.papers.form import Claim, Diagram, Entry, FormError, Made, Panel, Selector, Series, Value, Work
from rt.papers.kept import Figure, KeptError, Results, interval
from rt.sa_setup import plan
from tests.lab.basics.places import REPOSITORY

PAPERS = command.DOCS / "papers"
MOST = 150_000
"""Bytes of a picture, so that the page opens on a slow line."""
CAPTIONS = form.captions()


@pytest.mark.parametrize("name", CAPTIONS)
def test_every_caption_has_an_entry_with_its_number_and_its_words(name: str) -> None:
    entries = form.works()[name].entry
    captions = {f"{entry.kind} {entry.number}": entry.caption for entry in entries if entry.kind != "text"}
    assert captions == CAPTIONS[name]
    assert len({entry.id for entry in entries}) == len(entries)


def test_no_work_is_without_a_table_of_captions() -> None:
    assert set(form.works()) <= set(CAPTIONS)


@pytest.mark.thorough
def test_the_committed_page_and_pictures_are_what_the_kept_results_give(tmp_path: Path) -> None:
    written = page.write(form.works(), form.results(), Results.kept(), tmp_path)
    for path in written:
        committed = command.DOCS / path.relative_to(tmp_path)
        assert committed.exists(), f"{committed} is not there; `make papers` draws it"
        assert committed.read_bytes() == path.read_bytes(), f"{committed} is old; `make papers` draws it"
    assert {path.name for path in PAPERS.glob("*")} == {path.name for path in written[1:]}


def test_the_values_of_the_dissertation_are_those_that_its_benchmark_draws() -> None:
    drawn = {
        (int(entry.number), value.series, value.at): value.value
        for entry in form.works()["agosto-padilla-2016"].entry
        for value in entry.value
        if entry.kind == "figure" and entry.number in {"13", "14", "15", "16"} and value.panel
    }
    for row in paper.ROWS:
        series = f"{row.what.rpartition(' ')[2]}, other end {row.other}"
        assert drawn.pop((row.figure, series, paper.SHORTEST)) == row.shortest
        assert drawn.pop((row.figure, series, paper.LONGEST)) == row.longest
    assert not drawn


def test_the_values_of_the_congestion_experiment_are_those_that_its_benchmark_draws() -> None:
    drawn = {
        (int(entry.number), value.panel, value.at, value.series): value.value
        for entry in form.works()["agosto-padilla-2016"].entry
        for value in entry.value
        if entry.kind == "figure" and value.panel in {"throughput", "delay"}
    }
    expected = {
        (point.figure, what, point.how, point.client): getattr(point, what)
        for point in congestion.POINTS
        for what in ("throughput", "delay")
    }
    assert drawn == expected


def test_what_the_entries_of_2007_take_is_what_their_benchmark_measures() -> None:
    planned = [key.of(what="total", source="capture") for key, _ in plan.cells(plan.Wanted())]
    taken = [
        selector
        for entry in form.works()["uno-oguchi-2007"].entry
        for selector in entry.selectors()
        if selector.result == "sa-setup"
    ]
    assert taken
    for wanted in (part for selector in taken for part in (selector.key, selector.over) if part):
        fitting = [key for key in planned if wanted.items() <= key.items()]
        assert len(fitting) == (1 if "nice" in wanted or "apart" in wanted else len(plan.NICE)), wanted


def test_pictures_are_small() -> None:
    sizes = {path.name: path.stat().st_size for path in PAPERS.glob("*.svg")}
    assert all(size <= MOST for size in sizes.values()), sizes


def test_every_claim_behind_a_sentence_holds_and_every_cell_is_there_in_the_kept_results() -> None:
    results = Results.kept()
    wrong = {
        f"{name} {entry.id}": found
        for name, work in form.works().items()
        for entry in work.entry
        if (found := [*judge.failed(entry, results), *judge.unfit(entry, results)])
    }
    assert not wrong


def test_no_sentence_says_a_word_twice() -> None:
    """Such as "2 times times as long", where the unit of a figure is in the sentence, too."""
    results = Results.kept()
    said = [
        judge.sentence(entry, results)
        for work in form.works().values()
        for entry in work.entry
        if judge.sayable(entry, results)
    ]
    assert not [found[0] for text in said if (found := re.search(r"\b([a-z]+) \1\b", text))]


def test_every_result_says_how_it_is_measured_and_every_kept_one_is_used() -> None:
    used = {name for work in form.works().values() for entry in work.entry for name in entry.results()}
    assert used <= set(form.results())
    assert {path.name.removesuffix(".json.xz") for path in kept.KEPT.glob("*")} <= used


@pytest.mark.parametrize("name", form.results())
def test_the_command_that_repeats_a_result_is_there(name: str) -> None:
    command_of = form.results()[name].command.split()
    assert command_of[:1] == ["make"]
    shown = subprocess.run(
        [command_of[0], "-n", *command_of[1:]], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    (module,) = re.findall(r"-m (rt\.bench_\w+)", shown.stdout)
    assert importlib.util.find_spec(module)


def test_a_kept_result_is_a_whole_run_with_its_samples() -> None:
    for path in kept.KEPT.glob("*.json.xz"):
        result = Results.kept().get(path.name.removesuffix(".json.xz"))
        assert result
        assert not result["params"]["quick"], path
        assert not result["params"].get("cut_short"), path
        assert all(len(cell["samples"]) == cell["n"] for cell in result["cells"]), path


# --- the machinery ---


def _result(**changes: Any) -> dict[str, Any]:
    cells = [
        {
            "key": {"what": "total", "nice": nice, "by": by},
            "unit": "ms",
            "samples": [nice + 20.0 + more for more in range(7)],
        }
        for by in ("a", "b")
        for nice in (-20, 0, 19)
    ]
    common = {
        "schema": 1,
        "name": "x",
        "machine": {"cpu": "c", "cores": 2, "kernel": "6", "system": "s"},
        "versions": {},
    }
    return {**common, "params": {"quick": False}, "cells": cells, "ratios": [], "peers": {}, **changes}


@pytest.fixture
def results(tmp_path: Path) -> Results:
    """Give results with one of the name x."""
    (tmp_path / "x.json").write_text(json.dumps(_result()), encoding="utf-8")
    return Results.measured(tmp_path)


CELL = Selector("x", {"by": "a", "nice": 0}, "ms")
ENTRY = Entry(
    "figure",
    "1",
    "Times",
    "section 1",
    "The time.",
    says="It is {calm}, and {more} times that beside a load.",
    value=(
        Value("time", 20, "section 1", "ms", "calm", CELL, panel="p", series="theirs", at=0),
        Value(
            "load",
            (30, 40),
            "section 1",
            "",
            "more",
            Selector("x", {"by": "a", "nice": 19}, "ms", {"by": "a", "nice": 0}),
        ),
    ),
    panel=(Panel("p", "nice", "nice value", "time, ms", (Series("ours", Selector("x", {"by": "a"}, "ms")),)),),
    claim=(Claim("more", at_least=1.5, at_most=2), Claim("more", "calm", at_most=1)),
)
WORK = Work("A 2000", "A: B. 2000.", "It asks.", (ENTRY,))
MADE = {"x": Made("make bench-x", 1)}


def test_a_difference_has_the_widest_interval(results: Results) -> None:
    found = results.figure(Selector("x", {"by": "a", "nice": 19}, "ms", less={"by": "a", "nice": 0}))
    assert found == Figure(19, 13, 25, 7)
    assert results.figure(Selector("x", {"by": "a", "nice": 19}, "ms", less={"by": "c"})) is None


@pytest.mark.parametrize(
    ("n", "low", "high"),
    [(1, 0, 0), (5, 0, 4), (6, 0, 5), (9, 1, 7), (20, 5, 14), (100, 39, 60)],
)
def test_the_interval_has_the_ranks_of_the_binomial_distribution(n: int, low: int, high: int) -> None:
    found = interval([float(value) for value in reversed(range(n))])
    assert found == Figure((n - 1) / 2, low, high, n)


@pytest.mark.parametrize(
    ("given_up", "at_least", "open_"), [(0, False, False), (1, False, True), (3, False, True), (4, True, True)]
)
def test_a_median_is_a_lower_bound_when_half_was_given_up(given_up: int, *, at_least: bool, open_: bool) -> None:
    samples = [30.0] * given_up + [float(value) for value in range(7 - given_up)]
    found = interval(samples, given_up)
    assert (found.at_least, found.open) == (at_least, open_)


def test_a_lower_bound_is_said_and_drawn_and_supports_no_upper_bound(results: Results, tmp_path: Path) -> None:
    cells = _result()["cells"]
    late = {**cells[1], "samples": [20.0, 30.0, 30.0], "given_up": 2}
    (tmp_path / "x.json").write_text(json.dumps(_result(cells=[cells[0], late, *cells[2:]])), encoding="utf-8")
    figure = Value("time", 20, "section 1", "ms", "calm", CELL)
    entry = structs.replace(ENTRY, value=(figure,), says="It is {calm}.", claim=(Claim("calm", at_most=40),))
    assert judge.sentence(entry, results) == "It is at least 30 ms."
    assert judge.words(figure, results) == ("at least 30", "20 to at least 30", "3")
    assert list(judge.failed(entry, results)) == ["calm is at least 30, allowed is at most 40"]
    assert not list(judge.failed(structs.replace(entry, claim=(Claim("calm", at_least=30),)), results))
    page.write({"w": structs.replace(WORK, entry=(entry,))}, MADE, results, tmp_path)
    assert "\N{GREATER-THAN OR EQUAL TO}" in (tmp_path / "papers/w-figure-1.svg").read_text(encoding="utf-8")
    with pytest.raises(KeptError, match=r"too many of .* were given up"):
        results.figure(Selector("x", {"by": "b", "nice": 0}, "ms", CELL.key))


def test_a_sentence_has_our_figures_and_a_quotient_the_widest_interval(results: Results) -> None:
    assert judge.sentence(ENTRY, results) == "It is 23 ms, and 1.83 times that beside a load."
    quotient = judge.figures(ENTRY, results)["more"]
    assert (quotient.low, quotient.high) == (39 / 26, 45 / 20)
    assert not list(judge.failed(ENTRY, results))
    assert not list(judge.missing(ENTRY, results))


def test_a_claim_that_does_not_hold_is_named_on_the_page_and_in_the_list(results: Results, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(
        json.dumps(
            _result(
                cells=[
                    {"key": {"by": "a", "nice": 0}, "unit": "ms", "samples": [1.0]},
                    {"key": {"by": "a", "nice": 19}, "unit": "ms", "samples": [9.0]},
                ]
            )
        ),
        encoding="utf-8",
    )
    assert list(judge.failed(ENTRY, results)) == [
        "more is 9, allowed is at least 1.5 and at most 2",
        "more / calm is 9, allowed is at most 1",
    ]
    page.write({"w": WORK}, MADE, results, tmp_path / "out")
    assert "do not support that sentence" in (tmp_path / "out/papers.md").read_text(encoding="utf-8")


def test_the_page_has_both_sides_the_machine_and_the_command(results: Results, tmp_path: Path) -> None:
    pictures = tmp_path / "papers"
    pictures.mkdir()
    (pictures / "gone.svg").write_text("of no entry", encoding="utf-8")
    first = {path.name: path.read_bytes() for path in page.write({"w": WORK}, MADE, results, tmp_path)}
    text = first["papers.md"].decode()
    assert "| time | ms | 20 | 23 | 20 to 26 | 7 | section 1 |" in text
    assert "| load |  | 30 to 40 | 1.83 |" in text
    assert "Linux 6" in text
    assert "*n = 7, of [x](#results).*" in text
    assert "| [x](../bench/quick/x.json) |  | c, 2 cores, Linux 6, s |  | `make bench-x` |" in text
    assert text.count("2 cores") == 1
    assert "2000: theirs" in first["w-figure-1.svg"].decode()
    assert first == {path.name: path.read_bytes() for path in page.write({"w": WORK}, MADE, results, tmp_path)}
    assert not (pictures / "gone.svg").exists()


def test_the_summary_says_what_ours_shows_only_while_its_claims_hold(results: Results, tmp_path: Path) -> None:
    work = structs.replace(WORK, found="It is slow.", ours="So is ours.", rests_on=("figure-1",))
    wrong = structs.replace(ENTRY, claim=(Claim("more", at_least=9),))
    for said, entry, found in (
        ("So is ours.", ENTRY, results),
        ("not in these results, see below", wrong, results),
        ("not measured yet", ENTRY, Results.measured(tmp_path / "nothing")),
    ):
        page.write({"w": structs.replace(work, entry=(entry,))}, MADE, found, tmp_path / "out")
        text = (tmp_path / "out/papers.md").read_text(encoding="utf-8")
        assert f"| [A 2000](#a-2000) | It is slow. | {said} |" in text


def test_bars_start_at_0_so_a_logarithmic_axis_has_points(results: Results, tmp_path: Path) -> None:
    for log_up, bars in ((False, True), (True, False)):
        panel = structs.replace(ENTRY.panel[0], kind="bars", log_up=log_up)
        page.write(
            {"w": structs.replace(WORK, entry=(structs.replace(ENTRY, panel=(panel,)),))}, MADE, results, tmp_path
        )
        drawn = (tmp_path / "papers/w-figure-1.svg").read_text(encoding="utf-8")
        assert ("<pattern" in drawn) is bars, "the work's bars are hatched"


def test_the_time_without_load_is_a_line_across(results: Results, tmp_path: Path) -> None:
    curve = Series("ours", Selector("x", {"by": "a"}, "ms"), without=Selector("x", {"by": "b", "nice": 0}, "ms"))
    for series, dashed in ((curve, True), (structs.replace(curve, without=None), False)):
        entry = structs.replace(ENTRY, panel=(structs.replace(ENTRY.panel[0], series=(series,)),))
        page.write({"w": structs.replace(WORK, entry=(entry,))}, MADE, results, tmp_path)
        drawn = (tmp_path / "papers/w-figure-1.svg").read_text(encoding="utf-8")
        assert ("dashed: without load" in drawn) is dashed


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("a", "node a", "node a"),
        ("esp", "kernel: ESP", "kernel: ESP"),
        ("a", "an end", "a\nan end"),
        ("client", "", "client"),
    ],
)
def test_a_box_says_its_name_once(name: str, text: str, shown: str) -> None:
    assert picture._label(name, text) == shown


def test_a_sentence_may_have_paragraphs(results: Results, tmp_path: Path) -> None:
    entry = structs.replace(ENTRY, says="It is {calm}.\n\nIt is not fast.")
    page.write({"w": structs.replace(WORK, entry=(entry,))}, MADE, results, tmp_path)
    assert "**Here:** It is 23 ms.\n\nIt is not fast.\n" in (tmp_path / "papers.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", CAPTIONS)
def test_every_work_has_its_row_in_the_summary_and_claims_behind_it(name: str) -> None:
    work = form.works()[name]
    assert work.found
    assert work.ours
    assert work.rests_on


def test_only_captions_of_the_work_are_in_quotation_marks(results: Results, tmp_path: Path) -> None:
    entries = tuple(structs.replace(ENTRY, kind=kind) for kind in ("figure", "table", "listing", "text"))
    page.write({"w": structs.replace(WORK, entry=entries)}, MADE, results, tmp_path)
    text = (tmp_path / "papers.md").read_text(encoding="utf-8")
    assert text.count('**"Times"**, section 1.') == 2
    assert text.count("*Times (no caption)*, section 1.") == text.count("*Times (in our words)*, section 1.") == 1


def test_a_figure_is_taken_per_second_of_the_run(tmp_path: Path) -> None:
    """A quick run sends for two seconds, and a whole one for ten."""
    (tmp_path / "x.json").write_text(json.dumps(_result(params={"seconds": 2})), encoding="utf-8")
    found = Results.measured(tmp_path).figure(structs.replace(CELL, per="seconds"))
    assert found == Figure(11.5, 10.0, 13.0, 7)


def test_an_entry_without_its_result_says_so_and_invents_nothing(tmp_path: Path) -> None:
    nothing = Results.measured(tmp_path)
    assert list(judge.missing(ENTRY, nothing)) == ["the result 'x' is not kept"]
    page.write({"w": WORK}, MADE, nothing, tmp_path)
    text = (tmp_path / "papers.md").read_text(encoding="utf-8")
    assert "| time | ms | 20 | not measured yet |" in text
    assert "**Not measured yet:** x." in text
    assert "It is" not in text.partition("### ")[2]


def test_an_entry_that_neither_answers_nor_says_why_is_missing(results: Results) -> None:
    bare = Entry("table", "1", "T", "s", "It shows.", value=(Value("v", 1, "s"),))
    assert list(judge.missing(bare, results)) == ["nothing of ours answers it, and it does not say why"]


@pytest.mark.parametrize(
    ("selector", "words"),
    [
        (Selector("x", {"by": "a"}, "ms"), "fits 3 cells, allowed is 1"),
        (Selector("x", {"nice": 0}, "ms"), "fits 2 cells, allowed is 1"),
    ],
)
def test_a_selector_that_fits_several_cells_is_refused(results: Results, selector: Selector, words: str) -> None:
    with pytest.raises(KeptError, match=words):
        results.figure(selector)


@pytest.mark.parametrize("changed", [{"by": "c"}, {"by": "a", "nice": 1}])
def test_what_a_run_does_not_have_is_named_instead_of_the_sentence(
    results: Results, tmp_path: Path, changed: dict[str, str | int | float | bool]
) -> None:
    value = Value("time", 20, "s", "ms", "calm", Selector("x", changed, "ms"))
    entry = Entry("figure", "1", "c", "s", "It shows.", says="It is {calm}.", value=(value,))
    assert list(judge.missing(entry, results)) == ["x has no cell for 'time'"]
    page.write({"w": Work("A 2000", "A.", "", (entry,))}, MADE, results, tmp_path)
    text = (tmp_path / "papers.md").read_text(encoding="utf-8")
    assert "| time | ms | 20 | no sample |" in text
    assert "**Not in this run:** x has no cell for 'time'." in text
    assert "It is" not in text.partition("### ")[2]


def test_a_curve_without_a_cell_is_named_and_its_panel_left_out(results: Results, tmp_path: Path) -> None:
    """The sentence stays, as it does not rest on the curve."""
    panel = Panel("q", "nicer", "n", "u", (Series("lost", Selector("x", {"by": "a"}, "ms")),), title="empty")
    entry = structs.replace(ENTRY, panel=(*ENTRY.panel, panel))
    assert list(judge.missing(entry, results)) == ["x has no cell for the curve 'lost'"]
    page.write({"w": structs.replace(WORK, entry=(entry,))}, MADE, results, tmp_path)
    assert "**Here:** It is 23 ms" in (tmp_path / "papers.md").read_text(encoding="utf-8")
    assert "empty" not in (tmp_path / "papers/w-figure-1.svg").read_text(encoding="utf-8")
    alone = Work("A", "A.", "", (Entry("figure", "1", "c", "s", "s", panel=(panel,)),))
    assert [path.name for path in page.write({"w": alone}, MADE, results, tmp_path)] == ["papers.md"]


def test_a_curve_that_fits_two_cells_at_a_place_is_refused(results: Results, tmp_path: Path) -> None:
    panel = Panel("p", "nice", "n", "u", (Series("both", Selector("x", {"what": "total"}, "ms")),))
    work = Work("A", "A.", "", (Entry("figure", "1", "c", "s", "s", panel=(panel,)),))
    with pytest.raises(KeptError, match="fits two cells at nice = -20"):
        page.write({"w": work}, MADE, results, tmp_path)


def test_a_line_to_no_box_is_refused(results: Results, tmp_path: Path) -> None:
    diagram = Diagram("d", (form.Box("A", (0, 0)),), (form.Line(("A", "B")),))
    work = Work("A", "A.", "", (Entry("figure", "1", "c", "s", "s", diagram=(diagram,)),))
    with pytest.raises(KeptError, match="the end 'B' is no box; boxes are A"):
        page.write({"w": work}, MADE, results, tmp_path)


_HEAD = (
    'short = ""\ncitation = ""\nabout = ""\n'
    'entry = [{kind = "table", number = "1", caption = "", where = "", shows = "", '
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            _HEAD + 'figure = [{name = "n", what = "w", ours = {result = "x", key = {}, unit = "", over = {a = 1}, '
            "less = {a = 1}}}]}]",
            "`over` and `less` together are not allowed; allowed is one of them",
        ),
        ("short = 1", r"w.toml: Expected `str`, got `int` - at `\$.short`"),
        ('[[entry]]\nkind = "photo"', "Invalid enum value 'photo'"),
        ('[[entry]]\nkindd = "table"', "unknown field `kindd`"),
        (
            _HEAD + 'claim = [{of = "nobody", at_least = 1}]}]',
            "w.toml: Table 1: claim: nobody is not allowed; allowed are",
        ),
        ('rests_on = ["table-1"]\n' + _HEAD + 'says = ""}]', "w.toml: rests_on: table-1 is not allowed; allowed are $"),
        (_HEAD + 'says = "{it} is"}]', "w.toml: Table 1: says: it is not allowed; allowed are"),
        (
            _HEAD + 'value = [{what = "v", value = 1, where = "s", panel = "p"}]}]',
            "value 'v': panel 'p' is not allowed; allowed are",
        ),
    ],
)
def test_a_file_that_deviates_is_refused_with_its_field(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "w.toml").write_text(text, encoding="utf-8")
    with pytest.raises(FormError, match=words):
        form.work(tmp_path / "w.toml")


def test_only_a_whole_run_of_a_known_benchmark_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "WHOLE_RUNS", tmp_path)
    monkeypatch.setattr(command, "results", lambda: MADE)
    source = tmp_path / "x.json"
    source.write_text(json.dumps(_result()), encoding="utf-8")
    path = kept.keep(source, tmp_path / "kept")
    assert Results.kept(tmp_path / "kept").get("x") == _result()
    assert path.read_bytes() == kept.keep(source, tmp_path / "kept").read_bytes()
    for params, words in (({"quick": True}, "quick is True"), ({"cut_short": "interrupted"}, "cut_short is 'interr")):
        source.write_text(json.dumps(_result(params=params)), encoding="utf-8")
        with pytest.raises(KeptError, match=words):
            kept.keep(source, tmp_path / "kept")
    source.write_text(json.dumps({"schema": 2}), encoding="utf-8")
    with pytest.raises(KeptError, match="schema 2 is not allowed; allowed is 1"):
        kept.keep(source, tmp_path / "kept")
    unknown = CliRunner().invoke(command.main, ["keep", "y"])
    assert isinstance(unknown.exception, KeptError)
    assert "allowed are x" in str(unknown.exception)


@pytest.mark.parametrize(("rest", "options", "is_kept"), [(0.5, [], True), (0.6, [], False), (0.6, ["--busy"], True)])
def test_a_run_beside_other_work_is_kept_only_when_that_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rest: float, options: list[str], *, is_kept: bool
) -> None:
    monkeypatch.setattr(command, "WHOLE_RUNS", tmp_path)
    monkeypatch.setattr(command, "results", lambda: MADE)
    monkeypatch.setattr(command, "keep", partial(kept.keep, folder=tmp_path / "kept"))
    starting, calm = ({"key": {"what": "busy at rest", "plane": plane}, "unit": "cores"} for plane in ("a", "b"))
    cells = [{**starting, "samples": [0.9]}, {**calm, "samples": [0.1, rest, 2.0]}]
    (tmp_path / "x.json").write_text(json.dumps(_result(cells=cells)), encoding="utf-8")
    done = CliRunner().invoke(command.main, ["keep", "x", *options])
    assert (tmp_path / "kept" / "x.json.xz").exists() is is_kept
    if not is_kept:
        assert isinstance(done.exception, KeptError)
        assert "0.6 processors were busy before anything was sent, allowed are 0.5" in str(done.exception)


def test_the_list_of_what_is_missing_has_status_1_until_it_is_empty(
    results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "works", lambda: {"w": WORK})
    monkeypatch.setattr(command, "captions", lambda: {"w": {"figure 1": "Times"}})
    monkeypatch.setattr(Results, "kept", lambda: results)
    found = CliRunner().invoke(command.main, ["missing"])
    assert (found.exit_code, found.output) == (0, "papers: nothing is missing\n")
    (tmp_path / "x.json").unlink()
    found = CliRunner().invoke(command.main, ["missing"])
    assert found.exit_code == 0, "a result is read once"
    monkeypatch.setattr(Results, "kept", lambda: Results.measured(tmp_path))
    found = CliRunner().invoke(command.main, ["missing"])
    assert (found.exit_code, found.output) == (1, "w figure-1: the result 'x' is not kept\n")
    monkeypatch.setattr(
        command, "captions", lambda: {"w": {"figure 1": "Times", "table 2": "T"}, "v": {"figure 1": "F"}}
    )
    found = CliRunner().invoke(command.main, ["missing"])
    assert found.output.splitlines()[1:] == ["w table 2: there is no entry", "v figure 1: there is no entry"]


Measures = Callable[[dict[str, Made]], None]


@pytest.fixture
def measures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Measures:
    """Give a function that says how results are measured: ``x``, which the page needs, and others."""
    monkeypatch.setattr(command, "works", lambda: {"w": WORK})
    monkeypatch.setattr(command, "QUICK_RUNS", tmp_path)
    monkeypatch.setattr(command, "MEASURED", tmp_path / "papers")
    monkeypatch.setattr(command, "PROGRESS", tmp_path / "papers/run.json")

    def measured(made: dict[str, Made]) -> None:
        monkeypatch.setattr(command, "results", lambda: made)

    return measured


@pytest.mark.parametrize(
    ("program", "status", "drawn"),
    [("cp {new} {x}", 0, True), ("cp {new} {x}; false", 1, True), ("false", 1, False)],
)
def test_measuring_draws_what_was_measured_now_and_names_the_benchmark_that_failed(
    tmp_path: Path, measures: Measures, program: str, status: int, *, drawn: bool
) -> None:
    """A result from before is not taken for one of now."""
    new, old = tmp_path / "new", tmp_path / "x.json"
    old.write_text(json.dumps(_result()), encoding="utf-8")
    new.write_text(json.dumps(_result(params={"quick": True})), encoding="utf-8")
    made = {"x": Made(program.format(new=new, x=old), 1, root=False), "unused": Made("false", 1, root=False)}
    measures(made)
    found = CliRunner().invoke(command.main, ["measure"])
    assert found.exit_code == status
    assert ("x was not measured" in found.output) is bool(status)
    text = " ".join((tmp_path / "papers/papers.md").read_text(encoding="utf-8").split())
    assert ("too few samples to quote" in text) is drawn
    assert ("**Not measured yet:** x." in text) is not drawn


def test_what_needs_root_is_not_measured_without_it(
    tmp_path: Path, measures: Measures, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {"x": Made(f"touch {tmp_path}/measured", 1)}
    measures(made)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    found = CliRunner().invoke(command.main, ["measure"])
    assert found.exit_code == 1
    assert "x: needs root" in found.output
    assert not (tmp_path / "measured").exists()


def test_an_interrupted_run_draws_what_it_has_and_the_next_one_measures_the_rest(
    tmp_path: Path, measures: Measures, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A benchmark that is interrupted has time to write down what it has. That is drawn, and measured again."""
    monkeypatch.setattr(command, "_needed", lambda: {"x", "y", "z"})
    new = tmp_path / "new"
    new.write_text(json.dumps(_result(params={"quick": True})), encoding="utf-8")

    def of(*commands: str) -> dict[str, Made]:
        return {name: Made(one, 1, root=False) for name, one in zip("xyz", commands, strict=True)}

    x, y, z = (f"cp {new} {tmp_path / name}.json" for name in "xyz")
    in_order = f"trap 'kill $!; {y}; exit 1' INT; sleep 60 & kill -INT $PPID; wait"
    handler = signal.getsignal(signal.SIGINT)
    measures(of(x, in_order, f"touch {tmp_path}/begun"))
    first = CliRunner().invoke(command.main, ["measure"])
    assert first.exit_code == 130, first.output
    assert signal.getsignal(signal.SIGINT) is handler
    assert f"interrupted; 1 of 3 are kept in {tmp_path}\n" in first.output
    assert "to measure the others within a day (y, z), run `QUICK=1 make papers` again" in first.output
    assert ((tmp_path / "y.json").exists(), (tmp_path / "begun").exists()) == (True, False)
    page_of = tmp_path / "papers/papers.md"
    assert "too few samples to quote" in " ".join(page_of.read_text(encoding="utf-8").split())
    page_of.unlink()
    measures(of("false", y, z))
    second = CliRunner().invoke(command.main, ["measure"])
    assert second.exit_code == 0, second.output
    assert f"x: measured by the run before; `rm {tmp_path}/papers/run.json` measures them again" in second.output
    assert "too few samples to quote" in " ".join(page_of.read_text(encoding="utf-8").split())
    third = CliRunner().invoke(command.main, ["measure"])
    assert third.exit_code == 1, "the run came to its end, and another one begins"
    assert "x was not measured" in third.output


def test_a_run_is_gone_on_with_for_a_day_if_neither_source_nor_result_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "below/run.json"
    run = progress.Progress(path, "a")
    assert not run.has("x", 0), "what was never written was never measured"
    run.add("x", 7)
    assert progress.Progress(path, "a").has("x", 7)
    assert not progress.Progress(path, "a").has("x", 8)
    assert not progress.Progress(path, "b").has("x", 7)
    now = time.time()
    for later, known in ((progress.DAY - 60, True), (progress.DAY, False), (-60, False)):
        monkeypatch.setattr(time, "time", lambda later=later: now + later)
        assert progress.Progress(path, "a").has("x", 7) is known
    monkeypatch.undo()
    path.write_text("{", encoding="utf-8")
    assert not progress.Progress(path, "a").has("x", 7)
    run.end()
    run.end()
    assert not path.exists()


def test_a_change_of_the_source_is_another_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(progress, "REPOSITORY", tmp_path)
    assert progress.source() == progress.source(), "without git"
    git = ["git", "-c", "user.name=n", "-c", "user.email=e", "-C", str(tmp_path)]
    (tmp_path / "file").write_text("a", encoding="utf-8")
    for argv in (["init", "-q"], ["add", "file"], ["commit", "-q", "-m", "m"]):
        subprocess.run([*git, *argv], check=True)
    clean = progress.source()
    (tmp_path / "file").write_text("b", encoding="utf-8")
    changed = progress.source()
    subprocess.run([*git, "commit", "-q", "-a", "-m", "m"], check=True)
    assert len({clean, changed, progress.source()}) == 3


def test_what_has_no_quick_run_is_named(measures: Measures) -> None:
    measures({"x": Made("make bench-x", 1, root=False, quick=False)})
    found = CliRunner().invoke(command.main, ["measure"])
    assert found.exit_code == 0
    assert "x is left out, because it takes too long even with QUICK=1: run `make bench-x` for it" in found.output


@pytest.mark.parametrize(("quick", "place"), [("", "build/bench"), ("0", "build/bench"), ("1", "build/bench/quick")])
def test_a_quick_run_does_not_replace_a_whole_one(quick: str, place: str) -> None:
    program = "from rt.measure.results import DIRECTORY; print(DIRECTORY)"
    environment = {**os.environ, "QUICK": quick}
    argv = [sys.executable, "-c", program]
    shown = subprocess.run(argv, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True).stdout
    assert shown.strip() == str(REPOSITORY / place)
    assert REPOSITORY / "build/bench/quick" == QUICK_RUNS
    assert REPOSITORY / "build/bench" == WHOLE_RUNS
