"""A node's routing tables as ``ip -json route`` prints them, with nodes and clients by their names."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tests.lab.basics.shell import run
from tests.lab.node.node import Node

INTERNAL, CLIENT, DEFAULT = "internal", "client", "default"
KINDS = (INTERNAL, CLIENT, DEFAULT)
"""The paper's kinds of routes (section 4.1): to routers, to clients, and to the outside."""
_MAKERS = {
    "100": "router",
    "102": "meshsecd",
    "103": "meshsecd",
    "kernel": "kernel",
    "boot": "operator",
    "": "operator",
}
"""Who makes routes of a protocol (rt_protos of iproute2; 100 and above are this project's)."""
_UNNAMED = ("fe80:", "ff00:", "multicast")


class Row(NamedTuple):
    """One route of a table."""

    destination: str
    gateway: str
    """The neighbour, or the peer whose tunnel takes the packet; empty for what is on the link."""
    device: str
    maker: str
    kind: str = ""


class Names(NamedTuple):
    """What addresses belong to."""

    nodes: Mapping[str, str]
    """By the address of a node, in the mesh or on a link."""
    clients: frozenset[str]


def names(nodes: Iterable[Node], clients: Iterable[str]) -> Names:
    """Return the names of nodes by each of their addresses, those of links included."""
    found: dict[str, str] = {}
    for node in nodes:
        shown = run(["ip", "-n", node.namespace, "-j", "-6", "address", "show"]).stdout
        for one in json.loads(shown):
            found |= {info["local"]: node.name for info in one.get("addr_info", ()) if "local" in info}
    return Names(found, frozenset(clients))


def read(node: Node, known: Names) -> list[Row]:
    """Return the rows of a node's main table, both families."""
    return [*read_family(node, known, "-4"), *read_family(node, known, "-6")]


def read_family(node: Node, known: Names, family: str) -> list[Row]:
    """Return the rows of one family, which is ``-4`` or ``-6``."""
    shown = run(["ip", "-n", node.namespace, "-j", family, "route", "show", "table", "main"], check=False).stdout
    return rows(shown, known, "0.0.0.0/0" if family == "-4" else "::/0")


def rows(text: str, known: Names, default: str) -> list[Row]:
    """Return the rows of the text that iproute2 prints. Raises ValueError when it is no JSON."""
    printed = json.loads(text or "[]", object_pairs_hook=_first)
    wanted = [one for one in printed if one.get("type", "unicast") == "unicast"]
    return [_row(one, known, default) for one in wanted if not str(one["dst"]).startswith(_UNNAMED)]


def count(table: Sequence[Row], kind: str) -> int:
    """Return the number of destinations of a kind that a table has routes to."""
    return len({row.destination for row in table if row.kind == kind})


def lines(table: Sequence[Row], columns: int = 4) -> list[str]:
    """Return the table as text with so many columns, as the paper prints its own."""
    cells = [("destination", "gateway", "device", "by")[:columns]]
    cells += [(row.destination, row.gateway or "*", row.device, row.maker)[:columns] for row in table]
    widths = [max(len(row[column]) for row in cells) for column in range(columns)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def _first(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; iproute2 prints ``dst`` twice for a route into a tunnel, and the second one is the peer."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        found["peer" if key == "dst" and key in found else key] = value
    return found


def _row(one: Mapping[str, Any], known: Names, default: str) -> Row:
    destination, protocol = str(one["dst"]), str(one.get("protocol", ""))
    gateway = str(one.get("gateway") or one.get("peer") or "")
    destination = default if destination == "default" else destination
    kind = _kind(destination, known, default, remote=bool(gateway) and protocol == "100")
    name = "client" if destination in known.clients else known.nodes.get(destination, "")
    shown = f"{name} ({_short(destination)})" if name else _short(destination)
    return Row(shown, known.nodes.get(gateway, gateway), str(one.get("dev", "")), _MAKERS.get(protocol, protocol), kind)


def _kind(destination: str, known: Names, default: str, *, remote: bool) -> str:
    if destination == default:
        return DEFAULT
    if destination in known.clients:
        return CLIENT
    return INTERNAL if remote and destination in known.nodes else ""


def _short(destination: str) -> str:
    """Shorten an IPv6 address to its first and last group; a prefix stays."""
    groups = destination.split(":")
    return f"{groups[0]}:...:{groups[-1]}" if len(groups) > 5 and "/" not in destination else destination
