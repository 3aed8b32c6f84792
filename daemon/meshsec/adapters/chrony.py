"""Ask this node's chronyd about its clock, with chronyc(1)."""

import os
import subprocess
from pathlib import Path

from meshsec.core.explain import clock
from meshsec.core.explain.clock import Tracking
from meshsec.core.explain.findings import Check, Level

_SECONDS = 10.0
_CAP_SYS_TIME = 25
_SHOWN = 200
"""Characters of chronyc's answer that an error message quotes."""


class ChronyError(Exception):
    """chronyc is missing or gave no usable answer; the message says why."""


def tracking(socket: str) -> Tracking:
    """Return the clock state that chronyd at ``socket`` reports. Raises ChronyError."""
    try:
        answer = subprocess.run(
            ["chronyc", "-n", "-c", "-h", socket, "tracking"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except FileNotFoundError:
        raise ChronyError("chrony is not installed") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ChronyError(f"chronyc: {error}") from error
    if answer.returncode:
        said = (answer.stdout + answer.stderr).strip()[:_SHOWN] or f"status {answer.returncode}"
        raise ChronyError(f"chronyd does not answer at {socket}: {said}")
    try:
        return clock.parse(answer.stdout)
    except ValueError as error:
        raise ChronyError(str(error)) from error


def check(socket: str) -> Check:
    """Return doctor's check of the clock."""
    try:
        return clock.judged(tracking(socket))
    except ChronyError as error:
        if os.geteuid():
            return Check(clock.NAME, Level.OK, f"not examined: {error}; chronyd answers root alone")
        return Check(clock.NAME, Level.WARN, str(error), clock.fix(may_set=_may_set()))


def _may_set() -> bool:
    """Return whether root may set the clock here (CAP_SYS_TIME, capabilities(7)). Most containers forbid it."""
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    bounding = next(line for line in status.splitlines() if line.startswith("CapBnd:"))
    return bool(int(bounding.split()[1], 16) >> _CAP_SYS_TIME & 1)
