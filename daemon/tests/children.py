"""Processes that a test starts and that must not outlive it."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import AnyStr


@contextmanager
def child(process: subprocess.Popen[AnyStr]) -> Iterator[subprocess.Popen[AnyStr]]:
    """Wait for the end of a process, and kill it after a failure: one that goes on for ever would hide the failure."""
    with process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise
