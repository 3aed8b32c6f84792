"""A phone that walks from one access point to the next keeps its addresses and its connections."""

from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from tests.lab.gateways import OUTSIDE4
from tests.lab.net import traffic
from tests.lab.net.packets import Kind
from tests.lab.net.traffic import StreamResult, wait_arrivals
from tests.lab.radio import medium
from tests.lab.roaming import Roaming
from tests.scenarios.expectations import assert_nothing_clear, captured
from tests.scenarios.radio.phone import phone

UPLOAD = 1_000_000
"""Bytes that are on their way while the phone walks."""


@pytest.fixture(params=["SAE", "WPA-PSK"])
def walk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Roaming]:
    if obstacle := medium.obstacle():
        pytest.skip(obstacle)
    with phone("phone", tmp_path, request.param) as mesh:
        yield mesh


def test_a_phone_that_walks_keeps_its_addresses_and_its_connections(walk: Roaming) -> None:
    walk.join("a")
    before = walk.own(walk.station)
    streams: list[StreamResult] = []

    def upload() -> None:
        streams.append(traffic.tcp_stream(walk.station.end(4), (walk.outside, OUTSIDE4), UPLOAD, 600))

    uploading = Thread(target=upload)
    with captured(walk.lab, "walk") as captures, walk.flow(4, 7070) as voice, walk.flow(6, 7071) as video:
        uploading.start()
        with walk.conversation(4, 7072) as call:
            seen = call.seen_from()
            for name in ("b", "a", "b"):
                walk.move(name)
                for flow in (voice, video):
                    wait_arrivals(flow, 50, 120)
                assert call.seen_from() == seen, "the outside sees the same address"
        uploading.join(600)
    assert walk.own(walk.station) == before
    assert [stream.octets for stream in streams] == [UPLOAD]
    assert_nothing_clear(captures)
    assert captures["r"].counts[Kind.ESP] > 0
    print(f"longest pauses: {voice.result.longest_gap:.2f} s, {video.result.longest_gap:.2f} s")
