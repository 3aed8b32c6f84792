"""The document that the page shows: answers of meshsecd, put together for a browser that follows its changes.

Ages become times of the wall clock, because an age changes all the time. ``daemon/page/src/document.ts`` declares the
same.
"""

from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from typing import Any

from meshsec.core.page.graph import graph
from meshsec.core.services.protocols import url
from meshsec.core.services.services import Protocol, Service
from meshsec.core.values.model import Network

View = Mapping[str, Any]
NO_ANSWER = "meshsecd does not answer; `systemctl start meshsec.target` starts it"
_STEADY = 2.0
"""Seconds by which a time that is computed from an age may differ and still be the same: answers take a moment."""
_COPIED = (
    "name",
    "address",
    "ipv4",
    "hops",
    "state",
    "reason",
    "data_plane",
    "authentication",
    "late",
    "bytes_in",
    "bytes_out",
    "route_to_protected_ms",
)
_ASKED = ("fleet", "fleet_key", "name", "address", "fingerprint", "words", "networks", "namesake")


def empty(reason: str) -> dict[str, Any]:
    """Return the document while meshsecd has not answered yet."""
    return {"schema": "meshsec-page-1", "meshsecd": {"up": False, "reason": reason}, "events": []}


def absent(before: View, reason: str) -> dict[str, Any]:
    """Return the last document, marked: meshsecd does not answer."""
    return {**before, "meshsecd": {"up": False, "reason": reason}}


def document(answers: Mapping[str, View], before: View, now: float) -> dict[str, Any]:
    """Return the document of these answers, by method; a method without a new answer keeps its part.

    ``now``: seconds of the wall clock.
    """
    status, topology = answers["status"], answers.get("topology")
    found = {
        **before,
        "meshsecd": {"up": True},
        "node": status["node"],
        "daemons": _daemons(status),
        "rules_stand": status["rules_stand"],
        "problems": list(status["problems"]),
        "peers": _peers(status, before.get("peers", {}), now),
        "networks": list(status["networks"]),
        "own_networks": list(status["own_networks"]),
        "links": [{name: one[name] for name in ("peer", "up", "problems")} for one in status["links"]],
    }
    if "join_requests" in answers:
        found["requests"] = _requests(answers["join_requests"], topology or {}, before.get("requests", {}), now)
    if topology is not None:
        found["graph"] = graph(status, topology)
    found.update((name, answers[name]) for name in ("doctor", "clients", "gateway") if name in answers)
    if (services := answers.get("services")) is not None:
        found["services"] = {**services, "services": [_service(one) for one in services["services"]]}
    return found


def is_protected(shown: View, address: str) -> bool:
    """Return whether nobody on the way reads what goes to and from an address: this machine's own, or that of a peer.

    A client of an access network has neither. ``shown``: the document.
    """
    ends = (shown.get("node", {}), *shown.get("peers", {}).values())
    known = {one.get(name) for one in ends for name in ("address", "ipv4")} - {None}
    return ip_address(address).is_loopback or address in known


def is_own_client(clients: View, address: str) -> bool:
    """Return whether a client of this node has an address, and not one of another access node's.

    ``clients``: meshsecd's answer about them.
    """
    return any(one["here"] and address in one["addresses"] for one in clients["clients"])


def is_behind(shown: View, address: str) -> bool:
    """Return whether an address lies in a network behind this node or behind a peer; a way out is none."""
    networks = (*shown.get("own_networks", ()), *(one["network"] for one in shown.get("networks", ())))
    return any(within(address, network) for network in map(ip_network, networks) if network.prefixlen)


def within(address: str, network: Network) -> bool:
    """Return whether a network has an address, which may be of the other IP version."""
    parsed = ip_address(address.partition("%")[0])
    return parsed.version == network.version and parsed in network


def _service(one: View) -> dict[str, Any]:
    """Return a service with a link by address: a node's name is this node's alone, and others look at the page, too."""
    service = Service(one["name"], one["port"], Protocol(one["protocol"]))
    return {**one, "url": url(service, f"[{one['address']}]")}


def _daemons(status: View) -> dict[str, Any]:
    """Return the daemons that this node works with; the overlay's only where it is enabled."""
    found = {name: status[f"{name}_daemon"] for name in ("ike", "routing")}
    overlay = status["overlay"]
    return found if overlay is None else {**found, "overlay": {name: overlay[name] for name in ("up", "reason")}}


def _peers(status: View, before: View, now: float) -> dict[str, Any]:
    return {peer["name"]: _peer(peer, before.get(peer["name"], {}), now) for peer in status["peers"]}


def _peer(peer: View, before: View, now: float) -> dict[str, Any]:
    failure = peer["last_failure"]
    shown = {name: peer[name] for name in _COPIED}
    return {
        **shown,
        "since": _steady(before.get("since"), now - peer["since"]),
        "failure": failure["meaning"] if failure and peer["state"] == "failed" else None,
    }


def _requests(found: View, topology: View, before: View, now: float) -> dict[str, Any]:
    """Return the nodes that ask to join, by fleet and key, without their cards."""
    near = (one for one in topology.get("routes", ()) if one["hops"] == 1)
    neighbours = {one["next_hop"]: one["peer"] or one["originator"] for one in near}
    listed = {f"{one['fleet_key']} {one['fingerprint']}": one for one in found["requests"]}
    return {key: _request(one, neighbours, before.get(key, {}), now) for key, one in listed.items()}


def _request(one: View, neighbours: View, before: View, now: float) -> dict[str, Any]:
    return {
        **{name: one[name] for name in _ASKED},
        "via": neighbours.get(one["via"]) or one["via"],
        "since": _steady(before.get("since"), now - one["waiting"]) if one["via"] else None,
    }


def _steady(before: float | None, now: float) -> float:
    return before if before is not None and abs(before - now) <= _STEADY else round(now)
