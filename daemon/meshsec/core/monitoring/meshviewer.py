"""The mesh as meshviewer of Freifunk reads it: the document ``meshviewer.json`` (nodes, links, timestamp).

meshviewer reads some figures of each node without asking whether they are there. Those that this node does not know are
0 or empty.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from ipaddress import ip_address, ip_network
from typing import Any

from meshsec.core.page.graph import SELF, STRANGER, graph

View = Mapping[str, Any]
METHODS = ("status", "topology", "clients")
"""meshsecd's methods of whose answers it is made; ``positions`` besides, for those who may see them."""


def meshviewer(answers: Mapping[str, View], version: str, now: float) -> dict[str, Any]:
    """Return the document. ``now``: seconds of the wall clock. Places are in it where there is an answer about them."""
    status = answers["status"]
    found = graph(status, answers["topology"])
    ends = {one["name"]: one for one in (status["node"], *status["peers"])}
    ids = {key: _id(ends[key]["address"] if key in ends else key) for key in found["nodes"]}
    gateways = _gateways(status)
    places = {one["node"]: one for one in answers.get("positions", {"positions": ()})["positions"]}
    clients = _clients(answers["clients"], status["node"]["name"])
    nodes = []
    for key, kind in found["nodes"].items():
        one = ends.get(key, {"address": key, "ipv4": None})
        node = _node(key, ids[key], kind, one, now) | {"is_gateway": key in gateways}
        node["clients"] = node["clients_other"] = clients[key]
        if kind == SELF:
            node["firmware"] = {"base": "meshsec", "release": version}
        if key in places:
            node["location"] = {name: places[key][name] for name in ("latitude", "longitude")}
        nodes.append(node)
    return {"timestamp": _time(now), "nodes": nodes, "links": list(_links(found["edges"], ids))}


def _node(key: str, node_id: str, kind: str, one: View, now: float) -> dict[str, Any]:
    since = now - one.get("since", 0.0)
    online = kind in {SELF, STRANGER} or one["hops"] is not None
    return {
        "node_id": node_id,
        "hostname": key,
        "addresses": [address for address in (one["address"], one["ipv4"]) if address is not None],
        "mac": "",
        "firstseen": _time(since),
        "lastseen": _time(now if online else since),
        "uptime": _time(since),
        "is_online": online,
        "clients_wifi24": 0,
        "clients_wifi5": 0,
        "nproc": 0,
        "loadavg": 0.0,
        "memory_usage": 0.0,
        "firmware": {},
        "autoupdater": {"enabled": False, "branch": ""},
    }


def _gateways(status: View) -> set[str]:
    """Return the names of the nodes that offer a way out."""
    own = [status["node"]["name"]] if status["gateway"]["offers"] else []
    ways_out = (one for one in status["networks"] if ip_network(one["network"]).prefixlen == 0)
    return {*own, *(name for one in ways_out for name in one["announced_by"])}


def _clients(clients: View, own: str) -> Counter[str]:
    """Return the number of clients by the name of their access node."""
    return Counter(own if one["here"] else str(one.get("node")) for one in clients["clients"])


def _links(edges: Mapping[str, View], ids: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the links. The quality of the best one is 1, and that of others is in proportion to their rates."""
    best = min(_metrics(edges.values()), default=0.0)
    for pair, edge in edges.items():
        source, target = (ids[key] for key in pair.split(" "))
        quality = round(best / edge["metric"], 3) if edge["metric"] else 0.0
        yield {
            "type": edge["kind"],
            "source": source,
            "target": target,
            "source_tq": quality,
            "target_tq": quality,
            "source_addr": source,
            "target_addr": target,
        }


def _metrics(edges: Iterable[View]) -> Iterator[float]:
    return (float(edge["metric"]) for edge in edges if edge["metric"])


def _id(address: str) -> str:
    """Return the name by which links refer to a node: its address in hexadecimal digits."""
    return ip_address(address).packed.hex()


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S+0000")
