"""``meshsec topology``: the mesh as the routing daemon knows it, with the names of nodes."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_network
from typing import Any

import click

from meshsec.cli.app import App
from meshsec.cli.output import json_option, print_json, print_table
from meshsec.cli.views import STRANGER, asked

_NEIGHBOURS = ("NEIGHBOUR", "LINK", "METRIC IN", "METRIC OUT", "OUR MPR", "WE ARE ITS MPR")
_ROUTES = ("TO", "IP", "HOPS", "VIA", "METRIC")
"""What fits 80 columns, except for addresses of strangers."""
_SIGNED = {"signs": "SIGNS", "confirmed": "CONFIRMED"}
"""Columns of what is known only where signatures are looked at, by the keys of the view."""


@click.command
@click.option("-v", "--verbose", is_flag=True, help="Show addresses and interfaces instead of names: a wider table.")
@json_option
@click.pass_obj
def topology(app: App, verbose: bool, as_json: bool) -> None:
    """Show neighbours, routes and links.

    They are shown as the routing daemon knows them. This node and its peers have their names, other nodes their
    addresses. Where [routing] signatures is not off, they say who signs, and which links both ends have signed.
    """
    view = asked(app, "topology")
    if as_json:
        print_json(view)
        return
    names: Mapping[str, str] = {} if verbose else view["names"]
    click.secho("Neighbours", bold=True)
    _print(_NEIGHBOURS, _neighbours(view, names), view["neighbours"], breakable=_NEIGHBOURS[:1])
    click.secho("\nRoutes", bold=True)
    if verbose:
        columns = ("DESTINATION", "PEER", "HOPS", "NEXT HOP", "INTERFACE", "METRIC")
        _print(columns, _routes(view), view["routes"])
    else:
        _print(_ROUTES, _named_routes(view, names), view["routes"], breakable=("TO", "VIA"))
    click.secho("\nLinks", bold=True)
    links = (
        (names.get(edge["source"], edge["source"]), names.get(edge["target"], edge["target"]), edge["metric"])
        for edge in view["edges"]
    )
    _print(("FROM", "TO", "METRIC"), links, view["edges"], breakable=("FROM", "TO"))
    if view["routes_truncated"]:
        click.echo("There are more routes than are kept.")


def _print(
    columns: tuple[str, ...],
    rows: Iterable[tuple[object, ...]],
    entries: Sequence[Mapping[str, Any]],
    breakable: Collection[str] = (),
) -> None:
    """Print a table; ``entries`` are what its rows show. Where signatures are looked at, it has one column more."""
    for key, column in _SIGNED.items():
        if any(key in entry for entry in entries):
            columns = (*columns, column)
            rows = [(*row, "yes" if entry[key] else None) for row, entry in zip(rows, entries, strict=True)]
    print_table(columns, rows, breakable)


def _neighbours(view: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[tuple[object, ...]]:
    for neighbour in view["neighbours"]:
        yield (
            names.get(neighbour["originator"], neighbour["originator"]),
            "symmetric" if neighbour["symmetric"] else "heard",
            neighbour["metric_in"],
            neighbour["metric_out"],
            "yes" if neighbour["is_mpr"] else None,
            "yes" if neighbour["selected_us"] else None,
        )


def _routes(view: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    for route in view["routes"]:
        yield tuple(route[key] for key in ("destination", "peer", "hops", "next_hop", "interface", "metric"))


def _named_routes(view: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[tuple[object, ...]]:
    """Yield the routes, with the name of the neighbour in place of the next hop, which is an address of its link."""
    direct = {
        (route["next_hop"], route["interface"]): _name(route["destination"], names) or STRANGER
        for route in view["routes"]
        if route["hops"] == 1
    }
    for route in view["routes"]:
        to = _name(route["destination"], names) or route["destination"]
        via = direct.get((route["next_hop"], route["interface"]), STRANGER)
        yield to, ip_network(route["destination"]).version, route["hops"], via, route["metric"]


def _name(destination: str, names: Mapping[str, str]) -> str | None:
    return names.get(destination.partition("/")[0])
