"""Run programs that measure, and describe this machine."""

import os
import platform
import shutil
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

_SHOWN = 300
"""Characters of a program's complaint that an error message quotes."""
_MOST = 8 << 20
"""Bytes of a program's answer that are read; more is an error."""
_GRACE = 2.0
"""Seconds that a program gets to end before it is killed."""


class MeasuringError(Exception):
    """A program is missing, failed or took too long. The message names the command that helps."""


def installed(program: str) -> bool:
    """Return whether a program is on PATH."""
    return shutil.which(program) is not None


def need(program: str, package: str) -> None:
    """Raise MeasuringError if a program is missing."""
    if not installed(program):
        raise MeasuringError(f"{program} is not installed; install it: apt install {package}")


def run(argv: Sequence[str], seconds: float, allowed: Collection[int] = (0,)) -> str:
    """Return what a program prints.

    Raises MeasuringError if its status is none of ``allowed``, or it does not end within ``seconds``.
    """
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MeasuringError(f"{argv[0]}: {error}") from error
    if done.returncode not in allowed:
        said = (done.stderr + done.stdout).strip()[:_SHOWN] or f"status {done.returncode}"
        raise MeasuringError(f"{' '.join(argv)}: {said}")
    if len(done.stdout) > _MOST:
        raise MeasuringError(f"{argv[0]} printed more than {_MOST} bytes")
    return done.stdout


@contextmanager
def beside(argv: Sequence[str]) -> Iterator[None]:
    """Run a program meanwhile, and end it with all that it started. Raises MeasuringError if it ended by itself.

    It has a session of its own, so that its whole group can be ended. The kernel ends it when this process is killed.
    """
    quiet = subprocess.DEVNULL
    try:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", "--", *argv],
            stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise MeasuringError(f"setpriv: {error.strerror}") from error
    try:
        yield
        if process.poll() is not None:
            raise MeasuringError(f"{' '.join(argv)} ended with status {process.returncode} before the measurement did")
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the program's whole group: hackbench's children would go on without it."""
    for signal in (15, 9):
        try:
            os.killpg(process.pid, signal)
        except ProcessLookupError:
            break
        try:
            process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            continue
    process.wait(_GRACE)


def machine() -> Mapping[str, object]:
    """Return what the figures depend on: processor, cores, kernel, system."""
    return {"cpu": _processor(), "cores": os.cpu_count(), "kernel": platform.release(), "system": _system()}


def _processor() -> str:
    """Return the processor's name; ARM's boards have theirs in the device tree (proc(5), cpuinfo)."""
    for line in _text(Path("/proc/cpuinfo")).splitlines():
        name, _, value = line.partition(":")
        if name.strip() in {"model name", "Model"}:
            return value.strip()
    return _text(Path("/proc/device-tree/model")).strip("\0\n ") or platform.machine()


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
