"""``meshsec hosts``: keep the names of trusted nodes in /etc/hosts.

It imports little, because it stays in memory on each node.
"""

import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

from meshsec import files
from meshsec.adapters.files import hosts_file
from meshsec.adapters.files.changes import Changes
from meshsec.adapters.sockets.notify import Notifier
from meshsec.core.formats import hosts as form

NAMES = Path("/run/meshsec/names/nodes")
"""What meshsecd writes, unless [paths] run of meshsec.toml is another directory."""
_NAMES_LIMIT = 4 << 20
"""Bytes: thousands of nodes fit."""
_BUSY_SECONDS = 0.1
"""Time until the next attempt while another program writes the file."""
_ATTEMPTS = 50
_CLIENTS_SECONDS, _CLIENTS_BURST = 60.0, 10
"""Seconds for each writing for names of clients alone, after as many at once: a peer can change its clients' names all
the time, and each writing goes to the disk. Names of nodes are written at once.
"""
_AGAIN_SECONDS = 10.0
"""Time until the next attempt after a failure: a full disk is noticed by nothing else."""


@click.command
@click.option(
    "--names",
    type=click.Path(path_type=Path, dir_okay=False),
    default=NAMES,
    show_default=True,
    help="The file in which meshsecd keeps the names.",
)
@click.option("--remove", is_flag=True, help="Take the lines out of /etc/hosts, and end.")
def hosts(names: Path, remove: bool) -> None:
    """Keep the names of trusted nodes, such as bravo.mesh, in /etc/hosts.

    Runs until it is ended, as meshsec-names.service does. The lines then stay. All other lines of the file are the
    administrator's, and stay what they are.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if remove:
        take_out()
    else:
        _keep(names)


def take_out() -> None:
    """Take the lines out of /etc/hosts. Raises FileError, and ClickException while another program writes the file."""
    for _ in range(_ATTEMPTS):
        if hosts_file.put(hosts_file.HOSTS, ()):
            return
        time.sleep(_BUSY_SECONDS)
    raise click.ClickException(f"{hosts_file.HOSTS}: another program has it open for writing; nothing was changed")


def _keep(names: Path) -> None:
    files.make_directory(names.parent)
    changes = Changes([names, hosts_file.HOSTS, hosts_file.target(hosts_file.HOSTS)])
    notifier = Notifier()
    notifier.ready()
    told = ""
    kept = _Kept(names)
    while True:
        problem, seconds = "", None
        try:
            seconds = kept.put(time.monotonic())
        except (files.FileError, form.HostsError) as error:
            problem, seconds = str(error), _AGAIN_SECONDS
        if problem != told:
            notifier.status(problem or "the names are in /etc/hosts")
            if problem:
                click.echo(problem, err=True)
        told = problem
        changes.wait(seconds)


class _Kept:
    """The lines that were put in place last, and how soon names of clients alone may change them again."""

    def __init__(self, names: Path) -> None:
        self._names = names
        self._lines: Sequence[str] | None = None
        self._paid = 0.0
        """Until when (monotonic seconds) the writings for clients last, each of which takes ``_CLIENTS_SECONDS``."""

    def put(self, now: float) -> float | None:
        """Put the names of meshsecd in place. Return when to try again, in seconds; None: after the next change.

        Until meshsecd has written names since the boot, the file stays as it is.
        """
        if not files.exists(self._names):
            return None
        wanted, paid, wait = lines(self._names), self._paid, None
        if self._lines not in (None, wanted) and form.of_nodes(wanted) == form.of_nodes(self._lines or ()):
            paid = max(paid, now) + _CLIENTS_SECONDS
            if (early := paid - now - _CLIENTS_BURST * _CLIENTS_SECONDS) > 0:
                wanted, paid, wait = self._lines or (), self._paid, early  # what others have removed comes back
        if not hosts_file.put(hosts_file.HOSTS, wanted):
            return _BUSY_SECONDS
        self._lines, self._paid = wanted, paid
        return wait


def lines(names: Path) -> Sequence[str]:
    """Return the lines that meshsecd wants. Raises FileError, and HostsError for what it has not written."""
    try:
        return form.parse(files.read(names, _NAMES_LIMIT))
    except form.HostsError as error:
        raise form.HostsError(f"{names}: {error}; {hosts_file.HOSTS} stays as it was") from error
