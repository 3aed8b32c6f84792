"""The end of a run names the claims that were not proved and the tests that needed a second try."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import summary
from tests.lab.basics.places import REPOSITORY

FLAKY = """
import pathlib
def test_it():
    seen = pathlib.Path(__file__).with_suffix(".seen")
    first = not seen.exists()
    seen.touch()
    assert not first, "the first try"
def test_broken():
    assert False, "always"
"""
RUN = "import sys, pathlib, pytest; from tests import summary; summary.SECOND_TRIES = pathlib.Path(sys.argv[1])"


def skipped(file: str, reason: str) -> pytest.TestReport:
    return pytest.TestReport(f"{file}::test_x", (file, 1, ""), {}, "skipped", (file, 1, reason), "setup")


def test_an_absent_program_is_named_with_the_claims_that_did_not_run() -> None:
    skips = [
        skipped("interop/test_cjdns.py", "Skipped: cjdroute is not on PATH"),
        skipped("interop/test_cjdns.py", "Skipped: cjdroute is not on PATH"),
        skipped("scenarios/radio/test_radio.py", "Skipped: this kernel has no radios"),
    ]
    line = summary.foreign_line({"cjdroute": False, "olsrd2": False, "chronyd": True}, skips)
    assert line == (
        "foreign programs: chronyd; without cjdroute not run: 2 of interop/test_cjdns.py; absent, not needed: olsrd2"
    )


@pytest.mark.parametrize("beside", [(), ("--numprocesses=1",)])
def test_a_second_try_is_recorded_with_its_cause_and_its_end(tmp_path: Path, beside: tuple[str, ...]) -> None:
    (tmp_path / "test_flaky.py").write_text(FLAKY, encoding="ascii")
    record, before = tmp_path / "record.jsonl", _in_own_record()
    program = f"{RUN}; sys.exit(pytest.main(sys.argv[2:]))"
    options = ["-q", "-p", "tests.conftest", "-c", str(REPOSITORY / "pyproject.toml"), "--reruns=1", *beside]
    done = subprocess.run(
        [sys.executable, "-c", program, str(record), *options, str(tmp_path / "test_flaky.py")],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    entries = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    assert len(entries) == 2
    assert _in_own_record() == before, "a worker recorded it too"
    found = {entry["test"].rpartition("::")[2]: entry for entry in entries}
    assert {name: entry["passed_then"] for name, entry in found.items()} == {"test_it": True, "test_broken": False}
    assert "the first try" in found["test_it"]["why"]
    assert f"second tries: 2, recorded in {record}" in done.stdout


def _in_own_record() -> int:
    """Return how often the record of this repository's runs has the flaky file's test."""
    own = summary.SECOND_TRIES
    return own.read_text(encoding="utf-8").count("test_broken") if own.exists() else 0
