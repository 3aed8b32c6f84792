"""``meshsec init``: from nothing to a node with a card."""

import re
import socket
from collections.abc import Mapping
from ipaddress import IPv4Address
from pathlib import Path

import click

from meshsec import files
from meshsec.adapters.files import config_file, key_store, secret_file
from meshsec.cli.app import App
from meshsec.cli.cards import described
from meshsec.cli.output import facts


def ipv4_address(value: str) -> IPv4Address:
    """Return an option's value as an address. Raises BadParameter."""
    try:
        return IPv4Address(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is no IPv4 address") from None


@click.command
@click.option("--name", help="The node's name on its card; without it the host name.")
@click.option(
    "--ipv4", type=ipv4_address, metavar="ADDRESS", help="The node's IPv4 mesh address, if it shall have one."
)
@click.option("--interface", "interfaces", multiple=True, help="A mesh interface; may be repeated. Without it mesh0.")
@click.pass_obj
def init(app: App, name: str | None, ipv4: IPv4Address | None, interfaces: tuple[str, ...]) -> None:
    """Make this node's configuration and key.

    The directory for the cards of trusted peers is made too. What exists is kept: a second run prints the card again.
    """
    if files.exists(app.config):
        keep(app.config, given=bool(name or ipv4 or interfaces))
    else:
        write(app.config, name or host_name(), interfaces or ("mesh0",), ipv4)
    make_key(app)
    facts(described(app.card, grouped=False))
    click.echo("\nGive the card to those who shall trust this node; trust theirs by `meshsec peer add NAME CARD`.")


def keep(config: Path, *, given: bool) -> None:
    """Leave an existing configuration. Raises ClickException if options were given, which it would ignore."""
    if given:
        raise click.ClickException(
            f"{config} exists; change name, ipv4 and interfaces there, then run `meshsec up` without these options"
        )
    click.echo(f"{config}: kept")


def write(
    config: Path,
    name: str,
    interfaces: tuple[str, ...],
    ipv4: IPv4Address | None,
    radio: Mapping[str, str | int] | None = None,
) -> None:
    """Write a first configuration, with ``[radio]`` if there is any. Raises ConfigError."""
    files.make_directory(config.parent)
    config_file.create(config, name, interfaces, ipv4, radio)
    click.echo(f"{config}: written")


def make_key(app: App) -> None:
    """Make this node's key and the directory for the cards of peers, unless they exist."""
    _make_key(Path(app.settings.paths.key))
    files.make_directory(app.peers_directory)


def _make_key(path: Path) -> None:
    if secret_file.exists(path):
        key_store.load(path)
        click.echo(f"{path}: kept")
        return
    files.make_directory(path.parent)
    key_store.create(path)
    click.echo(f"{path}: made; keep it on this node alone")


def host_name() -> str:
    """Return the host name as a node's name may be; ``node`` when nothing of it is left."""
    allowed = re.sub(r"[^a-z0-9-]+", "-", socket.gethostname().partition(".")[0].lower())
    return allowed[:32].strip("-") or "node"
