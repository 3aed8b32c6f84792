"""``meshsec services``: what this node and its peers offer."""

import sys
from collections.abc import Mapping
from typing import Any

import click

from meshsec.cli.app import DEGRADED, App
from meshsec.cli.client import Client
from meshsec.cli.output import json_option, print_json, print_table
from meshsec.core.names.names import DOMAIN


@click.command
@json_option
@click.pass_obj
def services(app: App, as_json: bool) -> None:
    """Show what this node and the peers in reach offer: [[service]] of their meshsec.toml.

    Exit code 3 when peers cannot be heard.
    """
    with Client(app.socket) as client:
        view = client.call("services")
    if as_json:
        print_json(view)
    elif view["services"]:
        rows = ((one["name"], one["url"] or _place(one), one["description"] or None) for one in view["services"])
        print_table(("SERVICE", "WHERE", "DESCRIPTION"), rows)
    else:
        click.echo("Nothing is offered here, nor by the peers in reach; [[service]] of meshsec.toml offers something.")
    if view["problem"]:
        click.secho(f"Problem: {view['problem']}", fg="red", err=as_json)
        sys.exit(DEGRADED)


def _place(one: Mapping[str, Any]) -> str:
    return f"{one['node']}.{DOMAIN}:{one['port']}/{one['protocol']}"
