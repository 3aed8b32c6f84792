"""Where nodes are, and the map: who sees it, and which parts of a file are sent."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from meshsec.adapters.sockets.control import ControlError
from meshsec.core.monitoring import meshviewer
from meshsec.page import connection, places, watched
from page.served import TILES, Served, serve
from page.test_web import assert_confined

HERE = {
    "node": "a",
    "address": "fc00::1",
    "latitude": 47.0,
    "longitude": 11.0,
    "altitude": None,
    "accuracy": None,
    "altitude_accuracy": None,
    "fixed": True,
    "age": 0.0,
    "reached": True,
}
MAP = b"PMTiles\x03" + bytes(range(256)) * 8


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let connections of this machine count as those of a peer."""
    monkeypatch.setattr(connection, "is_own", lambda _address: False)


def placed(served: Served) -> None:
    served.meshsecd.answers["positions"]["positions"] = [HERE]


def test_this_machine_sees_where_nodes_are(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        placed(served)
        answer = await served.ask("/api/positions")
        assert answer.json == {"shown": True, "map": False, "positions": [HERE]}
        assert_confined(answer)
        assert "content-encoding" in answer.headers
        plain = await served.ask("/api/positions", accept_encoding="br")
        assert json.loads(plain.body) == answer.json
        (tmp_path / TILES).write_bytes(MAP)
        assert (await served.ask("/api/positions")).json["map"]
        (tmp_path / TILES).write_bytes(b"PMTiles\x02" + MAP)
        assert not (await served.ask("/api/positions")).json["map"], "another version"

    serve(tmp_path, scenario)


@pytest.mark.parametrize("given", [{}, {"authorization": "Bearer bad"}, {"authorization": "good"}, {"cookie": "good"}])
def test_a_peer_sees_nothing_without_a_login(tmp_path: Path, elsewhere: None, given: dict[str, str]) -> None:
    async def scenario(served: Served) -> None:
        placed(served)
        (tmp_path / TILES).write_bytes(MAP)
        await served.document()
        answer = await served.ask("/api/positions", **given)
        assert (answer.status, answer.json) == (200, {"shown": False})
        assert (await served.ask("/map.pmtiles", range="bytes=0-7", **given)).status == 403
        viewed = await served.ask("/meshviewer.json", accept_encoding="", **given)
        assert b"location" not in viewed.body
        assert b"47.0" not in (await served.ask("/api/document")).body

    serve(tmp_path, scenario)


def test_a_peer_that_is_logged_in_sees_all_and_a_client_never(
    tmp_path: Path, elsewhere: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(served: Served) -> None:
        placed(served)
        (tmp_path / TILES).write_bytes(MAP)
        await served.document()
        good = {"authorization": "Bearer good"}
        assert (await served.ask("/api/positions", **good)).json["positions"] == [HERE]
        assert (await served.ask("/map.pmtiles", range="bytes=0-7", **good)).body == MAP[:8]
        monkeypatch.setattr("meshsec.page.feed.Feed.is_protected", lambda _feed, _address: False)
        monkeypatch.setattr("meshsec.page.feed.Feed.is_behind", lambda _feed, _address: True)
        assert (await served.ask("/api/positions", **good)).json == {"shown": False}
        assert (await served.ask("/map.pmtiles", range="bytes=0-7", **good)).status == 403

    serve(tmp_path, scenario, clients=[])


def test_who_is_elsewhere_cannot_keep_meshsecd_busy(
    tmp_path: Path, elsewhere: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "_PACE", (0.001, 2))

    async def scenario(served: Served) -> None:
        await served.document()
        asked = [(await served.ask("/api/positions", authorization=f"Bearer {number}")).status for number in range(4)]
        assert asked == [200, 200, 429, 429]
        assert len([method for method, _ in served.meshsecd.asked if method == "positions"]) == 2

    serve(tmp_path, scenario)


def test_meshviewer_has_places_for_those_who_may_see_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(served: Served) -> None:
        placed(served)
        viewed: Any = json.loads((await served.ask("/meshviewer.json", accept_encoding="")).body)
        assert [one["location"] for one in viewed["nodes"] if "location" in one] == [
            {"latitude": 47.0, "longitude": 11.0}
        ]
        await served.control.close()
        monkeypatch.setattr(watched, "KEPT_SECONDS", 0.0)
        assert (await served.ask("/meshviewer.json")).status == 503

    serve(tmp_path, scenario)


def test_this_machine_has_a_pace_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "_PACE", (0.001, 2))

    async def scenario(served: Served) -> None:
        assert [(await served.ask("/api/positions")).status for _ in range(3)] == [200, 200, 429]
        monkeypatch.setattr(connection, "is_own", lambda _address: False)
        await served.document()
        assert (await served.ask("/api/positions", authorization="Bearer good")).status == 200

    serve(tmp_path, scenario)


def test_a_part_of_the_map_makes_meshsecd_judge_the_login_and_list_nothing(tmp_path: Path, elsewhere: None) -> None:
    async def scenario(served: Served) -> None:
        (tmp_path / TILES).write_bytes(MAP)
        await served.document()
        for session, status in (("good", 206), ("bad", 403)):
            asked = await served.ask("/map.pmtiles", range="bytes=0-7", authorization=f"Bearer {session}")
            assert asked.status == status
        methods = [method for method, _ in served.meshsecd.asked]
        assert (methods.count("session"), methods.count("positions")) == (2, 0)

    serve(tmp_path, scenario)


def test_a_mesh_for_meshviewer_is_made_once_in_a_while_for_each_of_the_two_kinds_of_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[bool] = []
    make = meshviewer.meshviewer

    def counted(answers: Any, version: str, now: float) -> Any:
        made.append("positions" in answers)
        return make(answers, version, now)

    monkeypatch.setattr(meshviewer, "meshviewer", counted)

    async def scenario(served: Served) -> None:
        placed(served)
        await served.document()
        for is_own in (True, False, True, False):
            monkeypatch.setattr(connection, "is_own", lambda _address, own=is_own: own)
            found = await served.ask("/meshviewer.json", accept_encoding="")
            assert (b"location" in found.body) == is_own
        assert made == [True, False]

    serve(tmp_path, scenario)


def test_a_fault_of_meshsecd_is_no_permission(tmp_path: Path, elsewhere: None) -> None:
    async def scenario(served: Served) -> None:
        await served.document()
        served.meshsecd.answers["positions"] = ControlError("failed", "for the test")
        answer = await served.ask("/api/positions", authorization="Bearer good")
        assert answer.status == 502
        assert "positions" not in answer.json

    serve(tmp_path, scenario)


def test_a_part_of_the_map_is_sent_with_its_place_and_version(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        placed(served)
        (tmp_path / TILES).write_bytes(MAP)
        answer = await served.ask("/map.pmtiles", range="bytes=8-17")
        assert (answer.status, answer.body) == (206, MAP[8:18])
        assert answer.headers["content-range"] == f"bytes 8-17/{len(MAP)}"
        assert_confined(answer)
        end = await served.ask("/map.pmtiles", range="bytes=0-16383")
        assert (end.body, end.headers["content-range"]) == (MAP, f"bytes 0-{len(MAP) - 1}/{len(MAP)}")
        (tmp_path / TILES).write_bytes(MAP + b"x")
        assert (await served.ask("/map.pmtiles", range="bytes=0-7")).headers["etag"] != answer.headers["etag"]

    serve(tmp_path, scenario)


@pytest.mark.parametrize(
    "asked",
    [
        "",
        "bytes=0-",
        "bytes=-5",
        "bytes=5-4",
        "bytes=0-1,3-4",
        "lines=0-1",
        f"bytes=0-{places.MAX_RANGE}",
        "bytes=0-99999999999999999999",
        f"bytes={len(MAP)}-{len(MAP) + 5}",
    ],
)
def test_other_ranges_are_refused(tmp_path: Path, asked: str) -> None:
    async def scenario(served: Served) -> None:
        placed(served)
        (tmp_path / TILES).write_bytes(MAP)
        answer = await served.ask("/map.pmtiles", range=asked)
        assert (answer.status, answer.json["code"]) == (416, "bad_range")

    serve(tmp_path, scenario)


def test_a_map_that_is_none_is_missing_and_stops_nobody(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        placed(served)
        assert (await served.ask("/map.pmtiles", range="bytes=0-7")).status == 404
        os.mkfifo(tmp_path / TILES)
        async with asyncio.timeout(10):
            for _ in range(places._READERS + 1):
                assert (await served.ask("/map.pmtiles", range="bytes=0-7")).status == 404
                assert not (await served.ask("/api/positions")).json["map"]

    serve(tmp_path, scenario)
