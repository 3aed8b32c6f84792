"""Clients of access nodes: who serves each, whose an address is, and how many there may be."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshsec.core.access import frames, messages
from meshsec.core.access.clients import FORGET, LATE, NUMBER_MAX, PER_CLIENT, Change, Client, Clients, Refused, Sighting
from meshsec.core.access.messages import Flow, MessageError
from meshsec.core.access.shared_address import addresses_of, mac_of
from meshsec.core.values.model import Address

A, B, C = (IPv6Address(f"fc00::{number}") for number in "abc")
NETWORKS = (ip_network("10.130.0.0/16"), ip_network("fd00:1::/64"))
OURS = tuple(one.ip for one in addresses_of(NETWORKS))
MAC, OTHER = "06:00:00:00:00:01", "06:00:00:00:00:02"
FIRST, SECOND = IPv4Address("10.130.0.5"), IPv6Address("fd00:1::5")


def node(own: IPv6Address, most: int = 4) -> Clients:
    made = Clients(own, NETWORKS, OURS, most)
    made.nodes = frozenset({A, B, C} - {own})
    return made


def sighted(clients: Clients, address: Address | None = FIRST, now: float = 0.0, mac: str = MAC) -> Client:
    found = clients.sighted(Sighting(mac, address), now)
    assert isinstance(found, Change)
    return found.client


def arrives(clients: Clients, now: float, mac: str = MAC) -> Client:
    found = clients.sighted(Sighting(mac, arrives=True), now)
    assert isinstance(found, Change)
    return found.client


def refusal(clients: Clients, address: Address, mac: str = MAC) -> str:
    found = clients.sighted(Sighting(mac, address), 0.0)
    assert isinstance(found, Refused)
    return found.reason


def test_a_client_that_comes_is_served_with_the_addresses_that_another_node_told() -> None:
    a, b = node(A), node(B)
    assert b.heard(sighted(a), A, 0.0)
    assert (b.served, b.elsewhere) == ([], {FIRST: A})
    moved = arrives(b, 5.0)
    assert (moved.node, moved.addresses, b.served, b.elsewhere) == (B, (FIRST,), [moved], {})
    assert [change.client for change in a.heard(moved, B, 5.0)] == [moved]
    assert (a.served, a.elsewhere) == ([], {FIRST: B})


def test_a_claim_that_is_older_or_the_same_changes_nothing() -> None:
    a, b = node(A), node(B)
    old = sighted(a)
    b.heard(old, A, 0.0)
    moved = arrives(b, 5.0)
    a.heard(moved, B, 5.0)
    assert a.heard(moved, B, 6.0) == b.heard(old, A, 6.0) == []
    assert b.served == [moved]


def test_of_two_claims_with_the_same_number_all_nodes_take_the_same() -> None:
    a, b = node(A), node(B)
    here, there = sighted(a), sighted(b)
    assert here.number == there.number
    assert [change.client for change in a.heard(there, B, 0.0)] == [there]
    assert b.heard(here, A, 0.0) == []


@pytest.mark.parametrize(("later", "is_taken"), [(LATE / 2, False), (LATE * 2, True)])
def test_a_frame_that_was_on_its_way_does_not_take_a_client_back(later: float, is_taken: bool) -> None:
    a, b = node(A), node(B)
    b.heard(sighted(a), A, 0.0)
    a.heard(arrives(b, 5.0), B, 5.0)
    assert (a.sighted(Sighting(MAC, FIRST), 5.0 + later) is not None) == is_taken


def test_a_client_that_comes_back_at_once_is_served_at_once() -> None:
    a, b = node(A), node(B)
    b.heard(sighted(a), A, 0.0)
    a.heard(arrives(b, 5.0), B, 5.0)
    assert arrives(a, 5.0 + LATE / 2).node == A


def test_nothing_changes_while_a_client_stays() -> None:
    a = node(A)
    sighted(a)
    assert a.sighted(Sighting(MAC, FIRST), 1.0) is a.sighted(Sighting(MAC), 2.0) is None
    assert a.sighted(Sighting(OTHER, arrives=True), 3.0) is None, "nothing is known of it yet"


def test_an_address_belongs_to_who_had_it_first() -> None:
    a, b = node(A), node(B)
    b.heard(sighted(a), A, 0.0)
    assert refusal(a, FIRST, OTHER) == refusal(b, FIRST, OTHER) == f"{FIRST} belongs to {MAC}"


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("10.130.0.1", "is the address of the nodes"),
        ("fd00:1::1", "is the address of the nodes"),
        ("10.131.0.5", "is in no network of clients"),
        ("10.130.0.0", "is in no network of clients"),
        ("10.130.255.255", "is in no network of clients"),
        ("fd00:2::5", "is in no network of clients"),
    ],
)
def test_an_address_that_no_client_may_have_is_refused(address: str, why: str) -> None:
    assert refusal(node(A), ip_address(address)) == f"{address} {why}"


def test_an_address_that_no_client_may_have_is_not_taken_from_another_node() -> None:
    b = node(B)
    b.heard(Client(MAC, A, 1, (OURS[0], FIRST, IPv4Address("192.0.2.1"))), A, 0.0)
    assert b.elsewhere == {FIRST: A}


def test_a_client_has_few_addresses_and_the_oldest_goes() -> None:
    a = node(A)
    many = [SECOND + number for number in range(PER_CLIENT[6] + 1)]
    addresses: list[Address] = [FIRST, *many, FIRST + 1]
    assert [sighted(a, address) for address in addresses][-1].addresses == (*many[1:], FIRST + 1)
    assert sighted(a, FIRST, mac=OTHER).addresses == (FIRST,), "what it gave up is free"


def test_a_node_has_few_clients_and_those_who_are_there_stay() -> None:
    a, b = node(A, most=2), node(B, most=2)
    macs = [f"06:00:00:00:00:0{number}" for number in range(3)]
    for number, mac in enumerate(macs[:2]):
        b.heard(sighted(a, FIRST + number, mac=mac), A, 0.0)
    assert refusal(a, FIRST + 2, macs[2]) == "this node has 2 clients already"
    assert b.heard(Client(macs[2], A, 9, (FIRST + 2,)), A, 0.0) == [], "no more are believed of another node"
    assert {one.mac for one in (*a, *b)} == set(macs[:2])
    sighted(b, FIRST + 2, mac=macs[2])
    assert isinstance(b.sighted(Sighting(macs[0], arrives=True), 9.0), Change), "a place is free"
    assert isinstance(b.sighted(Sighting(macs[1], arrives=True), 9.0), Refused)


def test_an_address_that_two_have_goes_to_the_lower_mac_address_everywhere() -> None:
    """Two parts of a mesh that meet may have given one address twice."""
    a, b = node(A), node(B)
    low, high = sighted(a, mac=MAC), sighted(b, mac=OTHER)
    (at_a,) = a.heard(high, B, 0.0)
    assert at_a.client.addresses == ()
    released, taken = b.heard(low, A, 0.0)
    assert (released.client, taken.client) == (Client(OTHER, B, high.number + 1), low)
    third = node(C)
    third.heard(high, B, 0.0)
    assert [change.client for change in third.heard(low, A, 0.0)] == [low], "only its own node says so"
    a.heard(released.client, B, 0.0)
    assert a.elsewhere == {}
    assert b.elsewhere == {FIRST: A}


def test_a_node_that_has_forgotten_goes_on_from_where_the_others_are() -> None:
    b, again = node(B), node(A)
    known = Client(MAC, A, 7, (FIRST, SECOND))
    b.heard(known, A, 0.0)
    assert again.heard(known, B, 0.0)
    assert (again.served, again.elsewhere) == ([], {})
    assert arrives(again, 1.0) == Client(MAC, A, 8, (FIRST, SECOND))


def test_a_node_that_counts_anew_while_it_serves_goes_on_from_where_the_others_are() -> None:
    again = node(A)
    sighted(again)
    (change,) = again.heard(Client(MAC, A, 7, (FIRST,)), B, 0.0)
    assert (change.client.number, again.served) == (8, [change.client])


def test_clients_that_have_left_are_forgotten_by_all() -> None:
    a, b = node(A), node(B)
    b.heard(sighted(a), A, 0.0)
    assert a.forget(FORGET / 2) == b.forget(FORGET / 2) == []
    (gone,) = a.forget(FORGET)
    assert (gone.client.addresses, a.served) == ((), [])
    b.heard(gone.client, A, FORGET)
    assert b.elsewhere == {}
    sighted(b, FIRST, FORGET, OTHER)
    assert a.forget(2 * FORGET) == []
    assert [*a] == []


def test_the_address_of_a_forgotten_client_is_free() -> None:
    a, b = node(A), node(B)
    b.heard(sighted(a), A, 0.0)
    assert b.forget(FORGET) == []
    assert sighted(b, FIRST, FORGET, OTHER).addresses == (FIRST,)


def test_nobody_but_an_access_node_serves_a_client() -> None:
    b, stranger = node(B), IPv6Address("fc00::9")
    assert b.heard(Client(MAC, stranger, 1, (FIRST,)), A, 0.0) == []
    assert [*b] == []


def test_a_client_that_is_seen_or_told_of_is_not_forgotten() -> None:
    a, b = node(A), node(B)
    b.heard(here := sighted(a), A, 0.0)
    a.sighted(Sighting(MAC), FORGET / 2)
    b.heard(here, A, FORGET / 2)
    assert a.forget(FORGET) == b.forget(FORGET) == []
    b.heard(here, C, FORGET)
    assert b.forget(3 * FORGET / 2) == [], "what others say of it is no sign of life"
    assert [*b] == []


# --- frames ---


def arp(operation: int, sender: str, mac: str = MAC) -> bytes:
    head = bytes.fromhex("00010800060400") + bytes((operation,))
    return head + bytes.fromhex(mac.replace(":", "")) + IPv4Address(sender).packed + bytes(10)


def discovery(kind: int, source: str, target: str = "::", limit: int = 255) -> bytes:
    head = bytes.fromhex("60000000001c3a") + bytes((limit,)) + IPv6Address(source).packed + IPv6Address(C).packed
    return head + bytes((kind, 0, 0, 0, 0, 0, 0, 0)) + IPv6Address(target).packed


@pytest.mark.parametrize(
    ("protocol", "octets", "expected"),
    [
        (frames.LLC, b"\x00", Sighting(MAC, arrives=True)),
        (frames.ARP, arp(1, "10.130.0.5"), Sighting(MAC, FIRST)),
        (frames.ARP, arp(2, "10.130.0.5"), Sighting(MAC, FIRST)),
        (frames.ARP, arp(1, "0.0.0.0"), Sighting(MAC)),  # noqa: S104
        (frames.ARP, arp(1, "10.130.0.5", OTHER), None),
        (frames.ARP, arp(3, "10.130.0.5"), None),
        (frames.ARP, arp(1, "10.130.0.5")[:27], None),
        (frames.IPV6, discovery(135, "::", str(SECOND)), Sighting(MAC, SECOND)),
        (frames.IPV6, discovery(135, str(SECOND), "fe80::1"), Sighting(MAC, SECOND)),
        (frames.IPV6, discovery(136, "fe80::1", str(SECOND)), Sighting(MAC, SECOND)),
        (frames.IPV6, discovery(133, "fe80::1"), Sighting(MAC)),
        (frames.IPV6, discovery(133, "::"), Sighting(MAC)),
        (frames.IPV6, discovery(135, "::", "ff02::1"), Sighting(MAC)),
        (frames.IPV6, discovery(135, "::", str(SECOND), limit=254), None),
        (frames.IPV6, discovery(135, "::", str(SECOND))[:47], None),
        (0x0800, bytes(100), None),
    ],
)
def test_a_frame_says_who_is_there_with_which_address(protocol: int, octets: bytes, expected: Sighting | None) -> None:
    assert frames.sighting(MAC, protocol, octets) == expected


def given_lease(kind: int = 5, address: str = "10.130.0.5", options: bytes = b"", ihl: int = 5) -> bytes:
    bootp = bytes.fromhex("020106") + bytes(13) + IPv4Address(address).packed + bytes(8)
    bootp += bytes.fromhex(MAC.replace(":", "")) + bytes(202) + bytes.fromhex("63825363")
    return bytes((0x40 | ihl,)) + bytes(4 * ihl - 1 + 8) + bootp + options + bytes((53, 1, kind, 255))


@pytest.mark.parametrize(
    ("octets", "expected"),
    [
        (given_lease(), Sighting(MAC, FIRST)),
        (given_lease(options=b"\x00\x33\x04\x00\x00\x0e\x10"), Sighting(MAC, FIRST)),
        (given_lease(ihl=6), Sighting(MAC, FIRST)),
        (given_lease(kind=2), None),
        (given_lease(address="0.0.0.0"), None),  # noqa: S104
        (given_lease(options=b"\xff"), None),
        (given_lease(options=b"\x33\xff"), None),
        (given_lease().replace(b"\x63\x82", b"\x63\x83"), None),
        (b"", None),
    ],
)
def test_an_address_that_this_node_gives_is_known_before_it_is_used(octets: bytes, expected: Sighting | None) -> None:
    assert frames.lease(octets) == expected


@given(st.sampled_from([frames.ARP, frames.IPV6, frames.LLC, 0x0800]), st.binary(max_size=200))
def test_any_octets_are_a_frame_or_none(protocol: int, octets: bytes) -> None:
    frames.sighting(MAC, protocol, octets)
    frames.lease(octets)


# --- messages ---

LONG = IPv6Address("fd12:3456:789a:bcde:1234:5678:9abc:def0")
FLOWS = [Flow(LONG, LONG + number, 6, 65535, 65535, LONG) for number in range(messages.FLOWS_MAX + 1)]


def test_a_message_arrives_as_it_was_sent_and_fits_into_any_link() -> None:
    client = Client(MAC, LONG, NUMBER_MAX, (FIRST, *(LONG + number for number in range(PER_CLIENT[6]))))
    claim = messages.claim(client, asks=True)
    portions = [*messages.portions(MAC, 3, FLOWS)]
    sent: list[messages.Message] = [messages.Hello(), claim, messages.Answer(MAC, 3), *portions]
    for message in sent:
        octets = messages.encode(message)
        assert len(octets) <= messages.SIZE_MAX
        assert messages.decode(octets) == message
    assert claim.client() == client
    assert [flow for one in portions for flow in one.flows()] == FLOWS[: messages.FLOWS_MAX]


@pytest.mark.parametrize(
    "message",
    [
        messages.Claim("06:00", str(A), 1, []),
        messages.Claim(f"{MAC}\n", str(A), 1, []),
        messages.Claim(MAC, str(A), NUMBER_MAX + 1, []),
        messages.Claim(MAC, str(A), 1, [str(FIRST)] * 8),
        messages.Flows(MAC, 1, [(str(FIRST),) * 2 + (6, 1, 65536, str(A))]),
        messages.Flows(MAC, 1, [(str(FIRST),) * 2 + (6, 1, 1, str(A))] * 9),
    ],
)
def test_a_message_with_more_than_there_may_be_is_none(message: messages.Message) -> None:
    with pytest.raises(MessageError):
        messages.decode(messages.encode(message))


def test_another_version_understands_a_claim() -> None:
    """What is new is left out where it says nothing, and a field of a later version is ignored, whatever is in it."""
    client = Client(MAC, A, 3, (FIRST,))
    sent = msgspec.msgpack.decode(messages.encode(messages.claim(client, asks=False)))
    assert sent == {"type": "claim", "mac": MAC, "node": str(A), "number": 3, "addresses": [str(FIRST)]}
    found = messages.decode(msgspec.msgpack.encode({**sent, "later": [1, {"x": 2}]}))
    assert isinstance(found, messages.Claim)
    assert found.client() == client
    deep = msgspec.msgpack.encode({"type": "claim", "later": 0})[:-1] + b"\x91" * 1100 + b"\xc0"
    with pytest.raises(MessageError):
        messages.decode(deep)


@pytest.mark.parametrize("text", ["10.130.0", "", "fc00::g"])
def test_a_text_that_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(MessageError):
        messages.Claim(MAC, str(A), 1, [text]).client()
    with pytest.raises(MessageError):
        messages.Flows(MAC, 1, [(text, str(FIRST), 6, 1, 1, str(A))]).flows()


@given(st.binary(max_size=1300))
def test_any_octets_are_a_message_or_are_refused(octets: bytes) -> None:
    try:
        messages.decode(octets)
    except MessageError:
        return


def test_all_nodes_show_clients_the_same_gateway() -> None:
    assert mac_of(NETWORKS) == mac_of(reversed(NETWORKS)) != mac_of(NETWORKS[:1])
    assert int(mac_of(NETWORKS)[:2], 16) & 0b11 == 0b10, "unicast, locally administered"
    assert [str(one) for one in addresses_of(NETWORKS)] == ["10.130.0.1/16", "fd00:1::1/64"]
