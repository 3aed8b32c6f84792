"""Cells whose rounds disagree are named: when a result is kept, beside the entry that uses them, and at the end."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rt.measure.frame import Bench
from rt.papers import __main__ as command
from rt.papers import kept, page, rounds
from rt.papers.form import Entry, Made, Selector, Value, Work
from rt.papers.kept import Results

FAST, SLOW, BETWEEN = [2.0, 3, 4, 5, 6], [130.0, 131, 132, 133, 134], [3.0, 4, 5, 6, 7]


def cell(samples: list[float], **more: Any) -> dict[str, Any]:
    """Return a cell of a result."""
    return {"key": {"what": "total", "nice": 0}, "unit": "ms", "samples": samples, **more}


@pytest.mark.parametrize(
    ("params", "found", "medians"),
    [
        ({"rounds": 2, "samples": 5}, cell(FAST + SLOW), (4, 132)),
        ({}, cell(FAST + SLOW, rounds=[5, 5]), (4, 132)),
        ({}, cell(FAST + BETWEEN + SLOW, rounds=[5, 5, 5]), (4, 5, 132)),
        ({"rounds": 2, "samples": 5}, cell(FAST + BETWEEN), None),
        # It is not known which samples are of which round.
        ({"rounds": 2, "samples": 5}, cell(FAST + SLOW[:4]), None),
        ({}, cell(FAST + SLOW), None),
        # Too few samples of a round: they are apart by chance.
        ({}, cell(FAST[:2] + SLOW[:2], rounds=[2, 2]), None),
        ({}, cell(FAST, rounds=[5]), None),
    ],
)
def test_rounds_disagree_if_their_intervals_do_not_overlap(
    params: dict[str, int], found: dict[str, Any], medians: tuple[float, ...] | None
) -> None:
    one = rounds.disagreement(params, found)
    assert (one and one.medians) == medians


def test_a_benchmark_writes_down_how_many_samples_each_visit_took() -> None:
    bench = Bench("x", "about", 2)
    for samples in (FAST, SLOW[:3]):
        bench.take({"what": "several"}, "ms", iter(samples))
        bench.take({"what": "one"}, "ms", samples[:1])
    assert [one.rounds for one in bench.cells()] == [[5, 3], ()]
    assert bench.cells()[0].as_dict()["rounds"] == [5, 3]
    assert "rounds" not in bench.cells()[1].as_dict()


def result() -> dict[str, Any]:
    """Return a result of two rounds that disagree, in the total and in a phase."""
    cells = [cell(FAST + SLOW), {**cell([1.0] * 5 + SLOW), "key": {"what": "phase", "nice": 0}}]
    machine = {"cpu": "c", "cores": 2, "kernel": "6", "system": "s"}
    params = {"quick": False, "rounds": 2, "samples": 5}
    return {"schema": 1, "machine": machine, "versions": {}, "params": params, "cells": cells, "peers": {}}


def test_the_page_names_them_beside_the_entry_and_the_worst_phase_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps(result()), encoding="utf-8")
    ours = Selector("x", {"what": "total"}, "ms")
    entry = Entry("figure", "1", "T", "s", "It shows.", value=(Value("v", 1, "s", ours=ours),))
    page.write(
        {"w": Work("A 2000", "A.", "B.", (entry,))},
        {"x": Made("make bench-x", 1)},
        Results.measured(tmp_path),
        tmp_path,
    )
    text = (tmp_path / "papers.md").read_text(encoding="utf-8")
    beside, _, end = text.partition("## Results")
    assert "- what total, nice 0: medians of the rounds 4, 132 ms" in beside
    assert "**Rounds that disagree, x.** In 2 of 2 cells" in end
    assert "- what phase, nice 0: medians of the rounds 1, 132 ms" in end
    assert "what total" not in end


def test_keeping_a_result_warns_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rts.json").write_text(json.dumps(result()), encoding="utf-8")
    monkeypatch.setattr(command, "WHOLE_RUNS", tmp_path)
    monkeypatch.setattr(command, "keep", lambda source, *, busy: kept.keep(source, tmp_path / "kept", busy=busy))
    found = CliRunner().invoke(command.main, ["keep", "rts"])
    assert found.exit_code == 0, found.output
    assert "papers: rts: rounds disagree: what phase, nice 0: medians of the rounds 1, 132 ms" in found.output
