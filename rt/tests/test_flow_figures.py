"""Pictures of the benches that repeat Kaplan, Hastings and tomesh are drawn, and fit a page."""

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from rt import bench_client_routes, bench_primitives
from rt.measure import plot, results
from rt.measure.results import Cell, Result
from rt.smesh import paper
from rt.smesh.network import THEIRS
from rt.throughput import figures, sums
from rt.throughput.air import SUFFIX
from rt.throughput.flows import CPU_OF_PROCESS, PER_CENT
from rt.throughput.sums import Key, Samples

pytestmark = pytest.mark.thorough

TALLEST = 1400
"""Pixels: what a page shows without scrolling."""
UP, DOWN = "client to outside", "outside to client"
PLANES = ("plain", "ipsec aes256gcm16", "overlay")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of pictures, which is that of this test alone."""
    for module in (results, plot):
        monkeypatch.setattr(module, "DIRECTORY", tmp_path)
    return tmp_path


def _heights(folder: Path) -> dict[str, int]:
    """Return the pixels of each picture, from its header (PNG, section 11.2.2)."""
    return {path.stem: struct.unpack(">I", path.read_bytes()[20:24])[0] for path in folder.glob("*.png")}


def test_the_outside_is_drawn_both_ways_at_the_papers_rates_and_the_greatest(folder: Path) -> None:
    samples: Samples = {}
    for plane in PLANES:
        for hops in (1, 2, 3, 4):
            for way in (UP, DOWN):
                samples[Key("TCP", plane, hops, testbed=way)] = {0: 100.0 / hops}
                samples[Key("TCP retransmissions", plane, hops, testbed=way)] = {0: hops - 1.0}
                samples[Key("TCP congestion window", plane, hops, testbed=way)] = {0: 100.0}
                for rate in (3.125, 20.0, 200.0, 800.0):
                    samples[Key("UDP delivered", plane, hops, rate, way)] = {0: rate / hops}
                    samples[Key("UDP loss", plane, hops, rate, way)] = {0: 1.0 * hops}
                    samples[Key("UDP jitter", plane, hops, rate, way)] = {0: 0.01 * hops}
    samples |= sums.derived(samples)
    aired = [replace(key, testbed=f"{UP}{SUFFIX}") for key in samples if key.what.startswith("UDP") and key.offered]
    cells = [*sums.cells(samples), *sums.cells({key: {0: 1.0} for key in aired if key.what != "UDP jitter"})]
    figures.draw_outside(Result("outside", {}, cells), samples)
    heights = _heights(folder)
    names = ("air", "carried", "jitter", "loss", "times", "transport")
    assert set(heights) == {f"outside-{name}" for name in names}
    assert max(heights.values()) <= TALLEST
    drawn = (folder / "outside-loss.svg").read_text(encoding="utf-8")
    assert "3.125 Mbit/s" in drawn
    assert "800 Mbit/s" in drawn
    assert "200 Mbit/s" not in drawn


def test_two_neighbours_are_drawn_by_plane_and_second(folder: Path) -> None:
    cells = []
    for plane in PLANES:
        for way in ("a to b", "b to a"):
            where = {"plane": plane, "hops": 1, "testbed": way}
            cells.append(Cell({"what": "TCP", **where}, "Mbit/s", [100.0, 200.0]))
            cells.append(Cell({"what": "TCP retransmissions", **where}, "segments", [0.0, 3.0]))
            cells.append(Cell({"what": CPU_OF_PROCESS, **where, "process": "iperf3"}, PER_CENT, [5.0, 7.0]))
    seconds = [{"plane": plane, "testbed": "a to b", "mbit_per_s": [100.0, 200.0]} for plane in PLANES]
    figures.draw_securing(Result("securing", {"each_second": seconds}, cells))
    assert _heights(folder)["securing"] <= TALLEST


def test_two_neighbours_are_drawn_when_the_run_ended_before_the_first_second(folder: Path) -> None:
    cell = Cell({"what": "ping", "plane": "plain", "hops": 1, "testbed": "a to b"}, "ms", [0.1])
    figures.draw_securing(Result("securing", {"each_second": [], "cut_short": "interrupted"}, [cell]))
    assert "cut short" in (folder / "securing.svg").read_text(encoding="utf-8")


def test_one_processor_is_drawn_also_without_cjdroute(folder: Path) -> None:
    cells = [
        Cell({"program": "openssl", "what": "sha256", "bytes": 16}, "kB/s", [1.0]),
        Cell({"program": "openssl", "what": "sha512", "bytes": 16}, "kB/s", [1.0]),
        Cell({"program": "openssl", "what": "rsa1024 sign"}, "operations/s", [1.0, 2.0]),
        Cell({"program": "overlayd", "what": "frames switched"}, "packets/s", [1.0, 100.0]),
    ]
    bench_primitives.draw(Result("primitives", {}, cells))
    assert _heights(folder)["primitives"] <= TALLEST


def test_routing_tables_are_drawn_beside_the_papers(folder: Path) -> None:
    shown = {name: paper.FIGURE_7[address] for name, address in THEIRS.items()}
    bench_client_routes.draw(Result("client-routes", {}, []), shown)
    assert _heights(folder)["client-routes"] <= TALLEST
    drawn = (folder / "client-routes.svg").read_text(encoding="utf-8")
    assert "10.0.11.40 (2006)" in drawn
    assert "b, the other access node" in drawn
