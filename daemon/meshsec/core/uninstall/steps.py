"""The steps by which meshsec goes from a machine; each says in words, or as a command, what it does."""

import shlex
from dataclasses import dataclass

from meshsec.core.uninstall.sysctls import Change


@dataclass(frozen=True, slots=True)
class Run:
    """Run a program."""

    argv: tuple[str, ...]

    def __str__(self) -> str:
        return shlex.join(self.argv)


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove a file that meshsec wrote, and its directory if that is one of drop-ins and empty then."""

    path: str
    after: "tuple[Step, ...]" = ()
    """Steps for which the file is needed: it stays when one of them fails."""

    def __str__(self) -> str:
        return shlex.join(("rm", self.path))


@dataclass(frozen=True, slots=True)
class TakeNames:
    """Take meshsec's lines out of /etc/hosts."""

    def __str__(self) -> str:
        return "meshsec hosts --remove"


@dataclass(frozen=True, slots=True)
class LeaveMesh:
    """Take a radio out of its mesh, and make it an ordinary interface that is down."""

    interface: str

    def __str__(self) -> str:
        return f"ip link set {self.interface} down; iw dev {self.interface} set type managed"


@dataclass(frozen=True, slots=True)
class SetSysctl:
    """Give a sysctl its value back."""

    change: Change

    def __str__(self) -> str:
        one = self.change
        return f"sysctl {one.key}: {one.before} -> {one.after} ({one.source})"


Step = Run | Remove | TakeNames | LeaveMesh | SetSysctl
