"""The guest's histograms are accepted as a measurement only when they are complete."""

import json
from pathlib import Path
from typing import Any

import pytest

from rt.bench_latency import difference, histogram, read
from rt.measure.results import Cell, MeasurementError

SAS = "\tlifetime current:\n\t  {}(bytes), 7(packets)\n"


def _report(maximum: int = 7, cycles: int = 1000) -> dict[str, Any]:
    return {"thread": {"0": {"histogram": {"3": 998, "7": 2}, "cycles": cycles, "min": 3, "max": maximum}}}


def _leave(folder: Path, tcp: int, esp: int, protected: int) -> Path:
    for load in ("idle", "tcp", "esp"):
        (folder / f"{load}.json").write_text(json.dumps(_report()), encoding="utf-8")
    for load, octets in {"idle": 90, "tcp": tcp, "esp": esp}.items():
        (folder / f"{load}.octets").write_text(f"{octets}\n", encoding="utf-8")
    (folder / "esp.sas").write_text(SAS.format(9) + SAS.format(protected), encoding="utf-8")
    (folder / "release").write_text("6.12-rt\n", encoding="utf-8")
    return folder


def test_every_wake_up_is_a_sample(tmp_path: Path) -> None:
    measured = read(_leave(tmp_path, 20_000_000, 20_000_000, 20_000_000))
    assert measured.release == "6.12-rt"
    assert sorted(measured.latencies["esp"]) == [3] * 998 + [7] * 2


@pytest.mark.parametrize("report", [_report(maximum=200_000), _report(cycles=1001)])
def test_a_wake_up_later_than_the_histogram_is_not_lost(report: dict[str, Any]) -> None:
    with pytest.raises(MeasurementError, match="1000 in the histogram"):
        histogram(report)


@pytest.mark.parametrize(
    ("tcp", "esp", "protected", "told"),
    [
        (1_000, 20_000_000, 20_000_000, "1000 octets in 1000 ms are no load"),
        (20_000_000, 1_000, 20_000_000, "1000 octets in 1000 ms are no load"),
        (20_000_000, 20_000_000, 0, "ESP carried 9 octets of 20000000"),
    ],
)
def test_a_run_with_too_little_load_is_no_measurement(
    tmp_path: Path, tcp: int, esp: int, protected: int, told: str
) -> None:
    with pytest.raises(MeasurementError, match=told):
        read(_leave(tmp_path, tcp, esp, protected))


def test_the_difference_is_that_of_the_latest_wake_ups() -> None:
    cells = [
        Cell({"load": load, "kernel": kernel}, "us", samples)
        for load, kernel, samples in [("idle", "rt", [3, 9]), ("esp", "rt", [4]), ("esp", "preempt=none", [5, 700])]
    ]
    assert difference(cells) == ["The latest wake-up under any load: 9 us on the RT kernel, 700 us with preempt=none."]


def test_a_run_that_ended_before_the_second_kernel_has_no_difference() -> None:
    assert difference([Cell({"load": "idle", "kernel": "rt"}, "us", [3, 9])]) == []
    assert difference([]) == []
