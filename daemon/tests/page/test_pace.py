"""Whoever floods the page with questions does not flood meshsecd, and keeps this machine's operator from nothing."""

import asyncio
from pathlib import Path

import pytest

from meshsec.core.page.pace import SOURCES, Pace
from meshsec.page import connection
from page.served import Answer, Served, serve

LOGIN = {"token": "bad"}


async def flood(served: Served, path: str, number: int, source: str = "127.0.0.1") -> list[Answer]:
    """Ask that often, by one connection after the other."""
    body = None if "explain" in path else LOGIN
    method = "GET" if body is None else "POST"
    return [await served.ask(path, method=method, body=body, source=source) for _ in range(number)]


def passed_on(served: Served, method: str) -> int:
    return sum(asked == method for asked, _ in served.meshsecd.asked)


@pytest.mark.parametrize(
    ("path", "method", "burst"),
    [("/api/explain?peer=b", "explain", 20), ("/api/login", "login", 10)],
)
def test_a_flood_does_not_reach_meshsecd_and_others_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, method: str, burst: int
) -> None:
    """Here 127.0.0.1 is somebody else."""
    monkeypatch.setattr(connection, "is_own", lambda address: address == "127.0.0.2")

    async def scenario(served: Served) -> None:
        served.meshsecd.answers["explain"] = {"sentences": []}
        started = asyncio.get_running_loop().time()
        answers = await flood(served, path, 3 * burst)
        rate = burst / 10 if method == "explain" else burst / 20
        most = burst + rate * (asyncio.get_running_loop().time() - started)
        assert burst <= passed_on(served, method) <= most
        assert (answers[-1].status, answers[-1].json["code"]) == (429, "too_often")
        for number in range(8):
            await flood(served, path, 2 * burst, f"127.0.1.{number}")
        others = passed_on(served, method)
        assert others <= 4 * (burst + rate * (asyncio.get_running_loop().time() - started)), "all of them together"
        own = await flood(served, path, 1, "127.0.0.2")
        assert own[0].status == (200 if method == "explain" else 409), "meshsecd itself has answered"
        assert passed_on(served, method) == others + 1

    serve(tmp_path, scenario)


def test_after_a_pause_one_may_ask_again_at_the_rate_alone() -> None:
    pace = Pace(2.0, 3, total=4)
    assert [pace.admits("a", 0.0, own=False) for _ in range(5)] == [True, True, True, False, False]
    assert [pace.admits("a", 0.5, own=False) for _ in range(2)] == [True, False]
    assert [pace.admits("a", 60.0, own=False) for _ in range(4)] == [True, True, True, False]


def test_whoever_has_many_addresses_gets_no_more_than_all_get_and_takes_no_memory() -> None:
    pace = Pace(1.0, 5, total=4)
    assert sum(pace.admits(f"fc00::{number:x}", 0.0, own=False) for number in range(10 * SOURCES)) == 20
    assert len(pace._sources) == SOURCES
    assert sum(pace.admits(one, 0.0, own=True) for one in ("127.0.0.1", "::1") for _ in range(10)) == 5
    assert not pace.admits("fd00::1", 0.0, own=False)
    assert pace.admits("fd00::1", 1.0, own=False)


def test_who_is_refused_takes_nothing_from_the_others() -> None:
    pace = Pace(1.0, 5, total=4)
    assert sum(pace.admits("a", 0.0, own=False) for _ in range(100)) == 5
    assert sum(pace.admits("b", 0.0, own=False) for _ in range(100)) == 5
