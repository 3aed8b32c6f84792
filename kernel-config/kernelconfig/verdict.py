"""Compares a kernel's configuration with what is wanted of it. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from kernelconfig.fragments import Severity, Want
from kernelconfig.syntax import Configuration

_ORDER = list(Severity)


@dataclass(frozen=True)
class Finding:
    """A symbol that is not as wanted."""

    want: Want
    found: str
    """The kernel's value; "n" when it is not set."""


@dataclass(frozen=True)
class Verdict:
    """What is to be said about one configuration."""

    checked: int
    findings: tuple[Finding, ...]
    """The gravest first, then by fragment and line."""

    @property
    def passed(self) -> bool:
        """Whether everything required is there."""
        return not self.of(Severity.REQUIRED)

    def of(self, severity: Severity) -> tuple[Finding, ...]:
        """Return the findings of one severity."""
        return tuple(finding for finding in self.findings if finding.want.severity is severity)


def judge(wants: Iterable[Want], configuration: Configuration) -> Verdict:
    """Compare every wanted symbol."""
    wants = tuple(wants)
    findings = (Finding(want, configuration.value(want.symbol)) for want in wants)
    unmet = (finding for finding in findings if not finding.want.is_met_by(finding.found))
    return Verdict(len(wants), tuple(sorted(unmet, key=lambda finding: _ORDER.index(finding.want.severity))))
