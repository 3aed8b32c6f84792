"""Load that keeps a processor busy, so that what runs there is late."""

import os
import subprocess
import sys
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.lab.processes import Daemon

PERIOD = 1.0
"""Seconds."""
BUSY = 0.9
"""Part of each period: below the kernel's throttle for real-time classes (0.95), so that some time is left for sure."""

_PROGRAM = f"""
import os, time
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
print(flush=True)
while True:
    begin = time.monotonic()
    while time.monotonic() < begin + {PERIOD * BUSY}:
        pass
    time.sleep({PERIOD * (1 - BUSY)})
"""


@contextmanager
def occupied(core: int) -> Iterator[None]:
    """While the context is open a real-time program takes nine tenths of each second of this core.

    Whatever is pinned there waits up to 0.9 s, whatever its nice value.
    """
    process = subprocess.Popen(
        ["taskset", "-c", str(core), sys.executable, "-c", _PROGRAM], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n", "the load did not get its class"
        yield
    finally:
        process.kill()
        process.communicate()


def pin(daemon: Daemon, cores: AbstractSet[int]) -> None:
    """Keep all threads of a daemon on these processors; threads that it starts later inherit it."""
    for thread in Path(f"/proc/{daemon.pid}/task").iterdir():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread.name), cores)
