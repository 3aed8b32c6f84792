"""libreswan's programs, and pluto in a namespace, configured by the product's export.

They are those that `make setup` unpacked into build/libreswan: Debian's package conflicts with strongSwan.
"""

from pathlib import Path

from tests.lab import programs
from tests.lab.processes import Daemon
from tests.lab.shell import run
from tests.lab.waiting import wait_until

EXECUTABLES = programs.ROOT / "build/libreswan/usr/libexec/ipsec"
ADDCONN = EXECUTABLES / "addconn"
ALGPARSE = EXECUTABLES / "algparse"

_SETUP = """\
config setup
	nssdir={directory}/nss
	dumpdir={directory}
	secretsfile={directory}/meshsec.secrets
	uniqueids=no
include {directory}/meshsec.conf
"""
_IN_PLACE = (
    'mount -t tmpfs none /usr/libexec; mkdir /usr/libexec/ipsec; mount --bind "$0" /usr/libexec/ipsec; exec "$@"'
)
"""pluto starts others of its package by their paths; the mounts are those of ``ip netns exec``, which end with it."""


class Pluto:
    """pluto of one node."""

    def __init__(self, namespace: str, directory: Path, sockets: Path) -> None:
        """``directory`` has what `meshsec export libreswan --into` wrote; the path of ``sockets`` must be short."""
        (directory / "nss").mkdir()
        run(["certutil", "-N", "-d", f"sql:{directory}/nss", "--empty-password"])
        (directory / "ipsec.conf").write_text(_SETUP.format(directory=directory), encoding="ascii")
        pluto = [str(EXECUTABLES / "pluto"), "--nofork", "--stderrlog", "--use-xfrm"]
        pluto += ["--rundir", str(sockets), "--config", str(directory / "ipsec.conf")]
        self.daemon = Daemon(
            "pluto",
            namespace,
            ["sh", "-c", _IN_PLACE, str(EXECUTABLES), *pluto],
            logs=directory,
            sockets=sockets,
            notifies=False,
        )

    def log(self) -> str:
        """What pluto said until now."""
        return self.daemon.log.read_text(encoding="utf-8", errors="replace")

    def wait_said(self, words: str, seconds: float) -> None:
        """Await that they are in the log."""
        wait_until(f"{words!r} in {self.daemon.log}", lambda: words in self.log() or None, (), seconds, self.log)
