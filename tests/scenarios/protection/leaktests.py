"""``meshsec leaktest`` as an operator runs it, beside what a scenario does to the node."""

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import jsonschema

from tests.lab.basics import programs
from tests.lab.basics.patience import patient
from tests.lab.basics.places import REPOSITORY
from tests.lab.node.node import Node

SCHEMA = REPOSITORY / "docs/reference/schema/meshsec-leaktest-1.json"
SECONDS = 90
"""For a test that takes some."""


def started(node: Node, *arguments: str) -> subprocess.Popen[str]:
    """A test that runs."""
    argv = ["ip", "netns", "exec", node.namespace, programs.meshsec(), "--config", str(node.config), "leaktest"]
    return subprocess.Popen([*argv, "--json", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(test: subprocess.Popen[str]) -> tuple[int, dict[str, Any]]:
    """Its exit status and what it says."""
    out, err = test.communicate(timeout=patient(SECONDS))
    assert out, err
    view: dict[str, Any] = json.loads(out)
    jsonschema.validate(view, json.loads(SCHEMA.read_text()))
    return test.returncode, view


def waits_for(flag: Path) -> str:
    """A shell command with which a test waits for the relay to look."""
    return f"until [ -e {shlex.quote(str(flag))} ]; do sleep 0.1; done"
