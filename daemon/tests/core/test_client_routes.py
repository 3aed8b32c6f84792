"""Routes to single clients: of an access node by what the others claim, of any other node by what is announced."""

from ipaddress import IPv4Network, IPv6Network, ip_network

import pytest
from msgspec import structs

from core.test_networks import FAR, NEAR, NODE, announced, protect, to, wanted
from core.world import Driver, card
from meshsec.core.channels.events import (
    AnnouncementRemoved,
    AnnouncementSet,
    AnnouncementsReset,
    ClientsSet,
    PeerRemoved,
)
from meshsec.core.explain.network_sentences import containing, explain_network
from meshsec.core.networks.announcements import MAX_CLIENTS, Announcements, Standing
from meshsec.core.networks.claims import Claim, Grants
from meshsec.core.networks.networks import Networks
from meshsec.core.policy.policy import DEFAULT
from meshsec.core.values.model import Network
from meshsec.core.values.networks import Announcement

CLIENTS = IPv4Network("10.130.0.0/16")
CLIENT, OTHER = IPv4Network("10.130.0.5/32"), IPv4Network("10.130.0.6/32")
BOTH: Grants = {CLIENTS: ("n5", "n6")}


def driver(grants: Grants | None = None, shared: Grants | None = None) -> Driver:
    made = Driver(NODE, structs.replace(DEFAULT, initiator_jitter=0.0))
    made.engine.known.networks.configure((), grants or {}, shared=shared)
    made.ready(NEAR, FAR)
    protect(made, NEAR, 1)
    protect(made, FAR, 4)
    return made


def said(made: Driver, asked: Network) -> str:
    known = made.engine.known
    protected = containing(known, asked)
    assert protected is not None
    return " ".join(explain_network(known, protected, asked)["sentences"])


def test_a_client_is_reached_through_the_nearest_node_that_announces_it() -> None:
    made = driver(BOTH)
    actions = made.tell(AnnouncementSet(announced(FAR, CLIENT)))
    assert wanted(actions) == {to(FAR, CLIENT)}
    made.succeed(*actions)
    assert f"The client {CLIENT.network_address} is at another node: n6 serves it." in said(made, CLIENT)
    actions = made.tell(AnnouncementSet(announced(NEAR, CLIENT)))
    assert wanted(actions) == {to(NEAR, CLIENT)}
    made.succeed(*actions)
    assert wanted(made.tell(AnnouncementRemoved(CLIENT, card(FAR).locator))) is None
    assert wanted(made.tell(AnnouncementRemoved(CLIENT, card(NEAR).locator))) == set()


def test_a_node_that_may_not_speak_for_the_network_has_no_clients_in_it() -> None:
    made = driver({CLIENTS: ("n5",), ip_network("::/0"): ("n6",), ip_network("0.0.0.0/0"): ("n6",)})
    assert wanted(made.tell(AnnouncementSet(announced(FAR, CLIENT)))) is None
    outside = IPv4Network("203.0.113.9/32")
    assert wanted(made.tell(AnnouncementSet(announced(FAR, outside)))) is None, (
        "a gateway leads out, and has no clients"
    )
    part = IPv4Network("10.130.1.0/24")
    assert wanted(made.tell(AnnouncementSet(announced(NEAR, part)))) is None, "single addresses alone are clients"


def test_a_nearer_node_that_may_not_speak_for_the_network_takes_no_client() -> None:
    made = driver({CLIENTS: ("n6",)})
    made.succeed(*made.tell(AnnouncementSet(announced(FAR, CLIENT))))
    assert wanted(made.tell(AnnouncementSet(announced(NEAR, CLIENT)))) is None


@pytest.mark.parametrize("stays", [True, False])
def test_clients_that_stay_where_they_were_go_when_that_peer_may_not_have_them_any_more(stays: bool) -> None:
    made = driver()
    networks = made.engine.known.networks
    for name in ("n5", "n6"):
        networks.claim(name, Claim(by_fleet=False, peer=name, networks=(CLIENTS,)))
    made.succeed(*made.tell(AnnouncementSet(announced(NEAR, CLIENT))))
    if not stays:
        networks.claim("n5", None)
    found = wanted(made.tell(AnnouncementsReset(())))
    assert found == (None if stays else set())


def test_clients_go_with_the_peer_that_serves_them() -> None:
    made = driver(BOTH)
    made.succeed(*made.tell(AnnouncementSet(announced(NEAR, CLIENT))))
    made.tell(AnnouncementsReset(()))
    actions = made.tell(PeerRemoved("n5"))
    while wanted(actions) is None and actions:
        actions = made.succeed(*actions)  # the rules come first
    assert wanted(actions) == set()


def test_clients_stay_where_they_were_until_a_new_router_says_otherwise() -> None:
    made = driver(BOTH)
    made.succeed(*made.tell(AnnouncementSet(announced(NEAR, CLIENT))))
    assert wanted(made.tell(AnnouncementsReset(()))) is None
    actions = made.tell(AnnouncementSet(announced(FAR, CLIENT)))
    assert wanted(actions) == {to(FAR, CLIENT)}


def test_an_access_node_goes_by_what_the_others_claim() -> None:
    made = driver(shared=BOTH)
    assert wanted(made.tell(AnnouncementSet(announced(FAR, CLIENT)))) is None
    far, own = card(FAR).address, made.engine.known.node.address
    actions = made.tell(ClientsSet({CLIENT: far, OTHER: own}))
    assert wanted(actions) is not None
    assert {one for one in wanted(actions) or () if not one.forwarded} == {to(FAR, CLIENT)}
    made.succeed(*actions)
    assert "n6 serves it" in said(made, CLIENT)
    assert f"The client {OTHER.network_address} is at this node." in said(made, OTHER)
    assert "The client" not in said(made, IPv4Network("10.130.0.7/32"))
    stranger = made.tell(ClientsSet({CLIENT: card(9).address}))
    assert {one for one in wanted(stranger) or () if not one.forwarded} == set()
    made.succeed(*stranger)
    made.tell(PeerRemoved("n6"))
    assert {one for one in wanted(made.tell(ClientsSet({CLIENT: far}))) or () if not one.forwarded} == set()


def test_an_access_node_believes_no_claim_for_a_peer_that_may_not_serve_clients() -> None:
    made = driver(shared={CLIENTS: ("n6",)})
    found = wanted(made.tell(ClientsSet({CLIENT: card(NEAR).address})))
    assert {one for one in found or () if not one.forwarded} == set()


def test_the_rules_know_who_serves_clients_and_may_forward_to_them() -> None:
    networks = Networks()
    networks.configure((), {}, shared=BOTH)
    behind = networks.behind({"n5": [card(NEAR)], "n7": [card(7)]})
    assert (behind.own, behind.shared, behind.closed) == ((CLIENTS,), (CLIENTS,), ())
    assert {(one.tunnels[0], one.networks, one.serves) for one in behind.speakers} == {
        (card(NEAR).address, (CLIENTS,), (CLIENTS,)),
        (card(7).address, (), ()),
    }


def test_a_card_of_another_access_node_asks_for_nothing_new() -> None:
    networks = Networks()
    networks.configure((), {}, shared=BOTH)
    networks.claim("n5", Claim(by_fleet=False, peer="n5", networks=(CLIENTS, IPv4Network("10.1.0.0/16"))))
    assert (dict(networks.refused), [*networks.grants]) == ({}, [IPv4Network("10.1.0.0/16")])


@pytest.mark.parametrize(
    ("host", "expected"),
    [("10.130.0.5/32", CLIENTS), ("10.131.0.5/32", None), ("fd00::5/128", None), ("10.130.7.5/32", "10.130.7.0/24")],
)
def test_the_narrowest_network_around_a_client_counts(host: str, expected: Network | str | None) -> None:
    networks = Networks()
    networks.configure((), {CLIENTS: ("n5",), IPv4Network("10.130.7.0/24"): ("n6",), IPv6Network("::/0"): ("n6",)})
    assert networks.around(ip_network(host)) == (ip_network(expected) if isinstance(expected, str) else expected)


def test_a_network_in_traffic_selectors_has_no_clients() -> None:
    networks = Networks()
    networks.configure((), {CLIENTS: ("n5",)}, selected=(CLIENTS,))
    assert networks.around(CLIENT) is None


def test_announced_clients_are_bounded_and_those_that_are_known_stay() -> None:
    kept = Announcements()
    first = Announcement(CLIENT, card(NEAR).locator, 1, 1)
    kept.put(first, Standing.CLIENT)
    for number in range(MAX_CLIENTS):
        host = IPv4Network((int(CLIENT.network_address) + 1 + number, 32))
        kept.put(first._replace(network=host), Standing.CLIENT)
    assert len(kept.clients) == MAX_CLIENTS
    again = first._replace(originator=card(FAR).locator)
    kept.put(again, Standing.CLIENT)
    assert {one for one in kept if one.network == CLIENT} == {first, again}
    kept.remove(CLIENT, first.originator)
    kept.remove(CLIENT, again.originator)
    assert CLIENT not in kept.clients
