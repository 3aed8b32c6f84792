"""How clients call themselves: what counts of what they say, whose a name is, and what of a peer's word is believed."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.world import Driver, card, peer
from meshsec.core.access import frames, messages
from meshsec.core.access.clients import FORGET, RENAMED, Change, Client, Clients, Sighting
from meshsec.core.access.holders import Holders
from meshsec.core.access.messages import MessageError
from meshsec.core.channels.client_names import admitted, elsewhere, of_nodes
from meshsec.core.channels.events import ClientsSet
from meshsec.core.formats import hosts
from meshsec.core.names.names import CLIENT_LINES_MAX, Named, Told, named, of_clients
from meshsec.core.services import services
from meshsec.core.services.client_names import ADDRESSES_MAX, CLIENTS_MAX, PARTS_MAX, Heard, Names, portions
from meshsec.core.values.host_names import ClientName, label
from meshsec.core.values.model import Address

MAC, OTHER = "06:00:00:00:00:01", "06:00:00:00:00:02"
FOUR, SIX = IPv4Address("10.130.0.5"), IPv6Address("fd00:1::5")
A, B = IPv6Address("fc00::a"), IPv6Address("fc00::b")
NETWORKS = (ip_network("10.130.0.0/16"), ip_network("fd00:1::/64"))

# --- what clients say ---


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (b"printer", "printer"),
        (b"Pixel-7", "pixel-7"),
        (b"ESP_1A2B", "esp-1a2b"),
        (b"Mamas phone", "mamas-phone"),
        (b"desktop.example.com", "desktop"),
        (b"cam\0", "cam"),
        (b"a" * 63, "a" * 63),
        (b"a" * 64, ""),
        (b"", ""),
        (b".mesh", ""),
        (b"-a", ""),
        (b"a-", ""),
        (b"a\n10.0.0.1 b.mesh", ""),
        (b"a\tb", ""),
        (b"a#b", ""),
        ("bücher".encode(), ""),
        (b"\xff\xfe", ""),
        (b"\x1b[31m", ""),
    ],
)
def test_a_label_is_what_a_domain_name_can_have(said: bytes, expected: str) -> None:
    assert label(said) == expected


@given(st.binary(max_size=80))
def test_any_octets_are_a_label_or_none(said: bytes) -> None:
    found = label(said)
    assert found == "" or hosts.parse(f"fc00::1 {found}.hut.mesh\n")


def request(*options: tuple[int, bytes], mac: str = MAC, head: str = "010106", ihl: int = 5) -> bytes:
    bootp = bytes.fromhex(head) + bytes(25) + bytes.fromhex(mac.replace(":", "")) + bytes(202)
    said = b"".join(bytes((code, len(value))) + value for code, value in options)
    return bytes((0x40 | ihl,)) + bytes(4 * ihl - 1 + 8) + bootp + bytes.fromhex("63825363") + said + b"\xff"


def request6(*options: tuple[int, bytes]) -> bytes:
    said = b"".join(code.to_bytes(2) + len(value).to_bytes(2) + value for code, value in options)
    return b"\x60" + bytes(5) + b"\x11" + bytes(33) + bytes(8) + b"\x0b\0\0\1" + said


@pytest.mark.parametrize(
    ("octets", "expected"),
    [
        (request((53, b"\x01"), (12, b"Printer")), "printer"),
        (request((12, b"Printer"), ihl=6), "printer"),
        (request((81, b"\0\0\0phone.example")), "phone"),
        (request((81, b"\x04\0\0\x05phone\x07example\0")), "phone"),
        (request((81, b"\x05\0\0\x06phone")), ""),
        (request((81, b"\0")), ""),
        (request((81, b"")), ""),
        (request((12, b"\xff"), (81, b"\0\0\0phone")), "phone"),
        (request((12, b"printer"), (81, b"\0\0\0phone")), "printer"),
        (request((12, b"printer"), mac=OTHER), ""),
        (request((12, b"printer"), head="020106"), ""),
        (request((12, b"printer")).replace(b"\x63\x82", b"\x63\x83"), ""),
        (request((12, b"printer"))[:250], ""),
        (request(), ""),
        (b"", ""),
    ],
)
def test_a_client_says_by_dhcp_what_it_is_called(octets: bytes, expected: str) -> None:
    assert frames.called(MAC, 0x0800, octets) == expected


@pytest.mark.parametrize(
    ("octets", "expected"),
    [
        (request6((39, b"\0\x05Phone")), "phone"),
        (request6((1, b"\0\3\0\1abcdef"), (39, b"\1\x05phone\x07example\0")), "phone"),
        (request6((39, b"\0\x06phone")), ""),
        (request6((39, b"\0")), ""),
        (request6((39, b"")), ""),
        (request6((1, b"x")), ""),
        (request6((39, b"\0\x05phone"))[:50], ""),
        (request6((39, b"\0\x05phone")).replace(b"\x11", b"\x06", 1), ""),
    ],
)
def test_a_client_says_by_dhcpv6_what_it_is_called(octets: bytes, expected: str) -> None:
    assert frames.called(MAC, 0x86DD, octets) == expected


@given(st.sampled_from([0x0800, 0x86DD]), st.binary(max_size=400))
def test_any_octets_say_a_name_or_none(protocol: int, octets: bytes) -> None:
    frames.called(MAC, protocol, octets)


# --- whose a name is ---


def node(own: IPv6Address) -> Clients:
    made = Clients(own, NETWORKS, (), 4)
    made.nodes = frozenset({A, B} - {own})
    return made


def sighted(clients: Clients, now: float, name: str, address: Address | None = FOUR, mac: str = MAC) -> Client | None:
    found = clients.sighted(Sighting(mac, address, name=name), now)
    return found.client if isinstance(found, Change) else None


def test_a_name_is_taken_at_once_and_another_one_only_after_a_while() -> None:
    clients = node(A)
    assert sighted(clients, 0, "") == Client(MAC, A, 1, (FOUR,))
    assert sighted(clients, 1, "cam") == Client(MAC, A, 2, (FOUR,), "cam")
    assert sighted(clients, 2, "cam") is None
    assert sighted(clients, RENAMED, "lamp") is None, "it was named a while ago, but not long enough"
    assert sighted(clients, RENAMED, "lamp", SIX) == Client(MAC, A, 3, (FOUR, SIX), "cam")
    assert sighted(clients, RENAMED + 1, "") is None, "who says nothing keeps the name"
    assert sighted(clients, RENAMED + 1, "lamp") == Client(MAC, A, 4, (FOUR, SIX), "lamp")


def test_a_name_moves_with_the_client_and_comes_back_to_a_node_that_has_forgotten() -> None:
    a, b = node(A), node(B)
    b.heard(sighted(a, 0, "cam"), A, 0.0)  # type: ignore[arg-type]
    moved = b.sighted(Sighting(MAC, arrives=True), 5.0)
    assert isinstance(moved, Change)
    assert (moved.client.node, moved.client.name) == (B, "cam")
    again = node(B)
    sighted(again, 0, "")
    (change,) = again.heard(moved.client, A, 0.0)
    assert change.client.name == "cam"
    assert again.forget(FORGET)[0].client.addresses == ()
    assert again.served == []


def test_the_claim_of_a_client_has_its_name_and_no_other_text() -> None:
    client = Client(MAC, A, 7, (FOUR, SIX), "a" * 63)
    octets = messages.encode(messages.claim(client, asks=True))
    found = messages.decode(octets)
    assert isinstance(found, messages.Claim)
    assert found.client() == client
    for name in ("a" * 64, "A", "a.b", "a\n", "-"):
        with pytest.raises(MessageError):
            messages.decode(msgspec.msgpack.encode({**msgspec.to_builtins(found), "type": "claim", "name": name}))


def test_a_name_belongs_to_who_had_it_first_while_he_is_served_and_uses_it() -> None:
    holders, first, second = Holders(), Client(MAC, A, 1, (FOUR,), "cam"), Client(OTHER, A, 1, (SIX,), "cam")
    assert holders.settle([first]) == (ClientName("cam", (FOUR,)),)
    assert holders.settle([second, first]) == (ClientName("cam", (FOUR,)),)
    assert holders.settle([second, Client(MAC, A, 2, (FOUR,), "lamp")]) == (
        ClientName("cam", (SIX,)),
        ClientName("lamp", (FOUR,)),
    )
    assert holders.settle([first, second]) == (ClientName("cam", (SIX,)),)
    assert holders.settle([first]) == (ClientName("cam", (FOUR,)),)
    assert holders.settle([Client(MAC, A, 1, (FOUR,))]) == ()


# --- what peers say ---

LONG = [
    ClientName(f"{n:02}{'x' * 61}", (IPv4Address(n), *(IPv6Address(2**120 + n * 8 + k) for k in range(6))))
    for n in range(CLIENTS_MAX)
]


def heard(*messages: Names) -> tuple[Heard, list[bool]]:
    kept = Heard()
    return kept, [kept.take(one) for one in messages]


@pytest.mark.parametrize("names", [[], LONG[:1], LONG])
def test_all_names_arrive_in_datagrams_that_fit_into_any_link(names: list[ClientName]) -> None:
    sent = portions(names, 1, 2)
    assert all(len(services.encode(one)) <= services.SIZE_MAX for one in sent)
    assert len(sent) <= PARTS_MAX
    assert {len(one.addresses) for one in LONG} == {ADDRESSES_MAX}
    kept, taken = heard(*(services.decode(services.encode(one)) for one in sent))  # type: ignore[arg-type]
    assert taken == [False] * (len(sent) - 1) + [True]
    assert kept.names == tuple(names)


def test_parts_count_together_and_an_older_number_does_not() -> None:
    sent = portions(LONG, 1, 5)
    kept, taken = heard(*reversed(sent), *sent[:2])
    assert taken == [False] * (len(sent) - 1) + [True, True, True]
    assert kept.names == tuple(LONG)
    assert [kept.take(one) for one in portions(LONG[:1], 1, 4)] == [False]
    assert kept.names == tuple(LONG)
    assert [kept.take(one) for one in portions(LONG[:1], 2, 0)] == [True], "it has started again"
    assert kept.names == tuple(LONG[:1])
    mixed = [portions(LONG, 3, 1)[0], *portions(LONG, 3, 2)[1:]]
    assert not any(kept.take(one) for one in mixed)


def test_of_one_name_the_first_counts_and_a_row_without_a_whole_address_counts_not() -> None:
    rows = [("cam", [FOUR.packed]), ("cam", [SIX.packed]), ("x", [b"12345"]), ("y", [b"12345", SIX.packed])]
    kept, _ = heard(Names(1, 1, 0, 1, rows))
    assert kept.names == (ClientName("cam", (FOUR,)), ClientName("y", (SIX,)))


def names_message(**changed: object) -> bytes:
    fields = {"type": "names", "epoch": 1, "number": 1, "part": 0, "parts": 1, "rows": [["cam", [FOUR.packed]]]}
    return msgspec.msgpack.encode({**fields, **changed})


@pytest.mark.parametrize(
    "changed",
    [
        {"rows": [["a.b", [FOUR.packed]]]},
        {"rows": [["a\n", [FOUR.packed]]]},
        {"rows": [["A", [FOUR.packed]]]},
        {"rows": [["", [FOUR.packed]]]},
        {"rows": [["a" * 64, [FOUR.packed]]]},
        {"rows": [["cam", []]]},
        {"rows": [["cam", [b"123"]]]},
        {"rows": [["cam", [b"1" * 17]]]},
        {"rows": [["cam", [FOUR.packed] * (ADDRESSES_MAX + 1)]]},
        {"rows": [["cam", [FOUR.packed], "hut"]]},
        {"rows": [["c", [b"1234"]]] * (CLIENTS_MAX + 1)},
        {"parts": 0},
        {"parts": PARTS_MAX + 1},
        {"part": PARTS_MAX},
        {"part": -1},
        {"number": 2**32},
        {"node": "hut"},
    ],
)
def test_what_is_no_message_of_names_is_refused(changed: dict[str, object]) -> None:
    services.decode(names_message())
    with pytest.raises(services.MessageError):
        services.decode(names_message(**changed))


def driver() -> Driver:
    """Return the world of a node that lets n2 and n3 speak for the clients' networks."""
    made = Driver()
    made.ready(2, 3)
    made.engine.known.networks.configure([], dict.fromkeys(NETWORKS, ("n2", "n3")))
    return made


def test_a_peer_names_only_clients_that_are_behind_it() -> None:
    world = driver()
    nodes = of_nodes([card(1)], [peer(2), peer(3)])

    def may(address: object, number: int = 2) -> bool:
        known = world.engine.known
        return admitted(known, peer(number), nodes, elsewhere(known))(ip_address(str(address)))

    assert may(FOUR)
    assert may(SIX)
    assert not may("10.131.0.5"), "no network of clients"
    assert not may("127.0.0.1")
    assert not may(card(3).address)
    assert not may(FOUR, 4), "it may speak for no network"
    world.tell(ClientsSet({ip_network(FOUR): card(3).address}))
    assert not may(FOUR)
    assert may(FOUR, 3)
    nodes = frozenset({FOUR})
    assert not may(FOUR, 3), "a node's own address"


def test_an_address_has_one_name_and_all_names_have_a_bound() -> None:
    told = [
        Told("hut", (ClientName("cam", (FOUR,)),), lambda _: True),
        Told("ford", (ClientName("cam", (FOUR, SIX)), ClientName("no", (A,))), lambda address: address != A),
    ]
    assert of_clients(told) == (Named("cam.ford", (SIX,)), Named("cam.hut", (FOUR,)))
    flood = [
        Told(f"n{n}", tuple(one._replace(addresses=(IPv6Address(n * 256 + k),)) for k, one in enumerate(LONG)), bool)
        for n in range(1, 99)
    ]
    found = of_clients(flood)
    assert len(found) == CLIENT_LINES_MAX
    names = [*named([card(1)], [peer(2)]), *found]
    assert hosts.clients(hosts.parse(hosts.render(names)))["n1"] == flood[0].names


def test_names_of_clients_are_read_back_and_those_of_nodes_are_none() -> None:
    names = [*named([card(1)], [peer(2)]), Named("cam.n2", (FOUR, SIX))]
    assert hosts.clients(hosts.parse(hosts.render(names))) == {"n2": (ClientName("cam", (FOUR, SIX)),)}
