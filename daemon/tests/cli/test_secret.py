"""``secret`` makes, takes, tells apart and removes the second secret, and never prints the one in use."""

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from click.testing import Result

Meshsec = Callable[..., Result]
SCHEMA = Path(__file__).parents[3] / "docs/reference/schema/meshsec-secret-1.json"


def shown(meshsec: Meshsec) -> str | None:
    view = json.loads(meshsec("secret", "show", "--json").output)
    jsonschema.validate(view, json.loads(SCHEMA.read_text()))
    mark: str | None = view["mark"]
    return mark


def test_a_secret_of_one_node_is_taken_by_others(meshsec: Meshsec, tmp_path: Path) -> None:
    assert shown(meshsec) is None
    made = meshsec("secret", "new").output.strip()
    assert made != meshsec("secret", "new").output.strip()
    assert shown(meshsec) is None, "new changes nothing"
    file = tmp_path / "mission.secret"
    file.write_text(f"{made}\n")
    taken = meshsec("secret", "set", str(file))
    assert taken.exit_code == 0, taken.output
    assert shown(meshsec) == taken.output.strip()
    assert made not in taken.output
    assert taken.output.strip() in meshsec("secret", "show").output
    (kept,) = tmp_path.rglob("second-secret")
    assert kept.stat().st_mode & 0o777 == 0o600
    assert "removed" in meshsec("secret", "remove").output
    assert shown(meshsec) is None
    assert "no second secret" in meshsec("secret", "remove").output


@pytest.mark.parametrize("content", ["", "abc", "zz" * 32, "00" * 40])
def test_what_is_no_secret_is_refused_and_not_printed(meshsec: Meshsec, tmp_path: Path, content: str) -> None:
    file = tmp_path / "bad"
    file.write_text(content)
    refused = meshsec("secret", "set", str(file))
    assert refused.exit_code == 1
    assert "64 hexadecimal digits" in refused.output
    assert not content or content not in refused.output
    assert shown(meshsec) is None
