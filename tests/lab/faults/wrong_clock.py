"""Daemons whose wall clock is wrong. All namespaces share the kernel's, so a library changes what a process reads.

CLOCK_MONOTONIC stays as it is, as on a machine that was never set.
"""

import subprocess
from pathlib import Path

from tests.lab.basics.processes import Daemon

YEAR = 365 * 24 * 3600
_SOURCE = r"""
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int status = syscall(SYS_clock_gettime, clock, now);
    const char *offset = getenv("CLOCK_OFFSET");
    if (status == 0 && clock == CLOCK_REALTIME && offset)
        now->tv_sec += atoll(offset);
    return status;
}
"""
"""Programs in Rust read the clock by this function."""


def set_clock(directory: Path, seconds: int, *daemons: Daemon) -> None:
    """Let the clock of daemons be wrong by so many seconds from their next start on."""
    library = directory / "wrong_clock.so"
    argv = ["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-x", "c", "-", "-o", str(library)]
    subprocess.run(argv, input=_SOURCE, text=True, check=True)
    for daemon in daemons:
        daemon.argv[:0] = ["env", f"LD_PRELOAD={library}", f"CLOCK_OFFSET={seconds}"]
