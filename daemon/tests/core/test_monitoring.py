"""Prometheus's metrics: what each part of the answers becomes, read by Prometheus's own parser."""

from collections.abc import Mapping
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from meshsec.core.monitoring import metrics

Labels = frozenset[tuple[str, str]]
PEER = {
    "name": "bravo",
    "state": "protected",
    "data_plane": "ipsec",
    "hops": 2,
    "route_to_protected_ms": 212.5,
    "late": False,
    "sa_age": 60.0,
    "attempts": 3,
    "bytes_in": 1000,
    "bytes_out": 2000,
    "packets_in": 10,
    "packets_out": 20,
}
AWAY = {
    **PEER,
    "name": "charlie",
    "state": "no-route",
    "data_plane": None,
    "hops": None,
    "route_to_protected_ms": None,
    "sa_age": None,
}
STATUS = {
    "node": {"name": "alpha", "address": "fc00::1"},
    "ike_daemon": {"up": True},
    "routing_daemon": {"up": False},
    "overlay": None,
    "rules_stand": True,
    "problems": ["a card cannot be read"],
    "peers": [PEER, AWAY],
    "networks": [
        {"network": "10.1.0.0/16", "peer": "bravo", "problem": ""},
        {"network": "10.2.0.0/16", "peer": None, "problem": "nobody announces it"},
        {"network": "10.3.0.0/16", "peer": "bravo", "problem": "past the tunnel"},
    ],
    "links": [{"peer": "delta", "up": False}],
    "gateway": {"uplink": "eth0", "offers": ["::/0"]},
}
COUNTERS = {
    "rules": {"unprotected_out": 5},
    "guard": {"outside": 6},
    "router": {"tcs_sent": 7, "routes_failed": 1, "verified": 4, "forged": 3, "not_signed": 2, "replayed": 1},
    "overlay": {"carried": {"sent": 8}, "dropped": {"replay": 9}},
}
TOPOLOGY = {"neighbours": [{"symmetric": True}, {"symmetric": False}], "routes": [{}, {}, {}]}
CLIENTS = {
    "networks": ["192.168.9.0/24"],
    "most": 64,
    "clients": [{"here": True}, {"here": False}],
    "refused": [{"count": 2}, {"count": 3}],
}
DOCTOR = {"checks": [{"level": "ok"}, {"level": "fail"}, {"level": "ok"}]}


def read(answers: Mapping[str, Any]) -> dict[tuple[str, Labels], float]:
    """Return the samples as Prometheus reads them."""
    text = metrics.exposition(metrics.node(answers)).decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture(scope="module")
def samples() -> dict[tuple[str, Labels], float]:
    return read({"status": STATUS, "counters": COUNTERS, "topology": TOPOLOGY, "clients": CLIENTS, "doctor": DOCTOR})


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("meshsec_up", {}, 1),
        ("meshsec_node_info", {"name": "alpha", "address": "fc00::1"}, 1),
        ("meshsec_daemon_up", {"daemon": "ike"}, 1),
        ("meshsec_daemon_up", {"daemon": "routing"}, 0),
        ("meshsec_rules_in_force", {}, 1),
        ("meshsec_problems", {}, 1),
        ("meshsec_peer_state", {"peer": "bravo", "state": "protected"}, 1),
        ("meshsec_peer_state", {"peer": "bravo", "state": "failed"}, 0),
        ("meshsec_peer_protected", {"peer": "bravo"}, 1),
        ("meshsec_peer_protected", {"peer": "charlie"}, 0),
        ("meshsec_peer_hops", {"peer": "bravo"}, 2),
        ("meshsec_peer_setup_seconds", {"peer": "bravo"}, 0.2125),
        ("meshsec_peer_late", {"peer": "bravo"}, 0),
        ("meshsec_peer_sa_age_seconds", {"peer": "bravo"}, 60),
        ("meshsec_peer_attempts_total", {"peer": "bravo"}, 3),
        ("meshsec_peer_receive_bytes_total", {"peer": "bravo"}, 1000),
        ("meshsec_peer_transmit_bytes_total", {"peer": "bravo"}, 2000),
        ("meshsec_peer_receive_packets_total", {"peer": "bravo"}, 10),
        ("meshsec_peer_transmit_packets_total", {"peer": "bravo"}, 20),
        ("meshsec_network_reached", {"network": "10.1.0.0/16"}, 1),
        ("meshsec_network_reached", {"network": "10.2.0.0/16"}, 0),
        ("meshsec_network_reached", {"network": "10.3.0.0/16"}, 0),
        ("meshsec_link_up", {"peer": "delta"}, 0),
        ("meshsec_gateway_offers", {}, 1),
        ("meshsec_rules_packets_total", {"rule": "unprotected_out"}, 5),
        ("meshsec_guard_packets_total", {"rule": "outside"}, 6),
        ("olsrv2d_tcs_sent_total", {}, 7),
        ("olsrv2d_routes_failed", {}, 1),
        ("olsrv2d_verified_total", {}, 4),
        ("olsrv2d_forged_total", {}, 3),
        ("olsrv2d_not_signed_total", {}, 2),
        ("olsrv2d_replayed_total", {}, 1),
        ("overlayd_packets_total", {"way": "sent"}, 8),
        ("overlayd_dropped_total", {"cause": "replay"}, 9),
        ("meshsec_neighbours", {}, 1),
        ("meshsec_routes", {}, 3),
        ("meshsec_clients", {}, 1),
        ("meshsec_clients_limit", {}, 64),
        ("meshsec_clients_refused_total", {}, 5),
        ("meshsec_doctor_checks", {"level": "ok"}, 2),
        ("meshsec_doctor_checks", {"level": "warn"}, 0),
        ("meshsec_doctor_checks", {"level": "fail"}, 1),
    ],
)
def test_each_fact_is_a_sample(
    samples: dict[tuple[str, Labels], float], name: str, labels: dict[str, str], value: float
) -> None:
    assert samples[name, frozenset(labels.items())] == value


def test_what_is_not_known_has_no_sample(samples: dict[tuple[str, Labels], float]) -> None:
    names = {name for name, labels in samples if ("peer", "charlie") in labels}
    assert not names & {"meshsec_peer_hops", "meshsec_peer_setup_seconds", "meshsec_peer_sa_age_seconds"}
    assert ("meshsec_daemon_up", frozenset({("daemon", "overlay")})) not in samples


def test_a_node_that_serves_nobody_and_is_no_gateway_does_not_count_either() -> None:
    plain = {**STATUS, "gateway": {"uplink": None, "offers": []}}
    clients = {"networks": [], "most": 64, "clients": [], "refused": []}
    counters: dict[str, Any] = {"rules": {}, "guard": {}, "router": {}, "overlay": None}
    names = {name for name, _ in read({"status": plain, "clients": clients, "counters": counters})}
    assert not [
        name for name in names if name.startswith(("meshsec_clients", "meshsec_gateway", "olsrv2d", "overlayd"))
    ]


def test_a_name_cannot_make_a_line_of_its_own() -> None:
    hostile = 'x"} 1\nmeshsec_up 0\n#\\'
    samples = read({"status": {**STATUS, "peers": [{**PEER, "name": hostile}]}})
    assert samples["meshsec_up", frozenset()] == 1
    assert samples["meshsec_peer_hops", frozenset({("peer", hostile)})] == 2


def test_without_meshsecd_there_is_one_metric() -> None:
    text = metrics.exposition(metrics.absent()).decode()
    assert [line for line in text.splitlines() if not line.startswith("#")] == ["meshsec_up 0.0"]
