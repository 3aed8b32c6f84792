"""``meshsec zeroize``: a lost node becomes harmless within a second."""

import os
import sys
import time
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path

import click

from meshsec import files
from meshsec.adapters import holders, syslog, systemd
from meshsec.adapters.files import boot_partition, destroying, home_keys, raw_config
from meshsec.adapters.files.destroying import Failure
from meshsec.adapters.holders import Holder, Marks
from meshsec.adapters.kernel import flush
from meshsec.cli.app import FAILED, App
from meshsec.core.zeroize.targets import SYSTEM_CONFIG, Targets, targets

_WORD = "destroy"
_GRACE = 0.2
"""Seconds in which the daemons may end in order: charon says to its peers that their SAs are gone."""
_LIMIT = 5.0
"""Seconds after which a process that was killed counts as alive. Most take milliseconds; a slow machine whose kernel
clears their memory takes longer.
"""
_STOPPING = 0.3
"""Seconds for systemd to take the order, and again to forget what it passed to the units."""
_CREDENTIALS = Path("/run/credentials")


@click.command
@click.option("--yes-destroy-keys", is_flag=True, help=f"Do not ask for the word `{_WORD}`.")
@click.option("--watch", is_flag=True, help="Only wait for the key or the time of [zeroize], as its unit does.")
@click.pass_obj
def zeroize(app: App, yes_destroy_keys: bool, watch: bool) -> None:
    """Destroy this node's keys and passwords within a second, and end what holds them.

    It needs neither meshsecd nor a good configuration. Peers must add a new card afterwards: nothing brings the key
    back but a backup. Exit status 1 says that something could not be destroyed, and what; run it again then.
    """
    if os.geteuid() != 0:
        raise click.ClickException("only root may destroy a node's key: use sudo")
    if watch:
        # Its imports cost time that the command does not have otherwise.
        sys.exit(import_module("meshsec.cli.zeroize_watch").watch(app))
    if not yes_destroy_keys:
        _ask()
    config = os.path.abspath(app.config)  # noqa: PTH100  # it resolves no link
    wanted = targets(config, _read(config))
    failures = _destroy(wanted)
    for failure in failures:
        click.echo(f"NOT DESTROYED: {failure.what}: {failure.why}", err=True)
    if failures:
        sys.exit(FAILED)


def _ask() -> None:
    """Let an operator type the word; a script has the option."""
    if not sys.stdin.isatty():
        raise click.UsageError("this destroys the node's keys; --yes-destroy-keys says that it shall")
    if click.prompt(f"This node's keys are lost for ever. Type `{_WORD}`", err=True) != _WORD:
        raise click.ClickException(f"the word was not `{_WORD}`; nothing was destroyed")


def _read(config: str) -> Mapping[str, object]:
    """Return the configuration's content. What the units use is where the packages put it, even if it is unreadable."""
    try:
        return raw_config.read(Path(config))
    except files.FileError as error:
        if config == SYSTEM_CONFIG:
            return {}
        raise click.ClickException(
            f"{error}; where its node's keys are cannot be known. Nothing was destroyed"
        ) from error


def _destroy(wanted: Targets) -> list[Failure]:
    """Destroy, end, destroy what a dying process has written, and say so. Return what is left."""
    count, first = destroying.destroy(wanted.patterns, wanted.also)
    told, _ = holders.end(Marks(wanted.ike_sockets, (), wanted.ike_units), _GRACE, _LIMIT)
    marks = Marks(wanted.sockets, wanted.arguments, wanted.units)
    ended, left = holders.end(marks, 0.0, _LIMIT)
    if wanted.units and systemd.is_booted():
        systemd.begin_stopping(wanted.units, _STOPPING)
        restarted, left = holders.end(marks, 0.0, _LIMIT)
        ended += restarted
    more, second = destroying.destroy(wanted.patterns, wanted.also)
    # A home may be on another machine that does not answer, so it comes after what the node itself has.
    fleets, third = home_keys.destroy(home_keys.places()) if wanted.in_homes else (0, [])
    destroying.remove_sockets(wanted.sockets)
    failures = [*dict.fromkeys([*first, *second, *third])]
    failures += boot_partition.unreachable() if wanted.units else []
    failures += [Failure(str(holder), "is alive and may hold the key") for holder in left]
    failures += _flush(wanted)
    failures += _passed_on(wanted)
    _say(count + more + fleets, [*told, *ended], failures)
    return failures


def _flush(wanted: Targets) -> list[Failure]:
    failures = []
    try:
        flush.flush_xfrm()
    except OSError as error:
        failures.append(Failure("the kernel's SAs", str(error)))
    try:
        flush.leave_meshes(wanted.interfaces)
    except OSError as error:
        failures.append(Failure("the kernel's keys of the wireless mesh", str(error)))
    return failures


def _passed_on(wanted: Targets) -> list[Failure]:
    """Return which copies of keys systemd keeps for the units. It removes them when a unit has stopped."""
    until = time.monotonic() + _STOPPING
    while (copies := list(_copies(wanted))) and time.monotonic() < until:
        time.sleep(0.01)
    return [Failure(str(path), f"is systemd's copy: `systemctl stop {path.name}`") for path in copies]


def _copies(wanted: Targets) -> Iterator[Path]:
    for pattern in wanted.units:
        yield from _CREDENTIALS.glob(pattern)


def _say(count: int, ended: list[Holder], failures: list[Failure]) -> None:
    processes = ", ".join(map(str, ended)) or "none"
    left = "; ".join(f"{failure.what}: {failure.why}" for failure in failures) or "nothing"
    text = f"this node's keys were destroyed. Files: {count}. Processes ended: {processes}. Not destroyed: {left}"
    syslog.critical("meshsec", text)
    click.echo(f"Files destroyed: {count}. Processes ended: {processes}.")
