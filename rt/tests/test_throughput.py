"""bench-throughput: flows between real sockets are counted completely, and sums follow from samples."""

import json
import socket
from dataclasses import replace
from statistics import median

import pytest

from rt.measure.results import SCHEMA, Cell, Result
from rt.throughput import guest as throughput_guest
from rt.throughput import rig
from rt.throughput.ends import BURST, busy_seconds, due
from rt.throughput.figures import by_hops, by_hops_at, by_load
from rt.throughput.sums import (
    SMESH_OVER_SPINES,
    Key,
    Samples,
    cells,
    collapse,
    derived,
    over,
    published,
    ratios,
    tables,
    times_cells,
)

STAT = "cpu  100 20 300 5000 600 7 8 900 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n"


def test_idle_time_and_waiting_for_the_disk_do_not_count_as_busy() -> None:
    assert busy_seconds(STAT) == pytest.approx((100 + 20 + 300 + 7 + 8) / 100)


@pytest.mark.parametrize(
    ("elapsed", "counted", "expected"),
    [
        (0.0, 0, (1, 0)),
        (0.0, 1, (0, 1)),
        (0.0045, 4, (1, 4)),
        (0.0095, 0, (10, 0)),
        (1.0, 0, (10, 991)),
    ],
)
def test_datagrams_are_due_at_their_time_and_a_standstill_is_left_out(
    elapsed: float, counted: int, expected: tuple[int, int]
) -> None:
    """At 1000 datagrams a second, at most those of the last 10 ms are sent late."""
    assert due(elapsed, 0.001, counted) == expected


def test_the_clock_is_read_after_a_burst() -> None:
    assert due(0.01, 1e-6, 0) == (BURST, 1)


def test_every_byte_of_a_stream_is_counted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
        client.connect(listener.getsockname())
        server, _ = listener.accept()
        with server:
            sender, receiver = rig._flow("stream", client, server, 0.05)
    assert sender["octets"] > 0
    assert receiver["octets"] + receiver["first"] == sender["octets"]
    assert receiver["busy_s"] >= sender["busy_s"] > 0


def test_every_datagram_is_counted() -> None:
    """No datagram is lost, because the socket's buffer holds all of them."""
    kind = socket.SOCK_DGRAM
    with socket.socket(type=kind) as inbound, socket.socket(type=kind) as out:
        inbound.bind(("127.0.0.1", 0))
        out.connect(inbound.getsockname())
        sender, receiver = rig._flow("datagrams", out, inbound, 0.2, 2.0, rig.SIZE)
    assert sender["refused"] == 0
    assert receiver["datagrams"] == sender["datagrams"] > 0


def test_a_failing_end_is_reported() -> None:
    with socket.socket() as unconnected, socket.socket() as other, pytest.raises(ConnectionError, match="broke off"):
        rig._flow("stream", unconnected, other, 0.05)


def test_a_queue_that_is_emptied_late_raises_no_rate() -> None:
    """100 datagrams of 9600 bits are sent in 1 s, and 50 of them take 2 s to arrive."""
    load = rig.load_of(5.0, {"datagrams": 100, "seconds": 1.0}, {"datagrams": 50, "seconds": 2.0})
    assert (load.offered, load.sent, load.delivered, load.loss) == pytest.approx((5.0, 0.96, 0.24, 50.0))


@pytest.mark.parametrize(
    ("delivered", "expected"),
    [
        ([10, 20, 30], (30, 100)),
        ([10, 40, 30, 20, 35], (40, 50)),
        ([10, 0], (10, 0)),
        ([0, 0], (0, 0)),
    ],
)
def test_the_rate_that_remains_beyond_the_peak_is_found(delivered: list[float], expected: tuple[float, float]) -> None:
    assert collapse(delivered) == expected


SAMPLES: Samples = {
    Key("ping", "plain", 1): {0: 1.0, 1: 2.0},
    Key("ping", "overlay", 1): {0: 3.0, 1: 3.5},
    Key("TCP", "plain", 1): {0: 1000.0, 1: 1000.0, 2: 1000.0},
    Key("TCP", "ipsec aes256gcm16", 1): {0: 100.0, 2: 300.0},
    Key("TCP", "overlay", 1): {0: 500.0, 1: 500.0},
    Key("UDP delivered", "overlay", 1, 400.0): {0: 90.0, 1: 200.0},
    Key("UDP delivered", "overlay", 1, 100.0): {0: 100.0, 1: 100.0},
}


def test_sums_are_made_within_a_round() -> None:
    found = derived(SAMPLES)
    assert found == {
        Key("UDP peak", "overlay", 1): {0: 100.0, 1: 200.0},
        Key("UDP left of the peak", "overlay", 1): {0: 90.0, 1: 100.0},
        Key("ping added", "overlay", 1): {0: 2.0, 1: 1.5},
    }


def test_ratios_pair_the_rounds_that_both_planes_have() -> None:
    found = {(one["key"]["what"], one["key"]["plane"]): one for one in ratios(SAMPLES)}  # type: ignore[index]
    over_plain = found["TCP", "ipsec aes256gcm16 over plain"]
    assert over_plain["key"] == Key("TCP", "ipsec aes256gcm16 over plain", 1).as_dict()
    assert (over_plain["median"], over_plain["min"], over_plain["max"]) == pytest.approx((0.2, 0.1, 0.3))
    over_overlay = found["TCP", "ipsec aes256gcm16 over overlay"]
    assert over_overlay["median"] == over_overlay["max"] == pytest.approx(0.2)
    assert found["ping", "overlay over plain"]["max"] == 3.0
    assert ("TCP", "overlay over cjdroute") not in found


def test_cells_of_different_places_are_not_compared() -> None:
    elsewhere = {
        replace(key, testbed="guest, radio"): rounds for key, rounds in SAMPLES.items() if key.plane == "plain"
    }
    only_overlay = {key: rounds for key, rounds in SAMPLES.items() if key.plane == "overlay"}
    assert list(ratios(elsewhere | only_overlay)) == []


def test_the_tables_have_the_cells_without_an_offered_load() -> None:
    of_a_line = {Key("start to first ping", "overlay"): {0: 0.1234}, Key("TCP", "plain", 2, testbed="guest"): {0: 7.0}}
    lines = list(tables(SAMPLES | derived(SAMPLES) | of_a_line))
    assert "| | plane | 1 |" in lines
    assert "| TCP, Mbit/s | overlay | 500 |" in lines
    assert "| TCP, Mbit/s | plain | 1000 |" in lines
    assert "| UDP left of the peak, % | overlay | 95 |" in lines
    assert "| TCP, plain over overlay | 2 |" in lines
    assert "| TCP, ipsec aes256gcm16 over overlay | 0.2 |" in lines
    assert "| TCP, SMesh over Spines, 2006 | 7.6 |" in lines
    assert "| overlay | 0.123 | - | - | - |" in lines
    assert "| TCP, Mbit/s | plain | 7 |" in lines[lines.index("guest, by hops:") :]
    assert not any("delivered" in line for line in lines)


def test_cells_and_series_keep_every_sample() -> None:
    made = cells(SAMPLES)
    key = {"what": "UDP delivered", "plane": "overlay", "hops": 1, "offered": 400.0, "testbed": "namespaces"}
    assert Cell(key, "Mbit/s", [90, 200]) in made
    assert by_load(made, 1) == {"overlay": {400.0: [90.0, 200.0], 100.0: [100.0, 100.0]}}
    assert by_hops(made, "TCP")["overlay"] == {1.0: [500.0, 500.0]}


def test_smesh_stands_beside_what_was_measured() -> None:
    found = over(SAMPLES, "TCP", "overlay", "namespaces")
    assert found["plain over overlay"] == {1: [2.0, 2.0]}
    assert found["ipsec aes256gcm16 over overlay"] == {1: [0.2]}
    assert found[SMESH_OVER_SPINES] == {1: [7.6], 2: [3.5], 3: [2.4], 4: [1.9]}
    assert over(SAMPLES, "TCP", "overlay", "elsewhere") == {}
    farthest = [one["median"] for one in published() if one["key"]["hops"] == 4]  # type: ignore[index]
    assert farthest == [1.9, 2.0]


def test_how_many_times_the_overlay_a_plane_carries_is_a_cell_by_hops() -> None:
    times = {"what": "TCP, times the overlay", "plane": "plain", "testbed": "namespaces", "hops": 1}
    found = times_cells(SAMPLES)
    assert Cell(times, "times", [2.0, 2.0]) in found
    assert all(cell.key["plane"] != SMESH_OVER_SPINES for cell in found)


def test_loss_is_compared_at_one_rate() -> None:
    lost: Samples = {
        Key("UDP loss", "overlay", hops, rate): {0: rate / 100 * hops} for hops in (1, 2) for rate in (20.0, 400.0)
    }
    assert by_hops_at(cells(lost), "UDP loss", 400.0) == {"overlay": {1.0: [4.0], 2.0: [8.0]}}


def test_the_result_has_the_form_of_all_benchmarks() -> None:
    result = Result("throughput", {}, cells(SAMPLES), list(ratios(SAMPLES)), peers={"cjdroute": "not on PATH"})
    written = json.loads(json.dumps(result._as_dict()))
    assert written["schema"] == SCHEMA
    assert {"machine", "versions", "params", "peers"} < written.keys()
    (tcp,) = [one for one in written["cells"] if one["key"] == Key("TCP", "overlay", 1).as_dict()]
    assert (tcp["n"], tcp["median"], tcp["unit"]) == (2, median([500, 500]), "Mbit/s")


def test_the_guests_samples_are_read_as_they_were_taken() -> None:
    taken = throughput_guest.Taken(SAMPLES, ["lost"], "rfc4106-gcm-aesni")
    assert throughput_guest.Taken.read(taken.text()) == taken


CRYPTO = """\
name         : rfc4106(gcm(aes))
driver       : rfc4106(gcm_base(ctr(aes-generic),ghash-generic))
module       : gcm
priority     : 100

name         : rfc4106(gcm(aes))
driver       : rfc4106-gcm-aesni
module       : aesni_intel
priority     : 400

name         : __gcm(aes)
driver       : __generic-gcm-aesni
priority     : 500
"""


def test_the_cipher_is_that_of_the_highest_priority() -> None:
    assert throughput_guest.driver(CRYPTO, throughput_guest.CIPHER) == "rfc4106-gcm-aesni"
    assert throughput_guest.driver(CRYPTO, "rfc7539esp(chacha20,poly1305)") == ""
