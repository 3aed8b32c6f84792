"""The guest's rounds become samples."""

import json
from pathlib import Path

import pytest

from rt.bench_reroute import read
from rt.guest.reroute import gap
from rt.measure.results import Cell
from tests.lab.net.traffic import FlowResult


def test_each_way_to_vanish_has_its_samples_in_order(tmp_path: Path) -> None:
    times = tmp_path / "times"
    rounds = [("silent", 0.4, 0.5), ("leaves", 0.2, 0.3), ("silent", 0.6, 0.7), ("leaves", 0.1, 0.25)]
    lines = (json.dumps({"vanish": vanish, "decided": decided, "gap": gap}) for vanish, decided, gap in rounds)
    times.write_text("\n".join(lines) + "\n")
    assert read(times) == [
        Cell({"vanish": "silent", "figure": "decided"}, "s", [0.4, 0.6]),
        Cell({"vanish": "silent", "figure": "gap"}, "s", [0.5, 0.7]),
        Cell({"vanish": "leaves", "figure": "decided"}, "s", [0.2, 0.1]),
        Cell({"vanish": "leaves", "figure": "gap"}, "s", [0.3, 0.25]),
    ]


def test_a_guest_that_was_ended_leaves_half_a_line_and_what_it_measured_before(tmp_path: Path) -> None:
    times = tmp_path / "times"
    times.write_text('{"vanish": "silent", "decided": 0.4, "gap": 0.5}\n{"vanish": "leaves", "deci')
    assert [cell.samples for cell in read(times)] == [[0.4], [0.5]]


def test_a_gap_is_what_is_missing_after_the_relay_vanished_not_how_long_nothing_came() -> None:
    before = [(0, 1.00), (3, 1.15), (4, 1.20)]  # two are missing before
    after = [(9, 9.00), (10, 9.05), (12, 9.15), (11, 9.20)]  # then four, though it took the clock 7.8 s
    assert gap(FlowResult(arrivals=[*before, *after], interval=0.05), begun=1.25) == pytest.approx(0.2)
    assert gap(FlowResult(arrivals=[*before, (5, 1.3)], interval=0.05), begun=1.25) == 0.0
