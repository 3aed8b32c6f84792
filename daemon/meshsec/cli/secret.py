"""``meshsec secret``: the second secret, which levels of authentication may ask for beside the key."""

import secrets
from pathlib import Path

import click

from meshsec import files
from meshsec.adapters.files import second_secret_store
from meshsec.cli.app import App
from meshsec.cli.output import json_option, print_json
from meshsec.core.trust import second_secret
from meshsec.core.trust.second_secret import LENGTH, SecondSecretError

SCHEMA = "meshsec-secret-1"
_LIMIT = 4 * LENGTH
_SHOWN = 16
"""Hexadecimal digits of the mark: enough to compare by voice."""


@click.group
def secret() -> None:
    """The second secret: what nodes have beside their keys, for levels of authentication that ask for it."""


@secret.command
def new() -> None:
    """Print a new second secret.

    Nothing is changed. Give it to each node that needs it, by a way that you trust: `meshsec secret set FILE` there.
    """
    click.echo(secrets.token_bytes(LENGTH).hex())


@secret.command("set")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), default=Path("/dev/stdin"))
@click.pass_obj
def set_(app: App, file: Path) -> None:
    """Take the second secret from FILE, or from standard input.

    meshsecd uses it within a second. SAs stay; those that are set up from then on use it.
    """
    try:
        taken = second_secret.decode(files.read(file, _LIMIT))
    except SecondSecretError as error:
        raise click.ClickException(f"{file}: {error}") from error
    second_secret_store.save(_path(app), taken)
    click.echo(_shown(taken))


@secret.command
@json_option
@click.pass_obj
def show(app: App, as_json: bool) -> None:
    """Print the mark by which two nodes compare their second secrets, and not the secret itself."""
    found = second_secret_store.find(_path(app))
    if as_json:
        print_json({"schema": SCHEMA, "mark": _shown(found) if found else None})
        return
    click.echo(_shown(found) if found else "this node has no second secret")


@secret.command
@click.pass_obj
def remove(app: App) -> None:
    """Remove the second secret from this node. Peers whose level asks for it lose their SA after half a minute."""
    was_there = second_secret_store.remove(_path(app))
    click.echo("removed" if was_there else "this node has no second secret")


def _path(app: App) -> Path:
    return Path(app.settings.paths.key).with_name(second_secret_store.NAME)


def _shown(found: bytes) -> str:
    return second_secret.mark(found).hex()[:_SHOWN]
