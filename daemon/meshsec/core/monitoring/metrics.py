"""Prometheus's metrics, of the JSON documents with which the daemons answer (docs/guide/monitoring.md).

Names follow Prometheus's conventions: base units, ``_total`` for counters. A counter of a peer begins at 0 with each
new SA, which Prometheus takes for a restart. What is not known has no sample, since 0 would be a claim.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily

View = Mapping[str, Any]
METHODS = ("status", "doctor", "counters", "topology", "clients")
"""meshsecd's methods whose answers have metrics."""
STATES = ("no-route", "waiting", "negotiating", "protected", "held", "failed")
"""The states of a peer's channel (docs/development/architecture.md)."""
LEVELS = ("ok", "warn", "fail")
"""How ``doctor`` judges."""
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The media type of the exposition format."""


class _Families:
    """What Prometheus's library wants for a registry."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def exposition(families: Iterable[Metric]) -> bytes:
    """Return the text that Prometheus scrapes: its exposition format, version 0.0.4."""
    text: bytes = generate_latest(_Families(families))
    return text


def node(answers: Mapping[str, View]) -> Iterator[Metric]:
    """Return the metrics of this node, of answers of meshsecd by method; only ``status`` must be there."""
    status = answers["status"]
    yield _gauge("meshsec_up", "Whether meshsecd answers.", 1)
    yield InfoMetricFamily("meshsec_node", "This node.", {key: status["node"][key] for key in ("name", "address")})
    yield from _daemons(status)
    yield _gauge("meshsec_rules_in_force", "Whether the fail-closed rules are in force.", status["rules_stand"])
    yield _gauge("meshsec_problems", "What meshsec status complains of.", len(status["problems"]))
    yield from _peers(status["peers"])
    yield from _networks(status)
    if "doctor" in answers:
        yield _checks(answers["doctor"])
    if "counters" in answers:
        yield from _counters(answers["counters"])
    if "topology" in answers:
        yield from _topology(answers["topology"])
    if "clients" in answers:
        yield from _clients(answers["clients"])


def absent() -> Iterator[Metric]:
    """Return the metrics of a node whose meshsecd does not answer."""
    yield _gauge("meshsec_up", "Whether meshsecd answers.", 0)


def _counters(counters: View) -> Iterator[Metric]:
    yield _labelled("meshsec_rules_packets", "Packets that the fail-closed rules counted.", "rule", counters["rules"])
    yield _labelled(
        "meshsec_guard_packets", "Datagrams to the IKE daemon that were dropped.", "rule", counters["guard"]
    )
    for name, count in sorted(counters["router"].items()):
        if name == "routes_failed":
            yield _gauge("olsrv2d_routes_failed", "Routes that the kernel does not take.", count)
        else:
            yield _counter(f"olsrv2d_{name}", f"{name.replace('_', ' ').capitalize()}.", count)
    if overlay := counters["overlay"]:
        yield _labelled("overlayd_packets", "Packets that overlayd carried.", "way", overlay["carried"])
        yield _labelled("overlayd_dropped", "Frames and packets that overlayd dropped.", "cause", overlay["dropped"])


def _daemons(status: View) -> Iterator[Metric]:
    up = GaugeMetricFamily("meshsec_daemon_up", "Whether a daemon answers meshsecd.", labels=["daemon"])
    for name in ("ike_daemon", "routing_daemon", "overlay"):
        if status[name] is not None:
            up.add_metric([name.removesuffix("_daemon")], status[name]["up"])
    yield up


def _peers(peers: Iterable[View]) -> Iterator[Metric]:
    peers = list(peers)
    states = GaugeMetricFamily("meshsec_peer_state", "1 for the state of a peer's channel.", labels=["peer", "state"])
    for peer, state in ((peer, state) for peer in peers for state in STATES):
        states.add_metric([peer["name"], state], peer["state"] == state)
    yield states
    planes = ((peer, peer["data_plane"] is not None) for peer in peers)
    yield _by_peer("meshsec_peer_protected", "Whether user data is exchanged with a peer, protected.", planes)
    hops = ((peer, peer["hops"]) for peer in peers)
    yield _by_peer("meshsec_peer_hops", "Hops to a peer; no sample without a route.", hops)
    setups = ((peer, _seconds(peer["route_to_protected_ms"])) for peer in peers)
    yield _by_peer("meshsec_peer_setup_seconds", "From the route, or the loss of an SA, to the SA.", setups)
    yield _by_peer("meshsec_peer_late", "Whether that exceeded the deadline.", ((one, one["late"]) for one in peers))
    ages = ((peer, peer["sa_age"]) for peer in peers)
    yield _by_peer("meshsec_peer_sa_age_seconds", "Age of the IKE_SA.", ages)
    attempts = ((peer, peer["attempts"]) for peer in peers)
    yield _counted("meshsec_peer_attempts", "Negotiations that this node initiated.", attempts)
    for direction, word in (("in", "receive"), ("out", "transmit")):
        for unit in ("bytes", "packets"):
            values = ((peer, peer[f"{unit}_{direction}"]) for peer in peers)
            yield _counted(f"meshsec_peer_{word}_{unit}", f"User data of a peer in its present SA, in {unit}.", values)


def _networks(status: View) -> Iterator[Metric]:
    reached = GaugeMetricFamily("meshsec_network_reached", "Whether a network of peers is reached.", labels=["network"])
    for one in status.get("networks", ()):
        reached.add_metric([one["network"]], one["peer"] is not None and not one["problem"])
    yield reached
    links = GaugeMetricFamily("meshsec_link_up", "Whether a link over the internet carries.", labels=["peer"])
    for one in status.get("links", ()):
        links.add_metric([one["peer"]], one["up"])
    yield links
    gateway = status.get("gateway", {"uplink": None, "offers": ()})
    if gateway["uplink"] is not None:
        offers = len(gateway["offers"])
        yield _gauge("meshsec_gateway_offers", "Default routes that this gateway announces.", offers)


def _checks(doctor: View) -> Metric:
    checks = GaugeMetricFamily("meshsec_doctor_checks", "Checks of meshsec doctor by their result.", labels=["level"])
    for level in LEVELS:
        checks.add_metric([level], sum(one["level"] == level for one in doctor["checks"]))
    return checks


def _topology(topology: View) -> Iterator[Metric]:
    symmetric = sum(one["symmetric"] for one in topology["neighbours"])
    yield _gauge("meshsec_neighbours", "Symmetric neighbours (RFC 6130).", symmetric)
    yield _gauge("meshsec_routes", "Routes of the routing daemon.", len(topology["routes"]))


def _clients(clients: View) -> Iterator[Metric]:
    if not clients["networks"]:
        return
    here = sum(one["here"] for one in clients["clients"])
    yield _gauge("meshsec_clients", "Clients that this access node serves.", here)
    yield _gauge("meshsec_clients_limit", "Clients that it serves at most.", clients["most"])
    refused = sum(one["count"] for one in clients["refused"])
    yield _counter("meshsec_clients_refused", "What clients asked for and did not get.", refused)


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _gauge(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(name, meaning, float(value))


def _counter(name: str, meaning: str, value: float) -> Metric:
    return CounterMetricFamily(name, meaning, float(value))


def _by_peer(name: str, meaning: str, values: Iterable[tuple[View, float | None]]) -> Metric:
    return _filled(GaugeMetricFamily(name, meaning, labels=["peer"]), values)


def _counted(name: str, meaning: str, values: Iterable[tuple[View, float | None]]) -> Metric:
    return _filled(CounterMetricFamily(name, meaning, labels=["peer"]), values)


def _labelled(name: str, meaning: str, label: str, counts: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, meaning, labels=[label])
    for value, count in sorted(counts.items()):
        family.add_metric([value], count)
    return family


def _filled(family: GaugeMetricFamily | CounterMetricFamily, values: Iterable[tuple[View, float | None]]) -> Metric:
    for peer, value in values:
        if value is not None:
            family.add_metric([peer["name"]], float(value))
    return family
