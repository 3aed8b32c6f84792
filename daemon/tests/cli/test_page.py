"""``page`` asks meshsecd for a login and prints where to open it."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import Result

from cli.answering import answering

Meshsec = Callable[..., Result]
SCHEMA = Path(__file__).parents[3] / "docs/reference/schema/meshsec-page-login-1.json"


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[list[str]]:
    """Serve both methods, and give the list of what was asked."""
    asked: list[str] = []

    def answer(method: str, _params: Mapping[str, Any]) -> Mapping[str, Any]:
        asked.append(method)
        return {"token": "t0ken", "seconds": 300.0, "ended": 2}

    with answering(tmp_path / "a/run/control.sock", answer):
        yield asked


def test_login_prints_an_address_for_this_machine_and_one_for_the_mesh(meshsec: Meshsec, asked: list[str]) -> None:
    local, mesh = meshsec("page", "login").output.split()
    assert local == "http://localhost:8269/#login=t0ken"
    assert mesh.startswith("http://[fc")
    assert mesh.endswith("]:8269/#login=t0ken")
    assert asked == ["page_login"]


def test_its_json_is_what_the_schema_says(meshsec: Meshsec, asked: list[str]) -> None:
    view = json.loads(meshsec("page", "login", "--json").output)
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(view)
    assert view["local"] == "http://localhost:8269/#login=t0ken"


def test_logout_says_how_many_were_logged_in(meshsec: Meshsec, asked: list[str]) -> None:
    assert meshsec("page", "logout").output == "2 logins ended\n"
    assert asked == ["page_logout"]
