"""What ``meshsec services`` prints."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import Result

from cli.test_daemon import Daemon, running

Meshsec = Callable[..., Result]
SCHEMA = Path(__file__).parents[3] / "docs/reference/schema/meshsec-services-1.json"
WIKI = {
    "node": "bravo", "address": "fc00::2", "name": "wiki", "protocol": "tcp", "port": 80, "description": "Our wiki",
    "url": "http://bravo.mesh/",
}  # fmt: skip


class Offering(Daemon):
    """A server that knows services."""

    def __init__(self) -> None:
        super().__init__()
        self.services: list[Mapping[str, Any]] = []
        self.problem = ""

    async def answer(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        if method != "services":
            return await super().answer(method, params)
        return {"schema": "meshsec-services-1", "services": self.services, "problem": self.problem}


@pytest.fixture
def daemon(meshsec: Meshsec, tmp_path: Path) -> Iterator[Offering]:
    (tmp_path / "a/run").mkdir()
    with running(tmp_path / "a/run/control.sock", made := Offering()):
        yield made


def test_services_are_printed_with_where_they_are(meshsec: Meshsec, daemon: Offering) -> None:
    daemon.services = [WIKI, {**WIKI, "node": "charlie", "protocol": "udp", "description": "", "url": None}]
    result = meshsec("services")
    assert result.exit_code == 0
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["SERVICE", "WHERE", "DESCRIPTION"],
        ["wiki", "http://bravo.mesh/", "Our", "wiki"],
        ["wiki", "charlie.mesh:80/udp", "-"],
    ]
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    view = json.loads(meshsec("services", "--json").stdout)
    jsonschema.validate(view, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert view["services"] == daemon.services


def test_without_services_the_table_that_adds_one_is_named(meshsec: Meshsec, daemon: Offering) -> None:
    assert "[[service]] of meshsec.toml" in meshsec("services").stdout


def test_peers_that_cannot_be_heard_are_a_problem(meshsec: Meshsec, daemon: Offering) -> None:
    daemon.problem = "UDP 17184 at fc00::1: Address already in use"
    result = meshsec("services")
    assert result.exit_code == 3
    assert daemon.problem in result.stdout
