"""``meshsec clients``: who is served by this access node and by the others."""

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import click

from meshsec.cli.app import DEGRADED, App
from meshsec.cli.client import Client
from meshsec.cli.output import json_option, print_json, print_table


@click.command
@click.option("-v", "--verbose", is_flag=True, help="Show MAC addresses and all addresses, too: a wider table.")
@json_option
@click.pass_obj
def clients(app: App, verbose: bool, as_json: bool) -> None:
    """Show the clients of this access node and of the others, and what was refused.

    A client without a name is shown by its MAC address. Of its addresses the newest of each IP version is shown.

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
        if view["clients"]:
            _print_clients(view["clients"], verbose=verbose)
        for one in view["refused"]:
            click.secho(f"Refused, {one['count']} times: {one['mac']}: {one['reason']}", fg="yellow")
        for problem in view["problems"]:
            click.secho(f"Problem: {problem}", fg="red")
    if view["problems"]:
        sys.exit(DEGRADED)


def _print_clients(shown: Iterable[Mapping[str, Any]], *, verbose: bool) -> None:
    if verbose:
        rows = ((one["mac"], one["name"], one["node"] or "here", ", ".join(one["addresses"])) for one in shown)
        print_table(("MAC", "NAME", "AT", "ADDRESSES"), rows)
        return
    short = ((one["name"] or one["mac"], one["node"] or "here", ", ".join(_newest(one["addresses"]))) for one in shown)
    print_table(("CLIENT", "AT", "ADDRESSES"), short)


def _newest(addresses: Iterable[str]) -> Iterable[str]:
    """Return one address of each IP version, the newest, which is the last."""
    return {":" in one: one for one in addresses}.values()
