"""``meshsec page``: log in to the page in the browser."""

from pathlib import Path
from typing import Any

import click

from meshsec.adapters.files import fleet_key, secrecy
from meshsec.adapters.files.trust_store import fleets as store
from meshsec.cli import fleet_options as options
from meshsec.cli import page_approvals
from meshsec.cli.app import App
from meshsec.cli.client import Client
from meshsec.cli.key import draw_text
from meshsec.cli.output import json_option, print_json
from meshsec.core.access.shared_address import addresses_of


@click.group
def page() -> None:
    """Change something through the page in the browser, which only shows without a login."""


@page.command
@click.option("--approve", is_flag=True, help="The login may approve nodes, while this command runs and signs.")
@click.option("--qr", is_flag=True, help="Draw the last address as a QR code, for the camera of a phone.")
@options.passphrase
@options.directory
@json_option
@click.pass_obj
def login(  # noqa: PLR0913, PLR0917  # one for each option
    app: App, approve: bool, qr: bool, passphrase_stdin: bool, directory: Path, as_json: bool
) -> None:
    """Print an address that logs one browser in, once, within 5 minutes.

    Whoever opens it first may add and remove peers, and refuse nodes that ask to join, until an hour has passed without
    a change. The second address is for another machine of the mesh, and the third, where clients may log in, for them.

    With --approve the login may approve nodes, too. It loads the fleet's key, stays, and signs the card of each node
    that is approved on the page. Nothing is approved once it has ended, by Ctrl-C or with the login.
    """
    if not approve:
        with Client(app.socket) as client:
            _tell(app, client.call("page_login"), qr=qr, as_json=as_json)
        return
    if as_json:
        raise click.UsageError("--json and --approve cannot be used together")
    fleet = fleet_key.fleet(directory)
    if fleet.public_key not in store.read(app.peers_directory).keys:
        raise click.ClickException(f"this node has not joined {fleet.name}: `meshsec fleet join FLEET`")
    secrecy.keep_private()  # the key stays in memory
    key = options.load_key(directory, passphrase_stdin)
    with Client(app.socket) as client:
        made = client.call("page_login", {"fleet": fleet.public_key.hex()})
        _tell(app, made, qr=qr, as_json=False)
        click.echo(f"\nThis login approves nodes for the fleet {fleet.name} while this command runs. Ctrl-C ends it.")
        try:
            for line in page_approvals.serve(client, made["signer"], directory, key):
                click.echo(line)
        except KeyboardInterrupt:
            click.echo()
    click.echo("No login approves nodes through this command any more.")


def _tell(app: App, made: dict[str, Any], *, qr: bool, as_json: bool) -> None:
    settings, token = app.settings, made["token"]
    hosts = ["localhost", str(app.card.address)]
    if settings.page.clients_log_in:
        hosts.append(str(addresses_of(settings.access.networks)[0].ip))
    addresses = [f"http://{_bracketed(host)}:{settings.page.port}/#login={token}" for host in hosts]
    if as_json:
        named = dict(zip(("local", "mesh", "clients"), addresses, strict=False))
        print_json({"schema": "meshsec-page-login-1", **named, "seconds": made["seconds"]})
        return
    if qr:
        draw_text(addresses[-1])
    for address in addresses:
        click.echo(address)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


@page.command
@click.pass_obj
def logout(app: App) -> None:
    """End all logins, and make addresses useless that nobody has opened yet."""
    with Client(app.socket) as client:
        ended = client.call("page_logout")["ended"]
    click.echo(f"{ended} logins ended")
