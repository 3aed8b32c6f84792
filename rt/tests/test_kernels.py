"""The guest's files of set-ups are accepted as a measurement only when they are complete."""

import json
import os
import socket
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from children import child
from rt.bench_kernels import CASES, LOADS, PROFILES, complete
from rt.kernels.boot import read
from rt.kernels.cases import Case, of_paper
from rt.loads import light
from rt.measure.results import MeasurementError

TIMES = {"begin": 100.1, "ike_sa_init": 0.004, "ike_auth": 0.006, "total": 0.011, "first_esp": None}
SAMPLES = [{"begin": 100.0 + number, "end": 101.0 + number, "phases": {}, "times": TIMES} for number in range(2)]
BLOCK = {"samples": SAMPLES, "capture_alone": 0, "overdue": 0, "round_trips": [], "delivered": None}
CYCLICTEST = {"thread": {"0": {"histogram": {"3": 998, "7": 2}, "cycles": 1000, "min": 3, "max": 7}}}
LOADED = {"encoder_sent": 360, "encoder_received": 2000, "sender_sent": 2000, "sender_received": 0}
GOVERNED = CASES["governor", "loaded"]


def _leave(folder: Path, **loaded: Any) -> Path:
    """Write the files that a guest leaves; ``loaded`` replaces fields of the governor's case under load."""
    (folder / "release").write_text("6.12-rt", encoding="ascii")
    (folder / "versions").write_text("kernel 6.12-rt\nsystem Debian 13\n", encoding="ascii")
    for (_, load), case in CASES.items():
        found = {"block": BLOCK, "stream": LOADED if load == "loaded" else {}, "cyclictest": CYCLICTEST}
        if case == GOVERNED:
            found.update(loaded)
        (folder / f"{case}.json").write_text(json.dumps(found), encoding="utf-8")
    return folder


def test_every_case_is_read(tmp_path: Path) -> None:
    booted = read(_leave(tmp_path), list(CASES.values()))
    assert booted.release == "6.12-rt"
    assert set(CASES) == set(product(PROFILES, LOADS))
    measured = booted.cases[GOVERNED]
    assert [times.total for times in measured.block.times] == [0.011, 0.011]
    assert sorted(measured.wake_ups) == [3] * 998 + [7] * 2
    complete(booted, 2)


def test_set_ups_that_were_given_up_are_a_measurement_and_not_a_complete_one(tmp_path: Path) -> None:
    booted = read(_leave(tmp_path, block={**BLOCK, "samples": [], "overdue": 1}), list(CASES.values()))
    assert booted.cases[GOVERNED].block.overdue == 1
    with pytest.raises(MeasurementError, match="governor,ours,receiver,-20: 0 set-ups in the capture, expected 2"):
        complete(booted, 2)


@pytest.mark.parametrize(
    ("loaded", "told"),
    [
        ({"block": {**BLOCK, "samples": []}}, "governor,ours,receiver,-20.json: no set-up in the capture"),
        ({"stream": {**LOADED, "encoder_sent": 7}}, "receiver,-20.json: encoder_sent 7 packets in 2.0 s"),
        ({"stream": {**LOADED, "encoder_received": 0}}, "receiver,-20.json: encoder_received 0 packets in 2.0 s"),
        ({"cyclictest": {"thread": {"0": {"histogram": {"3": 998}, "cycles": 1000, "max": 3}}}}, "998 in the histogr"),
    ],
)
def test_a_measurement_that_lacks_something_is_refused(tmp_path: Path, loaded: dict[str, Any], told: str) -> None:
    with pytest.raises(MeasurementError, match=told):
        read(_leave(tmp_path, **loaded), list(CASES.values()))


def test_on_radio_there_is_no_neighbours_stream_and_the_encoders_is_a_load(tmp_path: Path) -> None:
    loaded = {"encoder_sent": 360, "encoder_received": 0}
    assert read(_leave(tmp_path, stream=loaded), [GOVERNED]).cases[GOVERNED].block.times
    with pytest.raises(MeasurementError, match="encoder_sent 7 packets"):
        read(_leave(tmp_path, stream={**loaded, "encoder_sent": 7}), [GOVERNED])


def test_host_and_guest_name_a_case_by_the_same_text() -> None:
    cases = [*CASES.values(), *of_paper((-20, 19))]
    assert [Case.of(str(case)) for case in cases] == cases
    assert str(cases[-1]) == "governor,ours,receiver,19"


def test_the_papers_cases_are_both_places_with_the_papers_suite_and_ours_each_beside_no_load() -> None:
    found = [(case.profile, case.suite, case.place, case.nice) for case in of_paper((0,))]
    pairs = (("paper-2007", "paper-2007"), ("governor", "ours"))
    places = ("relay", "receiver")
    assert found == [(*pair, place, nice) for pair, place, nice in product(pairs, places, (None, 0))]


_LOTS = {"encode": len(light.FRAME), **{role: len(burst) for role, burst in light.BURSTS.items()}}


@pytest.mark.parametrize(("role", "packets"), _LOTS.items())
def test_a_load_sends_until_it_is_ended_and_reports_how_much(role: str, packets: int) -> None:
    number = os.getpid()  # two runs of this test at once are no trouble to each other
    own, other = (f"127.{network}.{number >> 8 & 255}.{number & 255}" for network in (1, 2))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.bind((other, light.PORT))
        peer.settimeout(60)
        argv = [sys.executable, light.__file__, role, own, other]
        with child(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)) as process:
            for _ in range(2 * packets):
                peer.recv(2048)
            process.terminate()
            said, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    ready, counted = said.splitlines()
    assert ready == "ready"
    assert json.loads(counted)["sent"] >= packets  # the end may come before the second lot is counted
