"""The machine of a node, as its programs see it: names are kept in its /etc/hosts, and a resolver outside lies.

Programs see an /etc of their own, because /etc/hosts is that of the machine which runs the lab.
"""

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.lab.basics import programs, shell
from tests.lab.basics.patience import patient
from tests.lab.basics.processes import Daemon
from tests.lab.faults.small_disk import small
from tests.lab.node.node import Node

SECONDS = 1.0
"""Time from `peer add` or `peer remove` to what programs see."""
LOCAL = "127.0.0.1 localhost\n"
EVIL = "203.0.113.66"
"""What the resolver outside answers to every question."""
PROGRAM_FILES = ("ld.so.cache", "passwd", "group", "host.conf", "services", "protocols")


class Machine:
    """What programs of a node's machine see: its network, and an /etc of its own in which the names are kept."""

    def __init__(self, node: Node, etc: Path, *, read_only: bool = False) -> None:
        self.node, self.etc, self.hosts = node, etc, etc / "hosts"
        closed = " && mount -o remount,bind,ro /etc" if read_only else ""
        script = f'mount --make-rprivate / && mount --bind {etc} /etc{closed} && exec "$@"'
        keeper = [programs.meshsec(), "hosts", "--names", str(node.run_directory / "names/nodes")]
        self.keeper = Daemon(
            "names", node.namespace, ["sh", "-c", script, "sh", *keeper], logs=node.logs, sockets=node.run_directory
        )

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return shell.run(self._entered(argv), check=False)

    def start(self, *argv: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._entered(argv), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def _entered(self, argv: Sequence[str]) -> list[str]:
        return ["nsenter", "--net", "--mount", f"--target={self.keeper.pid}", *argv]

    def addresses(self, name: str) -> list[str]:
        """Return what getaddrinfo(3) finds."""
        found = [line.split()[0] for line in self.run("getent", "ahosts", name).stdout.splitlines()]
        return list(dict.fromkeys(found))

    def name(self, address: str) -> str:
        """Return what getnameinfo(3) finds."""
        return "".join(self.run("getent", "hosts", address).stdout.split()[1:])


@contextmanager
def machine_of(
    node: Node, etc: Path, nameserver: str = "", state: Path | None = None
) -> Iterator[tuple[Machine, Callable[[], None]]]:
    """Give a machine with a resolver outside, and a function that fills its disk. By default the resolver lies.

    With ``state``, which is a folder, /etc cannot be written and /etc/hosts leads there, as on a vehicle.
    """
    with small(etc) as fill:
        for name in PROGRAM_FILES:
            if Path("/etc", name).exists():
                shutil.copy(Path("/etc", name), etc)
        if state is not None:
            (etc / "hosts").symlink_to(state / "hosts")
        (etc / "hosts").write_text(LOCAL)
        (etc / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files dns\n")
        (etc / "resolv.conf").write_text(f"nameserver {nameserver or '127.0.0.1'}\noptions timeout:1 attempts:1\n")
        made = Machine(node, etc, read_only=state is not None)
        made.keeper.start()
        made.keeper.wait_ready()
        resolver = made.start(
            programs.dnsmasq(), "--keep-in-foreground", "--conf-file=", "--user=", "--pid-file=", "--no-resolv",
            "--no-hosts", "--listen-address=127.0.0.1", "--bind-interfaces", f"--address=/#/{EVIL}",
        )  # fmt: skip
        try:
            yield made, fill
        finally:
            resolver.terminate()
            resolver.wait()
            made.keeper.stop()


def soon(what: str, condition: Callable[[], bool], seconds: float = SECONDS) -> None:
    """Wait for something for at most ``seconds``."""
    deadline = time.monotonic() + patient(seconds)
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)
