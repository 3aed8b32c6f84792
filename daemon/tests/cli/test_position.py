"""What ``meshsec position`` prints."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import Result

from cli.test_daemon import Daemon, running

Meshsec = Callable[..., Result]
SCHEMA = Path(__file__).parents[3] / "docs/reference/schema/meshsec-positions-1.json"
HERE: Mapping[str, Any] = {
    "node": "alpha",
    "address": "fc00::1",
    "latitude": 47.2682345,
    "longitude": -11.5,
    "altitude": 620.4,
    "accuracy": None,
    "altitude_accuracy": None,
    "fixed": True,
    "age": 0.0,
    "reached": True,
}
BOAT = {**HERE, "node": "boat", "fixed": False, "age": 75.0, "accuracy": 17.1, "altitude": None}


class Placed(Daemon):
    """A server that knows positions."""

    def __init__(self) -> None:
        super().__init__()
        self.positions: list[Mapping[str, Any]] = []
        self.problem = ""

    async def answer(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        if method != "positions":
            return await super().answer(method, params)
        return {"schema": "meshsec-positions-1", "positions": self.positions, "problem": self.problem}


@pytest.fixture
def daemon(meshsec: Meshsec, tmp_path: Path) -> Iterator[Placed]:
    (tmp_path / "a/run").mkdir()
    with running(tmp_path / "a/run/control.sock", made := Placed()):
        yield made


def test_positions_are_printed_with_their_age(meshsec: Meshsec, daemon: Placed) -> None:
    daemon.positions = [HERE, BOAT, {**BOAT, "reached": False}, {**HERE, "reached": False, "age": 3.0}]
    result = meshsec("position")
    assert result.exit_code == 0
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["NODE", "LATITUDE", "LONGITUDE", "ALTITUDE", "WITHIN", "SEEN"],
        ["alpha", "47.268234", "-11.500000", "620", "m", "-", "fixed"],
        ["boat", "47.268234", "-11.500000", "-", "17", "m", "0:01:15", "ago"],
        ["boat", "47.268234", "-11.500000", "-", "17", "m", "0:01:15", "ago,", "out", "of", "reach"],
        ["alpha", "47.268234", "-11.500000", "620", "m", "-", "3", "s", "ago,", "out", "of", "reach"],
    ]
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    view = json.loads(meshsec("position", "--json").stdout)
    jsonschema.validate(view, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert view["positions"] == daemon.positions


def test_without_positions_the_table_that_has_one_is_named(meshsec: Meshsec, daemon: Placed) -> None:
    assert "[position] of meshsec.toml" in meshsec("position").stdout


def test_a_gpsd_that_is_away_is_a_problem(meshsec: Meshsec, daemon: Placed) -> None:
    daemon.problem = "gpsd at 127.0.0.1 port 2947: Connection refused"
    result = meshsec("position")
    assert result.exit_code == 3
    assert daemon.problem in result.stdout
