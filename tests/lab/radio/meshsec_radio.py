"""meshsec-radio on radios of the guest, started as the service manager starts it."""

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.lab.basics.shell import run
from tests.lab.basics.waiting import wait_until
from tests.lab.radio import medium as lab_radio

SECONDS = 40.0
_QUEUE = Path("/proc/sys/net/unix/max_dgram_qlen")
_QUEUED = "512"
"""Datagrams that wait for the service manager, as systemd sets it at boot: a test does not read all the time."""
PASSWORD = "only the crew knows"  # noqa: S105  # a test's own
OPEN = {"mesh_id": "rescue net", "frequency": 2412, "security": "open", "rssi_threshold": -90, "mcast_rate": 6}
SAE = {**OPEN, "security": "sae"}


def obstacle() -> str | None:
    """Return why this machine cannot run it, or None."""
    if not os.environ.get(lab_radio.GUEST_VARIABLE):
        return "makes radios in the machine's own namespace: for the guest only (`make guest`)"
    return lab_radio.obstacle()


@dataclass
class Ending:
    """A source that is readable when a process has ended (pidfd_open(2))."""

    descriptor: int
    ended: bool = False

    def fileno(self) -> int:
        """Return the descriptor of the process."""
        return self.descriptor

    def drain(self) -> bool:
        """Note the end."""
        self.ended = True
        return False


@dataclass
class Program:
    """A running meshsec-radio, which reports its state to the test as it does to the service manager."""

    interface: str
    directory: Path
    radio: dict[str, object]
    password: str = ""
    access: dict[str, object] | None = None
    namespace: str = ""
    """The network namespace of the radio; empty: the guest's own."""
    statuses: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        _QUEUE.write_text(_QUEUED, encoding="ascii")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        path = self.directory / "notify"
        self._socket.bind(str(path))
        credentials = self.directory / "credentials"
        credentials.mkdir(mode=0o700)
        if self.password:
            (credentials / "meshsec.sae-password").write_text(f"{self.password}\n", encoding="utf-8")
            (credentials / "meshsec.sae-password").chmod(0o400)
        environment = {
            **os.environ,
            "NOTIFY_SOCKET": str(path),
            "RUNTIME_DIRECTORY": str(self.directory),
            "CREDENTIALS_DIRECTORY": str(credentials),
        }
        place = ["ip", "netns", "exec", self.namespace] if self.namespace else []
        program = [*place, sys.executable, "-c", "from meshsec.radio import main; main()"]
        self.log = self.directory / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*program, "--config", str(configuration(self.directory, self.radio, self.access)), self.interface],
                stderr=log,
                env=environment,
            )
        self._ending = Ending(os.pidfd_open(self.process.pid))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ending.descriptor)
        self._socket.close()
        print(f"--- {self.interface}\n{self.log.read_text()}")  # Pytest shows it when the test fails.

    def fileno(self) -> int:
        """Return the socket's descriptor, for select."""
        return self._socket.fileno()

    def drain(self) -> bool:
        """Read one datagram."""
        datagram = self._socket.recv(4096).decode()
        self.statuses += [line for line in datagram.splitlines() if line.startswith(("STATUS=", "READY="))]
        return True

    def wait_reported(self, text: str, seconds: float = SECONDS) -> None:
        """Wait for a status with this text, later than the last one that was waited for."""
        wait_until(
            f"{self.interface}: {text}",
            lambda: self._ending.ended or any(text in status for status in self.statuses),
            [self, self._ending],
            seconds,
            last=self.log.read_text,
        )
        assert not self._ending.ended, f"{self.interface}: it has ended\n{self.log.read_text()}"
        while text not in self.statuses.pop(0):
            pass

    def wait_ready(self) -> None:
        """Wait until the program reports that it is ready."""
        self.wait_reported("READY=1")

    def stop(self) -> int:
        """End the program as the service manager does. Return its exit status."""
        self.process.terminate()
        return self.process.wait(timeout=120)


class Ticks:
    """A source that is readable twice a second, because the kernel sends no event of some changes."""

    def __enter__(self) -> Self:
        argv = ["ping", "-n", "-i", "0.5", "127.0.0.1"]
        self._process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self._process.stdout
        self._output = self._process.stdout
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._output.close()

    def fileno(self) -> int:
        """Return the descriptor that is readable at each tick."""
        return self._output.fileno()

    def drain(self) -> bool:
        """Read the ticks."""
        return bool(os.read(self._output.fileno(), 1 << 16))

    def wait_peered(self, interface: str, *wanted: str, seconds: float = SECONDS) -> None:
        """Wait for an established peering whose station has this text in what ``iw`` shows."""
        wait_until(
            f"a peer of {interface}",
            lambda: all(text in stations(interface) for text in ("mesh plink: ESTAB", *wanted)),
            [self],
            seconds,
            last=lambda: stations(interface),
        )


def stations(interface: str) -> str:
    """Return all that the kernel knows of an interface's stations, in one line."""
    return " ".join(run(["iw", "dev", interface, "station", "dump"], check=False).stdout.split())


def configuration(directory: Path, radio: dict[str, object], access: dict[str, object] | None = None) -> Path:
    """Write a meshsec.toml with these keys of ``[radio]``, and of ``radio`` of ``[access]``."""
    path = directory / "meshsec.toml"
    text = f"[node]\nname = 'a'\n[routing]\ninterfaces = ['mesh7']\n[radio]\n{_keys(radio)}\n"
    if access:
        text += f"[access]\nnetworks = ['10.130.0.0/16']\n[access.radio]\n{_keys(access)}\n"
    path.write_text(text, encoding="utf-8")
    return path


def _keys(table: dict[str, object]) -> str:
    return "\n".join(f"{key} = {value!r}" for key, value in table.items())


def children(program: Program) -> Sequence[int]:
    """Return the PIDs of its children: wpa_supplicant."""
    pid = program.process.pid
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
