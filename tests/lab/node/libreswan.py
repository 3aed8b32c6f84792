"""libreswan's programs, and pluto in a namespace, configured by the product's export.

`make setup` unpacks them into build/libreswan, because Debian's package conflicts with strongSwan. The guest has those
of two Debian suites.
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
"""Secrets that the export wrote, or those that meshsecd writes."""
_IN_PLACE = (
    'mount -t tmpfs none /usr/libexec; mkdir /usr/libexec/ipsec; mount --bind "$0" /usr/libexec/ipsec; exec "$@"'
)
"""pluto starts other programs of its package by their paths. The mounts belong to ``ip netns exec`` and end with it."""


def suites() -> dict[str, Path]:
    """Return where libreswan's programs are, by Debian suite; the guest has several suites."""
    inside = {path.name: path for path in sorted(_IN_GUEST.glob("*"))}
    return inside or ({"unpacked": EXECUTABLES} if ADDCONN.exists() else {})


def in_place(executables: Path, argv: Sequence[str]) -> list[str]:
    """Return a command that finds libreswan's programs where the package installs them."""
    return ["sh", "-c", _IN_PLACE, str(executables), *argv]


_AS_ITS_UNIT = ["sh", "-c", 'ip xfrm state flush proto esp 2>/dev/null; exec "$@"', "pluto"]
"""What meshsec-pluto.service does first: remove the ESP states that an earlier pluto has left."""


class Pluto:
    """pluto of one node."""

    def __init__(
        self, namespace: str, directory: Path, sockets: Path, executables: Path = EXECUTABLES, logs: Path | None = None
    ) -> None:
        """Prepare pluto.

        Where meshsecd does not drive it, ``directory`` has what `meshsec export libreswan --into` wrote. The path of
        ``sockets`` must be short.
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
        """Return pluto's answer to a command (ipsec_whack(8))."""
        return run(["ip", "netns", "exec", self._namespace, *self.whacking(*arguments)], check=False).stdout

    def whacking(self, *arguments: str) -> list[str]:
        """Return the program that gives pluto a command, and its arguments."""
        return [str(self._executables / "whack"), "--rundir", str(self._sockets), *arguments]

    def log(self) -> str:
        """Return pluto's log so far."""
        return self.daemon.log.read_text(encoding="utf-8", errors="replace")

    def wait_said(self, words: str, seconds: float) -> None:
        """Wait until the log contains these words."""
        wait_until(f"{words!r} in {self.daemon.log}", lambda: words in self.log() or None, (), seconds, self.log)
