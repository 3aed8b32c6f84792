"""Figures by neighbour and pattern, their document, and what is drawn."""

import json
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.air_frames import TABLE_3, A, B, C, ack, data
from core.test_air_exchanges import exchanges, packets, sent
from meshsec.core.air.assembler import Assembler, Counts
from meshsec.core.air.distribution import COUNTERS, Distribution
from meshsec.core.air.exchange import Exchange
from meshsec.core.air.pictures import pictures
from meshsec.core.air.report import Air
from meshsec.core.air.summary import MOST_NEIGHBOURS, MOST_TIMED, Summary, warnings

SCHEMA = json.loads((Path(__file__).parents[3] / "docs/reference/schema/meshsec-air-1.json").read_text())


def seen(contents: Sequence[bytes]) -> tuple[Air, Any]:
    air = Air()
    found = [*air.take(packets(contents)), *air.finish()]
    about = {"interface": "mon0", "file": None, "cut": None, "lost": 0}
    document = json.loads(json.dumps(air.document(about, {A: "bravo"}, found)))
    jsonschema.validate(document, SCHEMA)
    return air, document


def test_a_neighbour_has_its_parts_shares_and_rates() -> None:
    _, document = seen([*TABLE_3, b"nonsense"])
    (one,) = document["neighbours"]
    assert (one["address"], one["name"], one["exchanges"], one["frames"], one["octets"]) == (A, "bravo", 1, 5, 3128)
    assert one["parts"]["access"] == {"n": 1, "median_us": 124, "p95_us": 124, "max_us": 124}
    assert one["parts"]["retries"] is None
    assert (one["mpdus"], one["retried"], one["retry_share"], one["unanswered"]) == (2, 0, 0, 0)
    assert one["airtime_us"] == 28 + 28 + 424 + 32
    assert one["airtime_share"] == round(512 / (1560 - 848), 4)
    assert one["rates"] == [{"rate": "HT20 MCS 7", "exchanges": 1}]
    (pattern,) = document["patterns"]
    assert (pattern["pattern"], pattern["total"]["median_us"]) == ("RTS/CTS, 2 data, BA", 684)
    assert document["busy_share"] == round((512 + 28) / 712, 4)
    assert document["clock"] == "radio"
    (warning,) = document["warnings"]
    assert warning.startswith("1 packets are no frames of 802.11, such as packet 7: a radiotap header of version 110")


def test_what_waited_for_something_to_send_says_nothing_of_the_medium() -> None:
    _, document = seen([sent(0, ack(C)), sent(28 + 215, data(A, B, 100)), sent(28 + 215 + 72, ack(A))])
    (one,) = document["neighbours"]
    assert (one["parts"]["access"]["median_us"], one["parts"]["backoff"]) == (215, None)
    (pattern,) = document["patterns"]
    assert (pattern["delay"]["median_us"], pattern["total"]) == (100, None)


def test_nothing_seen_is_a_document_too() -> None:
    air, document = seen([])
    assert (document["frames"], document["clock"], document["neighbours"]) == (0, "none", [])
    assert not pictures(air.summary, {}, 0.0)


def test_pictures_name_the_neighbours() -> None:
    air, _ = seen([*TABLE_3, *TABLE_3])
    drawn = pictures(air.summary, {A: "bravo"}, 1.0)
    assert {*drawn} == {"air-parts.svg", "air-backoff.svg", "air-bursts.svg"}
    assert "bravo: backoff" in drawn["air-parts.svg"]
    assert "with RTS/CTS" in drawn["air-bursts.svg"]
    assert all(C not in picture and B not in picture for picture in drawn.values())


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=200), st.floats(0.01, 1))
def test_a_quantile_is_that_of_the_values_to_three_digits(values: list[float], share: float) -> None:
    distribution = Distribution()
    for value in values:
        distribution.add(value)
    exact = sorted(values)[max(0, -int(-share * len(values) // 1) - 1)]
    near = [value for value in sorted(values) if abs(distribution.quantile(share) - value) <= max(0.5, value / 190)]
    assert near
    assert distribution.quantile(share) == pytest.approx(exact, rel=0.006, abs=0.51)


@given(st.floats(0, 1e12))
def test_a_time_is_kept_to_three_digits(value: float) -> None:
    distribution = Distribution()
    distribution.add(value)
    assert distribution.quantile(0.5) == pytest.approx(min(value, 1e9), rel=0.0051, abs=0.5)
    assert len(distribution._counts) <= COUNTERS


@pytest.mark.parametrize("value", [0, 1, 999, 999.4, 999.6, 1000, 1004, 9994, 9996, 99_960, 123_456, 1e9, 1e15])
def test_times_on_the_edges_of_decades(value: float) -> None:
    distribution = Distribution()
    distribution.add(value)
    assert distribution.quantile(1) == pytest.approx(min(value, 1e9), rel=0.0051, abs=0.5)
    assert distribution.document() == {
        "n": 1,
        "median_us": distribution.quantile(1),
        "p95_us": distribution.quantile(1),
        "max_us": round(value, 1),
    }


MODEL = exchanges(TABLE_3)[0]


def of_station(number: int, **changes: Any) -> Exchange:
    """Return the exchange of Table 3 as one of another station."""
    return replace(MODEL, transmitter=f"02:00:00:00:{number >> 8:02x}:{number & 255:02x}", **changes)


def test_memory_is_bounded_whatever_times_invented_stations_have() -> None:
    """The longest times need the most counters; each burst of another length is a pattern of its own."""
    longest = {"access": 1e12, "idle": False, "retries": 1e12, "rts_cts": 1e12, "data": 1e12, "ack": 1e12}
    tracemalloc.start()
    try:
        summary = Summary()
        summary.take(of_station(n % 3000, units=1 + n % 256, **longest) for n in range(9000))
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(summary.neighbours) == MOST_NEIGHBOURS + 1
    assert sum(bool(one.parts) for one in summary.neighbours.values()) == MOST_TIMED
    assert taken < 40e6
    document = summary.documents(1e12, {})
    assert sum(one["parts"]["data"] is not None for one in document["neighbours"]) == MOST_TIMED
    assert len(pictures(summary, {}, 1.0)) == 3


def untimed(summary: Summary) -> list[str]:
    return [one for one in warnings(Counts(), Assembler(), summary) if one.startswith("Times are kept")]


def test_times_are_kept_of_the_stations_that_send_most() -> None:
    summary = Summary()
    summary.take(of_station(number) for number in range(MOST_TIMED) for _ in range(4))
    assert untimed(summary) == []
    late = of_station(MOST_TIMED)
    summary.take([late] * 8)
    assert not summary.neighbours[late.transmitter].parts, "twice as many are needed, so that two do not take turns"
    summary.take([late] * 3)
    assert summary.neighbours[late.transmitter].parts["data"].n == 3
    assert sum(bool(one.parts) for one in summary.neighbours.values()) == MOST_TIMED
    assert summary.neighbours[late.transmitter].exchanges == 11
    (said,) = untimed(summary)
    assert "64 stations that send most" in said
