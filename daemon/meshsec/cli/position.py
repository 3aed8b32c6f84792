"""``meshsec position``: where this node and its peers are."""

import sys
from collections.abc import Mapping
from typing import Any

import click

from meshsec.cli.app import DEGRADED, App
from meshsec.cli.client import Client
from meshsec.cli.output import duration, json_option, print_json, print_table


@click.command
@json_option
@click.pass_obj
def position(app: App, as_json: bool) -> None:
    """Show where this node and its peers are: [position] of their meshsec.toml.

    A peer says so of itself. Exit code 3 when gpsd does not say where this node is, or peers cannot be heard.
    """
    with Client(app.socket) as client:
        view = client.call("positions")
    if as_json:
        print_json(view)
    elif view["positions"]:
        print_table(("NODE", "LATITUDE", "LONGITUDE", "ALTITUDE", "WITHIN", "SEEN"), map(_row, view["positions"]))
    else:
        click.echo("It is not known where this node or a peer is; [position] of meshsec.toml says it of this node.")
    if view["problem"]:
        click.secho(f"Problem: {view['problem']}", fg="red", err=as_json)
        sys.exit(DEGRADED)


def _row(one: Mapping[str, Any]) -> tuple[str | None, ...]:
    return (
        one["node"],
        f"{one['latitude']:.6f}",
        f"{one['longitude']:.6f}",
        _metres(one["altitude"]),
        _metres(one["accuracy"]),
        _seen(one),
    )


def _metres(value: float | None) -> str | None:
    return None if value is None else f"{value:.0f} m"


def _seen(one: Mapping[str, Any]) -> str:
    """Say how old a position is, and whether the node may have moved unheard since."""
    if one["fixed"] and one["reached"]:
        return "fixed"
    return f"{duration(one['age'])} ago" + ("" if one["reached"] else ", out of reach")
