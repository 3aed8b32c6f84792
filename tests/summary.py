"""The report at the end of a run: which foreign programs were there, and which tests needed a second try."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.lab.basics.places import BUILD
from tests.lab.basics.programs import find
from tests.lab.foreign import chrony, gpsd, prometheus
from tests.lab.node import libreswan

SECOND_TRIES = BUILD / "artifacts" / "second-tries.jsonl"
"""One line for each failed first try, of all runs since `make clean`. A guest keeps its own file among its artifacts.
"""


def foreign_programs() -> dict[str, bool]:
    """Return for each program of another project that some claims need whether it is there."""
    return {
        "cjdroute": find("cjdroute") is not None,
        "olsrd2": find("olsrd2") is not None,
        "libreswan": bool(libreswan.suites()),
        "chronyd": chrony.CHRONYD.exists(),
        "promtool": prometheus.PROMTOOL.exists(),
        "gpsd": gpsd.GPSD.exists(),
    }


def foreign_line(programs: Mapping[str, bool], skipped: Iterable[pytest.TestReport]) -> str:
    """Return one line: the programs that were there, and for each that was not, the files and numbers of its claims.

    A claim counts for an absent program when the reason why it was skipped names that program.
    """
    skips = [(report.nodeid.partition("::")[0], _reason(report)) for report in skipped]
    unproved = {
        name: Counter(file for file, reason in skips if name in reason) for name, there in programs.items() if not there
    }
    missed = [
        f"; without {name} not run: {', '.join(f'{count} of {file}' for file, count in sorted(files.items()))}"
        for name, files in unproved.items()
        if files
    ]
    idle = [name for name, files in unproved.items() if not files]
    present = ", ".join(name for name, there in programs.items() if there) or "none"
    return f"foreign programs: {present}{''.join(missed)}" + (
        f"; absent, not needed: {', '.join(idle)}" if idle else ""
    )


def record_second_tries(first_tries: Iterable[pytest.TestReport], passed: Iterable[str], file: Path) -> list[str]:
    """Append each failed first try to ``file`` as a JSON line. Return the summary's lines about them."""
    succeeded = set(passed)
    entries: list[dict[str, Any]] = [
        {
            "test": report.nodeid,
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
            "phase": report.when,
            "seconds": round(report.duration, 1),
            "why": _cause(report),
            "passed_then": report.nodeid in succeeded,
        }
        for report in first_tries
    ]
    if not entries:
        return []
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as stream:
        stream.writelines(f"{json.dumps(entry)}\n" for entry in entries)
    known = Counter(json.loads(line)["test"] for line in file.read_text(encoding="utf-8").splitlines())
    return [f"second tries: {len(entries)}, recorded in {file}"] + [
        f"  {entry['test']} ({known[entry['test']]} since the record began): {entry['why'][:200]}" for entry in entries
    ]


def _reason(report: pytest.TestReport) -> str:
    """Return why a test was skipped; a report of another process has a list instead of the tuple."""
    return str(report.longrepr[2]) if isinstance(report.longrepr, tuple | list) else report.longreprtext


def _cause(report: pytest.TestReport) -> str:
    """Return the first line of the failure's message."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else report.longreprtext
    return next(iter(text.strip().splitlines()), "")
