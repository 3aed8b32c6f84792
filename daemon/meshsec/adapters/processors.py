"""Look at what the processors and all threads of this machine have done (proc(5))."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

from meshsec.core.bench import usage
from meshsec.core.bench.usage import Look, Thread

HERTZ = os.sysconf("SC_CLK_TCK")
"""Clock ticks of /proc in a second."""
_PROC = Path("/proc")


def look() -> Look:
    """Return what /proc says now. Threads that end meanwhile are left out."""
    return Look(time.monotonic(), usage.cores(_text(_PROC / "stat")), dict(_threads()))


def _threads() -> Iterator[tuple[tuple[int, int], Thread]]:
    for process in _numbers(_PROC):
        name = _text(_PROC / str(process) / "comm").strip()
        for one in _numbers(_PROC / str(process) / "task"):
            found = usage.thread(_text(_PROC / str(process) / "task" / str(one) / "stat"))
            if found is not None:
                yield (process, one), Thread(name or found[0], found[1])


def _numbers(directory: Path) -> Iterator[int]:
    try:
        names = [one.name for one in directory.iterdir()]
    except OSError:
        return
    yield from (int(name) for name in names if name.isdigit())


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
