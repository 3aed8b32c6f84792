"""A software TPM 2.0 (swtpm) that systemd's programs reach by tpm2-tss's transport, without a device of the kernel.

The kernel's resource manager flushes what a program that has ended left in a TPM. Here the TPM is switched off and on
instead when the next program starts it. What is sealed by it survives that, as it survives a boot.
"""

import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from meshsec.adapters.files import systemd_creds
from tests.lab.basics import shell

_PROGRAMS = ("swtpm", "swtpm_setup", "setpriv", "systemd-creds")
_HEADER = 10
"""Octets before the parameters of a command and of a response: tag, size, code (TCG TPM 2.0 Library, part 1, 18.1)."""
_STARTUP = 0x144
"""The command that is the first one of each program."""


def obstacle() -> str | None:
    """Return why this machine has no software TPM, or None."""
    missing = [program for program in _PROGRAMS if shutil.which(program) is None]
    return f"not installed: {' '.join(missing)}" if missing else None


def make(state: Path) -> None:
    """Make a TPM with secrets of its own, whose state is in that directory."""
    state.mkdir(parents=True)
    shell.run(["swtpm_setup", "--tpm2", "--tpmstate", str(state), "--logfile", str(state / "log")])


def device(path: str | Path) -> str:
    """Return the value of the variable for the TPM at a socket."""
    return f"swtpm:path={path}"


@contextmanager
def in_use(state: Path, *, is_warned: bool = True) -> Iterator[None]:
    """Let the programs that this process starts have the TPM of that directory while the block runs."""
    path = state.with_name("socket")
    with SoftwareTpm(state, path, is_warned=is_warned):
        os.environ[systemd_creds.VARIABLE] = device(path)
        try:
            yield
        finally:
            del os.environ[systemd_creds.VARIABLE]


class SoftwareTpm:
    """The TPM of a directory, which answers at a socket while the block runs."""

    def __init__(self, state: Path, path: Path, *, is_warned: bool = True) -> None:
        """``is_warned``: it is told before it is switched off, by the command that meshsec sends."""
        self._state, self._is_warned = state, is_warned
        self._commands, self._control = _listening(path), _listening(path.with_name(f"{path.name}.ctrl"))
        self._wire: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._serving = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._serving.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._commands.shutdown(socket.SHUT_RDWR)
        self._serving.join()
        for one in (self._commands, self._control):
            Path(one.getsockname()).unlink(missing_ok=True)
            one.close()

    def _serve(self) -> None:
        """Answer until the socket is shut down. The kernel ends a process with the thread that has started it."""
        self._power_on()
        with suppress(OSError):
            while True:
                client, _ = self._commands.accept()
                with client, suppress(ConnectionError):
                    while command := _message(client):
                        client.sendall(self._answered(command))
        self._power_off()

    def _answered(self, command: bytes) -> bytes:
        if int.from_bytes(command[6:_HEADER]) == _STARTUP:
            self._power_off()
            self._power_on()
        assert self._wire
        self._wire.sendall(command)
        return _message(self._wire)

    def _power_on(self) -> None:
        self._wire, other = socket.socketpair()
        argv = ["setpriv", "--pdeathsig", "KILL", "swtpm", "socket", "--tpm2", "--tpmstate", f"dir={self._state}"]
        argv += ["--fd", str(other.fileno()), "--ctrl", f"type=unixio,fd={self._control.fileno()}"]
        argv += ["--flags", "not-need-init", "--log", f"file={self._state / 'log'},level=1"]
        self._process = subprocess.Popen(argv, pass_fds=[other.fileno(), self._control.fileno()])
        other.close()

    def _power_off(self) -> None:
        assert self._wire
        assert self._process
        if self._is_warned:
            self._wire.sendall(systemd_creds.SHUTDOWN)
            _message(self._wire)
        self._wire.close()
        self._process.terminate()
        self._process.wait()


def _listening(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(path))
    made.listen()
    return made


def _message(connection: socket.socket) -> bytes:
    """Return a whole command or response; nothing at the end of the connection."""
    header = connection.recv(_HEADER, socket.MSG_WAITALL)
    return header + connection.recv(int.from_bytes(header[2:6]) - _HEADER, socket.MSG_WAITALL) if header else b""
