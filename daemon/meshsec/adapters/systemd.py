"""The service manager, asked and told by systemctl(1)."""

import shlex
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

BOOTED = Path("/run/systemd/system")
"""Exists where systemd is process 1 (sd_booted(3))."""
_MADE = Path("/etc/systemd/system")
"""Where `systemctl enable` makes links."""
_ENABLED = ("enabled", "enabled-runtime")
_SECONDS = 300.0
"""Time limit of a command. A start waits for the daemons, each of which has 90 s."""


class SystemdError(Exception):
    """A command failed. The message names it and says why."""


def is_booted() -> bool:
    """Return whether systemd is process 1."""
    return BOOTED.is_dir()


def run(*argv: str) -> str:
    """Run a program and return what it prints. Raises SystemdError."""
    done = _said(*argv)
    if done.returncode:
        raise SystemdError(f"`{shlex.join(argv)}`: {done.stderr.strip() or f'exit status {done.returncode}'}")
    return done.stdout


def _said(*argv: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end. Raises SystemdError when it cannot start or does not end."""
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=_SECONDS)
    except OSError as error:
        raise SystemdError(f"{argv[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise SystemdError(f"`{shlex.join(argv)}` did not end within {_SECONDS:.0f} s") from error


def begin_stopping(units: Iterable[str], seconds: float) -> None:
    """Ask that these units stop and are not started again, and wait for no more than that. Never fails.

    A unit that is not loaded is no obstacle for the others.
    """
    with suppress(OSError, subprocess.TimeoutExpired):
        argv = ("systemctl", "stop", "--no-block", *units)
        subprocess.run(argv, capture_output=True, check=False, stdin=subprocess.DEVNULL, timeout=seconds)


@dataclass(frozen=True, slots=True)
class State:
    """The state of a unit."""

    name: str
    is_there: bool
    """Whether it could run: it is installed, and nobody has masked it."""
    is_enabled: bool
    is_active: bool
    """Whether anything of it runs, or will: a unit that starts again after a pause counts."""


def states(patterns: Iterable[str]) -> list[State]:
    """Return the states of units. A pattern stands for those that are loaded. Raises SystemdError."""
    said = run("systemctl", "show", "--property=Id,LoadState,UnitFileState,ActiveState", *patterns)
    blocks = (dict(line.split("=", 1) for line in block.splitlines()) for block in said.split("\n\n") if block.strip())
    return [
        State(
            name=block["Id"],
            is_there=block["LoadState"] == "loaded",
            is_enabled=block["UnitFileState"] in _ENABLED,
            is_active=block["ActiveState"] not in ("inactive", "failed"),
        )
        for block in blocks
    ]


def installed(units: Iterable[str]) -> list[State]:
    """Return the states of those units that are installed, where systemd is not process 1 and none of them runs.

    `systemctl enable` works there, too. Raises SystemdError.
    """
    found = []
    for unit in units:
        # The exit status says whether it is enabled. A unit that is not there has no word.
        word = _said("systemctl", "is-enabled", unit).stdout.strip()
        if word and not word.startswith("masked"):
            found.append(State(unit, is_there=True, is_enabled=word in _ENABLED, is_active=False))
    return found


def enabled_instances(template: str) -> list[str]:
    """Return the units of a template such as ``meshsec-radio@`` that start with the system."""
    return sorted({path.name for path in _MADE.glob(f"*.wants/{template}*.service")})


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
    return _property(unit, "UnitFileState") in _ENABLED


def _property(unit: str, name: str) -> str:
    return run("systemctl", "show", f"--property={name}", "--value", unit).strip()
