"""Daemons inside namespaces: started directly, known by their PID, ready when they report it (sd_notify(3))."""

import os
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.lab.basics import preloaded
from tests.lab.basics.patience import patient

_CPUCLOCK_SCHED = 2
"""The clock of clock_getcpuclockid(3). It counts nanoseconds, where /proc counts ticks of 10 ms."""


class NotReadyError(AssertionError):
    """A daemon ended or reported nothing instead of becoming ready."""


class Daemon:
    """One daemon of one node. ``ip netns exec`` becomes the program, so its PID is the daemon's."""

    def __init__(
        self,
        name: str,
        namespace: str,
        argv: Sequence[str],
        *,
        logs: Path,
        sockets: Path,
        env: Mapping[str, str] | None = None,
        notifies: bool = True,
        enters: bool = True,
    ) -> None:
        """``enters``: whether the lab starts the daemon in the namespace; False for one that enters it by itself.

        ``notifies``: whether the daemon reports that it is ready; one that does not counts as ready at once.
        """
        self.name = name
        self.argv = list(argv)
        self.log = logs / f"{name}.log"
        self._notify_path = sockets / f"{name}.notify"
        self._namespace = namespace
        self._env = dict(env or {})
        self._notifies = notifies
        self._enters = enters
        self._process: subprocess.Popen[bytes] | preloaded.Forked | None = None
        self._notify: socket.socket | None = None

    @property
    def pid(self) -> int:
        """Return the PID of the running daemon. Raises ProcessLookupError when it does not run."""
        if self._process is None or self._process.poll() is not None:
            raise ProcessLookupError(f"{self.name} does not run in {self._namespace}: see {self.log}")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Return whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the daemon without waiting; its output is appended to the log."""
        self._listen()
        environment = {**os.environ, **self._env, "NOTIFY_SOCKET": str(self._notify_path)}
        with self.log.open("ab") as log:
            if self._enters and preloaded.serves(self.argv):
                self._process = preloaded.start(self._namespace, self.argv, log, environment)
                return
            self._process = subprocess.Popen(
                [*(["ip", "netns", "exec", self._namespace] if self._enters else []), *self.argv],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait_ready(self, seconds: float = 60.0) -> None:
        """Wait until the daemon has sent READY=1. Raises NotReadyError with the end of its log."""
        if not self._notifies:
            return
        assert self._notify is not None
        deadline = time.monotonic() + patient(seconds)
        ended = os.pidfd_open(self.pid)
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(self._notify, selectors.EVENT_READ)
                selector.register(ended, selectors.EVENT_READ)
                while (left := deadline - time.monotonic()) > 0:
                    ready = {key.fd for key, _ in selector.select(left)}
                    if self._notify.fileno() in ready and b"READY=1" in self._notify.recv(4096).split(b"\n"):
                        return
                    if ended in ready:
                        break
        finally:
            os.close(ended)
        raise NotReadyError(f"{self.name} of {self._namespace} is not ready after {seconds:g} s:\n{self.tail()}")

    def stop_listening(self) -> None:
        """Refuse what the daemon reports from now on; a daemon that reports often would block if nobody read it."""
        if self._notify is not None:
            self._notify.close()
            self._notify = None

    def tail(self, lines: int = 20) -> str:
        """Return the last lines of the log."""
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])

    def kill(self) -> None:
        """End the daemon with SIGKILL, so that it can clean up nothing."""
        self._end(signal.SIGKILL)

    def stop(self, seconds: float = 60.0) -> int:
        """End the daemon with SIGTERM and return its status. It is killed when it has not ended after ``seconds``."""
        return self._end(signal.SIGTERM, seconds)

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def cpu_seconds(self) -> float:
        """Return the user and system time of the process so far."""
        return time.clock_gettime((~self.pid << 3) | _CPUCLOCK_SCHED)

    def resident_bytes(self) -> int:
        """Return the resident set size."""
        pages = Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def _listen(self) -> None:
        self.stop_listening()
        self._notify_path.unlink(missing_ok=True)
        self._notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._notify.bind(str(self._notify_path))

    def _end(self, number: signal.Signals, seconds: float = 60.0) -> int:
        process = self._process
        if process is None:
            return 0
        with suppress(ProcessLookupError):
            process.send_signal(number)
        try:
            status = process.wait(patient(seconds))
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        if self._notify is not None:
            self._notify.close()
            self._notify = None
        return status
