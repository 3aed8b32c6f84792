"""A phone that walks from one access point to the next keeps its addresses and its connections."""

import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Thread

import pytest

from tests.lab.basics.waiting import wait_until
from tests.lab.gateways import OUTSIDE4
from tests.lab.net import traffic
from tests.lab.net.packets import Kind
from tests.lab.net.traffic import StreamResult, wait_arrivals
from tests.lab.radio import medium
from tests.lab.roaming import Roaming
from tests.scenarios.expectations import assert_nothing_clear, captured
from tests.scenarios.radio.phone import PLACES, Phone, phone

DOWNLOAD = 1_000_000
"""Bytes that are on their way while the phone walks."""


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Roaming]:
    if obstacle := medium.obstacle():
        pytest.skip(obstacle)
    with phone("phone", tmp_path_factory.mktemp("phone")) as mesh:
        yield mesh


@pytest.mark.parametrize("key_mgmt", ["SAE", "WPA-PSK"])
def test_a_phone_with_another_password_is_no_client(walk: Roaming, key_mgmt: str) -> None:
    station = walk.station
    assert isinstance(station, Phone)
    station.begin(key_mgmt, "only the next valley knows")
    wait_until("the refusal", station.is_refused, [], 60, lambda: station.log.read_text("utf-8"))
    assert station.at() == ""
    assert [walk.known(name, station) for name in PLACES] == [[], [], []]


@pytest.mark.parametrize("key_mgmt", ["SAE", "WPA-PSK"])
def test_a_phone_that_walks_keeps_its_addresses_and_its_connections(walk: Roaming, key_mgmt: str) -> None:
    assert isinstance(walk.station, Phone)
    walk.station.begin(key_mgmt)
    walk.join("a")
    before = walk.own(walk.station)
    streams: list[StreamResult] = []

    def download() -> None:
        streams.append(traffic.tcp_download(walk.station.end(4), (walk.outside, OUTSIDE4), DOWNLOAD, 900))

    downloading = Thread(target=download)
    with captured(walk.lab, "walk") as captures, walk.flow(4, 7070) as voice, walk.flow(6, 7071) as video:
        downloading.start()
        with walk.conversation(4, 7072) as call, pinged(walk) as answers:
            seen = call.seen_from()
            for name in ("b", "c", "a"):
                walk.move(name)
                for flow in (voice, video):
                    wait_arrivals(flow, 50, 120)
                answers.clear()
                wait_until("an answer to a ping", lambda: len(answers) > 0, [], 60)
                assert call.seen_from() == seen, "the outside sees the same address"
        downloading.join(900)
    assert walk.own(walk.station) == before
    assert not walk.station.was_told_to_wait(), "a knows that the phone had left"
    assert [stream.octets for stream in streams] == [DOWNLOAD]
    assert_nothing_clear(captures)
    assert captures["r"].counts[Kind.ESP] > 0
    print(f"longest pauses: {voice.result.longest_gap:.2f} s, {video.result.longest_gap:.2f} s")


@contextmanager
def pinged(walk: Roaming) -> Iterator[list[str]]:
    """Ping the outside from the phone, five times a second. Yield the answers."""
    argv = ["ip", "netns", "exec", walk.station.namespace, "ping", "-n", "-i", "0.2", OUTSIDE4]
    answers: list[str] = []
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as pinging:
        reader = Thread(target=_read, args=(pinging.stdout, answers))
        reader.start()
        try:
            yield answers
        finally:
            pinging.kill()
            reader.join()


def _read(lines: Iterable[str], answers: list[str]) -> None:
    answers.extend(line for line in lines if "bytes from" in line)
