"""bench-routing-security: what a node of a mesh takes, and how that compares with the goal."""

import pytest

from rt import bench_routing_security as bench
from rt.measure.results import Cell, MeasurementError


def _cell(setting: str, samples: list[float], unit: str = bench.PER_CENT) -> Cell:
    return Cell({"what": "at rest", "nodes": 10, "signatures": setting}, unit, samples)


def test_a_nodes_share_has_the_verifications_that_another_has_computed() -> None:
    report = {
        "nodes": 10,
        "seconds": 20,
        "cpu_seconds": 3.0,
        "verified": 1000,
        "computed": 100,
        "verify_seconds": 0.0001,
    }
    assert bench.share(report) == pytest.approx(100 * (3.0 + 0.09) / 200)


def test_signatures_are_compared_with_the_same_mesh_without() -> None:
    cells = [_cell("off", [1.0, 2.0]), _cell("require", [2.0, 8.0]), _cell("require", [5.0], "us")]
    (ratio,) = bench.ratios(cells)
    assert ratio["key"] == {**cells[1].key, "unit": bench.PER_CENT, "to": "off"}
    assert (ratio["min"], ratio["median"], ratio["max"]) == (2.0, 3.0, 4.0)


@pytest.mark.parametrize(("took", "verdict"), [(3.5, "within"), (4.5, "above")])
def test_the_goal_is_for_what_signatures_add(took: float, verdict: str) -> None:
    (word,) = bench.words([_cell("off", [1.0]), _cell("prefer", [took])])
    assert verdict in word


def test_a_mesh_with_wrong_routes_is_no_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "_PROGRAM", ("sh", "-c", """echo '{"right": false}'"""))
    with pytest.raises(MeasurementError, match="not all routes"):
        bench._run("mesh", {"nodes": 10})


def test_seconds_of_a_flood_with_wrong_routes_are_a_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    report = '{"cpu_seconds": 1, "verified": 40, "resident_octets": 2048, "wrong_seconds": 3}'
    monkeypatch.setattr(bench, "_PROGRAM", ("sh", "-c", f"echo '{report}'"))
    figures = {unit: value for _, unit, value in bench._flooded("hellos", 1000, 1)}
    assert figures[bench.WRONG] == 3
    assert figures["KiB"] == 2
