"""``meshsec clients``: who is served by this access node and by the others."""

import sys

import click

from meshsec.cli.app import DEGRADED, App
from meshsec.cli.client import Client
from meshsec.cli.output import json_option, print_json, print_table


@click.command
@json_option
@click.pass_obj
def clients(app: App, as_json: bool) -> None:
    """Show the clients of this access node and of the others, and what was refused.

    Exit code 3 when clients cannot be served as they ought to be.
    """
    with Client(app.socket) as client:
        view = client.call("clients", {})
    if as_json:
        print_json(view)
    elif not view["networks"]:
        click.echo("This node serves no clients: [access] of meshsec.toml has no networks.")
    else:
        here = sum(one["here"] for one in view["clients"])
        click.echo(f"Clients here: {here} of at most {view['most']}. Other access nodes in reach: ", nl=False)
        click.echo(", ".join(view["nodes"]) or "none")
        rows = ((one["mac"], one["node"] or "here", ", ".join(one["addresses"])) for one in view["clients"])
        if view["clients"]:
            print_table(("CLIENT", "AT", "ADDRESSES"), rows)
        for one in view["refused"]:
            click.secho(f"Refused, {one['count']} times: {one['mac']}: {one['reason']}", fg="yellow")
        for problem in view["problems"]:
            click.secho(f"Problem: {problem}", fg="red")
    if view["problems"]:
        sys.exit(DEGRADED)
