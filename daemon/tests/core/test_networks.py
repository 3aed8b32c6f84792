"""Networks behind peers: which peer is chosen, which routes the engine asks for, and what the rules are given."""

from dataclasses import replace
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from core.world import BACKEND, Driver, card, ike_sa, route
from meshsec.core.channels.actions import Action, ApplyRules, RouteNetworks
from meshsec.core.channels.desired import host
from meshsec.core.channels.events import (
    AnnouncementRemoved,
    AnnouncementSet,
    AnnouncementsReset,
    GatewaysSilent,
    IkeDaemonDown,
    IkeDaemonUp,
    OwnNetworksSet,
    PeerRemoved,
    PeerSet,
    RouteSet,
    RoutesReset,
    SasObserved,
    TunnelObserved,
)
from meshsec.core.channels.network_events import gateways
from meshsec.core.explain.network_sentences import asked_network, containing, explain_network, of_peer, whose
from meshsec.core.explain.networks_view import limits, networks, unheeded
from meshsec.core.explain.views import plan
from meshsec.core.networks.announcements import MAX_STRANGERS
from meshsec.core.networks.choice import NEARER, Candidate, choose
from meshsec.core.networks.flow_marks import BASE, LAST, MAX, FlowMarks
from meshsec.core.networks.mtu import IPV6_MINIMUM, inner_mtu
from meshsec.core.networks.networks import Networks
from meshsec.core.policy.policy import DEFAULT
from meshsec.core.values.model import Address, EspBackend, Network, Observed, Peer
from meshsec.core.values.networks import Announcement, OtherRoute, TunnelRoute

NODE, NEAR, FAR = 3, 5, 6
DEVICE = "meshsec-nets"
NETWORK = IPv4Network("10.1.0.0/16")
DEFAULT_ROUTE = IPv6Network("::/0")
FIRST, SECOND = IPv6Address("fc00::1"), IPv6Address("fc00::2")


def announced(number: int, network: Network = NETWORK, metric: int = 1) -> Announcement:
    return Announcement(network, card(number).locator, 1, metric)


def driver(own: tuple[str, ...] = (), **grants: tuple[str, ...]) -> Driver:
    """Return an engine that is ready, with both peers trusted. ``grants``: default, network."""
    made = Driver(NODE, structs.replace(DEFAULT, initiator_jitter=0.0))
    named: dict[str, Network] = {"network": NETWORK, "default": DEFAULT_ROUTE}
    granted: dict[Network, tuple[str | Address, ...]] = {named[name]: peers for name, peers in grants.items()}
    made.engine.known.networks.configure(map(ip_network, own), granted)
    made.ready(NEAR, FAR)
    return made


def protect(made: Driver, number: int, hops: int) -> list[Action]:
    sa = ike_sa(f"n{number}", str(number), established_at=made.now)
    return made.tell(RouteSet(route(number, hops)), SasObserved(f"n{number}", (sa,)))


def wanted(actions: list[Action]) -> set[TunnelRoute] | None:
    """Return the routes of the last action about them, without those of flows; None where there is none."""
    found = [action.routes for action in actions if isinstance(action, RouteNetworks)]
    return {one for one in found[-1] if not one.mark} if found else None


def to(number: int, network: Network = NETWORK) -> TunnelRoute:
    return TunnelRoute(network, card(number).address)


def test_a_network_is_routed_to_the_peer_that_may_speak_for_it_and_announces_it() -> None:
    made = driver(network=("n5",))
    actions = [*protect(made, NEAR, 1), *protect(made, FAR, 1)]
    assert wanted(actions) is None, "nobody announces it"
    assert wanted(made.tell(AnnouncementSet(announced(FAR)))) is None, "n6 may not speak for it"
    actions = made.tell(AnnouncementSet(announced(NEAR)))
    assert wanted(actions) == {to(NEAR)}
    assert wanted(made.succeed(*actions)) is None
    assert wanted(made.tell(AnnouncementRemoved(NETWORK, card(NEAR).locator))) == set()


def test_the_nearest_peer_is_used_and_the_next_one_when_its_channel_ends() -> None:
    made = driver(default=("n5", "n6"))
    protect(made, NEAR, 1)
    protect(made, FAR, 4)
    both = AnnouncementsReset((announced(FAR, DEFAULT_ROUTE), announced(NEAR, DEFAULT_ROUTE)))
    actions = made.tell(both)
    assert wanted(actions) == {to(NEAR, DEFAULT_ROUTE)}
    made.succeed(*actions)
    actions = made.tell(SasObserved("n5", ()))
    assert wanted(actions) == {to(FAR, DEFAULT_ROUTE)}
    made.succeed(*actions)
    assert wanted(protect(made, NEAR, 1)) == {to(NEAR, DEFAULT_ROUTE)}


def flows(made: Driver) -> dict[IPv6Address, int]:
    """Return the mark of each gateway whose flows stay with it."""
    return {one.peer: one.mark for one in made.engine.known.networks.wanted or () if one.mark}


def test_flows_stay_with_each_gateway_that_lives_and_one_that_comes_back_has_another_mark() -> None:
    made = driver(default=("n5", "n6"), network=("n5",))
    protect(made, NEAR, 1)
    protect(made, FAR, 4)
    both = (announced(FAR, DEFAULT_ROUTE), announced(NEAR, DEFAULT_ROUTE), announced(NEAR))
    made.succeed(*made.tell(AnnouncementsReset(both)))
    near, far = card(NEAR).address, card(FAR).address
    before = flows(made)
    assert set(before) == {near, far}
    assert {one.destination for one in made.engine.known.networks.wanted or () if one.mark} == {DEFAULT_ROUTE}
    made.succeed(*made.tell(GatewaysSilent(frozenset({near}))))
    assert flows(made) == {far: before[far]}
    made.succeed(*made.tell(GatewaysSilent(frozenset())))
    assert flows(made)[far] == before[far]
    assert flows(made)[near] not in before.values()


def test_a_gateway_that_does_not_answer_is_left_while_another_one_answers() -> None:
    made = driver(default=("n5", "n6"))
    protect(made, NEAR, 1)
    protect(made, FAR, 4)
    both = (announced(FAR, DEFAULT_ROUTE), announced(NEAR, DEFAULT_ROUTE))
    made.succeed(*made.tell(AnnouncementsReset(both)))
    assert gateways(made.engine.known) == ([card(NEAR).address], [card(FAR).address])
    actions = made.tell(GatewaysSilent(frozenset({card(NEAR).address})))
    assert wanted(actions) == {to(FAR, DEFAULT_ROUTE)}
    made.succeed(*actions)
    assert wanted(made.tell(GatewaysSilent(frozenset({card(NEAR).address, card(FAR).address})))) == {
        to(NEAR, DEFAULT_ROUTE)
    }, "none answers, so the nearest is used"


def test_becoming_a_gateway_changes_the_rules_and_needs_a_tunnel() -> None:
    made = Driver(NODE, structs.replace(DEFAULT, initiator_jitter=0.0))
    made.ready(NEAR)
    actions = made.tell(OwnNetworksSet((DEFAULT_ROUTE,)))
    (rules,) = (one.rules.behind for one in actions if isinstance(one, ApplyRules))
    assert (rules.device, rules.own) == (DEVICE, (DEFAULT_ROUTE,))
    actions = made.succeed(*actions)
    hosts = {IPv6Network(card(NEAR).address), IPv4Network(str(card(NEAR).ipv4))}
    assert {one.destination for one in wanted(actions) or ()} == hosts
    made.succeed(*actions)
    (rules,) = (one.rules.behind for one in made.tell(OwnNetworksSet(())) if isinstance(one, ApplyRules))
    assert (rules.device, rules.own) == (DEVICE, ()), "the device is there, so its packets are judged on"


def test_no_more_than_some_gateways_keep_flows_and_those_are_the_nearest() -> None:
    made = Driver(NODE, structs.replace(DEFAULT, initiator_jitter=0.0))
    numbers = range(10, 10 + MAX + 2)
    made.engine.known.networks.configure((), {DEFAULT_ROUTE: tuple(f"n{number}" for number in numbers)})
    made.ready(*numbers)
    for number in numbers:
        protect(made, number, 20 - (number - 10))
        made.succeed(*made.tell(AnnouncementSet(announced(number, DEFAULT_ROUTE))))
    assert set(flows(made)) == {card(number).address for number in numbers[2:]}


def test_a_mark_that_ended_is_not_learnt_again_from_what_was_read_before() -> None:
    made = driver(default=("n5", "n6"))
    protect(made, NEAR, 1)
    protect(made, FAR, 4)
    both = (announced(FAR, DEFAULT_ROUTE), announced(NEAR, DEFAULT_ROUTE))
    made.succeed(*made.tell(AnnouncementsReset(both)))
    near, before = card(NEAR).address, made.engine.known.networks.installed
    ended = flows(made)[near]
    made.succeed(*made.tell(GatewaysSilent(frozenset({near}))))
    made.succeed(*made.tell(TunnelObserved(before)))
    made.succeed(*made.tell(GatewaysSilent(frozenset())))
    assert flows(made)[near] != ended


def test_a_restarted_meshsecd_keeps_the_marks_of_its_predecessor() -> None:
    made = Driver(NODE, structs.replace(DEFAULT, initiator_jitter=0.0))
    made.engine.known.networks.configure((), {DEFAULT_ROUTE: ("n5",)})
    mark = BASE + 77
    left = frozenset({to(NEAR, DEFAULT_ROUTE), TunnelRoute(DEFAULT_ROUTE, card(NEAR).address, mark=mark)})
    made.engine.handle(made.now, TunnelObserved(left))
    made.ready(NEAR)
    made.tell(IkeDaemonDown("not contacted yet"), AnnouncementsReset(()))
    assert flows(made) == {card(NEAR).address: mark}, "nothing is known yet"
    made.tell(AnnouncementSet(announced(NEAR, DEFAULT_ROUTE)))
    assert flows(made) == {card(NEAR).address: mark}, "the IKE daemon was not heard yet"
    made.tell(IkeDaemonUp(Observed(), daemon_restarted=False))
    assert flows(made) == {}, "it has no SA"
    protect(made, NEAR, 1)
    assert flows(made)[card(NEAR).address] > mark
    assert FlowMarks().of([FIRST]) == {FIRST: BASE + 1}
    full = FlowMarks()
    full.learn({FIRST: LAST, SECOND: BASE + 1})
    assert full.of([FIRST, SECOND, card(NEAR).address])[card(NEAR).address] == BASE + 2, "numbers begin again"


def test_without_any_channel_the_route_stays_so_that_nothing_takes_another_one() -> None:
    made = driver(network=("n5",))
    protect(made, NEAR, 1)
    made.succeed(*made.tell(AnnouncementSet(announced(NEAR))))
    assert wanted(made.tell(SasObserved("n5", ()))) is None


def test_a_route_that_somebody_removes_is_set_again() -> None:
    made = driver(network=("n5",))
    protect(made, NEAR, 1)
    made.succeed(*made.tell(AnnouncementSet(announced(NEAR))))
    assert wanted(made.tell(TunnelObserved(frozenset()))) == {to(NEAR)}


def test_the_plan_names_the_networks_that_are_to_be_routed() -> None:
    made = driver(network=("n5",))
    protect(made, NEAR, 1)
    made.engine.handle(made.now, AnnouncementSet(announced(NEAR)))
    planned = [(one["action"], one["detail"]) for one in plan(made.engine, made.now)["actions"]]
    assert ("route-networks", str(NETWORK)) in planned


def test_a_removed_peer_speaks_for_nothing() -> None:
    made = driver(network=("n5",))
    protect(made, NEAR, 1)
    made.succeed(*made.tell(AnnouncementSet(announced(NEAR))))
    actions = made.tell(PeerRemoved("n5"))
    rules = [action.rules for action in actions if isinstance(action, ApplyRules)]
    assert [speaker.tunnels for speaker in rules[-1].behind.speakers] == [(card(FAR).address,)]
    assert rules[-1].behind.closed == (NETWORK,), "its network stays closed"
    while actions:
        actions = made.succeed(*actions)
    assert made.engine.known.networks.installed == frozenset()


def test_no_route_leads_to_a_network_before_the_rules_close_it() -> None:
    made = Driver(NODE)
    made.engine.known.networks.configure((), {NETWORK: ("n5",)})
    made.engine.known.networks.put(announced(NEAR))
    assert wanted(made.tell(RouteSet(route(NEAR)))) is None


def test_networks_behind_this_node_reach_peers_themselves_through_the_tunnel() -> None:
    made = driver(own=("10.9.0.0/16",))
    routes = made.engine.known.networks.installed
    five = card(NEAR)
    assert {one.destination for one in routes if one.peer == five.address} == {
        IPv6Network(five.address),
        IPv4Network(str(five.ipv4)),
    }
    assert all(one.forwarded for one in routes)


def changing_keys(*speakers: str, own: tuple[str, ...] = ()) -> Driver:
    """Return an engine whose node and whose peer n5 both have a next key (ADR 0041)."""
    made = driver(own, network=speakers or ("n5",))
    following, other = card(NEAR, key=8), card(NODE, key=7)
    made.engine.known.rules.next_node = other
    for mine, suffix in ((None, ""), (other, "^")):
        for theirs, mark in ((card(NEAR), ""), (following, "~")):
            actions = made.tell(PeerSet(Peer(f"n5{mark}{suffix}", theirs, own=mine)))
            while actions:
                actions = made.succeed(*actions)
    return made


def test_a_peer_with_two_keys_is_one_speaker_with_two_tunnels_whichever_key_of_this_node_it_knows() -> None:
    rules = changing_keys().engine.known.rules.in_force
    assert rules is not None
    tunnels = [(one.tunnels, one.networks) for one in rules.behind.speakers]
    both = card(NEAR).address, card(NEAR, key=8).address
    assert tunnels == [(both, (NETWORK,)), ((card(FAR).address,), ())]


def test_only_channels_of_this_nodes_present_key_lead_to_a_network() -> None:
    """Packets leave from the present key's address, which the SA of the next key does not take."""
    made = changing_keys("n5", "n6")
    protect(made, FAR, 9)
    made.succeed(*made.tell(RouteSet(route(NEAR)), AnnouncementSet(announced(NEAR)), AnnouncementSet(announced(FAR))))
    made.succeed(*made.tell(SasObserved("n5^", (ike_sa("n5^", "1", established_at=made.now),))))
    assert entry(made, NETWORK)["peer"] == "n6"
    made.succeed(*made.tell(SasObserved("n5", (ike_sa("n5", "2", established_at=made.now),))))
    assert entry(made, NETWORK)["peer"] == "n5"


def test_an_address_that_two_keys_share_has_one_route_through_the_key_that_carries() -> None:
    made = changing_keys(own=("10.9.0.0/16",))
    following, shared = card(NEAR, key=8), IPv4Network(str(card(NEAR).ipv4))

    def through() -> list[IPv6Address]:
        return [one.peer for one in made.engine.known.networks.wanted or () if one.destination == shared]

    made.succeed(*made.tell(RouteSet(replace(route(NEAR), destination=host(following.locator)))))
    made.succeed(*made.tell(SasObserved("n5~", (ike_sa("n5~", "1", established_at=made.now),))))
    assert through() == [following.address]
    made.succeed(*protect(made, NEAR, 2))
    assert through() == [following.address], "it stays where it is"


def test_status_says_through_whom_a_network_is_reached_and_who_is_ready() -> None:
    made = driver(default=("n5", "n6"), network=("n5",))
    (network, default) = (entry(made, NETWORK), entry(made, DEFAULT_ROUTE))
    assert "nobody who may speak for it announces it (n5)" in network["problem"]
    assert "nobody" in default["problem"]
    protect(made, NEAR, 1)
    protect(made, FAR, 4)
    both = AnnouncementsReset((announced(FAR, DEFAULT_ROUTE), announced(NEAR, DEFAULT_ROUTE)))
    made.succeed(*made.tell(both))
    default = entry(made, DEFAULT_ROUTE)
    assert (default["peer"], default["ready"], default["problem"]) == ("n5", ["n6"], "")
    made.succeed(*made.tell(SasObserved("n5", ()), SasObserved("n6", ())))
    assert entry(made, DEFAULT_ROUTE)["problem"] == "n5 is negotiating; user data for it is dropped"


@pytest.mark.parametrize(
    ("own", "limit"),
    [
        (("10.9.0.0/16",), "for what is behind this node, which has no IPv4 address in the mesh"),
        (
            ("2001:db8:9::/64",),
            "of no use here: this node has no IPv4 address in the mesh, and no IPv4 network is behind it",
        ),
    ],
)
def test_a_node_without_an_ipv4_address_says_who_can_use_an_ipv4_network(own: tuple[str, ...], limit: str) -> None:
    made = driver(own=own, default=("n5",), network=("n5",))
    assert limits(made.engine.known) == entry(made, NETWORK)["limit"] == ""
    made.engine.known.node = card(NODE, ipv4=False)
    assert (entry(made, NETWORK)["limit"], entry(made, DEFAULT_ROUTE)["limit"]) == (limit, "")
    assert limits(made.engine.known) == f"{NETWORK}: {limit}"
    assert f" It is {limit}. " in said(made)
    assert "It is " not in said(made, DEFAULT_ROUTE)


def test_networks_that_a_peer_may_not_speak_for_are_named() -> None:
    made = driver(network=("n5",))
    found = (announced(FAR, DEFAULT_ROUTE), announced(FAR), announced(NEAR))
    made.tell(*map(AnnouncementSet, found))
    assert unheeded(made.engine.known) == [f"{NETWORK} from n6", f"{DEFAULT_ROUTE} from n6"]


def test_a_router_that_restarts_moves_nothing_until_it_says_something_of_the_network() -> None:
    made = driver(network=("n5", "n6"))
    protect(made, NEAR, 1)
    protect(made, FAR, 1)
    made.succeed(*made.tell(AnnouncementsReset((announced(NEAR),))))
    assert wanted(made.tell(AnnouncementsReset(()))) is None, "it knows nothing yet"
    assert wanted(made.tell(AnnouncementSet(announced(FAR)))) == {to(FAR)}, "somebody is there, and n5 is not"
    made.succeed(RouteNetworks(frozenset({to(FAR)})))
    assert wanted(made.tell(AnnouncementsReset(()))) is None
    assert wanted(made.tell(AnnouncementRemoved(NETWORK, card(FAR).locator))) == set()


def test_a_network_stays_with_its_peer_while_no_route_leads_there_unless_another_can_be_reached() -> None:
    """A router that restarted hears of the network before it has computed a route."""
    made = driver(network=("n5", "n6"))
    protect(made, NEAR, 1)
    made.succeed(*made.tell(AnnouncementSet(announced(NEAR))))
    assert wanted(made.tell(RoutesReset({}), AnnouncementsReset(()), AnnouncementSet(announced(NEAR)))) is None
    assert "no route leads to n5 now" in said(made)
    protect(made, FAR, 9)
    assert wanted(made.tell(AnnouncementSet(announced(FAR)))) == {to(FAR)}


def test_what_a_predecessor_set_stays_until_the_router_says_something_unless_its_peer_may_not_speak() -> None:
    for speaker, stays in (("n5", True), ("n6", False)):
        made = driver(network=(speaker,))
        actions = [*made.tell(TunnelObserved(frozenset({to(NEAR)}))), *protect(made, NEAR, 1)]
        assert wanted(actions) == (None if stays else set())
        assert wanted(made.tell(AnnouncementsReset(()))) is None, "nothing else is asked for"


def said(made: Driver, network: Network = NETWORK, *others: OtherRoute) -> str:
    """Return what `meshsec explain NETWORK` says, as one text."""
    return " ".join(explain_network(made.engine.known, network, network, others)["sentences"])


def test_a_network_is_explained_from_who_may_speak_for_it_to_what_becomes_of_a_packet() -> None:
    made = driver(own=("10.9.0.0/16",), default=("n5", "n6"), network=("n5",))
    assert "n5 may speak for it" in said(made)
    assert "n5 does not announce it." in said(made)
    assert "cannot be reached now: nobody" in said(made)
    protect(made, NEAR, 1)
    protect(made, FAR, 4)
    made.tell(AnnouncementSet(announced(FAR)))
    assert f"Announced also by {card(FAR).locator}, which may not speak for it" in said(made)
    both = (announced(FAR, DEFAULT_ROUTE), announced(NEAR, DEFAULT_ROUTE), announced(NEAR))
    made.succeed(*made.tell(*map(AnnouncementSet, both)))
    assert "n5 announces it and carries user data; the way through it weighs" in said(made)
    assert "goes through n5. The fail-closed rules are in force" in said(made)
    assert "goes through n5; n6 could take over at once." in said(made, DEFAULT_ROUTE)
    past = OtherRoute(IPv4Network("10.1.4.0/24"), "eth0")
    assert "A route to 10.1.4.0/24 by eth0 leads past the tunnel" in said(made, NETWORK, past)
    made.succeed(*made.tell(SasObserved("n5", ())))
    assert "n5 announces it and is negotiating" in said(made)
    assert "is behind this node, which announces it" in said(made, IPv4Network("10.9.0.0/16"))


def test_explaining_a_peer_names_its_networks() -> None:
    made = driver(default=("n5", "n6"), network=("n5",))
    protect(made, NEAR, 1)
    protect(made, FAR, 4)

    def of(number: int) -> str:
        channel = made.engine.known.shown_as(f"n{number}")
        assert channel is not None
        return " ".join(of_peer(made.engine.known, channel))

    assert f"It may speak for {NETWORK} and does not announce it." in of(NEAR)
    one = (announced(FAR), announced(FAR, DEFAULT_ROUTE), announced(NEAR, DEFAULT_ROUTE))
    made.succeed(*made.tell(*map(AnnouncementSet, one)))
    assert f"It announces {NETWORK} and may not speak for it" in of(FAR)
    assert f"It announces {DEFAULT_ROUTE}; that is reached through n5." in of(FAR)
    assert f"{DEFAULT_ROUTE} is reached through it." in of(NEAR)
    made.succeed(*made.tell(SasObserved("n6", ())))
    assert f"It announces {DEFAULT_ROUTE} and carries no user data now." in of(FAR)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("10.1.2.3", NETWORK),
        ("10.1.0.0/16", NETWORK),
        ("10.1.0.0/24", NETWORK),
        ("10.0.0.0/8", None),
        ("2001:db8::5", DEFAULT_ROUTE),
        ("10.9.1.1", IPv4Network("10.9.0.0/16")),
        ("192.0.2.1", None),
    ],
)
def test_an_address_is_explained_by_the_smallest_network_around_it(asked: str, found: Network | None) -> None:
    made = driver(own=("10.9.0.0/16",), default=("n5",), network=("n5",))
    assert containing(made.engine.known, ip_network(asked)) == found


def test_a_peers_own_address_is_explained_as_the_peer() -> None:
    made = driver(network=("n5",))
    for address in (card(NEAR).address, card(NEAR).locator, card(NEAR).ipv4):
        assert whose(made.engine.known, ip_network(str(address))) == "n5"
    assert whose(made.engine.known, NETWORK) is None
    assert whose(made.engine.known, ip_network("10.1.2.3")) is None


@pytest.mark.parametrize("text", ["n5", "10.1.2.3/16", "300.1.1.1", "::/129", "10.1"])
def test_what_is_no_network_is_none(text: str) -> None:
    assert asked_network(text) is None


def entry(made: Driver, network: Network) -> dict[str, Any]:
    """Return what `meshsec status` says of a network."""
    return next(one for one in networks(made.engine.known) if one["network"] == str(network))


def test_without_networks_nothing_is_asked_for() -> None:
    made = Driver(NODE)
    made.ready(NEAR)
    made.tell(AnnouncementSet(announced(NEAR)))
    assert wanted(protect(made, NEAR, 1)) is None
    rules = made.engine.known.rules.in_force
    assert rules is not None
    assert not rules.behind.device


def test_strangers_announcements_are_bounded_and_lock_out_no_network_that_counts() -> None:
    known = Networks()
    known.configure((), {NETWORK: ("n5",)})
    for number in range(MAX_STRANGERS + 10):
        known.put(Announcement(IPv4Network((number << 8, 24)), SECOND, 1, 1))
    known.put(announced(NEAR))
    assert len(list(known.announcements)) == MAX_STRANGERS + 1
    assert set(known.announcements.of(NETWORK)) == {card(NEAR).locator}


def test_a_peer_may_be_named_by_each_of_its_addresses() -> None:
    known = Networks()
    for name in (card(NEAR).address, card(NEAR).locator, card(NEAR).ipv4):
        assert name is not None
        known.configure((), {NETWORK: (name,)})
        assert known.may_speak(NETWORK, "n5", card(NEAR))
        assert not known.may_speak(NETWORK, "n6", card(FAR))


costs = st.integers(1, 1000)
candidates = st.builds(Candidate, st.sampled_from([FIRST, SECOND, card(NEAR).address]), st.booleans(), costs)


@given(st.lists(candidates, unique_by=lambda one: one.peer), st.sampled_from([None, FIRST, SECOND]))
def test_a_chosen_peer_carries_if_any_does_and_is_nearly_the_nearest(
    found: list[Candidate], present: IPv6Address | None
) -> None:
    chosen = choose(found, present)
    if not found:
        assert chosen is None
        return
    (one,) = (candidate for candidate in found if candidate.peer == chosen)
    rivals = [candidate for candidate in found if candidate.carries]
    assert one.carries == bool(rivals)
    assert all(rival.cost > NEARER * one.cost or rival.cost == one.cost for rival in rivals or found)
    assert chosen == present or all(rival.cost >= one.cost for rival in rivals or found)


def test_a_choice_once_made_is_kept() -> None:
    near, nearer = Candidate(FIRST, carries=True, cost=100), Candidate(SECOND, carries=True, cost=80)
    assert choose([near, nearer], FIRST) == FIRST
    assert choose([near, nearer], None) == SECOND
    assert choose([near, Candidate(SECOND, carries=True, cost=75)], FIRST) == SECOND


@pytest.mark.parametrize(
    ("mtus", "backend", "overlay", "expected"),
    [
        ({"mesh0": 1500, "eth0": 576}, EspBackend.KERNEL, "", 1388),
        ({"mesh0": 1500}, EspBackend.LIBIPSEC, "", 1340),
        ({"mesh0": 1300}, EspBackend.KERNEL, "", IPV6_MINIMUM),
        ({}, BACKEND, "", 1340),
        ({"mesh0": 1500, "overlay0": 1396}, EspBackend.KERNEL, "overlay0", 1340),
        ({"mesh0": 1500, "overlay0": 1350}, EspBackend.LIBIPSEC, "overlay0", 1294),
        ({"mesh0": 1500, "overlay0": 1304}, EspBackend.LIBIPSEC, "overlay0", IPV6_MINIMUM),
        ({"mesh0": 1500}, EspBackend.KERNEL, "overlay0", 1340),
    ],
)
def test_the_tunnel_leaves_room_for_its_headers(
    mtus: dict[str, int], backend: EspBackend, overlay: str, expected: int
) -> None:
    assert inner_mtu(mtus, ["mesh0"], backend, overlay) == expected
