"""Benchmarks that a signal ends in order: the first one lets them write down what they have, the second kills them."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType

from tests.lab.basics.places import REPOSITORY

HEEDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Benchmarks:
    """Runs one benchmark after another, and passes signals on to the one that runs.

    A signal raises nothing here: an exception could come while a benchmark starts, which would then go on alone.
    """

    def __init__(self, waiting: Callable[[], None]) -> None:
        """``waiting`` is called at the first signal, when a benchmark has been told and is waited for."""
        self.asked = 0
        """How many signals have come."""
        self._waiting = waiting
        self._told = 0
        self._running: subprocess.Popen[bytes] | None = None

    @contextmanager
    def heeding(self) -> Iterator[None]:
        """Heed SIGINT, SIGTERM and SIGHUP meanwhile; but for the first, not those that were ignored: nohup(1)."""
        before = {one: signal.getsignal(one) for one in HEEDED}
        for one, handler in before.items():
            if one == signal.SIGINT or handler is not signal.SIG_IGN:
                signal.signal(one, self._heed)
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    def run(self, command: str, environment: Mapping[str, str]) -> bool:
        """Run a command of bash, and return whether it came to its end with status 0."""
        # In a group of its own it gets a signal once, whether that came from the terminal or was sent to this process.
        with subprocess.Popen(
            ["bash", "-c", command], cwd=REPOSITORY, env=environment, stdin=subprocess.DEVNULL, process_group=0
        ) as benchmark:
            self._running = benchmark
            try:
                self._pass_on()
                return benchmark.wait() == 0
            except BaseException:
                os.killpg(benchmark.pid, signal.SIGKILL)
                raise
            finally:
                self._running = None

    def _heed(self, _number: int, _frame: FrameType | None) -> None:
        self.asked += 1
        self._pass_on()

    def _pass_on(self) -> None:
        if self._running and self._told < self.asked:
            self._told = self.asked
            with suppress(ProcessLookupError):  # it has just ended
                os.killpg(self._running.pid, signal.SIGINT if self.asked == 1 else signal.SIGKILL)
            if self.asked == 1:
                self._waiting()
