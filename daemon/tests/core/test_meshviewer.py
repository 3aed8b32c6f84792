"""meshviewer.json: what meshviewer's own types require of it, and whose place it has."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from meshsec.core.monitoring.meshviewer import meshviewer

ANSWERS = Path(__file__).parents[3] / "tests/vectors/page/answers.json"
NOW = 1_795_000_000.0
_TIME = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+0000$"}
_COUNT = {"type": "integer", "minimum": 0}
_SHARE = {"type": "number", "minimum": 0, "maximum": 1}
_NODE = {
    "node_id": {"type": "string", "minLength": 1},
    "hostname": {"type": "string"},
    "mac": {"type": "string"},
    "addresses": {"type": "array", "items": {"type": "string"}},
    "firstseen": _TIME,
    "lastseen": _TIME,
    "uptime": _TIME,
    "is_online": {"type": "boolean"},
    "is_gateway": {"type": "boolean"},
    "clients": _COUNT,
    "clients_wifi24": _COUNT,
    "clients_wifi5": _COUNT,
    "clients_other": _COUNT,
    "nproc": _COUNT,
    "loadavg": {"type": "number"},
    "memory_usage": _SHARE,
    "firmware": {"type": "object"},
    "autoupdater": {"type": "object", "required": ["enabled", "branch"]},
}
_LINK = {
    "type": {"type": "string", "minLength": 1},
    "source": {"type": "string"},
    "target": {"type": "string"},
    "source_tq": _SHARE,
    "target_tq": _SHARE,
    "source_addr": {"type": "string"},
    "target_addr": {"type": "string"},
}
_LOCATION = {
    "type": "object",
    "required": ["latitude", "longitude"],
    "properties": {"latitude": {"type": "number"}, "longitude": {"type": "number"}},
}
SCHEMA = {
    "type": "object",
    "required": ["timestamp", "nodes", "links"],
    "properties": {
        "timestamp": _TIME,
        "nodes": {
            "type": "array",
            "items": {"type": "object", "required": list(_NODE), "properties": {**_NODE, "location": _LOCATION}},
        },
        "links": {"type": "array", "items": {"type": "object", "required": list(_LINK), "properties": _LINK}},
    },
}
"""The types that meshviewer declares (freifunk/meshviewer, lib/utils/node.ts), and the form of its times."""


@pytest.fixture
def answers() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ANSWERS.read_text(encoding="utf-8"))
    return found


def made(answers: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(meshviewer(answers, "1.2.3", NOW)))
    jsonschema.validate(found, SCHEMA)
    ids = [node["node_id"] for node in found["nodes"]]
    assert len(ids) == len(set(ids))
    assert all({link["source"], link["target"]} <= set(ids) for link in found["links"]), "meshviewer drops others"
    return found


def node(found: dict[str, Any], name: str) -> dict[str, Any]:
    (one,) = (one for one in found["nodes"] if one["hostname"] == name)
    return dict(one)


def place(name: str, latitude: float) -> dict[str, Any]:
    return {"node": name, "latitude": latitude, "longitude": 11.5, "altitude": 600.0, "age": 0.0, "reached": True}


def test_the_mesh_is_what_meshviewer_wants(answers: dict[str, Any]) -> None:
    found = made(answers)
    assert found["timestamp"] == "2026-11-18T11:06:40+0000"
    assert len(found["nodes"]) == 4
    assert {one["type"] for one in found["links"]} == {"protected", "stranger"}
    assert max(one["source_tq"] for one in found["links"]) == 1.0
    own = node(found, "a")
    assert (own["is_online"], own["firmware"]) == (True, {"base": "meshsec", "release": "1.2.3"})
    assert own["addresses"][0] == answers["status"]["node"]["address"]


def test_places_are_there_only_where_they_were_asked_for(answers: dict[str, Any]) -> None:
    assert not [one for one in made(answers)["nodes"] if "location" in one]
    answers["positions"] = {"positions": [place("a", 47.0), place("b", 47.1), place("someone", 0.0)]}
    found = made(answers)
    located = {one["hostname"]: one["location"] for one in found["nodes"] if "location" in one}
    assert located == {"a": {"latitude": 47.0, "longitude": 11.5}, "b": {"latitude": 47.1, "longitude": 11.5}}


def test_a_peer_out_of_reach_is_offline_since_then(answers: dict[str, Any]) -> None:
    peer = next(one for one in answers["status"]["peers"] if one["name"] == "b")
    peer.update(hops=None, since=60.0)
    away = node(made(answers), "b")
    assert (away["is_online"], away["lastseen"]) == (False, "2026-11-18T11:05:40+0000")


def test_gateways_and_clients_are_counted_where_they_are(answers: dict[str, Any]) -> None:
    answers["clients"] = {"clients": [{"here": True}, {"here": False, "node": "b"}, {"here": False, "node": "b"}]}
    answers["status"]["networks"] = [
        {"network": "::/0", "announced_by": ["b"]},
        {"network": "10.1.0.0/16", "announced_by": ["d"]},
    ]
    answers["status"]["gateway"] = {"offers": ["::/0"]}
    found = made(answers)
    assert [(name, node(found, name)["clients"], node(found, name)["is_gateway"]) for name in "abd"] == [
        ("a", 1, True),
        ("b", 2, True),
        ("d", 0, False),
    ]


def test_a_link_without_a_metric_is_the_worst(answers: dict[str, Any]) -> None:
    for one in answers["topology"]["edges"]:
        one["metric"] = None
    for one in answers["topology"]["neighbours"]:
        one["metric_out"] = None
    assert {one["source_tq"] for one in made(answers)["links"]} == {0.0}
