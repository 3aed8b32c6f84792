"""``meshsec drift``: whether what runs on this node is what its policy says."""

import sys
from collections.abc import Mapping
from typing import Any

import click

from meshsec.cli.app import DEGRADED, App, peer_names
from meshsec.cli.client import Client
from meshsec.cli.output import json_option, print_json

_TITLES = {
    "connection": "IKE daemon, connection",
    "credentials": "IKE daemon, credentials",
    "ike_sa": "IKE_SA",
    "child_sa": "CHILD_SA",
    "xfrm_state": "kernel, XFRM state",
    "xfrm_policy": "kernel, XFRM policy",
    "rules": "nftables",
    "address": "address",
    "network": "network",
}


_PATIENCE = 60.0
"""Seconds: several looks are taken, each of which runs nft, on a machine that may be slow."""


@click.command
@click.argument("peer", shell_complete=peer_names, required=False)
@json_option
@click.pass_obj
def drift(app: App, peer: str | None, as_json: bool) -> None:
    """Compare what runs on this node with what its policy says.

    Connections and keys in the IKE daemon, SAs, XFRM states and policies, the fail-closed rules and meshsecd's other
    tables, this node's addresses, and routes and announcements of networks; with PEER only what is that peer's. Nothing
    is changed. Exit code 3 when something differs, or could not be looked at.
    """
    with Client(app.socket, _PATIENCE) as client:
        view = client.call("drift", {"peer": peer} if peer else {})
    if as_json:
        print_json(view)
    else:
        _print(view)
    if view["differences"] or view["unexamined"]:
        sys.exit(DEGRADED)


def _print(view: Mapping[str, Any]) -> None:
    for one in view["differences"]:
        whose = f" of {one['peer']}" if one["peer"] else ""
        click.secho(f"{_title(one)}{whose}: {one['what']}", bold=True, nl=False)
        click.echo(f": is {one['is']}; should be {one['should']}; fix: {one['mend']}")
    for one in view["unexamined"]:
        click.secho(f"{_title(one)}: not looked at: {one['why']}", fg="yellow")
    for one in view["notes"]:
        click.echo(f"note: {_title(one)}: {one['text']}")
    if not view["differences"] and not view["unexamined"]:
        click.echo("No drift: what runs is what the policy says.")


def _title(one: Mapping[str, Any]) -> str:
    return _TITLES.get(one["where"], str(one["where"]))
