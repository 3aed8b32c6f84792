"""``meshsec mode``: by which data plane user data goes, for each peer."""

from collections.abc import Iterator, Mapping
from typing import Any

import click

from meshsec.cli.app import App, peer_names
from meshsec.cli.client import Client
from meshsec.cli.output import json_option, print_json, print_table

DEFAULT = "default"
"""Not a plane: what ends a peer's own choice."""


@click.command
@click.argument("plane", type=click.Choice(["ipsec", "overlay", DEFAULT]), required=False)
@click.argument("peer", shell_complete=peer_names, required=False)
@json_option
@click.pass_obj
def mode(app: App, plane: str | None, peer: str | None, as_json: bool) -> None:
    """Show or choose by which data plane user data goes.

    Without PLANE nothing is changed. With PEER the choice is that peer's, without it is this node's for all peers that
    have none of their own; `default PEER` ends a peer's own choice. A switch is made without interruption, and is kept
    over restarts. The other end may choose differently: each end chooses how it sends.
    """
    if plane == DEFAULT and peer is None:
        raise click.UsageError(f"{DEFAULT} needs a PEER whose own choice ends")
    with Client(app.socket) as client:
        view = client.call("mode", _asked(plane, peer))
    if as_json:
        print_json(view)
    else:
        _print(view)


def _asked(plane: str | None, peer: str | None) -> Mapping[str, object]:
    if plane is None:
        return {}
    chosen = None if plane == DEFAULT else plane
    return {"plane": chosen} if peer is None else {"plane": chosen, "peer": peer}


def _print(view: Mapping[str, Any]) -> None:
    click.echo(f"This node: {view['default']}    overlay: ", nl=False)
    overlay = view["overlay"]
    if not overlay["enabled"]:
        click.echo("not enabled ([overlay] enabled = true in meshsec.toml)")
    elif overlay["up"]:
        click.echo("runs")
    else:
        click.secho(f"IS AWAY: {overlay['reason']}", fg="red")
    if view["peers"]:
        print_table(("PEER", "MODE", "CHOSEN FOR", "CARRIED BY"), _rows(view["peers"]))
    else:
        click.echo("No peers.")


def _rows(peers: list[Mapping[str, Any]]) -> Iterator[tuple[object, ...]]:
    for peer in peers:
        yield peer["name"], peer["plane"], "this peer" if peer["override"] else "all", peer["carries"]
