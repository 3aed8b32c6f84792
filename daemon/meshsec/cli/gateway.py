"""``meshsec gateway``: the way out through this node, and the ways out that it uses."""

import sys
from collections.abc import Mapping
from typing import Any

import click

from meshsec.cli.app import DEGRADED, App
from meshsec.cli.client import Client
from meshsec.cli.output import json_option, print_json, print_table


@click.group
def gateway() -> None:
    """Make this node a way out for its peers, and show the ways out."""


@gateway.command
@click.argument("uplink", required=False)
@json_option
@click.pass_obj
def on(app: App, uplink: str | None, as_json: bool) -> None:
    """Offer the way out by the interface UPLINK, by default that of [gateway] in meshsec.toml.

    Addresses are translated as [gateway] says, by default to the uplink's own. Peers that accept default routes from
    this node use it while the uplink leads outside. The choice is kept over restarts.
    """
    chosen = uplink or app.settings.gateway.uplink
    if not chosen:
        raise click.UsageError(
            "which interface leads outside? `meshsec gateway on eth1` names it, or uplink in [gateway] of meshsec.toml"
        )
    _show(_call(app, {"uplink": chosen}), as_json=as_json)


@gateway.command
@json_option
@click.pass_obj
def off(app: App, as_json: bool) -> None:
    """Offer no way out any more.

    Packets still pass for some seconds, until all nodes have heard of it.
    """
    _show(_call(app, {"uplink": ""}), as_json=as_json)


@gateway.command
@json_option
@click.pass_obj
def status(app: App, as_json: bool) -> None:
    """Show whether this node is a gateway, and through whom it reaches the outside.

    Exit code 3 when this node is to be a gateway and its uplink does not lead outside, or when a way out that is
    announced is not reached.
    """
    view = _call(app, {})
    _show(view, as_json=as_json)
    if view["gateway"]["problems"] or any(one["problem"] and one["announced_by"] for one in view["ways_out"]):
        sys.exit(DEGRADED)


def _call(app: App, params: Mapping[str, object]) -> Mapping[str, Any]:
    with Client(app.socket) as client:
        view: Mapping[str, Any] = client.call("gateway", params)
    return view


def _show(view: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(view)
        return
    own = view["gateway"]
    if own["uplink"] is None:
        click.echo("This node is no gateway.")
    else:
        click.echo(f"This node is a gateway by {own['uplink']}. It offers: {', '.join(own['offers']) or 'nothing'}")
    for problem in own["problems"]:
        click.secho(f"Problem: {problem}", fg="red")
    if view["unwatched"]:
        click.secho(f"Gateways are not watched: {view['unwatched']}", fg="yellow")
    rows = (
        (one["network"], one["peer"] or "none", ", ".join(one["ready"]) or "none", one["problem"])
        for one in view["ways_out"]
    )
    if view["ways_out"]:
        print_table(("WAY OUT", "THROUGH", "READY", "PROBLEM"), rows)
    for one in view["ways_out"]:
        if one["limit"]:
            click.echo(f"{one['network']} is {one['limit']}.")
