"""Runs ``meshsec leaktest`` as an operator does, while a scenario changes the node."""

import json
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any

from tests.lab.basics import programs
from tests.lab.basics.patience import patient
from tests.lab.node.node import Node
from tests.lab.observe.schemas import schema

SECONDS = 90
"""For a leak test that takes some seconds."""


def started(node: Node, *arguments: str) -> subprocess.Popen[str]:
    """Start a leak test."""
    argv = ["ip", "netns", "exec", node.namespace, programs.meshsec(), "--config", str(node.config), "leaktest"]
    return subprocess.Popen([*argv, "--json", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(test: subprocess.Popen[str]) -> tuple[int, dict[str, Any]]:
    """Wait for the end of a leak test. Return its exit status and its report."""
    out, err = test.communicate(timeout=patient(SECONDS))
    assert out, err
    view: dict[str, Any] = json.loads(out)
    schema("meshsec-leaktest-1").validate(view)
    return test.returncode, view


def waits_for(flag: Path) -> str:
    """Return the shell command with which a test waits until the relay watches."""
    return f"until [ -e {shlex.quote(str(flag))} ]; do sleep 0.1; done"


def mark_of(test: subprocess.Popen[str]) -> str:
    """Return the mark that the test sends."""
    assert test.stderr is not None
    return test.stderr.readline().split()[1].rstrip(":")


def watching(node: Node, mark: str) -> subprocess.Popen[str]:
    """Start a relay's leak test and wait until it watches."""
    test = started(node, "--seconds", "600", "--watch", mark)
    assert test.stderr is not None
    assert test.stderr.readline().startswith("quiet")
    return test


def relayed_until_now(test: subprocess.Popen[str]) -> tuple[int, dict[str, Any]]:
    """Return what a relay's leak test has seen."""
    test.send_signal(signal.SIGINT)
    return ended(test)
