"""Run libreswan's programs ``whack`` and ``addconn`` (ipsec_whack(8), ipsec_addconn(8); 4.10 and 5.2)."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from meshsec.adapters.ike import pluto_status
from meshsec.adapters.ike.pluto_status import Connection, StatusError
from meshsec.core.ike.port import CommandError, DaemonIdentity, IkeError

T = TypeVar("T")

EXECUTABLES = Path("/usr/libexec/ipsec")
"""Directory of pluto's programs in the packages."""

COMMAND_TIMEOUT = 10.0
"""Deadline in seconds of a command that pluto answers from memory. It includes the start of a program."""

ADD_TIMEOUT = 60.0
"""Deadline of ``addconn`` in seconds. It also sets up NSS, which takes 10 s on a busy emulated machine."""

MAX_COMMANDS = 8
"""Programs that run at once."""

MAX_OUTPUT = 8 * 1024 * 1024
"""Limit of one program's output in bytes: ``--status`` prints about 2500 for each connection."""

_PROBLEM = 33
"""whack's exit code if it could not talk to pluto. All other codes are pluto's answers."""
_GONE = ("is not running", "Connection refused")
_NOTHING = asyncio.subprocess.DEVNULL
_ENV = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}


class Whack:
    """Asks one pluto. ``whack`` waits for pluto's answer, so each command is a round trip with a deadline."""

    def __init__(self, control: Path, executables: Path) -> None:
        self._control = control
        self._executables = executables
        self._slots = asyncio.Semaphore(MAX_COMMANDS)
        self.is_gone = False
        """Whether nobody listened at the last attempt: then pluto does not run, rather than hang."""

    def identity(self) -> DaemonIdentity:
        """Identify the pluto process by its socket, which it makes at its start."""
        try:
            made = str(self._control.stat().st_mtime_ns)
            pid = (self._control.parent / "pluto.pid").read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            self.is_gone = not self._control.exists()
            raise IkeError(f"pluto: {error}") from error
        return DaemonIdentity(int(pid) if pid.isdecimal() else 0, made)

    async def connections(self) -> dict[str, Connection]:
        """Return our connections in pluto, by their names there."""
        known = understood(pluto_status.connections, await self.command("--status"))
        return {name: conn for name, conn in known.items() if pluto_status.peer_and_child(name)}

    async def listen(self) -> str:
        """Let pluto look for new addresses and read its secrets again; return its output."""
        return await self.command("--listen")

    async def add(self, conn: str, path: Path) -> None:
        """Load a connection from a file."""
        said: list[str] = []
        try:
            code = await self.run("addconn", "--config", str(path), conn, within=ADD_TIMEOUT, said=said)
        except TimeoutError as error:
            raise IkeError(f"addconn {conn}: pluto does not answer in time") from error
        if code:
            raise CommandError(f"addconn {conn}: {last(said)}")

    async def command(self, *arguments: str) -> str:
        """Return pluto's answer to a command. Raises IkeError if there is none."""
        said: list[str] = []
        try:
            await self.run("whack", *arguments, within=COMMAND_TIMEOUT, said=said)
        except TimeoutError as error:
            raise IkeError(f"whack {arguments[0]}: pluto does not answer in time") from error
        return "\n".join(said)

    async def run(
        self, program: str, *arguments: str, within: float, said: list[str], until: Callable[[str], bool] | None = None
    ) -> int:
        """Run one of pluto's programs, return its exit code and add its output to ``said``.

        The program is ended after ``within`` seconds or at a line that matches ``until``. Raises TimeoutError, and
        IkeError if pluto cannot be reached.
        """
        command = (str(self._executables / program), "--ctlsocket", str(self._control), *arguments)
        async with self._slots:
            try:
                process = await asyncio.create_subprocess_exec(
                    *command, stdin=_NOTHING, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=_ENV
                )
            except OSError as error:
                self.is_gone = True
                raise IkeError(f"{command[0]}: {error.strerror}") from error
            try:
                async with asyncio.timeout(within):
                    await _lines(process, said, until)
                    if until is None or not said or not until(said[-1]):
                        await process.wait()
            finally:
                await _end(process)
        self.is_gone = process.returncode == _PROBLEM and any(sign in line for sign in _GONE for line in said)
        if process.returncode == _PROBLEM:
            raise IkeError(last(said))
        return process.returncode or 0


async def _lines(process: asyncio.subprocess.Process, said: list[str], until: Callable[[str], bool] | None) -> None:
    left, output = MAX_OUTPUT, process.stdout
    try:
        while output and (line := await output.readline()):
            left -= len(line)
            if left < 0:
                raise IkeError(f"pluto's program says more than {MAX_OUTPUT} octets")
            said.append(line.decode("utf-8", "replace").rstrip())
            if until and until(said[-1]):
                return
    except ValueError as error:  # a line beyond the reader's limit
        raise IkeError(f"pluto's program says too long a line: {error}") from error


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a program that may wait for a hanging pluto or for a reader of its output."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


def understood(read: Callable[..., T], *outputs: object) -> T:
    """Read what pluto said; raise IkeError if it cannot be understood."""
    try:
        return read(*outputs)
    except StatusError as error:
        raise IkeError(str(error)) from error


def last(said: Sequence[str]) -> str:
    """Return the last line, which has the reason of a failure."""
    return next((line for line in reversed(said) if line), "no reason given")
