"""The service manager, asked and told by systemctl(1)."""

import shlex
import subprocess
from pathlib import Path

BOOTED = Path("/run/systemd/system")
"""Exists where systemd is process 1 (sd_booted(3))."""
_SECONDS = 300.0
"""Time limit of a command. A start waits for the daemons, each of which has 90 s."""


class SystemdError(Exception):
    """A command failed. The message names it and says why."""


def is_booted() -> bool:
    """Return whether systemd is process 1."""
    return BOOTED.is_dir()


def run(*argv: str) -> str:
    """Run a program and return what it prints. Raises SystemdError."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=_SECONDS)
    except OSError as error:
        raise SystemdError(f"{argv[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise SystemdError(f"`{shlex.join(argv)}` did not end within {_SECONDS:.0f} s") from error
    if done.returncode:
        raise SystemdError(f"`{shlex.join(argv)}`: {done.stderr.strip() or f'exit status {done.returncode}'}")
    return done.stdout


def is_active(unit: str) -> bool:
    """Return whether a unit runs."""
    return _property(unit, "ActiveState") == "active"


def has_failed(unit: str) -> bool:
    """Return whether a unit ended with a failure and is not started again."""
    return _property(unit, "ActiveState") == "failed"


def is_masked(unit: str) -> bool:
    """Return whether somebody has forbidden the unit to start (`systemctl mask`)."""
    return _property(unit, "LoadState") == "masked"


def is_enabled(unit: str) -> bool:
    """Return whether a unit starts with the system."""
    return _property(unit, "UnitFileState") in ("enabled", "enabled-runtime")


def _property(unit: str, name: str) -> str:
    return run("systemctl", "show", f"--property={name}", "--value", unit).strip()
