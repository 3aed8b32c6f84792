"""Routing tables: what iproute2 prints is read with its peculiarities, and counted as the paper's kinds of routes."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from rt import bench_client_routes
from rt.measure.results import MeasurementError
from rt.smesh import paper, tables
from rt.smesh.network import PAIRS, THEIRS
from rt.smesh.tables import CLIENT, DEFAULT, INTERNAL, Names, Row

GATEWAY, RELAY, CLIENT4 = "fd12:0:0:0:0:0:0:a", "fe80::7812:26ff:fefd:a0", "10.130.214.158"
KNOWN = Names({GATEWAY: "g", "fc12:0:0:0:0:0:0:a": "g", RELAY: "r"}, frozenset({CLIENT4}))
PRINTED = f"""[
 {{"dst":"default","encap":"ip6","id":1,"src":"fcac::1","dst":"fc12:0:0:0:0:0:0:a","dev":"meshsec-nets",
   "protocol":"102","metric":32768,"flags":[]}},
 {{"dst":"{CLIENT4}","dev":"meshsec-clients","protocol":"103","metric":5,"flags":[]}},
 {{"dst":"{GATEWAY}","gateway":"{RELAY}","dev":"mesh-r","protocol":"100","metric":20,"flags":["onlink"]}},
 {{"dst":"{GATEWAY}","dev":"lo","protocol":"kernel","metric":256,"flags":[]}},
 {{"type":"blackhole","dst":"10.0.0.0/8","protocol":"102","flags":[]}},
 {{"dst":"fe80::/64","dev":"mesh-r","protocol":"kernel","flags":[]}}
]"""
"""As iproute2 6.1 prints it: a route into a tunnel has two keys ``dst``."""


def test_a_route_into_a_tunnel_has_its_destination_and_its_peer() -> None:
    first, *_ = tables.rows(PRINTED, KNOWN, "0.0.0.0/0")
    assert first == Row("0.0.0.0/0", "g", "meshsec-nets", "meshsecd", DEFAULT)


def test_rows_have_names_and_kinds_and_only_what_carries_packets() -> None:
    found = tables.rows(PRINTED, KNOWN, "0.0.0.0/0")
    assert [row.kind for row in found] == [DEFAULT, CLIENT, INTERNAL, ""]
    assert found[1] == Row(f"client ({CLIENT4})", "", "meshsec-clients", "meshsecd", CLIENT)
    assert found[2] == Row("g (fd12:...:a)", "r", "mesh-r", "router", INTERNAL)
    assert [tables.count(found, kind) for kind in tables.KINDS] == [1, 1, 1]


def test_an_empty_table_is_none_and_other_text_is_refused() -> None:
    assert tables.rows("", KNOWN, "::/0") == []
    with pytest.raises(json.JSONDecodeError):
        tables.rows("Error: ipv4: FIB table does not exist.", KNOWN, "::/0")


def test_two_routes_to_one_destination_count_as_one_destination() -> None:
    assert tables.count(paper.FIGURE_6, CLIENT) == 1
    assert sum(row.kind == CLIENT for row in paper.FIGURE_6) == 2


def test_the_papers_tables_lead_to_its_client_and_gateway() -> None:
    """Following the gateways of figure 7 ends at the client, and outside, from each router."""
    for kind, last in ((CLIENT, "10.189.214.61"), (DEFAULT, "commedia.cnds.j")):
        for router in paper.FIGURE_7:
            at, hops = router, 0
            while at in paper.FIGURE_7:
                (row,) = [row for row in paper.FIGURE_7[at] if row.kind == kind]
                at, hops = row.gateway, hops + 1
            assert at == last
            assert hops <= 3
    assert list(paper.FIGURE_7) == list(THEIRS.values()) == list(paper.ROLES)
    assert {name for pair in PAIRS for name in pair} == set(THEIRS)


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert tables.lines([Row("default", "", "eth1", "kernel")]) == [
        "destination  gateway  device  by",
        "default      *        eth1    kernel",
    ]
    assert tables.lines([Row("default", "x", "eth1", "")], columns=2)[1] == "default      x"


def _mesh(monkeypatch: pytest.MonkeyPatch, after: dict[str, list[list[str]]]) -> Any:
    """Return a mesh whose client moves to b, and whose nodes then have routes by these gateways, look by look."""
    moved: list[str] = []

    def read(node: str, _known: Names, _family: str) -> list[Row]:
        gateways = after[node].pop(0) if moved and len(after[node]) > 1 else after[node][0] if moved else ["a"]
        return [Row(CLIENT4, gateway, "", "", CLIENT) for gateway in gateways]

    monkeypatch.setattr(tables, "read_family", read)
    return SimpleNamespace(lab={"r": "r", "g": "g"}, station=SimpleNamespace(move=moved.append))


def test_the_relay_and_the_gateway_are_watched_until_both_have_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    mesh = _mesh(monkeypatch, {"r": [["a"], ["a", "b"], ["b"]], "g": [["a"], ["a"], ["a"], ["b"]]})
    found = bench_client_routes._moved(mesh, KNOWN, "b")
    assert {name: at_once for name, (_, at_once) in found.items()} == {"r": 2, "g": 1}
    assert found["r"][0] < found["g"][0]


def test_a_route_that_does_not_follow_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_client_routes, "FOLLOWED", 0.05)
    mesh = _mesh(monkeypatch, {"r": [["a", "b"]], "g": [["b"]]})
    with pytest.raises(MeasurementError, match=r": r$"):
        bench_client_routes._moved(mesh, KNOWN, "b")
