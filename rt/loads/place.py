"""Where a load runs: the node, the processors and the priority of its process."""

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rt.measure.results import MeasurementError


@dataclass(frozen=True)
class Place:
    """A node's namespace, and how a process there is scheduled."""

    namespace: str
    cores: frozenset[int]
    nice: int = 0
    last: bool = False
    """Whether it runs only when nothing else wants the processor (SCHED_IDLE)."""

    @contextmanager
    def running(self, argv: Sequence[str]) -> Iterator[None]:
        """Run a program while the context is open. Raises MeasurementError if it ended by itself."""
        process = subprocess.Popen(
            ["ip", "netns", "exec", self.namespace, *argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            preexec_fn=self._place_itself,  # noqa: PLW1509  # only system calls, before exec
            process_group=0,
        )
        whole = False
        try:
            yield
            whole = True
        finally:
            ended_by_itself = process.poll() is not None
            if not ended_by_itself:
                os.killpg(process.pid, signal.SIGKILL)
            _, said = process.communicate()
            if ended_by_itself and whole:
                raise MeasurementError(f"{argv[0]} ended by itself: {said.decode(errors='replace').strip()[-400:]}")

    def _place_itself(self) -> None:
        os.sched_setaffinity(0, self.cores)
        if self.last:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        else:
            os.setpriority(os.PRIO_PROCESS, 0, self.nice)
