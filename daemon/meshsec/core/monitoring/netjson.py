"""The mesh as a NetworkGraph of NetJSON (netjson.org, RFC draft of 2015), as netdiff and netjsongraph.js read it."""

import json
from collections.abc import Mapping
from typing import Any

from meshsec.core.page.graph import graph

View = Mapping[str, Any]
METHODS = ("status", "topology")
"""meshsecd's methods of whose answers it is made."""


def network_graph(answers: Mapping[str, View], version: str) -> dict[str, Any]:
    """Return the nodes by address and the links with their metric (RFC 7779), each with its protection."""
    status = answers["status"]
    found = graph(status, answers["topology"])
    known = {one["name"]: one for one in (status["node"], *status["peers"])}
    return {
        "type": "NetworkGraph",
        "label": f"the mesh as {status['node']['name']} knows it",
        "protocol": "OLSRv2",
        "version": version,
        "metric": "DAT",
        "router_id": status["node"]["address"],
        "nodes": [_node(key, kind, known) for key, kind in found["nodes"].items()],
        "links": [_link(ends, edge, known) for ends, edge in found["edges"].items()],
    }


def encoded(document: View) -> bytes:
    """Return the document as JSON."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def _node(key: str, kind: str, known: Mapping[str, View]) -> dict[str, Any]:
    addresses = [known[key]["address"], known[key]["ipv4"]] if key in known else [key]
    return {
        "id": addresses[0],
        "label": key,
        "local_addresses": [one for one in addresses if one is not None],
        "properties": {"kind": kind},
    }


def _link(ends: str, edge: View, known: Mapping[str, View]) -> dict[str, Any]:
    source, target = (known[key]["address"] if key in known else key for key in ends.split(" "))
    return {
        "source": source,
        "target": target,
        "cost": float(edge["metric"] or 0),
        "properties": {"protection": edge["kind"]} | ({"confirmed": edge["confirmed"]} if "confirmed" in edge else {}),
    }
