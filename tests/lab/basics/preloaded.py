"""The product's Python commands by fork: a server has imported them once, and each process begins where imports end.

Started by exec, meshsecd spends half a second of a processor on its imports and ten in an emulated guest, for each of
the thousand processes of a test run. What runs is the same: a process of its own, whose PID is the command's, in the
node's network namespace, as `ip netns exec` leaves it. The packages' own executables are what tests/packages,
tests/fleet and the demo run.
"""

import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from multiprocessing import connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import IO

_COMMANDS = {"meshsec": ("meshsec.cli", "main"), "meshsecd": ("meshsec.daemon", "main")}
"""The module and function of each command, as in daemon/pyproject.toml."""
_PRELOADED = [
    "meshsec.daemon",
    *(f"meshsec.cli.{name}" for name in ("setup", "key", "peer", "export", "views", "doctor")),
]
_NETNS = Path("/run/netns")
_CLONE_NEWNET, _CLONE_NEWNS = 0x40000000, 0x00020000  # sched.h
_MS_REC, _MS_SLAVE, _MNT_DETACH = 0x4000, 0x80000, 2  # sys/mount.h
_libc = ctypes.CDLL(None, use_errno=True)
_context = multiprocessing.get_context("forkserver")
_enabled = False
_one_reader = threading.Lock()
"""Held while statuses are read: a start reads those of all processes that have ended, and whoever reads one for a
second time gets 255."""


class Forked:
    """A process that the server forked, with those of Popen's methods that the lab uses."""

    def __init__(self, process: ForkServerProcess) -> None:
        self._process = process
        self.pid = process.pid or 0

    def poll(self) -> int | None:
        """Return its status, negative for a signal, or None while it runs."""
        with _one_reader:
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended, and return its status. Raises TimeoutExpired after ``timeout`` seconds."""
        connection.wait([self._process.sentinel], timeout)
        status = self.poll()
        if status is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0.0)
        return status

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send it SIGKILL, unless it has ended."""
        self.send_signal(signal.SIGKILL)


def enable() -> None:
    """Fork from now on; without this, every command is started by exec."""
    global _enabled  # noqa: PLW0603
    _context.set_forkserver_preload(_PRELOADED)
    _enabled = True


def serves(argv: Sequence[str]) -> bool:
    """Return whether a command can be forked: one of this Python environment, with nothing before it."""
    program = Path(argv[0])
    return _enabled and program.name in _COMMANDS and program.parent == Path(sys.executable).parent


def start(namespace: str, argv: Sequence[str], log: IO[bytes], environment: Mapping[str, str]) -> Forked:
    """Start a command in a namespace, without standard input and with both outputs in ``log``."""
    return _start(namespace, argv, (log.name, log.name), environment)


def run(namespace: str, argv: Sequence[str], timeout: float) -> subprocess.CompletedProcess[str]:
    """Run a command in a namespace to its end. Raises TimeoutExpired after ``timeout`` seconds; it is killed then."""
    with tempfile.NamedTemporaryFile() as output, tempfile.NamedTemporaryFile() as errors:
        forked = _start(namespace, argv, (output.name, errors.name), os.environ)
        try:
            status = forked.wait(timeout)
        finally:
            forked.kill()
        texts = [Path(file.name).read_text(encoding="utf-8") for file in (output, errors)]
    return subprocess.CompletedProcess(list(argv), status, *texts)


def _start(namespace: str, argv: Sequence[str], outputs: tuple[str, str], environment: Mapping[str, str]) -> Forked:
    arguments = (namespace, list(argv), outputs, dict(environment), Path.cwd())
    # A daemon of multiprocessing: ended with the test run at the latest.
    process = _context.Process(target=_become, args=arguments, name=Path(argv[0]).name, daemon=True)
    with _one_reader:
        process.start()
    return Forked(process)


def _become(
    namespace: str, argv: list[str], outputs: tuple[str, str], environment: dict[str, str], directory: Path
) -> None:
    """Run the command in the process that was forked for it."""
    program = Path(argv[0]).name
    os.setsid()
    for descriptor, path in enumerate(outputs, 1):
        file = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.dup2(file, descriptor)
        os.close(file)
    Path("/proc/self/comm").write_text(program, encoding="ascii")
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    _enter(namespace)
    sys.argv = argv
    module, function = _COMMANDS[program]
    sys.exit(getattr(import_module(module), function)())


def _enter(namespace: str) -> None:
    """Enter what ``ip netns exec`` enters: the network namespace, with a /sys of its own."""
    with (_NETNS / namespace).open("rb") as file:
        _check(_libc.setns(file.fileno(), _CLONE_NEWNET), namespace)
    _check(_libc.unshare(_CLONE_NEWNS), namespace)
    _check(_libc.mount(b"", b"/", b"none", ctypes.c_ulong(_MS_REC | _MS_SLAVE), None), "/")
    _libc.umount2(b"/sys", _MNT_DETACH)
    _check(_libc.mount(namespace.encode(), b"/sys", b"sysfs", ctypes.c_ulong(0), None), "/sys")


def _check(result: int, what: str) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), what)
