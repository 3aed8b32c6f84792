"""What the page shows, from recorded and from made-up answers of meshsecd."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshsec.core.page import document
from meshsec.core.page.figures import KEPT, Figures
from meshsec.core.page.graph import graph
from meshsec.core.page.merge_patch import difference

RECORDED = Path(__file__).parents[3] / "tests/vectors/page/answers.json"
NOW = 1_790_000_000.0


@pytest.fixture
def answers() -> dict[str, Any]:
    """Return the answers of node a in the line a - b - c - d, in which c is a stranger."""
    found: dict[str, Any] = json.loads(RECORDED.read_text())
    return found


def address(answers: dict[str, Any], name: str) -> str:
    return str(next(peer["address"] for peer in answers["status"]["peers"] if peer["name"] == name))


def stranger(answers: dict[str, Any]) -> str:
    (found,) = [
        key for key, kind in graph(answers["status"], answers["topology"])["nodes"].items() if kind == "stranger"
    ]
    return str(found)


def test_the_graph_has_each_node_and_each_edge_once(answers: dict[str, Any]) -> None:
    found = graph(answers["status"], answers["topology"])
    other = stranger(answers)
    assert found["nodes"] == {"a": "self", "b": "peer", "d": "peer", other: "stranger"}
    kinds = {pair: edge["kind"] for pair, edge in found["edges"].items()}
    assert kinds == {"a b": "protected", f"b {other}": "stranger", f"d {other}": "stranger"}


def test_the_route_names_each_router_on_the_way(answers: dict[str, Any]) -> None:
    routes = graph(answers["status"], answers["topology"])["routes"]
    assert routes == {"b": ["b"], "d": ["b", stranger(answers), "d"], stranger(answers): ["b", stranger(answers)]}


def test_the_edge_to_a_peer_whose_channel_is_not_protected_is_plain(answers: dict[str, Any]) -> None:
    for peer in answers["status"]["peers"]:
        peer.update(data_plane=None, state="failed")
    assert graph(answers["status"], answers["topology"])["edges"]["a b"]["kind"] == "plain"


def test_a_neighbour_that_does_not_hear_this_node_is_no_edge(answers: dict[str, Any]) -> None:
    answers["topology"]["edges"] = []
    assert "a b" in graph(answers["status"], answers["topology"])["edges"]
    for one in answers["topology"]["neighbours"]:
        one["symmetric"] = one["originator"].startswith("10.")
    assert graph(answers["status"], answers["topology"])["edges"] == {"a b": answers_edge(answers)}
    for one in answers["topology"]["neighbours"]:
        one["symmetric"] = False
    assert graph(answers["status"], answers["topology"])["edges"] == {}


def test_an_edge_is_confirmed_when_both_ends_have_signed_it(answers: dict[str, Any]) -> None:
    other = stranger(answers)
    assert not any("confirmed" in one for one in graph(answers["status"], answers["topology"])["edges"].values())
    near = {one["originator"] for one in answers["topology"]["neighbours"]}
    for one in answers["topology"]["neighbours"]:
        one["signs"] = True
    for one in answers["topology"]["edges"]:
        one["confirmed"] = {other, one["source"], one["target"]} <= {other, *near}
    confirmed = {pair: one["confirmed"] for pair, one in graph(answers["status"], answers["topology"])["edges"].items()}
    assert confirmed == {"a b": True, f"b {other}": True, f"d {other}": False}
    for one in answers["topology"]["neighbours"]:
        one["signs"] = False
    assert not graph(answers["status"], answers["topology"])["edges"]["a b"]["confirmed"]


def answers_edge(answers: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "protected", "metric": answers["topology"]["neighbours"][0]["metric_out"]}


def test_ipv4_is_shown_where_there_is_no_ipv6(answers: dict[str, Any]) -> None:
    topology = answers["topology"]
    for name, field in (("neighbours", "originator"), ("edges", "source"), ("routes", "destination")):
        topology[name] = [one for one in topology[name] if one[field].startswith("10.")]
    found = graph(answers["status"], topology)
    assert found["routes"]["d"] == ["b", "10.77.0.3", "d"]
    assert set(found["edges"]) == {"a b", "10.77.0.3 b", "10.77.0.3 d"}


def test_routes_that_lead_in_a_circle_end(answers: dict[str, Any]) -> None:
    routes = answers["topology"]["routes"]
    to_b, to_d = (next(one for one in routes if one["peer"] == name) for name in "bd")
    to_b["last_hop"], to_d["last_hop"] = to_d["originator"], to_b["originator"]
    assert graph(answers["status"], answers["topology"])["routes"]["d"] == ["b", "d"]


def test_a_time_that_an_answer_moves_by_a_moment_stays_the_same(answers: dict[str, Any]) -> None:
    first = document.document(answers, document.empty(""), NOW)
    for peer in answers["status"]["peers"]:
        peer["since"] += 1.4
    second = document.document(answers, first, NOW + 3.0)
    assert second["peers"]["b"]["since"] == first["peers"]["b"]["since"]
    assert difference(first, second) == {}
    for peer in answers["status"]["peers"]:
        peer["since"] = 0.0
    third = document.document(answers, second, NOW + 60)
    assert third["peers"]["b"]["since"] == NOW + 60


def test_what_was_not_asked_again_stays(answers: dict[str, Any]) -> None:
    first = document.document(answers, document.empty(""), NOW)
    second = document.document({"status": answers["status"]}, first, NOW)
    for part in ("graph", "doctor", "clients", "gateway"):
        assert second[part] == first[part] != {}


def test_a_peer_shows_what_its_failure_means_only_while_it_has_failed(answers: dict[str, Any]) -> None:
    peer = answers["status"]["peers"][0]
    peer["last_failure"] = {"reason": "x", "meaning": "the peer does not trust this node", "fault": "peer", "ago": 1.0}
    assert document.document(answers, {}, NOW)["peers"]["b"]["failure"] is None
    peer["state"] = "failed"
    assert document.document(answers, {}, NOW)["peers"]["b"]["failure"] == "the peer does not trust this node"


def test_while_meshsecd_is_away_the_last_state_is_shown_as_such(answers: dict[str, Any]) -> None:
    last = document.absent(document.document(answers, {}, NOW), "it ended")
    assert last["meshsecd"] == {"up": False, "reason": "it ended"}
    assert set(last["peers"]) == {"b", "d"}
    assert document.document(answers, last, NOW)["meshsecd"]["up"]


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "10.77.0.1", "10.77.0.2"])
def test_this_machine_and_peers_are_protected_on_the_whole_way(answers: dict[str, Any], address: str) -> None:
    shown = document.document(answers, {}, NOW)
    assert document.is_protected(shown, address)
    assert document.is_protected(shown, answers["status"]["node"]["address"])
    assert document.is_protected(shown, shown["peers"]["d"]["address"])


@pytest.mark.parametrize("address", ["10.130.0.5", "10.77.0.3", "fd12:3456:789a:1::5", "192.0.2.1"])
def test_clients_and_strangers_are_not(answers: dict[str, Any], address: str) -> None:
    assert not document.is_protected(document.document(answers, {}, NOW), address)
    assert not document.is_protected(document.empty(""), address)


# --- changes ---

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(max_size=2), JSON, max_size=4)


def merged(target: Any, patch: Any) -> Any:
    """Apply a patch, word by word as RFC 7396, section 2 says."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def plain(value: Any) -> Any:
    """Return the value without members that are null; those in lists stay."""
    if not isinstance(value, dict):
        return value
    return {name: plain(inner) for name, inner in value.items() if inner is not None}


@given(OBJECTS, OBJECTS)
def test_a_patch_makes_the_new_document_of_the_old_one(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert plain(merged(plain(before), difference(before, after))) == plain(after)


@given(OBJECTS)
def test_what_has_not_changed_needs_no_patch(value: dict[str, Any]) -> None:
    assert difference(value, json.loads(json.dumps(value))) == {}


def test_a_patch_has_what_changed_and_nothing_else() -> None:
    before = {"peers": {"b": {"state": "waiting", "hops": 1}, "d": {"hops": 3}}, "gone": 1}
    after = {"peers": {"b": {"state": "protected", "hops": 1}, "d": {"hops": 3}}}
    assert difference(before, after) == {"gone": None, "peers": {"b": {"state": "protected"}}}


# --- figures ---


def peer(received: int, sent: int, **more: object) -> dict[str, Any]:
    return {
        "name": "b",
        "bytes_in": received,
        "bytes_out": sent,
        "route_to_protected_ms": None,
        "attempts": 1,
        "state": "protected",
        "since": 5.0,
        **more,
    }


def test_a_rate_is_what_passed_in_the_time_between_two_samples() -> None:
    figures = Figures()
    figures.sample([peer(1000, 500)], NOW)
    figures.sample([peer(2000, 500)], NOW + 10)
    assert figures.view()["rates"] == {"at": [NOW + 10], "in": [800], "out": [0]}


def test_counters_of_a_new_sa_begin_at_zero() -> None:
    figures = Figures()
    figures.sample([peer(1_000_000, 0)], NOW)
    figures.sample([peer(1250, 0)], NOW + 10)
    assert figures.view()["rates"]["in"] == [1000]


def test_figures_are_kept_for_an_hour() -> None:
    figures = Figures()
    for number in range(KEPT + 5):
        figures.sample([peer(0, 0)], NOW + 10 * number)
    assert len(figures.view()["rates"]["at"]) == KEPT
    assert figures.view()["rates"]["at"][-1] == NOW + 10 * (KEPT + 4)


def test_each_set_up_is_noted_once_with_its_time() -> None:
    figures = Figures()
    for number in range(3):
        figures.sample([peer(0, 0, route_to_protected_ms=17.5, since=5.0 + 10 * number)], NOW + 10 * number)
    assert figures.view()["setups"] == {"at": [NOW - 5], "ms": [17.5], "peer": ["b"]}
    figures.sample([peer(0, 0, route_to_protected_ms=31.0, attempts=2, since=1.0)], NOW + 40)
    assert figures.view()["setups"]["ms"] == [17.5, 31.0]


@pytest.mark.parametrize(
    ("own", "of_peers", "behind"),
    [
        ([], [], False),
        (["192.0.2.0/24"], [], True),
        ([], ["192.0.2.0/24"], True),
        (["::/0", "0.0.0.0/0"], ["0.0.0.0/0"], False),
        (["192.0.3.0/24", "fd00::/8"], ["10.0.0.0/8"], False),
    ],
)
def test_a_way_out_makes_nobody_one_who_is_behind_a_node(own: list[str], of_peers: list[str], behind: bool) -> None:
    shown = {"own_networks": own, "networks": [{"network": one} for one in of_peers]}
    assert document.is_behind(shown, "192.0.2.7") is behind
    assert not document.is_behind({}, "fe80::1%eth0")


def test_requests_are_shown_with_the_neighbour_by_which_they_came_and_without_cards(answers: dict[str, Any]) -> None:
    first_hop = answers["topology"]["routes"][0]["next_hop"]
    asked: dict[str, Any] = {
        "fleet": "rescue",
        "fleet_key": "11" * 32,
        "name": "<b>",
        "address": "fc00::1",
        "card": "meshsec1secret",
        "fingerprint": "22" * 32,
        "words": ["a"] * 6,
        "networks": ["10.1.0.0/16"],
        "via": first_hop,
        "waiting": 10,
        "seen": 1,
        "namesake": "fc00::2",
    }
    others = [
        {**asked, "fingerprint": "33" * 32, "via": "fe80::77", "waiting": 5},
        {**asked, "fingerprint": "44" * 32, "via": None, "waiting": 0},
    ]
    answers["join_requests"]["requests"] = [asked, *others]
    first = document.document(answers, document.empty(""), NOW)
    found = list(first["requests"].values())
    assert [one["via"] for one in found] == ["b", "fe80::77", None]
    assert [one["since"] for one in found] == [NOW - 10, NOW - 5, None]
    assert found[0]["networks"] == ["10.1.0.0/16"]
    assert "meshsec1secret" not in json.dumps(first)
    for one in (asked, others[0]):
        one["waiting"] += 2
    again = document.document(answers, first, NOW + 2.4)
    assert again["requests"] == first["requests"], "an age that grows is no change"
    answers["join_requests"]["requests"] = []
    assert document.document(answers, first, NOW)["requests"] == {}
    del answers["join_requests"]
    assert document.document(answers, first, NOW)["requests"] == first["requests"]


def test_only_clients_that_are_here_are_this_nodes_own(answers: dict[str, Any]) -> None:
    clients = [
        {"mac": "a", "addresses": ["10.130.0.7", "fd12::7"], "here": True},
        {"mac": "b", "addresses": ["10.130.0.8"], "here": False},
    ]
    addresses = ("10.130.0.7", "fd12::7", "10.130.0.8", "10.130.0.9")
    own = [one for one in addresses if document.is_own_client({"clients": clients}, one)]
    assert own == ["10.130.0.7", "fd12::7"]


def test_a_service_has_a_link_by_the_address_of_its_node(answers: dict[str, Any]) -> None:
    found = document.document(answers, {}, NOW)["services"]["services"]
    assert [one["url"] for one in found] == [f"http://[{answers['status']['node']['address']}]/", None]


def test_the_overlays_daemon_is_named_where_there_is_one(answers: dict[str, Any]) -> None:
    assert set(document.document(answers, {}, NOW)["daemons"]) == {"ike", "routing"}
    answers["status"]["overlay"] = {"up": False, "reason": "it ended", "device": "tun0", "default_mode": "ipsec"}
    assert document.document(answers, {}, NOW)["daemons"]["overlay"] == {"up": False, "reason": "it ended"}
