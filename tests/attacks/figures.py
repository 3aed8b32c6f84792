"""What an attack costs the daemons of a node: processor and memory, printed and bounded."""

import time
from types import TracebackType
from typing import Self

from tests.lab.node.node import Node

MEGABYTES_MORE = 64
"""Bound on the growth of any daemon during any of these attacks."""


class Cost:
    """Measures the daemons of a node while the block runs; leaving it prints the results and asserts the bound."""

    def __init__(self, label: str, node: Node) -> None:
        self._label, self._node = label, node

    def __enter__(self) -> Self:
        self._begun = time.monotonic()
        self._before = {
            one.name: (one.pid, one.cpu_seconds(), one.resident_bytes()) for one in self._node.daemons.all()
        }
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            return
        seconds = time.monotonic() - self._begun
        for daemon in self._node.daemons.all():
            pid, cpu, resident = self._before[daemon.name]
            assert daemon.pid == pid, f"{daemon.name} was started again"
            share, now = (daemon.cpu_seconds() - cpu) / seconds, daemon.resident_bytes()
            grown = (now - resident) >> 20
            print(f"{self._label}: {daemon.name} {share:.0%} of a processor, {now >> 20} MB ({grown:+d})")
            assert grown <= MEGABYTES_MORE, daemon.name
