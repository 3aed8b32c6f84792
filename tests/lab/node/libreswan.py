"""libreswan's programs, and pluto in a namespace, configured by the product's export.

They are those that `make setup` unpacked into build/libreswan: Debian's package conflicts with strongSwan. The guest
has those of two suites of Debian.
"""

from collections.abc import Sequence
from pathlib import Path

from tests.lab.basics.places import REPOSITORY
from tests.lab.basics.processes import Daemon
from tests.lab.basics.shell import run
from tests.lab.basics.waiting import wait_until

EXECUTABLES = REPOSITORY / "build/libreswan/usr/libexec/ipsec"
ADDCONN = EXECUTABLES / "addconn"
ALGPARSE = EXECUTABLES / "algparse"
_IN_GUEST = Path("/opt/libreswan")

_SETUP = """\
config setup
	nssdir={directory}/nss
	dumpdir={directory}
	secretsfile={directory}/ipsec.secrets
	uniqueids=no
include {directory}/*meshsec.conf
"""
_SECRETS = """\
include {directory}/meshsec.secrets
include {sockets}/*.secrets
"""
"""The export's, or those that meshsecd writes."""
_IN_PLACE = (
    'mount -t tmpfs none /usr/libexec; mkdir /usr/libexec/ipsec; mount --bind "$0" /usr/libexec/ipsec; exec "$@"'
)
"""pluto starts others of its package by their paths; the mounts are those of ``ip netns exec``, which end with it."""


def suites() -> dict[str, Path]:
    """Where libreswan's programs are, by Debian's suite: in the guest those of several."""
    inside = {path.name: path for path in sorted(_IN_GUEST.glob("*"))}
    return inside or ({"unpacked": EXECUTABLES} if ADDCONN.exists() else {})


def in_place(executables: Path, argv: Sequence[str]) -> list[str]:
    """A command that finds libreswan's programs where the package has them."""
    return ["sh", "-c", _IN_PLACE, str(executables), *argv]


_AS_ITS_UNIT = ["sh", "-c", 'ip xfrm state flush proto esp 2>/dev/null; exec "$@"', "pluto"]
"""What meshsec-pluto.service does first."""


class Pluto:
    """pluto of one node."""

    def __init__(
        self, namespace: str, directory: Path, sockets: Path, executables: Path = EXECUTABLES, logs: Path | None = None
    ) -> None:
        """``directory`` has what `meshsec export libreswan --into` wrote, where meshsecd does not drive it.

        The path of ``sockets`` must be short.
        """
        self._namespace, self._sockets, self._executables = namespace, sockets, executables
        (directory / "nss").mkdir()
        certutil = executables / "certutil"
        run(
            [str(certutil) if certutil.exists() else "certutil", "-N", "-d", f"sql:{directory}/nss", "--empty-password"]
        )
        (directory / "ipsec.conf").write_text(_SETUP.format(directory=directory), encoding="ascii")
        secrets = _SECRETS.format(directory=directory, sockets=sockets)
        (directory / "ipsec.secrets").write_text(secrets, encoding="ascii")
        pluto = [str(executables / "pluto"), "--nofork", "--stderrlog", "--use-xfrm"]
        pluto += ["--rundir", str(sockets), "--config", str(directory / "ipsec.conf")]
        self.daemon = Daemon(
            "pluto",
            namespace,
            [*_AS_ITS_UNIT, *in_place(executables, pluto)],
            logs=logs or directory,
            sockets=sockets,
            notifies=False,
        )

    def whack(self, *arguments: str) -> str:
        """What pluto answers to a command (ipsec_whack(8))."""
        return run(["ip", "netns", "exec", self._namespace, *self.whacking(*arguments)], check=False).stdout

    def whacking(self, *arguments: str) -> list[str]:
        """The program that gives pluto a command, and its arguments."""
        return [str(self._executables / "whack"), "--rundir", str(self._sockets), *arguments]

    def log(self) -> str:
        """What pluto said until now."""
        return self.daemon.log.read_text(encoding="utf-8", errors="replace")

    def wait_said(self, words: str, seconds: float) -> None:
        """Await that they are in the log."""
        wait_until(f"{words!r} in {self.daemon.log}", lambda: words in self.log() or None, (), seconds, self.log)
