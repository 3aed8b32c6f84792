"""Networks on peers' cards: which of them count, and what becomes of the routes and the rules."""

from dataclasses import replace
from ipaddress import IPv4Network, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from core.test_networks import DEFAULT_ROUTE, FAR, NEAR, NETWORK, NODE, announced, protect, said, to, wanted
from core.world import Driver, card
from meshsec.core.channels.actions import ApplyRules, RouteNetworks
from meshsec.core.channels.events import AnnouncementSet, PeerRemoved, PeerSet
from meshsec.core.explain.networks_view import problems
from meshsec.core.networks.claims import Claim, Grants, granted
from meshsec.core.policy.policy import DEFAULT
from meshsec.core.values.model import Network, Peer

OPERATORS: Grants = {IPv4Network("10.7.0.0/16"): ("operator's",)}


def claim(peer: str, *networks: str, by_fleet: bool = False) -> Claim:
    return Claim(by_fleet, peer, tuple(map(ip_network, networks)))


def asking(number: int, *networks: Network, fleet: str = "") -> PeerSet:
    return PeerSet(Peer(f"n{number}", replace(card(number), networks=networks), fleet=fleet))


def engine(*own: str) -> Driver:
    """Return an engine whose peers ask for nothing yet, and whose operator granted nothing."""
    made = Driver(NODE, structs.replace(DEFAULT, initiator_jitter=0.0))
    made.engine.known.networks.configure(map(ip_network, own), {})
    made.ready(NEAR, FAR)
    return made


@pytest.mark.parametrize(
    ("claims", "own", "grants", "refused"),
    [
        ([claim("c", "10.1.0.0/16", "::/0")], (), {"10.1.0.0/16": ["c"], "::/0": ["c"]}, {}),
        ([claim("c", "10.1.0.0/16"), claim("d", "10.1.0.0/16")], (), {"10.1.0.0/16": ["c", "d"]}, {}),
        (
            [claim("c", "10.1.0.0/16"), claim("d", "10.1.2.0/24")],
            (),
            {},
            {
                ("c", "10.1.0.0/16"): "it overlaps 10.1.2.0/24, on the card of d",
                ("d", "10.1.2.0/24"): "it overlaps 10.1.0.0/16, on the card of c",
            },
        ),
        (
            [claim("c", "10.1.0.0/16", by_fleet=True), claim("d", "10.1.2.0/24")],
            (),
            {"10.1.2.0/24": ["d"]},
            {("c", "10.1.0.0/16"): "it overlaps 10.1.2.0/24, for which d may speak"},
        ),
        (
            [claim("c", "10.9.3.0/24")],
            ("10.9.0.0/16",),
            {},
            {("c", "10.9.3.0/24"): "it overlaps 10.9.0.0/16, which is behind this node"},
        ),
        (
            [claim("c", "10.7.1.0/24", "10.7.0.0/16")],
            (),
            {},
            {("c", "10.7.1.0/24"): "it overlaps 10.7.0.0/16, for which operator's may speak"},
        ),
        (
            [claim("c", "10.9.0.0/16"), claim("d", "10.77.0.0/16", "10.77.5.0/24")],
            ("10.9.0.0/16",),
            {},
            {
                ("c", "10.9.0.0/16"): "it overlaps 10.9.0.0/16, which is behind this node",
                **{
                    ("d", one): "it overlaps 10.77.0.0/16, where the nodes have their own addresses (mesh_prefixes)"
                    for one in ("10.77.0.0/16", "10.77.5.0/24")
                },
            },
        ),
        ([claim("c", "0.0.0.0/0")], ("0.0.0.0/0",), {"0.0.0.0/0": ["c"]}, {}),
        ([claim("c", "10.1.0.0/16"), claim("d", "::/0")], ("0.0.0.0/0",), {"10.1.0.0/16": ["c"], "::/0": ["d"]}, {}),
        ([claim("c", "10.1.0.0/16", "10.1.2.0/24")], (), {"10.1.0.0/16": ["c"], "10.1.2.0/24": ["c"]}, {}),
    ],
)
def test_what_overlaps_does_not_count(
    claims: list[Claim],
    own: tuple[str, ...],
    grants: dict[str, list[str]],
    refused: dict[tuple[str, str], str],
) -> None:
    found = granted(OPERATORS, claims, [ip_network(one) for one in own], [ip_network("10.77.0.0/16")])
    by_card = {network: peers for network, peers in found.grants.items() if network not in OPERATORS}
    assert {str(network): [*peers] for network, peers in by_card.items()} == grants
    assert found.grants[IPv4Network("10.7.0.0/16")][0] == "operator's"
    assert {(peer, str(network)): why for (peer, network), why in found.refused.items()} == refused


networks = st.builds(
    lambda number, length: IPv4Network((number >> (32 - length) << (32 - length), length)),
    st.integers(0x0A000000, 0x0A0000FF),
    st.integers(20, 32),
)
claims_of_peers = st.lists(
    st.builds(Claim, st.booleans(), st.sampled_from("cdef"), st.lists(networks, max_size=3).map(tuple)), max_size=6
)


@given(claims_of_peers, st.lists(networks, max_size=2))
def test_no_two_peers_ever_speak_for_networks_that_overlap_unless_they_are_the_same(
    claims: list[Claim], own: list[IPv4Network]
) -> None:
    found = granted({}, claims, own)
    entries = [(network, {*peers}) for network, peers in found.grants.items()]
    for network, peers in entries:
        assert not any(network.overlaps(one) for one in own)
        for other, others in entries:
            if network != other and network.overlaps(other):
                assert peers == others, "one and the same peer"
                assert len(peers) == 1


def test_thousands_of_claims_are_judged_by_what_contains_them_and_not_in_pairs() -> None:
    """Each of 2000 peers asks for a network of its own; two more ask for one that contains all of them."""
    claims = [claim(f"n{number}", f"10.{number >> 8}.{number & 255}.0/24") for number in range(2000)]
    found = granted({}, claims, ())
    assert len(found.grants) == len(claims)
    wide = [claim("wide", "10.0.0.0/8"), claim("wider", "10.0.0.0/8")]
    found = granted({}, [*claims, *wide], ())
    assert not found.grants
    assert len(found.refused) == len(claims) + len(wide)


def test_a_network_on_a_card_counts_as_if_the_operator_had_named_the_peer() -> None:
    made = engine()
    protect(made, NEAR, 1)
    made.tell(AnnouncementSet(announced(NEAR)))
    assert made.engine.known.networks.grants == {}
    actions = made.tell(asking(NEAR, NETWORK))
    rules = [one.rules for one in actions if isinstance(one, ApplyRules)][-1]
    assert rules.behind.closed == (NETWORK,)
    assert not any(isinstance(one, RouteNetworks) for one in actions), "not before the rules close it"
    actions = made.succeed(*actions)
    assert wanted(actions) == {to(NEAR)}, "it was announced before"
    made.succeed(*actions)
    assert made.state(NEAR) == "protected", "its SA stays"
    assert "n5 may speak for it" in said(made)


def test_a_card_without_networks_takes_the_permission_back() -> None:
    made = engine()
    protect(made, NEAR, 1)
    actions = made.tell(AnnouncementSet(announced(NEAR)), asking(NEAR, NETWORK))
    while actions:
        actions = made.succeed(*actions)
    assert made.engine.known.networks.installed == {to(NEAR)}
    for event in (asking(NEAR), asking(NEAR, NETWORK), PeerRemoved("n5")):
        actions = made.tell(event)
        while actions:
            actions = made.succeed(*actions)
    assert made.engine.known.networks.installed == frozenset()
    assert made.engine.known.networks.grants == {}


def test_a_peer_whose_card_gives_a_network_up_may_not_send_from_it_although_another_may_go_on() -> None:
    made = engine()
    actions = made.tell(asking(NEAR, NETWORK), asking(FAR, NETWORK))
    while actions:
        actions = made.succeed(*actions)
    rules = [one.rules for one in made.tell(asking(NEAR)) if isinstance(one, ApplyRules)]
    assert [one.networks for one in rules[-1].behind.speakers] == [(), (NETWORK,)]
    assert rules[-1].behind.closed == (NETWORK,)


def test_a_claim_that_does_not_count_is_reported_with_its_peer() -> None:
    made = engine("10.1.9.0/24")
    made.tell(asking(NEAR, NETWORK, DEFAULT_ROUTE, fleet="rescue"))
    assert f"{NETWORK} on the card of n5 does not count: it overlaps 10.1.9.0/24, which is behind this node" in [
        *problems(made.engine.known)
    ]
    assert set(made.engine.known.networks.grants) == {DEFAULT_ROUTE}
    made.engine.known.networks.configure((), {}, [IPv4Network("10.1.4.0/22")])
    (said_of_mesh,) = problems_of_cards(made)
    assert said_of_mesh.endswith("it overlaps 10.1.4.0/22, where the nodes have their own addresses (mesh_prefixes)")


def problems_of_cards(made: Driver) -> list[str]:
    return [one for one in problems(made.engine.known) if "on the card" in one]
