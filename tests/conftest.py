"""Where the lab is required, a missing program ends the run or fails the test.

What this kernel cannot do is still skipped, with the reason.
"""

import os
from collections.abc import Generator

import pytest

from tests import summary
from tests.lab.lab import Lab
from tests.lab.machines import debian
from tests.lab.node import capabilities

FIX = "fix: `make setup`"


def pytest_sessionstart() -> None:
    """End the run with one message when the lab lacks something, before any test runs."""
    if capabilities.REQUIRED in os.environ and (missing := capabilities.probe().missing_for_all()):
        pytest.exit(f"scenarios need {', '.join(missing)}; {FIX}", returncode=1)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that is skipped because something is not installed, and save what explains a failure."""
    report = yield
    if capabilities.REQUIRED in os.environ and report.skipped and isinstance(report.longrepr, tuple):
        reason = str(report.longrepr[2])
        if "not installed" in reason:
            report.outcome, report.longrepr = "failed", f"{reason}; {FIX}"
    if report.failed and call.excinfo is not None:  # The daemons still run now.
        report.sections.extend(("artifacts", str(lab.save_artifacts())) for lab in Lab.running)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Report which foreign programs were absent with their claims, and which tests needed a second try.

    A worker of pytest-xdist has a summary too, which nobody sees: the process that started it reports for all.
    """
    if hasattr(config, "workerinput"):
        return
    stats = terminalreporter.stats
    terminalreporter.write_line(debian.said())
    terminalreporter.write_line(summary.foreign_line(summary.foreign_programs(), stats.get("skipped", [])))
    passed = [report.nodeid for report in stats.get("passed", [])]
    for line in summary.record_second_tries(stats.get("rerun", []), passed, summary.SECOND_TRIES):
        terminalreporter.write_line(line)
