"""The IPv4 addresses of cards that are believed: of the mesh, leading nowhere else, and claimed by one node."""

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

import pytest

from core.world import card
from meshsec.core.channels.desired import rules_spec
from meshsec.core.channels.ipv4_claims import (
    Elsewhere,
    Surroundings,
    believed,
    contested,
    mesh_networks,
    refusal,
    stays_closed,
)
from meshsec.core.policy.policy import Policy
from meshsec.core.values.model import EspBackend, Peer

MESH = (IPv4Network("10.77.0.0/16"), IPv4Network("10.99.0.0/24"))
AROUND = Surroundings(
    MESH,
    (
        Elsewhere(IPv4Network("10.77.4.0/22"), "eth0"),
        Elsewhere(IPv4Network("10.77.5.0/24"), "eth1"),
        Elsewhere(IPv4Network("10.77.5.1/32"), "eth1"),
        Elsewhere(IPv4Network("10.77.5.9/32"), "tun0"),
    ),
)
OWN = replace(card(0), ipv4=IPv4Address("10.77.0.1"))


def peer(number: int, ipv4: str | None, name: str = "", fleet: str = "") -> Peer:
    claim = IPv4Address(ipv4) if ipv4 else None
    return Peer(name or f"n{number}", replace(card(number), ipv4=claim), fleet=fleet)


def named(*peers: Peer) -> dict[str, Peer]:
    return {one.name: one for one in peers}


@pytest.mark.parametrize("claim", ["10.77.0.0", "10.77.3.255", "10.77.8.0", "10.77.255.255", "10.99.0.255"])
def test_an_address_that_only_the_mesh_covers_is_believed(claim: str) -> None:
    assert refusal(IPv4Address(claim), AROUND) == ""


@pytest.mark.parametrize("claim", ["9.9.9.9", "10.76.255.255", "10.78.0.0", "10.99.1.0", "192.168.1.1"])
def test_an_address_outside_the_mesh_is_not_believed(claim: str) -> None:
    said = refusal(IPv4Address(claim), AROUND)
    assert said.startswith(f"{claim} is outside of the mesh; allowed: 10.77.0.0/16, 10.99.0.0/24")
    assert "mesh_prefixes" in said


@pytest.mark.parametrize(
    ("claim", "where"),
    [
        ("10.77.4.0", "is in 10.77.4.0/22, which this node reaches by eth0"),
        ("10.77.7.255", "is in 10.77.4.0/22, which this node reaches by eth0"),
        ("10.77.5.0", "is in 10.77.5.0/24, which this node reaches by eth1"),
        ("10.77.5.1", "is an address of this node's, on eth1"),
        ("10.77.5.9", "is an address of this node's, on tun0"),
    ],
)
def test_an_address_that_leads_elsewhere_is_not_believed_and_the_nearest_network_is_named(
    claim: str, where: str
) -> None:
    assert refusal(IPv4Address(claim), AROUND).startswith(f"{claim} {where}")


def test_the_mesh_is_the_policys_prefix_or_else_the_network_of_the_nodes_address() -> None:
    prefixes = (IPv6Network("fc00::/7"), *MESH)
    own = IPv4Address("10.77.200.1")
    assert mesh_networks(prefixes, own) == mesh_networks(prefixes, None) == MESH
    assert mesh_networks(prefixes[:1], own) == (IPv4Network("10.77.0.0/16"),)
    unnamed = Surroundings(mesh_networks(prefixes[:1], None))
    claims = ["10.0.0.1", "172.31.0.1", "192.168.0.1", "100.127.0.1", "172.32.0.1", "100.128.0.1", "9.9.9.9"]
    assert [refusal(IPv4Address(claim), unnamed) == "" for claim in claims] == [True] * 4 + [False] * 3


def test_of_two_cards_added_here_neither_is_believed_whatever_their_order() -> None:
    for first, second in (("a", "b"), ("b", "a")):
        found = contested(named(peer(1, "10.77.0.5", first), peer(2, "10.77.0.5", second)), OWN)
        assert found == {"a": "10.77.0.5 is also that of peer 'b'", "b": "10.77.0.5 is also that of peer 'a'"}


def test_a_third_claim_of_one_address_is_not_believed_either() -> None:
    peers = named(*(peer(at, "10.77.0.5") for at in (1, 2, 3)), peer(4, "10.77.0.6"), peer(5, None), peer(6, None))
    assert contested(peers, OWN).keys() == {"n1", "n2", "n3"}


def test_a_claim_of_this_nodes_address_is_not_believed() -> None:
    peers = named(peer(1, "10.77.0.1"), peer(2, "10.77.0.1", fleet="f"))
    assert set(contested(peers, OWN).values()) == {"10.77.0.1 is this node's own"}


def test_a_card_added_here_goes_before_a_member_s_and_the_first_member_before_the_next() -> None:
    member, later, mine = peer(1, "10.77.0.5", fleet="f"), peer(2, "10.77.0.5", fleet="f"), peer(3, "10.77.0.5")
    assert contested(named(member, later), OWN) == {"n2": "10.77.0.5 is also that of peer 'n1'"}
    assert contested(named(member, later, mine), OWN).keys() == {"n1", "n2"}


def test_the_two_keys_of_one_node_share_its_address() -> None:
    assert contested(named(peer(1, "10.77.0.5", "a"), peer(2, "10.77.0.5", "a~")), OWN) == {}


def test_a_claim_that_is_not_believed_is_taken_away_and_all_else_stays() -> None:
    good, bad, none = peer(1, "10.77.0.5"), peer(2, "9.9.9.9"), peer(3, None)
    found = believed(named(good, bad, none), OWN, AROUND)
    assert (found["n1"], found["n3"]) == (good, none)
    assert found["n2"] == replace(
        bad, card=replace(bad.card, ipv4=None), ipv4_doubt=refusal(IPv4Address("9.9.9.9"), AROUND)
    )


def test_a_contested_claim_is_not_believed() -> None:
    found = believed(named(peer(1, "10.77.0.5"), peer(2, "10.77.0.5"), peer(3, "10.77.0.6")), OWN, AROUND)
    assert [one.card.ipv4 for one in found.values()] == [None, None, IPv4Address("10.77.0.6")]


@pytest.mark.parametrize(
    ("address", "stays"),
    [("9.9.9.9", False), ("10.78.0.1", True), ("192.168.1.1", True), ("10.77.0.1", True), ("fc00::1", True)],
)
def test_a_closed_address_stays_closed_unless_it_is_public(address: str, stays: bool) -> None:
    parsed = IPv6Address(address) if ":" in address else IPv4Address(address)
    assert stays_closed(parsed, MESH) == stays
    assert stays_closed(IPv4Address("9.9.9.9"), (IPv4Network("9.9.0.0/16"),))


def test_the_rules_close_no_address_that_is_not_believed() -> None:
    peers = believed(named(peer(1, "10.77.0.5"), peer(2, "9.9.9.9")), OWN, AROUND)
    closed = [address for one in peers.values() for address in (one.card.address, one.card.ipv4) if address]
    rules = rules_spec(OWN, closed, (), EspBackend.LIBIPSEC, Policy())
    assert {address for address in rules.protected if address.version == 4} == {IPv4Address("10.77.0.5")}
