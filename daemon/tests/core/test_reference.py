"""The generated files are as tools/reference writes them from the declared tables."""

import json
import re
import shutil
import tomllib
from pathlib import Path
from runpy import run_path

import jsonschema
import pytest
import yaml  # type: ignore[import-untyped]

from meshsec.core.config import settings
from meshsec.core.policy.policy import Policy

ROOT = Path(__file__).parents[3]
TOOL = run_path(str(ROOT / "tools/reference"))
PAGES = TOOL["pages"](ROOT)
ROLES = sorted((ROOT / "ansible/roles").iterdir())
SCHEMA = json.loads((ROOT / "docs/reference/schema/meshsec-toml.json").read_text())
VECTORS = ROOT / "tests/vectors/config"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_generated_file_is_up_to_date(path: Path) -> None:
    assert path.read_text() == PAGES[path], "run `make reference`"


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_the_declared_default_of_a_role_is_the_one_in_force(role: Path) -> None:
    declared = yaml.safe_load((role / "meta/argument_specs.yml").read_text())["argument_specs"]
    options = [option for entry in declared.values() for option in entry.get("options", {}).items()]
    stated = {name: option["default"] for name, option in options if "default" in option}
    in_force = yaml.safe_load((role / "defaults/main.yml").read_text()) or {}
    assert stated == {name: in_force[name] for name in stated}
    assert set(in_force) <= {name for name, _ in options}


@pytest.mark.parametrize(
    ("file", "before", "after", "row"),
    [
        ("meta/argument_specs.yml", "type: bool", "type: str", "| `chrony_sets_clock` | str | `true` |"),
        ("defaults/main.yml", "_clock: true", "_clock: false", "| `chrony_sets_clock` | bool | `false` |"),
    ],
)
def test_the_readme_of_a_role_follows_its_declarations(
    file: str, before: str, after: str, row: str, tmp_path: Path
) -> None:
    role = shutil.copytree(ROOT / "ansible/roles/chrony", tmp_path / "chrony")
    assert row not in TOOL["role_readme"](role)
    (role / file).write_text((role / file).read_text().replace(before, after))
    assert row in TOOL["role_readme"](role)


def test_every_table_of_the_page_has_keys() -> None:
    page = (ROOT / "docs/reference/meshsec.toml.md").read_text()
    assert page.count("<!-- keys of ") == page.count("<!-- end -->") == 17


@pytest.mark.parametrize("case", sorted((VECTORS / "accepted").glob("*.toml")), ids=lambda case: case.stem)
def test_the_schema_accepts_what_the_decoder_accepts(case: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(tomllib.loads(case.read_text()), SCHEMA)


@pytest.mark.parametrize("name", ["empty", "missing", "unknown-keys", "unknown-table", "removed-keys", "wrong-types"])
def test_the_schema_refuses_wrong_types_and_names(name: str) -> None:
    table = tomllib.loads((VECTORS / f"refused/{name}.toml").read_text())
    assert list(jsonschema.Draft202012Validator(SCHEMA).iter_errors(table))


def test_the_file_of_defaults_has_the_values_of_keys_that_are_left_out() -> None:
    text = (ROOT / "docs/reference/meshsec-defaults.toml").read_text()
    smallest = {"node": {"name": "rescue-1"}, "routing": {"interfaces": ["mesh0"]}}
    table = tomllib.loads(text)
    for name, given in smallest.items():
        table[name] |= given
    found, expected = (settings.decode(one, "/etc/meshsec", lambda _name: Policy()) for one in (table, smallest))
    assert found == expected
    assert len(table) > len(smallest)


def test_the_file_of_defaults_has_every_key() -> None:
    lines = (ROOT / "docs/reference/meshsec-defaults.toml").read_text().splitlines()
    names = {line.removeprefix("# ").partition(" =")[0] for line in lines if " =" in line}
    page = (ROOT / "docs/reference/meshsec.toml.md").read_text()
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) <= names
