"""A board: a bare Debian machine with a kernel and a boot loader of its own, emulated by QEMU, reached by ssh.

It shows what a container cannot: which kernel is booted, and radios. As in the test fleet, nothing leads out of its
network, which has the controller and two apt repositories: an excerpt of Debian and the project's packages.
"""

import platform
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.lab.basics import shell
from tests.lab.basics.places import REPOSITORY
from tests.lab.basics.waiting import wait_until
from tests.lab.machines import board_root, fleet_repository, fleet_root
from tests.lab.machines.fleet import CONTROLLER, NETWORK, PACKAGES, Keys, set_up, source, uri, write_inventory
from tests.lab.machines.fleet_controller import Played, play
from tests.lab.machines.fleet_repository import SigningKey, publish, served
from tests.lab.net import namespaces
from tests.lab.net.instance import Instance

NAME = "board"
ADDRESS = f"{NETWORK}1"
_PROGRAMS = ("qemu-system-x86_64", "sfdisk", "mke2fs", "ssh", "ssh-keygen", *fleet_repository.PROGRAMS)
_MEMORY_MIB = 2048
BOOT_SECONDS = 600.0
PLAY_SECONDS = 2400.0
_COMMAND_SECONDS = 600.0


def obstacle() -> str | None:
    """Return why this machine cannot have a board, or None."""
    if platform.machine() != "x86_64":
        return f"a board is for x86_64, this is {platform.machine()}"
    if missing := [program for program in _PROGRAMS if shutil.which(program) is None]:
        return f"not installed: {' '.join(missing)}"
    return fleet_root.obstacle()


class Board:
    """One machine, booted when the block is entered. Leaving the block ends it and removes its files."""

    def __init__(self, suite: str) -> None:
        self.suite = suite
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.bare = fleet_root.built(self.suite, _say, board_root.BOARD)
            root = stack.enter_context(self.bare.in_use())
            instance = Instance()
            stack.callback(instance.end)
            self.directory, self.run_directory = instance.own_directory(REPOSITORY / "build/lab", NAME), instance.run
            self._make_network(instance.namespace("mgmt"))
            signing = stack.enter_context(SigningKey())
            self.keys = Keys.make(self.directory / "keys", signing.public())
            self._publish(signing)
            stack.enter_context(
                served(self.directory / "archive", self._namespace, CONTROLLER, self.directory / "archive.log")
            )
            host = {"ansible_host": ADDRESS, "meshsec_apt_uri": uri("meshsec", self.suite)}
            write_inventory(self.inventory, self.keys, {NAME: host})
            self._make_disk(root)
            stack.callback(self._save_logs)
            self._start(stack)
            self.wait_reached()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def controller(self) -> list[str]:
        """Return the words in front of a program that is to run where the controller is."""
        return ["ip", "netns", "exec", self._namespace]

    @property
    def inventory(self) -> Path:
        """Return the path of Ansible's inventory."""
        return self.directory / "inventory" / "hosts.json"

    def play(self, playbook: str, *arguments: str, check: bool = True) -> Played:
        """Run a playbook of the collection by its name. Raises CommandError when ``check`` and it failed."""
        return play(self, playbook, *arguments, check=check, seconds=PLAY_SECONDS)

    def ssh(self, command: str, *, check: bool = True, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a shell command as an operator does, by a connection of its own."""
        options = ["-o", "BatchMode=yes", "-o", "ConnectTimeout=20", *self.keys.options()]
        argv = [*self.controller, "ssh", "-i", str(self.keys.client), *options, f"root@{ADDRESS}", command]
        return shell.run(argv, check=check, stdin=stdin, timeout=_COMMAND_SECONDS)

    def add_source(self) -> None:
        """Add the project's packages to the machine's apt sources, as an operator does by hand."""
        write = "install -D -m 0644 /dev/stdin"
        self.ssh(f"{write} /etc/apt/keyrings/meshsec.asc", stdin=self.keys.repository.decode())
        self.ssh(f"{write} /etc/apt/sources.list.d/meshsec.sources", stdin=source("meshsec", self.suite))

    def wait_reached(self) -> None:
        """Wait until ssh reaches the machine."""
        tries = "the board is reached by ssh"
        wait_until(tries, lambda: self.ssh("true", check=False).returncode == 0, (), BOOT_SECONDS, last=self.console)

    def console(self) -> str:
        """Return the end of what kernel and services wrote to the serial line."""
        path = self.directory / "console"
        return path.read_text(encoding="utf-8", errors="replace")[-4000:] if path.exists() else ""

    def _make_network(self, namespace: str) -> None:
        self._namespace = namespace
        namespaces.create(namespace)
        shell.run(["ip", "-n", namespace, "tuntap", "add", "tap0", "mode", "tap"])
        shell.run(["ip", "-n", namespace, "address", "add", f"{CONTROLLER}/24", "dev", "tap0"])
        shell.run(["ip", "-n", namespace, "link", "set", "tap0", "up"])

    def _publish(self, signing: SigningKey) -> None:
        archive = self.directory / "archive"
        pool = self.bare.pool
        publish(archive / "debian" / self.suite, pool.glob("*.deb"), signing, index=pool / "Packages")
        own = [path for kind in ("amd64", "all") for path in (PACKAGES / self.suite).glob(f"*_{kind}.deb")]
        publish(archive / "meshsec" / self.suite, own, signing)

    def _make_disk(self, root: Path) -> None:
        layer = self.directory / "layer"
        set_up(layer, NAME, ADDRESS, self.suite, self.keys)
        board_root.write_identity(layer, NAME, f"{ADDRESS}/24")
        board_root.make_disk(root, layer, self.directory / "disk")

    def _start(self, stack: ExitStack) -> None:
        process = subprocess.Popen([*self.controller, *self._machine()], stdin=subprocess.DEVNULL)
        stack.callback(process.wait)
        stack.callback(process.kill)

    def _machine(self) -> list[str]:
        return [
            *("setpriv", "--pdeathsig", "KILL"),  # The kernel ends it even when the test is killed.
            *("qemu-system-x86_64", "-M", "q35,accel=tcg", "-cpu", "max", "-smp", "1", "-m", str(_MEMORY_MIB)),
            *("-nodefaults", "-no-user-config", "-display", "none", "-serial", f"file:{self.directory / 'console'}"),
            *("-drive", f"if=none,id=disk,format=raw,cache=unsafe,file={self.directory / 'disk'}"),
            *("-device", "virtio-blk-pci,drive=disk,bootindex=0", "-device", "virtio-rng-pci"),
            *("-netdev", "tap,id=mgmt,ifname=tap0,script=no,downscript=no"),
            *("-device", f"virtio-net-pci,netdev=mgmt,addr={board_root.SLOT:#x},romfile="),
        ]

    def _save_logs(self) -> None:
        kept = REPOSITORY / "build/artifacts" / NAME
        kept.mkdir(parents=True, exist_ok=True)
        for name in ("console", "ansible.log", "archive.log"):
            if (path := self.directory / name).exists():
                shutil.copyfile(path, kept / name)


def _say(text: str) -> None:
    print(f"board: {text}", file=sys.stderr, flush=True)
