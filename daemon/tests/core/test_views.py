"""The views of the state: valid against the published schemas, and true."""

import json
from dataclasses import replace
from functools import cache
from ipaddress import IPv6Network
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.strategies import PEERS, observations
from core.test_engine import CALM, HIGHER, LOWER, NODE, driver, initiate, protect
from core.world import Driver, card, ike_sa, peer, route, stranger
from meshsec.core.channels.diagnosis import Fault, diagnose
from meshsec.core.channels.engine import Engine
from meshsec.core.channels.events import (
    ActionDone,
    Event,
    IkeDaemonDown,
    IkeDaemonUp,
    NegotiationTimed,
    PeerRemoved,
    PeerSet,
    QuietSeen,
    RouterDown,
    RouteRemoved,
    RouteSet,
    RoutesReset,
    RulesObserved,
    SasObserved,
    TrustStoreRead,
)
from meshsec.core.channels.one_way_watch import Quiet
from meshsec.core.explain import views
from meshsec.core.values.bypass import Bypass
from meshsec.core.values.failures import Cause, FailureKind
from meshsec.core.values.model import Edge, EspBackend, Neighbour, Observed, Peer, Perimeter, UnknownNodes
from meshsec.core.values.topology import Topology

SCHEMAS = Path(__file__).parents[3] / "docs" / "reference" / "schema"
TOPOLOGY = Topology(
    neighbours=(Neighbour(card(2).locator, True, 256, 512, True, False), Neighbour(card(4).locator, False)),
    edges=(Edge(card(2).locator, card(4).locator, 256),),
)


@cache
def schema(name: str) -> Any:
    loaded = json.loads((SCHEMAS / f"meshsec-{name}-1.json").read_text())
    jsonschema.Draft202012Validator.check_schema(loaded)
    return jsonschema.Draft202012Validator(loaded)


def checked(name: str, view: dict[str, Any]) -> dict[str, Any]:
    """Return the view as a client of the control socket reads it."""
    read: dict[str, Any] = json.loads(json.dumps(view, allow_nan=False))
    schema(name).validate(read)
    return read


def all_views(made: Driver) -> None:
    checked("status", views.status(made.engine, made.now, ["peers/x.card: position 7"]))
    checked("topology", views.topology(made.engine, TOPOLOGY, signed=True))
    checked("plan", views.plan(made.engine, made.now))
    checked("mode", views.mode(made.engine))
    for channel in made.engine.known.channels():
        checked("explain", views.explain(made.engine, made.now, channel.name))


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(observed=observations(), data=st.data())
def test_every_view_of_every_state_is_valid_and_changes_nothing(observed: Observed, data: st.DataObject) -> None:
    made = Driver(NODE, CALM)
    number = st.sampled_from(PEERS)
    events: list[Event] = [
        PeerSet(peer(data.draw(number))),
        RulesObserved(observed.rules),
        RoutesReset({route(n).destination: route(n) for n in data.draw(st.sets(number))}),
        IkeDaemonUp(observed, daemon_restarted=False),
        RouteSet(stranger(1)),
        NegotiationTimed(f"n{data.draw(number)}", 0.004, 0.005, data.draw(st.none() | st.just(0.1))),
        RouteRemoved(route(data.draw(number)).destination),
        PeerRemoved(f"n{data.draw(number)}"),
        RouterDown("killed"),
        IkeDaemonDown("killed"),
    ]
    for event in data.draw(st.permutations(events)):
        actions = made.tell(event)
        for action in actions:
            made.tell(ActionDone(action, data.draw(st.sampled_from([None, *map(Cause, FailureKind, FailureKind)]))))
        made.advance(data.draw(st.sampled_from([0.0, 0.3, 70.0, 4000.0])))
        before = made.engine.plan(made.now)
        all_views(made)
        assert made.engine.plan(made.now) == before


def only_peer(made: Driver) -> dict[str, Any]:
    (entry,) = checked("status", views.status(made.engine, made.now))["peers"]
    return dict(entry)


def explained(made: Driver, number: int = HIGHER) -> str:
    return "\n".join(checked("explain", views.explain(made.engine, made.now, f"n{number}"))["sentences"])


def test_status_of_a_protected_peer_has_every_figure() -> None:
    made = driver(HIGHER)
    made.now = 10.0
    action = initiate(made)
    made.now = 10.25
    sa = ike_sa("n5", established_at=10.25)
    child = replace(sa.children[0], bytes_in=1, bytes_out=2, packets_in=3, packets_out=4)
    sa = replace(sa, children=(child,), encryption="AES_GCM_16-256", key_exchange="CURVE_25519")
    made.tell(SasObserved("n5", (sa,)), ActionDone(action))
    made.tell(NegotiationTimed("n5", 0.004, 0.0055))
    made.now = 12.25
    assert only_peer(made) == {
        "name": "n5",
        "address": "fc00::5",
        "ipv4": "10.0.0.5",
        "hops": 2,
        "next_hop": "fe80::1",
        "interface": "mesh0",
        "state": "protected",
        "reason": "the SA is established: initiated by this node",
        "since": 2.0,
        "initiator": True,
        "attempts": 1,
        "last_failure": None,
        "setup_ms": {"ike_sa_init": 4.0, "ike_auth": 5.5, "child": None},
        "route_to_protected_ms": 250.0,
        "late": True,
        "mode": "ipsec",
        "authentication": "signature",
        "data_plane": "ipsec",
        "quiet": None,
        "level": None,
        "sa_age": 2.0,
        "ike_algorithms": ["AES_GCM_16-256", "CURVE_25519"],
        "ike_spis": {"initiator": "i1", "responder": "r1"},
        "spis": [{"child": "mesh", "in": "c1", "out": "c2", "encryption": "AES_GCM_16-256"}],
        "bytes_in": 1,
        "bytes_out": 2,
        "packets_in": 3,
        "packets_out": 4,
    }


def test_a_silent_sa_is_reported_until_something_arrives_or_it_is_gone() -> None:
    made = driver(HIGHER)
    protect(made, HIGHER)
    made.now = 30.0
    made.tell(QuietSeen({"n5": Quiet(10.0, answers=False), "n9": Quiet(1.0, answers=False)}))
    assert only_peer(made)["quiet"] == {"for": 20.0, "answers": False}
    assert only_peer(made)["state"] == "protected"
    assert "nothing has come in for 20.0 s. The peer's IKE daemon does not answer either" in explained(made)
    made.tell(QuietSeen({"n5": Quiet(10.0, answers=True)}))
    assert only_peer(made)["quiet"] == {"for": 20.0, "answers": True}
    assert "somebody on the way drops ESP alone" in explained(made)
    made.tell(SasObserved("n5", ()))
    assert only_peer(made)["quiet"] is None
    made.tell(SasObserved("n5", (ike_sa("n5"),)), QuietSeen({"n5": Quiet(10.0, answers=True)}), QuietSeen({}))
    assert only_peer(made)["quiet"] is None


def test_the_nodes_status_names_what_is_down_and_whether_the_rules_are_in_force() -> None:
    made = driver(HIGHER)
    made.tell(RouterDown("no socket"), IkeDaemonDown("no vici"))
    status = checked("status", views.status(made.engine, made.now, ["a card is corrupt"]))
    assert status["node"]["address"] == str(card(NODE).address)
    assert status["esp_ground"] == "libipsec"
    assert status["routing_daemon"] == {"up": False, "reason": "no socket"}
    assert status["ike_daemon"] == {"up": False, "reason": "no vici"}
    assert status["problems"] == ["a card is corrupt"]
    assert status["rules_stand"]
    made.tell(RulesObserved(None))
    assert not checked("status", views.status(made.engine, made.now))["rules_stand"]


def test_a_peer_without_sa_carries_no_data() -> None:
    entry = only_peer(driver(HIGHER))
    assert (entry["state"], entry["data_plane"], entry["hops"], entry["sa_age"]) == ("no-route", None, None, None)


def test_status_gives_the_last_failure_with_meaning_and_fault() -> None:
    made = driver(HIGHER)
    made.tell(ActionDone(initiate(made), Cause("received AUTHENTICATION_FAILED error notify", FailureKind.NOT_TRUSTED)))
    made.now += 3.0
    assert only_peer(made)["last_failure"] == {
        "reason": "received AUTHENTICATION_FAILED error notify",
        "meaning": diagnose(Cause("", FailureKind.NOT_TRUSTED), "").meaning,
        "fault": "peer",
        "ago": 3.0,
    }


def test_a_failed_authentication_is_shown_until_an_sa_is_established() -> None:
    made = driver(HIGHER)
    (channel,) = made.engine.known.channels()
    made.tell(ActionDone(initiate(made), Cause("timeout", FailureKind.NO_ANSWER)))
    assert not channel.unauthenticated()
    made.now += 60
    made.engine.handle_timeout(made.now)
    made.tell(ActionDone(initiate(made), Cause("AUTHENTICATION_FAILED: sent by the peer", FailureKind.NOT_TRUSTED)))
    assert channel.unauthenticated()
    assert "has changed its IKE daemon" in explained(made)
    made.now += 1
    made.tell(SasObserved("n5", (ike_sa("n5", established_at=made.now),)))
    assert not channel.unauthenticated()


@pytest.mark.parametrize(
    ("theirs", "authentication", "sentence"),
    [
        (False, "signature", "Each end authenticates by its key."),
        (True, "secret", "because of the peer's IKE daemon"),
    ],
)
def test_the_views_say_how_a_pair_authenticates(theirs: bool, authentication: str, sentence: str) -> None:
    made = driver()
    made.tell(PeerSet(Peer("n5", replace(card(HIGHER), by_secret=theirs))))
    assert only_peer(made)["authentication"] == authentication
    assert sentence in explained(made)


@pytest.mark.parametrize(("theirs", "whose"), [(False, "this node's IKE daemon"), (True, "both IKE daemons")])
def test_the_views_say_that_this_nodes_ike_daemon_has_no_signatures(theirs: bool, whose: str) -> None:
    engine = Engine(replace(card(NODE), by_secret=True), EspBackend.KERNEL, CALM, lambda: 0.0)
    engine.handle(0.0, PeerSet(Peer("n5", replace(card(HIGHER), by_secret=theirs))))
    assert any(whose in sentence for sentence in views.explain(engine, 0.0, "n5")["sentences"])


def test_topology_marks_the_routes_to_peers() -> None:
    made = driver(HIGHER)
    made.tell(RouteSet(route(HIGHER)), RouteSet(stranger(1)))
    view = checked("topology", views.topology(made.engine, TOPOLOGY, signed=False))
    assert {entry["destination"]: entry["peer"] for entry in view["routes"]} == {
        "fd00::5/128": "n5",
        str(stranger(1).destination): None,
    }
    assert [entry["symmetric"] for entry in view["neighbours"]] == [True, False]
    assert view["edges"] == [{"source": "fd00::2", "target": "fd00::4", "metric": 256}]
    assert not any("confirmed" in entry for entry in view["routes"]), "nobody looks at signatures"
    assert not any("signs" in entry for entry in view["neighbours"])


def test_topology_says_who_signs_and_what_both_ends_have_signed() -> None:
    own, first, second, mute = (card(number).locator for number in (1, 2, 4, 6))
    known = Topology(
        originators=(own,),
        neighbours=(Neighbour(first, True, signs=True), Neighbour(second, False, signs=True), Neighbour(mute, True)),
        edges=(
            Edge(first, second, 1, confirmed=True),
            Edge(second, first, 1),
            Edge(first, own, 1),
            Edge(second, own, 1),
            Edge(mute, own, 1),
        ),
    )
    made = driver(HIGHER)
    made.tell(RouteSet(replace(route(HIGHER), confirmed=True)), RouteSet(stranger(1)))
    view = checked("topology", views.topology(made.engine, known, signed=True))
    assert [one["signs"] for one in view["neighbours"]] == [True, True, False]
    assert [one["confirmed"] for one in view["edges"]] == [True, False, True, False, False]
    assert [one["confirmed"] for one in view["routes"]] == [True, False]


def test_the_plan_names_each_action_with_peer_and_reason() -> None:
    made = driver(HIGHER, LOWER)
    protect(made, HIGHER, "7")
    made.engine.handle(made.now, RouteSet(route(LOWER)))
    made.engine.handle(made.now, PeerRemoved("n5"))
    made.engine.handle(made.now, RulesObserved(None))
    actions = checked("plan", views.plan(made.engine, made.now))["actions"]
    assert [(action["action"], action["peer"]) for action in actions] == [
        ("apply-rules", None),
        ("unload-connection", "n5"),
        ("terminate", "n5"),
        ("initiate", "n1"),
    ]
    assert actions[2]["detail"] == "IKE_SA 7"
    assert actions[2]["why"] == "the peer is not trusted"
    made.tell(RulesObserved(made.engine.known.rules.wanted()))
    (turn,) = [action for action in views.plan(made.engine, made.now)["actions"] if action["peer"] == "n1"]
    assert turn["in"] == pytest.approx(CALM.takeover_delay)


def test_the_plan_of_a_start_has_key_and_configuration() -> None:
    made = Driver(NODE, CALM)
    made.engine.handle(0.0, PeerSet(peer(HIGHER)))
    actions = checked("plan", views.plan(made.engine, 0.0))["actions"]
    assert [action["action"] for action in actions] == ["apply-rules", "load-key", "load-connection"]


def test_explain_gives_the_chain_from_trust_to_the_next_action() -> None:
    made = driver(HIGHER)
    text = explained(made)
    assert "n5 is trusted: its card gives the address fc00::5" in text
    assert "There is no route to fd00::5" in text
    assert "This node initiates, because its fingerprint is the lower" in text
    assert "There is no IKE_SA" in text
    assert "The fail-closed rules are in force: user data to the peer leaves only encrypted, by ipsec0" in text
    assert text.endswith("Next: a negotiation when a route to the peer appears.")


def test_explain_names_failed_attempts_and_the_time_of_the_next() -> None:
    made = driver(HIGHER)
    made.tell(ActionDone(initiate(made), Cause("timeout: no answer", FailureKind.NO_ANSWER)))
    made.tell(*(ActionDone(action, Cause("timeout: no answer", FailureKind.NO_ANSWER)) for action in made.advance(1.0)))
    text = explained(made)
    assert "This node has initiated 2 times, last 0 ms ago" in text
    assert "It means: no answer from fd00::5" in text
    assert "The channel has been failed for 0 ms: the attempt failed: timeout: no answer" in text
    assert "Next in 2.0 s: initiate" in text


def test_explain_names_the_initiator_and_when_this_node_takes_over() -> None:
    made = driver(LOWER)
    made.tell(RouteSet(route(LOWER, 1)))
    text = explained(made, LOWER)
    assert "There is a route to fd00::1: 1 hop, next hop fe80::1 on mesh0" in text
    assert "this node takes over when nothing is established after 2.0 s" in text
    assert "Next in 2.0 s: initiate" in text


def test_explain_names_the_sa_and_that_nothing_is_left_to_do() -> None:
    made = driver(LOWER)
    protect(made, LOWER)
    made.advance(3725.0)
    text = explained(made, LOWER)
    assert "An IKE_SA initiated by the peer is established, 1 h 2 min old; CHILD_SAs: mesh (TUNNEL, INSTALLED)" in text
    assert "The channel has been protected for 1 h 2 min: the SA is established: initiated by the peer" in text
    assert text.endswith("Nothing is left to do.")


def test_explain_says_until_when_an_sa_is_held() -> None:
    made = driver(HIGHER)
    protect(made, HIGHER)
    made.tell(RouteRemoved(route(HIGHER).destination))
    made.now += 100.0
    assert explained(made).endswith("Next: the SA is closed in 3 min 20 s unless a route appears.")
    made.tell(RouterDown("killed"))
    text = explained(made)
    assert "The routing daemon is away (killed): what was known stays in force." in text
    assert text.endswith("Next: the SA is kept until the routing daemon is back.")


def test_explain_says_that_the_rules_come_first() -> None:
    made = Driver(NODE, CALM, backend=EspBackend.KERNEL)
    made.tell(PeerSet(peer(HIGHER)))
    assert "The fail-closed rules for the peer are not in force yet" in explained(made)
    made.tell(RulesObserved(made.engine.known.rules.wanted()))
    assert "leaves only encrypted, in the kernel" in explained(made)


def test_explain_of_a_stranger_says_so() -> None:
    with pytest.raises(LookupError, match="n9 is not a peer: there is no card"):
        views.explain(driver().engine, 0.0, "n9")


MEANINGS = {
    FailureKind.FORGED: (Fault.PATH, "answers in the name of fd00::5"),
    FailureKind.DENIED: (Fault.PATH, "fd00::5 refused this node and accepted it"),
    FailureKind.NOT_TRUSTED: (Fault.PEER, "does not trust this node's key"),
    FailureKind.OTHER_KEY: (Fault.PEER, "has another key than on the card"),
    FailureKind.OTHER_METHOD: (Fault.PEER, "has changed its IKE daemon, and this node has its old card"),
    FailureKind.SECOND_SECRET: (Fault.BOTH, "do not have the same one: `meshsec secret show` compares them"),
    FailureKind.NO_PROPOSAL: (Fault.BOTH, "has no card of it"),
    FailureKind.KEY_EXCHANGE: (Fault.BOTH, "key exchange"),
    FailureKind.SELECTORS: (Fault.BOTH, "old card"),
    FailureKind.SYNTAX: (Fault.PEER, "could not read"),
    FailureKind.NO_ANSWER: (Fault.PATH, "no answer from fd00::5"),
    FailureKind.OWN_DAEMON: (Fault.NODE, "this node's IKE daemon"),
    FailureKind.OTHER: (Fault.UNKNOWN, "AUTHENTICATION_FAILED: what the daemon said"),
}


@pytest.mark.parametrize("kind", FailureKind)
def test_a_failure_is_explained_with_its_meaning_and_whose_fault_it_is(kind: FailureKind) -> None:
    told = diagnose(Cause("AUTHENTICATION_FAILED: what the daemon said", kind), card(HIGHER).locator)
    fault, meaning = MEANINGS[kind]
    assert told.fault is fault
    assert meaning in told.meaning


def test_status_and_explain_say_that_a_refused_card_closes_unknown_nodes() -> None:
    made = driver(HIGHER, unknown_nodes=UnknownNodes.ALLOW)
    assert views.status(made.engine, made.now)["problems"] == []
    made.tell(TrustStoreRead(("boat.card: corrupt",)))
    (problem,) = views.status(made.engine, made.now)["problems"]
    assert "unknown nodes are closed" in problem
    assert any(problem in sentence for sentence in views.explain(made.engine, made.now, "n5")["sentences"])
    with pytest.raises(LookupError, match=r"boat is not a peer.*boat\.card: corrupt"):
        views.explain(made.engine, made.now, "boat")


def test_status_names_the_traffic_that_the_policy_lets_pass_in_the_clear() -> None:
    made = driver(HIGHER, bypass=(Bypass(IPv6Network("fd12:3456:789a::/64"), "the clock", "udp", 123),))
    told = {"prefix": "fd12:3456:789a::/64", "protocol": "udp", "port": 123, "reason": "the clock"}
    assert views.status(made.engine, made.now)["bypass"] == [told]


def test_status_names_the_networks_whose_user_data_crosses_the_mesh_in_the_clear() -> None:
    made = driver(HIGHER)
    assert views.status(made.engine, made.now)["unprotected_networks"] == []
    behind, beyond = IPv6Network("fd77::/64"), IPv6Network("::/0")
    made.engine.known.rules.perimeter = Perimeter(opened=(behind,), reached=(beyond, behind))
    status = checked("status", views.status(made.engine, made.now))
    assert status["unprotected_networks"] == ["fd77::/64", "::/0"]


def test_with_unknown_nodes_closed_a_refused_card_changes_nothing_for_them() -> None:
    made = driver(HIGHER)
    assert made.tell(TrustStoreRead(("boat.card: corrupt",))) == []
    assert views.status(made.engine, made.now)["problems"] == []
