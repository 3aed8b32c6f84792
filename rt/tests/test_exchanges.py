"""bench-exchanges: the capture of the model is what `meshsec air` splits into the exchanges of a page."""

from pathlib import Path

import pytest

from rt import bench_exchanges
from rt.bench_exchanges import ACKS, AGAIN, ALONE, DATA, WITH_ACCESS, Exchange

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def program() -> Path:
    return bench_exchanges.built()


def test_a_page_is_groups_of_data_and_acks_behind_rts_cts(program: Path) -> None:
    found = bench_exchanges.exchanges(program, 1)
    assert found == bench_exchanges.exchanges(program, 1)
    assert found != bench_exchanges.exchanges(program, 2)
    data = [one for one in found if not one["pattern"].startswith("RTS/CTS")]
    acks = [one for one in found if one["pattern"].startswith("RTS/CTS")]
    assert {one["transmitter"] for one in data} == {one["receiver"] for one in acks}
    for part in (data, acks):
        assert all(one["answered"] for one in part)
        assert sum(one["mpdus"] - one["retried"] for one in part) == 221, "segments of 320 kB, each acknowledged"
    assert max(one["mpdus"] for one in found if one["attempts"] == 1) == 8


def exchange(pattern: str, **changes: object) -> Exchange:
    common = {"attempts": 1, "access_us": 30.0, "idle": False, "total_us": 130.0, "mpdus": 2, "retried": 0}
    return {"pattern": pattern, **common, **changes}


def test_samples_are_of_exchanges_that_waited_for_the_air_and_succeeded_at_once() -> None:
    found = [
        exchange("2 data, BA"),
        exchange("RTS/CTS, 2 data, BA", total_us=90.0),
        exchange("2 data, BA", idle=True),
        exchange("2 data, BA", access_us=None),
        exchange("2 data, BA", attempts=2, retried=2),
    ]
    assert [(key["what"], key["part"], value) for key, _, value in bench_exchanges.samples(found)] == [
        (DATA, WITH_ACCESS, 130.0),
        (DATA, ALONE, 100.0),
        (ACKS, WITH_ACCESS, 90.0),
        (ACKS, ALONE, 60.0),
        (AGAIN, "page", 2),
    ]
