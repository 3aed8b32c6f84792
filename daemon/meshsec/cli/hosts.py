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
        _remove()
    else:
        _keep(names)


def _remove() -> None:
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
    while True:
        problem, seconds = "", None
        try:
            if not _put(names):
                seconds = _BUSY_SECONDS
        except (files.FileError, form.HostsError) as error:
            problem, seconds = str(error), _AGAIN_SECONDS
        if problem != told:
            notifier.status(problem or "the names are in /etc/hosts")
            if problem:
                click.echo(problem, err=True)
        told = problem
        changes.wait(seconds)


def _put(names: Path) -> bool:
    """Put the names of meshsecd in place. Until meshsecd has written names since the boot, the file stays as it is."""
    return not files.exists(names) or hosts_file.put(hosts_file.HOSTS, lines(names))


def lines(names: Path) -> Sequence[str]:
    """Return the lines that meshsecd wants. Raises FileError, and HostsError for what it has not written."""
    try:
        return form.parse(files.read(names, _NAMES_LIMIT))
    except form.HostsError as error:
        raise form.HostsError(f"{names}: {error}; {hosts_file.HOSTS} stays as it was") from error
