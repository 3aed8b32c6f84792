"""The mesh as a graph: nodes, the edges between them and the routes, as this node knows them.

A node with an IPv4 and an IPv6 address is an originator for each (RFC 7181), and nothing says of a stranger that the
two are one. So the graph shows the IPv6 side, and the IPv4 side only where there is no other.
"""

from collections.abc import Iterable, Mapping
from ipaddress import IPv6Address, ip_network
from typing import Any

from meshsec.core.trust.identity import locator_of

View = Mapping[str, Any]
SELF, PEER, STRANGER = "self", "peer", "stranger"
PROTECTED, PLAIN = "protected", "plain"


def graph(status: View, topology: View) -> dict[str, Any]:
    """Return nodes and edges by their keys, and the routers on the way to each node.

    A node's key is its name, where it is this node or a peer, else its address. An edge is ``protected`` when this
    node has a protected channel with each end that is a peer, ``stranger`` when one end is a stranger, and else
    ``plain``: a peer's channel is not protected. Where signatures are looked at, it also has whether it is
    ``confirmed``: both ends have signed it.
    """
    own, names = status["node"]["name"], _names(status)
    known = {peer["name"]: _peer_kind(peer) for peer in status["peers"]} | {own: PROTECTED}
    edges, routes = _edges(own, topology, names), _routes(topology, names)
    confirmed = _confirmed(own, topology, names)
    keys = [*known, *(key for pair in edges for key in pair), *routes]
    return {
        "nodes": {key: SELF if key == own else PEER if key in known else STRANGER for key in keys},
        "edges": {
            " ".join(pair): {"kind": _edge_kind(pair, known), "metric": metric}
            | ({} if confirmed is None else {"confirmed": pair in confirmed})
            for pair, metric in edges.items()
        },
        "routes": routes,
    }


def _names(status: View) -> dict[str, str]:
    """Return the names of this node and of the peers by each of their addresses."""
    found: dict[str, str] = {}
    for one in (status["node"], *status["peers"]):
        for address in (one["address"], one["ipv4"]):
            if address is not None:
                found[address] = one["name"]
        if one["address"] is not None:
            found[str(locator_of(IPv6Address(one["address"])))] = one["name"]
    return found


def _peer_kind(peer: View) -> str:
    return PROTECTED if peer["data_plane"] in {"ipsec", "overlay"} else PLAIN


def _edge_kind(pair: Iterable[str], known: Mapping[str, str]) -> str:
    kinds = {known.get(key, STRANGER) for key in pair}
    return next((kind for kind in (STRANGER, PLAIN) if kind in kinds), PROTECTED)


def _edges(own: str, topology: View, names: Mapping[str, str]) -> dict[tuple[str, str], int | None]:
    """Return each edge once, with the better metric of its directions."""
    neighbours = [one for one in topology["neighbours"] if one["symmetric"]]
    version = _shown(one["originator"] for one in neighbours)
    found: dict[tuple[str, str], int | None] = {}
    for one in neighbours:
        if _is_of(one["originator"], version):
            _note(found, own, names.get(one["originator"], one["originator"]), one["metric_out"])
    for one in topology["edges"]:
        if _is_of(one["source"], version) and _is_of(one["target"], version):
            source, target = (names.get(one[end], one[end]) for end in ("source", "target"))
            _note(found, source, target, one["metric"])
    return found


def _note(found: dict[tuple[str, str], int | None], source: str, target: str, metric: int | None) -> None:
    if source == target:
        return
    pair = _pair(source, target)
    metrics = [one for one in (found.get(pair), metric) if one is not None]
    found[pair] = min(metrics, default=None)


def _confirmed(own: str, topology: View, names: Mapping[str, str]) -> set[tuple[str, str]] | None:
    """Return the edges that both ends have signed; None where signatures are not looked at."""
    neighbours = [one for one in topology["neighbours"] if one["symmetric"]]
    if not any("signs" in one for one in neighbours):
        return None
    version = _shown(one["originator"] for one in neighbours)
    links = [(own, one["originator"]) for one in neighbours if one["signs"]]
    links += [(one["source"], one["target"]) for one in topology["edges"] if one["confirmed"]]
    shown = (link for link in links if _is_of(link[1], version))
    return {_pair(names.get(source, source), names.get(target, target)) for source, target in shown}


def _pair(one: str, other: str) -> tuple[str, str]:
    return min(one, other), max(one, other)


def _routes(topology: View, names: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the routers on the way to each node, the next one first and the node itself last.

    The way is put together from the last hop of each route, which is what the routing daemon knows of it.
    """
    last_hops: dict[str, str | None] = {}
    version = _shown(one["originator"] for one in topology["routes"] if one["originator"])
    for one in topology["routes"]:
        destination = ip_network(one["destination"])
        address = str(destination.network_address)
        if one["originator"] == address and destination.version == version:
            last_hops[names.get(address, address)] = names.get(one["last_hop"], one["last_hop"])
    return {node: _way(node, last_hops) for node in last_hops}


def _way(node: str, last_hops: Mapping[str, str | None]) -> list[str]:
    """Follow the last hops backwards. A circle, which only two routes of different age can make, ends the way."""
    way = [node]
    while (before := last_hops.get(way[-1])) in last_hops and before not in way:
        way.append(str(before))
    return way[::-1]


def _shown(addresses: Iterable[str]) -> int:
    return 6 if any(":" in one for one in addresses) else 4


def _is_of(address: str, version: int) -> bool:
    return (6 if ":" in address else 4) == version
