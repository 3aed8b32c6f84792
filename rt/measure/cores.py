"""Which processors nodes, their loads and emulated guests run on, so that they do not disturb one another."""

import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tests.lab.faults import load
from tests.lab.node.node import Node

if TYPE_CHECKING:
    from multiprocessing.pool import IMapIterator

Result = TypeVar("Result")

_LOOK_UP = 1.0
"""Seconds after which a wait for guests looks for a signal."""
_AUTOGROUP = Path("/proc/sys/kernel/sched_autogroup_enabled")


def busy_and_others() -> tuple[frozenset[int], frozenset[int]]:
    """Return the loaded node's core, and those of all others. Raises RuntimeError with fewer than two cores."""
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        raise RuntimeError("one processor is too few: the loaded node needs one of its own")
    return frozenset(usable[-1:]), frozenset(usable[:-1])


def pin(node: Node, cores: frozenset[int]) -> None:
    """Keep all daemons of a node on these processors."""
    for daemon in node.daemons.all():
        load.pin(daemon, cores)


@contextmanager
def nice_counts() -> Iterator[bool]:
    """While the context is open nice values count between sessions too, as they do between the services of a system.

    With autogroups the kernel shares a processor between sessions first, and every daemon of the lab has its own.
    Gives whether it is so.
    """
    before = _AUTOGROUP.read_text() if _AUTOGROUP.exists() else "0"
    if before.strip() == "0":
        yield True
        return
    try:
        _AUTOGROUP.write_text("0")
    except OSError:
        yield False
        return
    try:
        yield True
    finally:
        _AUTOGROUP.write_text(before)


def awaited(results: "IMapIterator[Result]") -> Iterator[Result]:
    """Yield the results of a pool as they come. A signal that comes just before a wait is heeded soon, too.

    It would not end that wait: Python sees a signal when the call returns in which it came.
    """
    while True:
        try:
            result = results.next(timeout=_LOOK_UP)
        except multiprocessing.TimeoutError:
            continue
        except StopIteration:
            return
        yield result
