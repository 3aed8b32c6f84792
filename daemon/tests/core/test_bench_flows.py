"""What iperf3 and /proc say, as seen with iperf3 3.12, and what is concluded from it."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshsec.core.bench import iperf3, usage
from meshsec.core.bench.record import Taken
from meshsec.core.bench.usage import CORE, PROCESS, SOFTIRQ, THREAD, Core, Look, Thread

KEY = {"plane": "ipsec", "direction": "to c"}


def seconds(*intervals: dict[str, Any]) -> dict[str, Any]:
    return {"intervals": [{"streams": [one]} for one in intervals]}


SENDER = seconds(
    {"seconds": 1.0, "bits_per_second": 9e6, "retransmits": 3, "snd_cwnd": 20000, "sender": True},
    {"seconds": 1.0, "bits_per_second": 7e6, "retransmits": 0, "snd_cwnd": 40000, "sender": True},
    {"seconds": 0.0004, "bits_per_second": 9e9, "retransmits": 7, "snd_cwnd": 1, "sender": True},
)
RECEIVER = seconds(
    {"seconds": 1.0, "bits_per_second": 8e6, "sender": False}, {"seconds": 1.0, "bits_per_second": 6e6, "sender": False}
)


@pytest.mark.parametrize("reverse", [False, True])
def test_each_figure_of_a_stream_comes_from_the_end_that_knows_it(reverse: bool) -> None:
    here, there = (RECEIVER, SENDER) if reverse else (SENDER, RECEIVER)
    found = iperf3.stream({**here, "server_output_json": there}, KEY, reverse=reverse)
    assert {one.unit: list(one.samples) for one in found} == {
        "Mbit/s": [8.0, 6.0],
        "segments sent again in a second": [3.0, 0.0],
        "kB of congestion window": [20.0, 40.0],
    }


def load(sent: int, arrived: int, lost: int, jitter: float = 0.5) -> dict[str, Any]:
    """Return a report: the receiver counts datagrams up to the last that arrived."""
    return {
        "start": {"test_start": {"blksize": 1000}},
        "end": {
            "sum_sent": {"packets": sent},
            "sum_received": {"packets": arrived + lost, "lost_packets": lost, "seconds": 2.0, "jitter_ms": jitter},
        },
    }


def test_datagrams_behind_the_last_that_arrived_are_lost_too() -> None:
    found = {one.unit: one.samples[0] for one in iperf3.datagrams(load(1000, 600, 200), KEY)}
    assert found == {"Mbit/s": pytest.approx(2.4), "% lost": pytest.approx(40), "ms of jitter": 0.5}


def test_where_nothing_arrives_all_is_lost_and_there_is_no_jitter() -> None:
    found = {one.unit: one.samples[0] for one in iperf3.datagrams(load(1000, 0, 0, 0.0), KEY)}
    assert found == {"Mbit/s": 0.0, "% lost": 100.0}


def test_more_arrivals_than_were_sent_are_no_negative_loss() -> None:
    assert {one.unit: one.samples[0] for one in iperf3.datagrams(load(10, 11, 0), KEY)}["% lost"] == 0


@pytest.mark.parametrize("report", [{}, [], None, "x", load(0, 0, 0), {"end": []}, load(1, 1, 0, float("nan"))])
def test_a_report_without_figures_is_refused(report: Any) -> None:
    with pytest.raises(ValueError, match="iperf3"):
        iperf3.datagrams(report, KEY)
    with pytest.raises(ValueError, match="iperf3"):
        iperf3.stream(report, KEY, reverse=False)


@given(
    st.recursive(st.none() | st.booleans() | st.floats() | st.text(max_size=3), lambda one: st.lists(one, max_size=2))
)
def test_no_report_breaks_the_reader(value: Any) -> None:
    for report in (value, {"intervals": value, "server_output_json": value}, {"end": {"sum_sent": value}}):
        with pytest.raises(ValueError, match="iperf3"):
            iperf3.stream(report, KEY, reverse=False)
        with pytest.raises(ValueError, match="iperf3"):
            iperf3.datagrams(report, KEY)
        iperf3.refusal(report)


def test_what_iperf3_complains_of_is_told() -> None:
    assert iperf3.refusal({"error": "unable to connect to server"}) == "unable to connect to server"
    assert iperf3.refusal({"end": {}}) == ""
    assert iperf3.version("iperf 3.12 (cJSON 1.7.15)\nLinux vm") == "3.12"
    assert iperf3.version("") == ""


STAT = "cpu  1 2 3 4\ncpu0 100 10 50 700 20 5 15 0 0 0\ncpu1 0 0 0 900 0 0 0 0 0 0\nintr 1\ncpu2 x\ncpu\n"


def test_the_ticks_of_each_core_are_read() -> None:
    assert usage.cores(STAT) == {0: Core(180, 15, 900), 1: Core(0, 0, 900)}


@given(st.text(alphabet="cpu0123456789 \n.-x", max_size=80))
def test_no_text_breaks_the_reader_of_cores(text: str) -> None:
    usage.cores(text)


def test_a_thread_may_be_called_anything() -> None:
    tail = "S 1 1 1 0 -1 4194304 1 0 0 0 30 12 0 0 20 0 1 0 1"
    assert usage.thread(f"17 (a) R (b c) {tail}") == ("a) R (b c", 42)
    for broken in ("", "17 (a", "17 (a) S 1", f"17 a {tail}"):
        assert usage.thread(broken) is None


def looks(busy: dict[int, tuple[int, int]], threads: dict[str, list[int]]) -> Iterator[Taken]:
    """Yield what is said of two looks 10 s apart with 1000 ticks: busy and softirq by core, ticks by thread."""
    before = Look(0.0, dict.fromkeys(busy, Core(0, 0, 0)), {})
    numbered = [(name, ticks) for name, several in threads.items() for ticks in several]
    after = Look(
        10.0,
        {core: Core(ticks, softirq, 1000) for core, (ticks, softirq) in busy.items()},
        {(1, number): Thread(name, ticks) for number, (name, ticks) in enumerate(numbered)},
    )
    return usage.between(before, after, KEY, 100)


def test_what_each_core_and_process_did_is_reported() -> None:
    found = {
        (one.unit, one.key.get("core", one.key.get("process"))): one.samples[0]
        for one in (looks({0: (500, 100), 1: (0, 0)}, {"charon": [400, 200], "idler": [5]}))
    }
    assert found == {
        (CORE, 0): 50,
        (SOFTIRQ, 0): 10,
        (CORE, 1): 0,
        (SOFTIRQ, 1): 0,
        (PROCESS, "charon"): 60,
        (THREAD, "charon"): 40,
    }


@pytest.mark.parametrize(
    ("busy", "threads", "said"),
    [
        ({0: (990, 10), 1: (200, 0)}, {"charon": [980, 20]}, "a thread of charon on this node, which uses 98 %"),
        ({0: (10, 0), 1: (990, 950)}, {"charon": [30]}, "the kernel's softirq on core 1 of this node (95 %)"),
        (
            {0: (990, 10), 1: (980, 10)},
            {"charon": [400, 300], "iperf3": [500]},
            "all 2 cores are busy, most of all with charon (70 % of one), iperf3 (50 % of one)",
        ),
        ({0: (960, 10), 1: (100, 0)}, {"charon": [500]}, "core 0 of this node, which is busy to 96 %"),
        (
            {0: (400, 10), 1: (100, 0)},
            {"charon": [350]},
            "the busiest core of this node is busy to 40 %, its busiest thread, of charon, uses 35 % of one",
        ),
    ],
)
def test_the_limit_is_named(busy: dict[int, tuple[int, int]], threads: dict[str, list[int]], said: str) -> None:
    assert said in usage.limit(looks(busy, threads))


def test_without_cores_there_is_no_limit_to_name() -> None:
    assert usage.limit([]) == ""
    assert usage.limit([Taken(KEY, "Mbit/s", [1.0])]) == ""
