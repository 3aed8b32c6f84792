"""A verdict as a table for people and as JSON for programs."""

import json

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kernelconfig.fragments import FEATURES, Severity
from kernelconfig.syntax import Configuration
from kernelconfig.verdict import Finding, Verdict

JSON_VERSION = 1
_STYLES = {Severity.REQUIRED: "bold red", Severity.RISKY: "yellow", Severity.RECOMMENDED: "cyan"}


def as_json(verdict: Verdict, configuration: Configuration, source: str) -> str:
    """Return the verdict with every finding; docs/guide/kernel.md describes the fields."""
    findings = [_fields(finding) for finding in verdict.findings]
    return json.dumps(
        {
            "version": JSON_VERSION,
            "config": source,
            "kernel": configuration.kernel,
            "passed": verdict.passed,
            "checked": verdict.checked,
            "findings": findings,
        },
        indent=2,
    )


def show(verdict: Verdict, configuration: Configuration, source: str, console: Console) -> None:
    """Print the table and a sentence that says whether this kernel will do."""
    console.print(Text(f"{source}: {configuration.kernel or 'a kernel that does not name itself'}"))
    if verdict.findings:
        console.print(_table(verdict))
    console.print(_summary(verdict))


def _fields(finding: Finding) -> dict[str, str]:
    want = finding.want
    return {
        "symbol": f"CONFIG_{want.symbol}",
        "wanted": want.value,
        "found": finding.found,
        "severity": str(want.severity),
        "feature": want.feature,
        "reason": want.reason,
        "fragment": want.fragment,
    }


def _table(verdict: Verdict) -> Table:
    """Print two columns, so that the reasons fit a terminal of 80 columns."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("symbol, severity, wanted and found", no_wrap=True)
    table.add_column("feature: why")
    for finding in verdict.findings:
        table.add_row(_state(finding), Text(f"{finding.want.feature}: {finding.want.reason}"))
    return table


def _state(finding: Finding) -> Text:
    want = finding.want
    values = f" wanted {want.value}, found {finding.found}"
    return Text.assemble(want.symbol, "\n  ", (want.severity, _STYLES[want.severity]), values)


def _summary(verdict: Verdict) -> Text:
    counts = ", ".join(f"{len(verdict.of(severity))} {severity}" for severity in Severity)
    if verdict.passed:
        return Text(
            f"passed: everything required is there ({verdict.checked} symbols; not as wanted: {counts})", "green"
        )
    lost = dict.fromkeys(FEATURES[finding.want.feature] for finding in verdict.of(Severity.REQUIRED))
    return Text(f"failed: this kernel cannot give: {'; '.join(lost)} (not as wanted: {counts})", "bold red")
