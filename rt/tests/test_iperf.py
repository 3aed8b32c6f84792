"""Flows of iperf3: its reports are read as it writes them, and processor time is credited to who used it."""

import copy
import json
import os
import socket
import subprocess
import sys
import time
from typing import Any

import pytest

from children import child
from rt.throughput import iperf, processes, rig
from rt.throughput.processes import REST, Watch

SECOND = {"seconds": 1.0, "bits_per_second": 50.9e6, "retransmits": 3, "snd_cwnd": 36_100, "rtt": 900}
REMNANT = {**SECOND, "seconds": 0.0006}
"""What iperf3 3.12 adds to a sender's report for the time after the last whole second."""


def _tcp(*, reverse: bool) -> dict[str, Any]:
    """Return the parts of a report that are read; the sender is the server when it is reversed."""
    sender = [{"streams": [one], "sum": one} for one in (SECOND, REMNANT)]
    receiver = [{"streams": [{"seconds": 1.0, "bits_per_second": 1.0}], "sum": {"seconds": 1.0}}]
    end = {
        "sum_sent": {"bits_per_second": 51e6, "retransmits": 3},
        "sum_received": {"bits_per_second": 50.7e6},
        "sender_tcp_congestion": "cubic",
    }
    return {
        "start": {"test_start": {"reverse": int(reverse)}},
        "intervals": receiver if reverse else sender,
        "end": end,
        "server_output_json": {"intervals": sender if reverse else receiver},
    }


@pytest.mark.parametrize("reverse", [False, True])
def test_each_second_is_that_of_the_sender_in_both_directions(reverse: bool) -> None:
    stream = iperf.stream_of(_tcp(reverse=reverse))
    assert (stream.rate, stream.retransmissions, stream.congestion) == (50.7, 3, "cubic")
    assert stream.seconds == [iperf.Second(50.9, 3, 36.1)]


def test_datagrams_are_those_of_the_papers_line() -> None:
    """The figures are tomesh's: 71.0 Mbit/s, 1.313 ms, 38 of 10830 lost (0.35 %)."""
    sent = {"bits_per_second": 71e6, "packets": 10830}
    received = {"bits_per_second": 70.7e6, "packets": 10830, "lost_percent": 100 * 38 / 10830, "jitter_ms": 1.313}
    found = iperf.datagrams_of({"end": {"sum_sent": sent, "sum_received": received}})
    assert (found.sent, found.delivered, found.jitter, found.count) == (71.0, 70.7, 1.313, 10830)
    assert found.loss == pytest.approx(0.35, abs=0.005)


def test_all_is_lost_where_nothing_arrived() -> None:
    received = {"bits_per_second": 0, "packets": 0, "lost_percent": 0, "jitter_ms": 0}
    assert (
        iperf.datagrams_of({"end": {"sum_sent": {"bits_per_second": 2e7, "packets": 9}, "sum_received": received}}).loss
        == 100
    )


@pytest.mark.parametrize("missing", ["start", "intervals", "end"])
def test_a_report_that_lacks_a_figure_is_refused(missing: str) -> None:
    report = copy.deepcopy(_tcp(reverse=False))
    del report[missing]
    with pytest.raises(iperf.IperfError, match="lacks"):
        iperf.stream_of(report)


@pytest.mark.parametrize("text", ["", "iperf3: error", "[]", '{"end": '])
def test_what_is_no_report_is_refused(text: str) -> None:
    with pytest.raises(iperf.IperfError, match=r"no JSON|no object"):
        iperf.read(text)


def test_what_went_wrong_is_a_report() -> None:
    assert iperf.read(json.dumps({"error": iperf.REFUSED}))["error"] == iperf.REFUSED


def test_every_request_is_answered() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
        client.connect(listener.getsockname())
        server, _ = listener.accept()
        with server:
            asked, answered = rig._flow("transactions", client, server, 0.1)
    assert asked["transactions"] == answered["transactions"] > 0


def test_a_processs_name_may_have_brackets_and_spaces() -> None:
    fields = ["S", *["0"] * 10, "12", "30", *["0"] * 23, "1", *["0"] * 10]
    assert processes.thread(f"7 (a) b (c) {' '.join(fields)}") == processes.Thread(42, 1)


STAT = """\
cpu  30 0 30 900 0 0 0 0 0 0
cpu0 10 0 20 400 50 3 4 7 0 0
cpu1 20 0 10 500 0 0 0 0 0 0
intr 1 2 3
"""


def test_waiting_and_what_others_machines_took_is_not_busy() -> None:
    assert processes.cores(STAT) == {0: 37, 1: 30}


def test_the_rest_of_a_core_is_what_no_process_accounts_for() -> None:
    ticks = processes._TICKS
    known = {("overlayd", 0): ticks // 2, ("overlayd", 1): ticks // 4}
    found = processes.with_rest(known, {0: ticks, 1: ticks // 4}, seconds=2.0)
    assert found == {("overlayd", 0): 25, ("overlayd", 1): 12.5, (REST, 0): 25, (REST, 1): 0}


@pytest.mark.parametrize(
    ("shares", "sentence"),
    [
        ({("overlayd", 0): 90, (REST, 1): 95}, "all 2 processors were the limit: kernel and others used 95 %"),
        ({("overlayd", 0): 99, ("iperf3", 1): 5}, "one processor was the limit (core 0, 99 %): overlayd used 99 %"),
        ({("overlayd", 0): 9, ("overlayd", 1): 8}, "no processor was the limit (the busiest: 9 %): overlayd used 17 %"),
    ],
)
def test_a_sentence_says_what_the_limit_is(shares: dict[tuple[str, int], float], sentence: str) -> None:
    assert processes.limit(shares).startswith(sentence)


def test_a_busy_process_is_credited_and_an_idle_one_is_not() -> None:
    """The busy process is bound to one core, so that its whole time is seen there."""
    core = min(os.sched_getaffinity(0))
    bound = f"import os; os.sched_setaffinity(0, [{core}])\nwhile True: pass"
    with (
        child(subprocess.Popen([sys.executable, "-c", bound])) as busy,
        child(subprocess.Popen(["sleep", "60"])) as idle,
        Watch({idle.pid: "idle"}) as watch,
    ):
        watch.add(busy.pid, "busy")
        time.sleep(1.0)
        for process in (busy, idle):
            process.kill()
    assert watch.shares["busy", core] > 5
    assert watch.shares.get(("idle", core), 0) < 1
    assert watch.seconds >= 1


def test_a_process_that_is_gone_is_no_error() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    with Watch({ended.pid: "ended"}) as watch:
        pass
    assert not any(name == "ended" for name, _ in watch.shares)
