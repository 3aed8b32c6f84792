"""``meshsec page``: log in to the page in the browser."""

import click

from meshsec.cli.app import App
from meshsec.cli.client import Client
from meshsec.cli.output import json_option, print_json


@click.group
def page() -> None:
    """Change something through the page in the browser, which only shows without a login."""


@page.command
@json_option
@click.pass_obj
def login(app: App, as_json: bool) -> None:
    """Print an address that logs one browser in, once, within 5 minutes.

    Whoever opens it first may add and remove peers and choose the data plane, until an hour has passed without a
    change. The second address is for another machine of the mesh. No address is printed unless meshsecd itself holds
    the port, so that no other program on this node can catch the login.
    """
    port, addresses = app.settings.page.port, ["127.0.0.1", "::1", str(app.card.address)]
    with Client(app.socket) as client:
        made = client.call("page_login", {"addresses": addresses, "port": port})
    token = made["token"]
    local, mesh = (f"http://{host}:{port}/#login={token}" for host in ("localhost", f"[{app.card.address}]"))
    if as_json:
        print_json({"schema": "meshsec-page-login-1", "local": local, "mesh": mesh, "seconds": made["seconds"]})
    else:
        click.echo(f"{local}\n{mesh}")


@page.command
@click.pass_obj
def logout(app: App) -> None:
    """End all logins, and make addresses useless that nobody has opened yet."""
    with Client(app.socket) as client:
        ended = client.call("page_logout")["ended"]
    click.echo(f"{ended} logins ended")
