"""Judges the date: a board without a battery for its clock may begin a year ago.

A clock that is behind is noticed by what has been dated later. Nothing on a node shows that a clock is ahead, so the
date is printed for a person to read.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from meshsec.core.explain.findings import Check, Level

NAME = "clock"
DAY = 86400.0
"""Seconds by which a clock may be behind without a warning, because the clock that dated the evidence may be ahead."""
_LAST = 253402300799.0
"""The last second of the year 9999, the last one that can be printed. A list's number may lie behind it, because
whoever signs the list chooses the number."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Something that has a date, so that it is later than that now."""

    what: str
    """What happened then, as a sentence's end: "FILE was written"."""
    at: float
    """Seconds since 1970."""
    otherwise: str
    """What to do if this date is wrong and the clock is right."""


def judged(now: float, evidence: Iterable[Evidence]) -> Check:
    """Return doctor's check; ``now`` is this node's clock in seconds since 1970."""
    latest = max(evidence, key=lambda one: one.at, default=None)
    if latest is None or now >= latest.at - DAY:
        return Check(NAME, Level.OK, f"it is {_date(now)}, if this node's clock is right")
    days = int((min(latest.at, _LAST) - now) // DAY)
    found = f"it says {_date(now)}, but {latest.what} on {_date(latest.at)}: it is at least {days} days behind"
    fix = (
        "as root `date -s 'YYYY-MM-DD HH:MM'`, or give the mesh a source of time (docs/guide/time.md); if the clock is "
        f"right, {latest.otherwise}"
    )
    return Check(NAME, Level.WARN, found, fix)


def _date(at: float) -> str:
    return datetime.fromtimestamp(min(max(at, 0.0), _LAST), UTC).strftime("%Y-%m-%d %H:%M UTC")
