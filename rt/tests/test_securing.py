"""bench-securing: foreign programs take part only when they are there, and its picture shows what was measured."""

from pathlib import Path

import pytest

from rt.measure.results import Cell
from rt.throughput import figures, foreign, iperf
from rt.throughput.flows import CPU_OF_PROCESS, CPU_ON_CORE, PER_CENT, Habits, IperfFlows
from rt.throughput.iperf import Costs, Second, Stream
from rt.throughput.lines import Testbed as Bed
from rt.throughput.processes import REST
from tests.lab.node import capabilities

BOTH = Bed("a to b", (1,), back="b to a")


def test_without_foreign_programs_the_result_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "find", lambda program: str(tmp_path / program) if program == "yggdrasil" else None)
    monkeypatch.setattr(foreign, "run", lambda *_args, **_more: pytest.fail("nothing is to be run"))
    assert list(foreign.planes()) == ["yggdrasil"]
    assert foreign._version("wireguard-go", "--version") == foreign.MISSING


@pytest.mark.parametrize("plane", ["wireguard-go", "yggdrasil"])
def test_a_foreign_tunnel_carries_a_stream_both_ways(plane: str) -> None:
    if plane not in foreign.planes():
        pytest.skip(f"{plane} is not on PATH")
    if missing := capabilities.probe().missing_for_all() or iperf.obstacle():
        pytest.skip(str(missing))
    with foreign.planes()[plane]() as line:
        rates = [iperf.stream(line, 1, 1, back=back)[0].rate for back in (False, True)]
    assert min(rates) > 1


def test_processes_are_kept_by_node_and_by_core_round_by_round() -> None:
    flows = IperfFlows(BOTH, Habits(1, []))
    stream = Stream(100.0, 7, [Second(100.0, 7, 40.0)], "cubic")
    mine, other = "overlayd of node 1", "overlayd of node 2"
    flows._keep("overlay", 1, "a to b", stream, Costs({(mine, 0): 30.0, (mine, 1): 20.0, (REST, 0): 0.1}, 1.0))
    flows._keep("overlay", 1, "a to b", stream, Costs({(mine, 1): 60.0, (other, 0): 5.0}, 1.0))
    where = {"plane": "overlay", "hops": 1, "testbed": "a to b"}
    cells = flows.cells()
    assert Cell({"what": CPU_OF_PROCESS, **where, "process": mine}, PER_CENT, [50.0, 60.0]) in cells
    assert Cell({"what": CPU_OF_PROCESS, **where, "process": other}, PER_CENT, [0.0, 5.0]) in cells
    assert Cell({"what": CPU_ON_CORE, **where, "process": mine, "core": 0}, PER_CENT, [30.0, 0.0]) in cells
    assert not any(cell.key["process"] == REST for cell in cells)
    assert flows.seconds[0]["window_kb"] == [40.0]
    second = {"what": "TCP congestion window in one second", "plane": "overlay", "testbed": "a to b", "second": 1}
    assert Cell(second, "kB", [40.0, 40.0]) in flows.by_second("a to b")
    assert flows.by_second("b to a") == []
    assert flows.limits["overlay, hops: 1, a to b"].startswith("no processor was the limit")


def test_the_busiest_process_is_drawn_and_never_the_kernel() -> None:
    def cell(process: str, samples: list[float]) -> Cell:
        return Cell({"what": CPU_OF_PROCESS, "plane": "p", "testbed": "there", "process": process}, PER_CENT, samples)

    cells = [cell("iperf3", [30.0]), cell("overlayd of node 1", [90.0, 40.0]), cell(REST, [99.0])]
    assert figures.busiest(cells) == {"there": {"p": [90.0, 40.0]}}


def test_directions_are_series_and_planes_are_places() -> None:
    cells = [
        Cell({"what": "TCP", "plane": plane, "hops": 1, "testbed": way}, "Mbit/s", [1.0])
        for plane in ("plain", "overlay")
        for way in (BOTH.name, BOTH.back)
    ]
    places = {"plain": [1.0], "overlay": [1.0]}
    assert figures.by_plane(cells, "TCP") == {BOTH.name: places, BOTH.back: places}
