"""Each command with --json names its schema in docs/reference/cli.md, and what tests get from it has that schema.

``conftest.command_line`` validates each JSON output of each test of the command line.
"""

import json
import re

import jsonschema
import pytest

from cli import documented
from cli.conftest import Meshsec

PRIVATE = {"meshsec-page-1", "meshsec-backup-1"}
"""Formats between two parts of one version: nobody else reads them."""
REFERENCES = ("control-socket.md", "cli.md", "olsrv2d.md", "overlayd.md", "kernel-dissect.md", "meshsec.toml.md")


def test_each_command_with_json_has_its_schema_in_the_reference() -> None:
    assert set(documented.schemas()) == documented.commands()
    assert {f"{name}.json" for names in documented.schemas().values() for name in names} <= {
        path.name for path in documented.DIRECTORY.iterdir()
    }


def test_each_schema_that_the_code_names_is_published() -> None:
    sources = (documented.ROOT / "daemon/meshsec").rglob("*.py")
    named = {name for path in sources for name in re.findall(r'"(meshsec-[a-z-]+-\d+)"', path.read_text())}
    assert len(named) > 25
    assert {name for name in named - PRIVATE if not (documented.DIRECTORY / f"{name}.json").exists()} == set()


def test_an_output_that_is_not_what_the_reference_says_is_refused(meshsec: Meshsec) -> None:
    good = meshsec("version", "--json").stdout
    documented.check(["version", "--json"], good)
    documented.check(["version"], "meshsec 1")
    other = json.dumps({**json.loads(good), "schema": "meshsec-status-1"})
    with pytest.raises(AssertionError, match="`version` has meshsec-status-1"):
        documented.check(["version", "--json"], other)
    with pytest.raises(jsonschema.ValidationError):
        documented.check(["version", "--json"], json.dumps({**json.loads(good), "version": 1}))
