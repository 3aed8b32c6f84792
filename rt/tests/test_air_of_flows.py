"""Modelled air: frames have the bytes that planes put on cables, and what arrives falls by hops as on real air."""

import shutil
from statistics import median

import pytest

from rt.throughput import air
from rt.throughput.iperf import SIZE
from rt.throughput.sums import Key, Samples

pytestmark = pytest.mark.thorough

CABLE = 1242.0
"""Bytes of Ethernet, IPv4, UDP and the payload."""
SEEN: Samples = {
    Key(air.BYTES, "plain", 1, 3.125, "up"): {0: CABLE + 40},
    Key(air.BYTES, "plain", 1, 20.0, "up"): {0: CABLE + 1, 1: CABLE - 1},
    Key(air.BYTES, "plain", 2, 20.0, "up"): {0: CABLE},
    Key(air.BYTES, "plain", 2, 800.0, "up"): {0: CABLE / 2},
    Key("UDP loss", "plain", 1, 20.0, "up"): {0: 0.0},
}


def test_a_frame_has_the_bytes_of_most_rates_and_a_radio_header() -> None:
    assert air.octets(SEEN) == {Key(air.BYTES, "plain", testbed="up"): 1242 - 14 + 38}


def test_nothing_is_modelled_of_what_was_not_seen() -> None:
    assert air.cells({}, [20.0], [1], 1, 1.0) == air.Aired()


def test_without_a_compiler_the_result_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    found = air.cells(SEEN, [20.0], [1], 1, 1.0)
    assert found.cells == []
    assert found.missed[0].startswith("no modelled air: ")


@pytest.mark.skipif(not shutil.which("cargo"), reason="there is no cargo")
def test_the_air_is_shared_by_the_hops_and_a_small_load_arrives_whole() -> None:
    """All stations sense each other, so that over n hops a n-th part arrives; less is lost in collisions."""
    found = air.cells(SEEN, [1.0, 20.0], [1, 2, 4], 2, 2.0)
    assert not found.missed
    carried = {
        (cell.key["offered"], cell.key["hops"]): median(cell.samples)
        for cell in found.cells
        if cell.key["what"] == "UDP delivered"
    }
    assert carried[1.0, 4] == pytest.approx(1.0, rel=0.05)
    assert 12 < carried[20.0, 1] < 18
    assert carried[20.0, 1] / 2.5 < carried[20.0, 2] < carried[20.0, 1] / 1.8
    assert carried[20.0, 1] / 6 < carried[20.0, 4] < carried[20.0, 1] / 3.6
    assert all(cell.key["testbed"] == "up, modelled air" for cell in found.cells)


@pytest.mark.skipif(not shutil.which("cargo"), reason="there is no cargo")
def test_a_frame_that_is_too_small_for_its_payload_is_refused() -> None:
    small: Samples = {Key(air.BYTES, "plain", 1, 20.0, "up"): {0: SIZE / 2}}
    found = air.cells(small, [20.0], [1], 1, 1.0)
    assert found.missed == ["no modelled air: offered: --payload 1200 is refused; allowed: 1 to 624"]
