"""chronyd on the nodes, each with a configuration that the product writes. No clock is ever set (``-x``).

`make setup` unpacks chronyd into build/chrony, because Debian's package conflicts with other time daemons.
"""

from collections.abc import Sequence
from pathlib import Path

from meshsec.core.explain import clock
from meshsec.core.explain.clock import Tracking
from tests.lab.basics import programs
from tests.lab.basics.places import REPOSITORY
from tests.lab.basics.processes import Daemon
from tests.lab.basics.waiting import wait_until
from tests.lab.node.node import Node

UNPACKED = REPOSITORY / "build/chrony/usr"
CHRONYD = UNPACKED / "sbin/chronyd"
CHRONYC_DIRECTORY = UNPACKED / "bin"

_ERROR_PPM = 10_000
"""Assumed error of a clock that is not corrected, in parts per million: so large that hours become seconds."""


class Chrony:
    def __init__(self, node: Node, masters: Sequence[str]) -> None:
        """``masters``: names of nodes that chronyd asks each second."""
        self.node = node
        self.directory = node.run_directory / "chrony"
        self.directory.mkdir(mode=0o700, exist_ok=True)
        self.config = node.etc / "time.toml"
        self._own = node.config.read_text(encoding="utf-8")
        self.config.write_text(f"{self._own}\n[time]\n{self._time(masters)}", encoding="utf-8")
        self.daemon = self._daemon()

    @property
    def socket(self) -> Path:
        """Return the path of chronyd's command socket."""
        return self.directory / "chronyd.sock"

    def meshsec(self, *arguments: str) -> str:
        """Return the output of the command line, with a configuration that has ``[time]``."""
        return self.node.run(programs.meshsec(), "--config", str(self.config), *arguments, check=False).stdout

    def start(self) -> None:
        """Have the product write chronyd's configuration, and start chronyd with it."""
        text = self.meshsec("export", "chrony")
        for directive in ("driftfile", "pidfile"):
            text += f"{directive} {self.directory / directive}\n"
        (self.directory / "chrony.conf").write_text(f"{text}maxclockerror {_ERROR_PPM}\n", encoding="ascii")
        self.daemon.start()

    def tracking(self) -> Tracking | None:
        """Return what chronyd reports of its clock; None while it does not answer."""
        chronyc = str(CHRONYC_DIRECTORY / "chronyc")
        answer = self.node.run(chronyc, "-n", "-c", "-h", str(self.socket), "tracking", check=False)
        return None if answer.returncode else clock.parse(answer.stdout)

    def _time(self, masters: Sequence[str]) -> str:
        names = ", ".join(f'"{name}"' for name in masters)
        return f'masters = [{names}]\nminpoll = 0\nmaxpoll = 0\ndistance = 0.2\nsocket = "{self.socket}"\n'

    def _daemon(self) -> Daemon:
        argv = [str(CHRONYD), "-x", "-d", "-u", "root", "-f", str(self.directory / "chrony.conf")]
        node = self.node
        return Daemon("chronyd", node.namespace, argv, logs=node.logs, sockets=node.run_directory, notifies=False)


def leader_of(clocks: Sequence[Chrony], masters: Sequence[Chrony], seconds: float) -> Chrony:
    """Wait until one master keeps its own time and all others follow it directly; return that master.

    Which master it is can be seen only when all agree: at first each keeps its own time.
    """

    def last() -> object:
        return {one.node.name: one.tracking() for one in clocks}

    def agreed() -> Chrony | None:
        return next((master for master in masters if _all_follow(clocks, master)), None)

    return wait_until("all have the time of one master", agreed, (), seconds, last=last)


def _all_follow(clocks: Sequence[Chrony], master: Chrony) -> bool:
    own = master.tracking()
    if own is None or not own.is_own:
        return False
    others = [one.tracking() for one in clocks if one is not master]
    return all(found is not None and found.source == master.node.address for found in others)
