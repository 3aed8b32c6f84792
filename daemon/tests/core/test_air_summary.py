"""Figures by neighbour and pattern, their document, and what is drawn."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.air_frames import TABLE_3, A, B, C, ack, data
from core.test_air_exchanges import packets, sent
from meshsec.core.air.distribution import Distribution
from meshsec.core.air.pictures import pictures
from meshsec.core.air.report import Air

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


def test_a_distribution_has_few_counters() -> None:
    distribution = Distribution()
    for value in range(0, 10_000_000, 37):
        distribution.add(value)
    assert len(distribution._counts) < 5000
