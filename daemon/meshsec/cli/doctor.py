"""``meshsec doctor``: what is wrong with this node, and how to mend it."""

import sys
from collections.abc import Mapping
from typing import Any

import click

from meshsec.adapters import chrony, trust_store
from meshsec.adapters.config_file import ConfigError
from meshsec.adapters.key_store import KeyStoreError
from meshsec.cli.app import DEGRADED, FAILED, App
from meshsec.cli.client import Client, DaemonAbsentError
from meshsec.cli.output import json_option, print_json
from meshsec.core import doctor as judge
from meshsec.core.doctor import Check, Level

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}
_EXIT_CODES = {"ok": 0, "warn": DEGRADED, "fail": FAILED}


@click.command
@json_option
@click.pass_obj
def doctor(app: App, as_json: bool) -> None:
    """Examine this node: what is wrong, and how to mend it.

    Without meshsecd its files are examined. Exit codes: 0 all well, 3 a warning, 1 something fails.
    """
    view = _examined(app)
    if as_json:
        print_json(view)
    else:
        for check in view["checks"]:
            _print(check)
    sys.exit(_EXIT_CODES[view["verdict"]])


def _examined(app: App) -> Mapping[str, Any]:
    try:
        with Client(app.socket) as client:
            return judge.with_checks(client.call("doctor"), _time(app))
    except ConfigError as error:
        return judge.view([Check("configuration", Level.FAIL, str(error), "correct the lines named")])
    except DaemonAbsentError as error:
        absent = Check("meshsecd", Level.FAIL, str(error), "systemctl start meshsecd, or run meshsecd")
        return judge.view([absent, _key(app), _trust(app), *_time(app)])


def _time(app: App) -> list[Check]:
    """Asked here, because chronyd's socket is root's: meshsecd's confinement need not be opened for it."""
    try:
        time = app.settings.time
    except ConfigError:  # meshsecd has what was in force before, and says so
        return []
    return [chrony.check(time.socket)] if time else []


def _key(app: App) -> Check:
    try:
        return Check("key", Level.OK, f"{app.card.name}, {app.card.address}")
    except KeyStoreError as error:
        return Check("key", Level.FAIL, str(error), "meshsec init, or restore the key with mode 0600")


def _trust(app: App) -> Check:
    try:
        peers, problems = trust_store.load(app.peers_directory, app.card)
    except KeyStoreError:
        return Check("trust", Level.WARN, "not examined: this node has no key")
    except trust_store.TrustStoreError as error:
        return Check("trust", Level.FAIL, str(error), f"let root read {app.peers_directory}")
    if problems:
        return Check("trust", Level.WARN, "; ".join(map(str, problems)), "add the cards named again, or remove them")
    return Check("trust", Level.OK, f"{len(peers)} peers")


def _print(check: Mapping[str, str]) -> None:
    click.secho(f"{check['level']:<4}", fg=_COLOURS[check["level"]], bold=True, nl=False)
    click.echo(f"  {check['name']}: {check['found']}")
    if check["mend"]:
        click.echo(f"      mend: {check['mend']}")
