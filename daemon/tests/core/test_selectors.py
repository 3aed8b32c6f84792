"""Networks of peers in traffic selectors: the configuration, the CHILD_SAs, the route, the rules and what is shown."""

from dataclasses import replace
from ipaddress import IPv4Network, ip_network
from typing import Any

import pytest
from msgspec import structs

from core.world import Driver, card, ike_sa, peer, route
from meshsec.core.channels import nft_rules
from meshsec.core.channels.actions import Action, Initiate, LoadConnection, RouteNetworks, Terminate
from meshsec.core.channels.desired import CHILD_NETWORKS, DesiredPeer, Wish, connection_spec, rules_spec
from meshsec.core.channels.events import (
    ModesSet,
    OverlayObserved,
    OverlayRoutesObserved,
    OverlayUp,
    PeerRemoved,
    PeerSet,
    RouteSet,
    SasObserved,
)
from meshsec.core.channels.reconcile import CHILDREN_MAX, MORE_CHILDREN, ObservedPeer, reconcile_peer
from meshsec.core.config.networks import SELECTORS_MAX, configured_networks
from meshsec.core.config.settings import Settings, SettingsError, decode
from meshsec.core.explain.network_sentences import explain_network, of_peer
from meshsec.core.explain.networks_view import networks
from meshsec.core.ike import drift_kernel
from meshsec.core.ike.drift import Wanted
from meshsec.core.ike.drift_kernel import Kernel, XfrmPolicy, XfrmState
from meshsec.core.networks.claims import Claim
from meshsec.core.networks.networks import DEVICE, Networks, selector_pairs, selectors
from meshsec.core.policy.policy import DEFAULT, Policy
from meshsec.core.values.model import DataPlane, EspBackend, Modes, Network, Peer
from meshsec.core.values.networks import BehindNodes, Carriage, Speaker, TunnelRoute
from meshsec.core.values.sa_states import IkeSaState

NODE, GATEWAY = 3, 5
LAN4, LAN6 = ip_network("192.168.1.0/24"), ip_network("2001:db8:1::/64")
FAR4, FAR6 = ip_network("192.168.3.0/24"), ip_network("2001:db8:3::/64")
ANYWHERE = ip_network("::/0")
PAIRS = ((LAN4, FAR4), (LAN6, FAR6))


# --- the configuration ---


def decoded(own: tuple[str, ...], accept: list[dict[str, Any]], **tables: Any) -> Settings:
    attached = [{"prefix": one} for one in own]
    routing = {"interfaces": ["mesh0"], "attached": attached, "accept": accept}
    return decode({"node": {"name": "a"}, "routing": routing, **tables}, "/etc/meshsec", lambda _: Policy())


def entry(prefix: object = FAR4, *peers: str) -> dict[str, Any]:
    return {"prefix": str(prefix), "from": list(peers or ("c",)), "by": "selectors"}


def test_a_network_is_reached_through_the_tunnel_unless_the_operator_says_selectors() -> None:
    tunnelled = {"prefix": str(FAR6), "from": ["c"]}
    settings = decoded((str(LAN4),), [entry(), tunnelled])
    assert [one.by for one in settings.routing.accept] == [Carriage.SELECTORS, Carriage.TUNNEL]
    configured = configured_networks(settings.routing, settings.policy, settings.access)
    assert configured.selected == {FAR4}
    assert set(configured.grants) == {FAR4, FAR6}


OPEN = {"policy": {"open_networks": [str(FAR4)]}}
OWN = (str(LAN4),)


@pytest.mark.parametrize(
    ("own", "accept", "tables", "where", "words"),
    [
        (OWN, [entry(FAR4, "c", "d")], {}, "routing.accept.0.from", "one peer"),
        ((*OWN, str(LAN6)), [entry("::/0")], {}, "routing.accept.0.by", "'tunnel' for a default route"),
        (OWN, [entry()], {"ike": {"esp": "libipsec"}}, "routing.accept.0.by", "ESP in the kernel"),
        (OWN, [entry()], {"policy": {"data_plane": "overlay"}, "overlay": {"enabled": True}}, "by", "overlay"),
        (OWN, [entry()], OPEN, "routing.accept.0.by", "open_networks"),
        (OWN, [entry(), entry(FAR6)], {}, "routing.accept.1.by", "names an IPv6 network"),
        (("0.0.0.0/0",), [entry()], {}, "routing.accept.0.by", "names an IPv4 network"),
        (OWN, [entry()], {"policy": {"open_networks": [str(LAN4)]}}, "routing.accept.0.by", "names an IPv4 network"),
    ],
)
def test_what_traffic_selectors_cannot_be_is_refused(
    own: tuple[str, ...], accept: list[dict[str, Any]], tables: dict[str, Any], where: str, words: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        decoded(own, accept, **tables)
    (problem,) = refused.value.problems
    assert ".".join(map(str, problem.path)).endswith(where)
    assert words in problem.message


def test_pairs_with_one_peer_are_bounded() -> None:
    own = tuple(f"10.{number}.0.0/16" for number in range(SELECTORS_MAX))
    assert len(decoded(own, [entry(FAR4, "c"), entry("192.168.4.0/24", "d")]).routing.accept) == 2
    with pytest.raises(SettingsError, match=f"at most {SELECTORS_MAX} pairs .* not {2 * SELECTORS_MAX}"):
        decoded(own, [entry(FAR4, "c"), entry("192.168.4.0/24", "c")])


# --- the CHILD_SAs ---


def test_each_pair_of_networks_of_one_ip_version_has_a_child_sa_of_its_own() -> None:
    own = (LAN4, ip_network("10.9.0.0/16"), LAN6, ip_network("0.0.0.0/0"), ANYWHERE)
    pairs = selector_pairs(own, (FAR4, FAR6))
    assert pairs == ((LAN4, FAR4), (own[1], FAR4), (LAN6, FAR6))
    spec = connection_spec(card(NODE), peer(GATEWAY), EspBackend.KERNEL, DEFAULT, pairs)
    plain = connection_spec(card(NODE), peer(GATEWAY), EspBackend.KERNEL, DEFAULT)
    assert spec.children[: len(plain.children)] == plain.children
    added = spec.children[len(plain.children) :]
    assert [(one.mode, one.local_ts, one.remote_ts) for one in added] == [
        ("tunnel", (here,), (there,)) for here, there in pairs
    ]
    assert {one.esp_proposals for one in added} == {DEFAULT.esp_proposals}
    assert len({one.name for one in added}) == len(pairs)
    assert all(one.name.startswith(CHILD_NETWORKS) for one in added)


def test_in_user_space_there_are_none() -> None:
    spec = connection_spec(card(NODE), peer(GATEWAY), EspBackend.LIBIPSEC, DEFAULT, PAIRS)
    assert spec == connection_spec(card(NODE), peer(GATEWAY), EspBackend.LIBIPSEC, DEFAULT)


def known_networks() -> Networks:
    made = Networks()
    made.configure((LAN4, LAN6, ANYWHERE), {FAR4: ("n5",), FAR6: ("n5",), ANYWHERE: ("n6",)}, selected=(FAR4, FAR6))
    return made


def test_only_the_peer_and_only_its_present_key_has_the_networks() -> None:
    made = known_networks()
    assert selectors(made, "n5", card(GATEWAY)) == PAIRS
    assert selectors(made, "n6", card(6)) == ()
    assert [selectors(made, f"n5{mark}", card(GATEWAY)) for mark in ("~", "^", "~^")] == [()] * 3


def test_no_card_shares_a_network_that_is_in_selectors() -> None:
    made = known_networks()
    made.claim("n6", Claim(by_fleet=False, peer="n6", networks=(FAR4,)))
    assert made.grants[FAR4] == ("n5",)
    assert "by traffic selectors" in made.refused["n6", FAR4]


# --- the engine ---


def driver(backend: EspBackend = EspBackend.KERNEL, overlay: str = "") -> Driver:
    made = Driver(NODE, structs.replace(DEFAULT, initiator_jitter=0.0), backend=backend, overlay=overlay)
    made.engine.known.networks.configure((LAN4, LAN6), {FAR4: ("n5",), FAR6: ("n5",)}, selected=(FAR4, FAR6))
    made.ready(GATEWAY)
    return made


def children(made: Driver) -> tuple[str, ...]:
    channel = made.engine.known.channel("n5")
    assert channel is not None
    assert channel.connection is not None
    return tuple(child.name for child in channel.connection.children)


def established(made: Driver, *names: str) -> list[Action]:
    sa = ike_sa("n5", "1", established_at=made.now, children=names)
    return made.tell(RouteSet(route(GATEWAY, backend=EspBackend.KERNEL)), SasObserved("n5", (sa,)))


def problems(made: Driver) -> set[str]:
    return {one["problem"] for one in networks(made.engine.known)}


def test_the_route_is_there_as_long_as_the_peer_is_trusted_whatever_anybody_announces() -> None:
    made = driver()
    address = card(GATEWAY).address
    routes = {one for one in made.engine.known.networks.installed if not one.forwarded}
    assert routes == {TunnelRoute(FAR4, address), TunnelRoute(FAR6, address)}
    actions = carried_out(made, made.tell(PeerRemoved("n5")))
    assert [one.routes for one in actions if isinstance(one, RouteNetworks)] == [frozenset()]


def test_the_channel_is_protected_with_all_child_sas_and_lacks_each_alone() -> None:
    made = driver()
    names = children(made)
    assert len(names) == 4, "two for the nodes' own addresses, and two for the networks"
    established(made, *names[:-1])
    actions = made.advance(60)
    assert made.state(GATEWAY) != "protected"
    (attempt,) = (one for one in actions if isinstance(one, Initiate))
    assert attempt.children == names[-1:]
    established(made, *names)
    assert made.state(GATEWAY) == "protected"


def test_a_next_key_has_the_networks_when_it_has_become_the_present_one() -> None:
    made = Driver(NODE, DEFAULT, backend=EspBackend.KERNEL)
    made.engine.known.networks.configure((LAN4,), {FAR4: ("n5",)}, selected=(FAR4,))
    made.ready()
    carried_out(made, made.tell(PeerSet(Peer("n5~", card(GATEWAY), channel="k"))))
    channel = made.engine.known.channel("k")
    assert channel is not None
    assert channel.connection is not None
    assert [one.name[:4] for one in channel.connection.children] == ["mesh", "mesh"]
    loaded = carried_out(made, made.tell(PeerSet(Peer("n5", card(GATEWAY), channel="k"))))
    assert [one.name[:4] for one in channel.connection.children] == ["mesh", "mesh", CHILD_NETWORKS]
    assert [one.spec for one in loaded if isinstance(one, LoadConnection)] == [channel.connection]


def carried_out(made: Driver, actions: list[Action]) -> list[Action]:
    """Carry out actions until none is left; return all of them."""
    found = []
    while actions:
        found += actions
        actions = made.succeed(*actions)
    return found


def observed(*names: str) -> ObservedPeer:
    return ObservedPeer(True, None, (ike_sa("n5", children=names),))


def test_an_sa_for_networks_of_a_former_configuration_ends_and_other_surplus_does_not() -> None:
    spec = connection_spec(card(NODE), peer(GATEWAY), EspBackend.KERNEL, DEFAULT, PAIRS[:1])
    desired = DesiredPeer(spec, Wish.OPEN, initiator=True)
    names = tuple(child.name for child in spec.children)
    former = connection_spec(card(NODE), peer(GATEWAY), EspBackend.KERNEL, DEFAULT, PAIRS[1:]).children[-1].name

    def ended(*held: str) -> list[str]:
        actions = reconcile_peer("n5", desired, observed(*held), 5.0)
        return [one.why for one in actions if isinstance(one, Terminate)]

    assert ended(*names) == ended(*names, "mesh") == []
    assert ended(*names, former) == ["it carries networks that are not in the configuration now"]
    closing = ike_sa("n5", state=IkeSaState.DELETING, children=(former,))
    assert not [
        one
        for one in reconcile_peer("n5", desired, ObservedPeer(True, None, (closing,)), 5.0)
        if isinstance(one, Terminate)
    ]
    most = CHILDREN_MAX + MORE_CHILDREN
    assert ended(*["mesh"] * most) == []
    assert ended(*["mesh"] * (most + 1)) == [f"the peer opened more than {most} CHILD_SAs"]


# --- what is shown ---


def test_a_network_is_shown_with_its_peer_and_what_is_wrong() -> None:
    made = driver()
    known = made.engine.known
    assert problems(made) == {"n5 is no-route; user data for it is dropped"}
    established(made, *children(made))
    assert networks(known) == [
        {
            "network": str(one),
            "by": "selectors",
            "peer": "n5",
            "ready": [],
            "announced_by": [],
            "problem": "",
            "limit": "",
        }
        for one in (FAR4, FAR6)
    ]
    channel = known.channel("n5")
    assert channel is not None
    said = f"{FAR4} is in its traffic selectors. User data for it goes through n5."
    assert next(of_peer(known, channel)) == said
    channel.hold.over = True
    assert problems(made) == {"n5 is protected; user data for it is dropped"}
    made.tell(PeerRemoved("n5"))
    assert problems(made) == {"n5, who may speak for it, is not trusted; user data for it is dropped"}


def test_a_network_is_explained() -> None:
    made = driver()
    established(made, *children(made))
    assert explain_network(made.engine.known, FAR4, FAR4)["sentences"] == [
        "192.168.3.0/24 is behind n5, in traffic selectors ([routing] accept): it never moves to another peer.",
        "User data for it goes through n5.",
        "The fail-closed rules are in force: packets from and to it pass inside its SA alone.",
    ]


def test_without_its_route_a_network_is_not_reached() -> None:
    made = driver()
    established(made, *children(made))
    made.engine.known.networks.installed = frozenset()
    assert problems(made) == {"its route is not installed yet"}


def test_in_user_space_a_network_cannot_be_reached() -> None:
    assert problems(driver(EspBackend.LIBIPSEC)) == {
        "ESP runs in user space, where no network is in traffic selectors; user data for it is dropped"
    }


# --- the rules ---


def rendered(backend: EspBackend = EspBackend.KERNEL, selected: tuple[Network, ...] = (FAR4, FAR6)) -> str:
    speaker = Speaker((card(GATEWAY).address,), (card(GATEWAY).address,))
    rules = rules_spec(card(NODE), [card(GATEWAY).address], [], backend, DEFAULT)
    return nft_rules.render(replace(rules, behind=BehindNodes(DEVICE, (LAN4, LAN6), (speaker,), (), selected)))


def chain(text: str, name: str) -> list[str]:
    body = text.partition(f"  chain {name} {{\n")[2].partition("  }")[0]
    return [line.strip() for line in body.splitlines()]


IN, OUT = 'counter name "networks_in" drop', 'counter name "networks_out" drop'


@pytest.mark.parametrize("family", ["ip6", "ip"])
def test_packets_of_selected_networks_pass_inside_ipsec_alone(family: str) -> None:
    text = rendered()
    version = "6" if family == "ip6" else "4"
    there, here = f"@selected{version}", f"@behind{version}"
    leaving = chain(text, "leaving")
    passes, drops = (
        f"rt ipsec exists {family} saddr {here} {family} daddr {there} accept",
        f"{family} daddr {there} {OUT}",
    )
    assert leaving.index(passes) < leaving.index(drops) < leaving.index("rt ipsec exists accept")
    from_none = f"meta ipsec missing {family} saddr {there} {IN}"
    arriving, forwarded = chain(text, "input"), chain(text, "forward")
    assert arriving.index(from_none) < arriving.index("meta ipsec exists accept")
    back = f"{family} saddr {there} {family} daddr {here}"
    assert forwarded.index(from_none) < forwarded.index(f"{back} accept")
    for pair in (back, f"{family} saddr {here} {family} daddr {there}"):
        assert forwarded.index(f"{pair} tcp flags syn tcp option maxseg size set rt mtu") < forwarded.index(
            f"{back} accept"
        )
    into, out_of = chain(text, "into_tunnel"), chain(text, "from_tunnel")
    assert into.index(drops) < into.index(f"{family} saddr {here} accept")
    assert f"{family} saddr {there} {IN}" in out_of


def test_a_peer_does_not_speak_for_them_through_the_tunnel() -> None:
    made = driver()
    behind = made.engine.known.rules.wanted().behind
    assert behind.selected == (FAR4, FAR6)
    assert behind.closed == ()
    assert [one.networks for one in behind.speakers] == [()]


def test_with_esp_in_user_space_they_are_closed() -> None:
    text = rendered(EspBackend.LIBIPSEC)
    assert "ipsec exists" not in text
    assert "ipsec missing" not in text
    for family, version in (("ip6", "6"), ("ip", "4")):
        assert f"{family} daddr @selected{version} {OUT}" in chain(text, "leaving")
        assert f"{family} saddr @selected{version} {IN}" in chain(text, "input")
        assert f"{family} saddr @selected{version} {IN}" in chain(text, "forward")


def test_without_such_networks_the_rules_do_not_ask_for_them() -> None:
    assert "selected" not in rendered(selected=())


# --- the drift ---


def test_a_policy_for_forwarded_packets_that_is_missing_is_reported() -> None:
    spec = connection_spec(card(NODE), peer(GATEWAY), EspBackend.KERNEL, DEFAULT, PAIRS[:1])
    spec = replace(spec, children=spec.children[-1:])
    sa = ike_sa("n5", children=(spec.children[0].name,))
    ends = {"out": (LAN4, FAR4), "in": (FAR4, LAN4), "fwd": (FAR4, LAN4)}
    policies = [XfrmPolicy(way, *pair, 1, allows=True, templates=(("tunnel", False),)) for way, pair in ends.items()]
    rules = rules_spec(card(NODE), [card(GATEWAY).address], [], EspBackend.KERNEL, DEFAULT)
    here, there = card(NODE).address, card(GATEWAY).address
    states = [
        XfrmState(here, there, "c2", "tunnel", spec.replay_window),
        XfrmState(there, here, "c1", "tunnel", spec.replay_window),
    ]

    def reported(found: list[XfrmPolicy]) -> list[str]:
        kernel = Kernel(rules, 9, states=states, policies=found, sas={"n5": (replace(sa, peer="n5"),)})
        wanted = Wanted({"n5": spec}, {"n5": "n5"}, ())
        return [one.what for one in drift_kernel.differences(wanted, kernel)]

    assert reported(policies) == []
    assert reported(policies[:-1]) == [f"policy {FAR4} to {LAN4}, fwd"]


def test_the_name_of_a_child_sa_follows_from_both_networks() -> None:
    others = ((LAN4, IPv4Network("192.168.9.0/24")), (IPv4Network("192.168.9.0/24"), FAR4))
    names = [
        connection_spec(card(NODE), peer(GATEWAY), EspBackend.KERNEL, DEFAULT, [pair]).children[-1].name
        for pair in (PAIRS[0], *others)
    ]
    assert len(set(names)) == 3


def test_while_the_overlay_carries_user_data_the_networks_are_not_reached() -> None:
    made, address = driver(overlay="overlay0"), frozenset({card(GATEWAY).address})
    made.tell(ModesSet(Modes(peers={card(GATEWAY).address: DataPlane.OVERLAY})), OverlayUp())
    made.tell(RouteSet(route(GATEWAY, backend=EspBackend.KERNEL)))
    carried_out(made, made.tell(OverlayObserved(address, address), OverlayRoutesObserved(address)))
    assert problems(made) == {"the overlay carries user data with n5, and has no traffic selectors; it is dropped"}
