"""``meshsec init``: from nothing to a node with a card."""

import re
import socket
from ipaddress import IPv4Address
from pathlib import Path

import click

from meshsec import files
from meshsec.adapters.files import config_file, key_store
from meshsec.cli.app import App
from meshsec.cli.cards import described
from meshsec.cli.output import facts


def _ipv4(value: str) -> IPv4Address:
    try:
        return IPv4Address(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is no IPv4 address") from None


@click.command
@click.option("--name", help="The node's name on its card; without it the host name.")
@click.option("--ipv4", type=_ipv4, metavar="ADDRESS", help="The node's IPv4 mesh address, if it shall have one.")
@click.option("--interface", "interfaces", multiple=True, help="A mesh interface; may be repeated. Without it mesh0.")
@click.pass_obj
def init(app: App, name: str | None, ipv4: IPv4Address | None, interfaces: tuple[str, ...]) -> None:
    """Make this node's configuration and key.

    The directory for the cards of trusted peers is made too. What exists is kept: a second run prints the card again.
    """
    if files.exists(app.config):
        _keep(app.config, given=bool(name or ipv4 or interfaces))
    else:
        files.make_directory(app.config.parent)
        config_file.create(app.config, name or _host_name(), interfaces or ("mesh0",), ipv4)
        click.echo(f"{app.config}: written")
    _make_key(Path(app.settings.paths.key))
    files.make_directory(app.peers_directory)
    facts(described(app.card, grouped=False))
    click.echo("\nGive the card to those who shall trust this node; trust theirs by `meshsec peer add NAME CARD`.")


def _keep(config: Path, *, given: bool) -> None:
    if given:
        raise click.ClickException(f"{config} exists; change name, ipv4 and interfaces there")
    click.echo(f"{config}: kept")


def _make_key(path: Path) -> None:
    if files.exists(path):
        key_store.load(path)
        click.echo(f"{path}: kept")
        return
    files.make_directory(path.parent)
    key_store.create(path)
    click.echo(f"{path}: made; keep it on this node alone")


def _host_name() -> str:
    """Return the host name as a node's name may be; ``node`` when nothing of it is left."""
    allowed = re.sub(r"[^a-z0-9-]+", "-", socket.gethostname().partition(".")[0].lower())
    return allowed[:32].strip("-") or "node"
