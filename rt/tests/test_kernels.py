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

from rt.bench_kernels import read
from rt.kernels.rig import LOADS, PROFILES
from rt.loads import light
from rt.measure.results import MeasurementError

TWO_SET_UPS = [
    {"begin": 100.0 + number, "ike_sa_init": 0.004, "ike_auth": 0.006, "total": 0.011, "first_esp": None}
    for number in range(2)
]
CYCLICTEST = {"thread": {"0": {"histogram": {"3": 998, "7": 2}, "cycles": 1000, "min": 3, "max": 7}}}
LOADED = {"encoder_sent": 360, "encoder_received": 2000, "sender_sent": 2000, "sender_received": 0}


def _leave(folder: Path, **loaded: Any) -> Path:
    """Write the files that a guest leaves; ``loaded`` replaces fields of the governor's block under load."""
    (folder / "release").write_text("6.12-rt", encoding="ascii")
    for profile, load in product(PROFILES, LOADS):
        found = {"set_ups": TWO_SET_UPS, "stream": LOADED if load == "loaded" else {}, "cyclictest": CYCLICTEST}
        if (profile, load) == ("governor", "loaded"):
            found.update(loaded)
        (folder / f"{profile}-{load}.json").write_text(json.dumps(found), encoding="utf-8")
    return folder


def test_every_block_is_read(tmp_path: Path) -> None:
    measured = read(_leave(tmp_path), 2)
    assert measured.release == "6.12-rt"
    assert set(measured.blocks) == set(product(PROFILES, LOADS))
    block = measured.blocks["governor", "loaded"]
    assert [each.total for each in block.set_ups] == [0.011, 0.011]
    assert sorted(block.wake_ups) == [3] * 998 + [7] * 2


@pytest.mark.parametrize(
    ("loaded", "told"),
    [
        ({"set_ups": TWO_SET_UPS[:1]}, "governor-loaded.json: 1 set-ups in the capture, expected 2"),
        ({"stream": {**LOADED, "encoder_sent": 7}}, "governor-loaded.json: encoder_sent 7 packets in 1.0 s"),
        ({"stream": {**LOADED, "encoder_received": 0}}, "governor-loaded.json: encoder_received 0 packets in 1.0 s"),
        ({"cyclictest": {"thread": {"0": {"histogram": {"3": 998}, "cycles": 1000, "max": 3}}}}, "998 in the histogr"),
    ],
)
def test_a_measurement_that_lacks_something_is_refused(tmp_path: Path, loaded: dict[str, Any], told: str) -> None:
    with pytest.raises(MeasurementError, match=told):
        read(_leave(tmp_path, **loaded), 2)


_LOTS = {"encode": len(light.FRAME), **{role: len(burst) for role, burst in light.BURSTS.items()}}


@pytest.mark.parametrize(("role", "packets"), _LOTS.items())
def test_a_load_sends_until_it_is_ended_and_reports_how_much(role: str, packets: int) -> None:
    number = os.getpid()  # two runs of this test at once are no trouble to each other
    own, other = (f"127.{network}.{number >> 8 & 255}.{number & 255}" for network in (1, 2))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.bind((other, light.PORT))
        peer.settimeout(60)
        argv = [sys.executable, light.__file__, role, own, other]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
            for _ in range(2 * packets):
                peer.recv(2048)
            process.terminate()
            said, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    ready, counted = said.splitlines()
    assert ready == "ready"
    assert json.loads(counted)["sent"] >= packets  # the end may come before the second lot is counted
