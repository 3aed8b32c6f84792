"""``meshsec dns-sd``: answer what clients of an access node ask about services, by a dnsmasq of its own (ADR 0072).

dnsmasq reads such records when it starts. Therefore they have one that does nothing else, which a change restarts
within a moment; the other one, which gives addresses and names, goes on. It imports little, because it stays in memory.
"""

import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import click

from meshsec import files
from meshsec.adapters.files.changes import Changes
from meshsec.adapters.sockets.notify import Notifier
from meshsec.core.formats import dns_sd as form

OFFERED = Path("/run/meshsec/services/offered")
"""What meshsecd writes, unless [paths] run of meshsec.toml is another directory."""
_LIMIT = 1 << 20
_PACE = 2.0
"""Seconds at least between two starts of dnsmasq."""
_PATIENCE = 5.0
"""Seconds within which dnsmasq must end."""


@click.command(name="dns-sd")
@click.option(
    "--offered",
    type=click.Path(path_type=Path, dir_okay=False),
    default=OFFERED,
    show_default=True,
    help="The file in which meshsecd keeps what is offered.",
)
@click.option("--dnsmasq", default="/usr/sbin/dnsmasq", show_default=True, help="The program.")
def dns_sd(offered: Path, dnsmasq: str) -> None:
    """Answer clients of this access node that look for services, as browsers and phones do (DNS-SD).

    Runs until it is ended, as meshsec-dns-sd.service does.
    """
    answering = _Answering([dnsmasq, "--keep-in-foreground", "--conf-file=-", "--user=", "--pid-file="])
    signal.signal(signal.SIGTERM, lambda *_: answering.end())
    signal.signal(signal.SIGCHLD, lambda *_: answering.look())
    try:
        _keep(offered, answering)
    except files.FileError as error:
        raise click.ClickException(str(error)) from error


def _keep(offered: Path, answering: "_Answering") -> None:
    """Answer by what the file says; what it said before stays in force while it cannot be read."""
    changes, notifier = Changes([offered]), Notifier()
    notifier.ready()
    told = ""
    while True:
        problem = ""
        try:
            answering.answer(form.dnsmasq(_read(offered)))
        except (files.FileError, form.DnsSdError) as error:
            problem = str(error)
        if problem != told:
            notifier.status(problem or "clients find what is offered")
            if problem:
                click.echo(problem, err=True)
        told = problem
        changes.wait(None)
        time.sleep(_PACE)


def _read(offered: Path) -> tuple[form.Offered, ...]:
    if not files.exists(offered):
        return ()
    try:
        return form.parse(files.read(offered, _LIMIT))
    except form.DnsSdError as error:
        raise form.DnsSdError(f"{offered}: {error}") from error


class _Answering:
    """The running dnsmasq. When it ends by itself this process ends, too, and the service manager begins again."""

    def __init__(self, argv: list[str]) -> None:
        self._argv = argv
        self._process: subprocess.Popen[str] | None = None
        self._configuration = ""

    def answer(self, configuration: str) -> None:
        """Answer by this configuration."""
        if configuration == self._configuration:
            return
        self._stop()
        try:
            self._process = subprocess.Popen(self._argv, stdin=subprocess.PIPE, text=True)
        except FileNotFoundError as error:
            raise click.ClickException(f"{self._argv[0]} is not installed: apt install dnsmasq-base") from error
        self._configuration = configuration
        if self._process.stdin:
            with suppress(BrokenPipeError), self._process.stdin as pipe:  # it has ended, as `look` says
                pipe.write(configuration)
        self.look()

    def look(self) -> None:
        """End if dnsmasq has ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            sys.exit(f"dnsmasq ended with status {self._process.returncode}")

    def end(self) -> None:
        """End dnsmasq, and this process."""
        self._stop()
        sys.exit(0)

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            process.wait(_PATIENCE)
