"""Counting the packets of a leak test."""

import struct
from ipaddress import IPv4Address, ip_address, ip_network

import pytest

from meshsec.core.leaktest.judge import KEPT, Sight, Verdict, Watch, octets_of, source_of_ipv4, verdict
from meshsec.core.leaktest.packets import ARP, ESP, IPV4, IPV6, UDP, Kind

OWN, PEER, OTHER = "fc00::1", "fc00::2", "fc00::3"
MARK = b"0123456789abcdef"


def packet6(source: str, destination: str, protocol: int, payload: bytes = bytes(16)) -> bytes:
    head = bytes([0x60, 0, 0, 0, 0, len(payload), protocol, 64])
    return head + ip_address(source).packed + ip_address(destination).packed + payload


def packet4(source: str, destination: str, payload: bytes) -> bytes:
    head = bytes([0x45, 0, 0, 0, 0, 0, 0, 0, 64, UDP, 0, 0])
    return head + ip_address(source).packed + ip_address(destination).packed + payload


def seen(payload: bytes, *, outgoing: bool = True, ethertype: int = IPV6, judges_incoming_ipv4: bool = True) -> Watch:
    watch = Watch(MARK, octets_of([OWN, None]), octets_of([PEER]), judges_incoming_ipv4=judges_incoming_ipv4)
    watch.take(Sight("mesh0", outgoing, ethertype, payload))
    return watch


@pytest.mark.parametrize(("source", "destination"), [(OWN, PEER), (PEER, OWN)])
def test_a_packet_between_the_ends_that_is_not_protected_is_a_leak_without_the_mark(
    source: str, destination: str
) -> None:
    watch = seen(packet6(source, destination, UDP))
    assert watch.counts == {Kind.CLEAR: 1}
    (leak,) = watch.leaks
    assert (leak.interface, leak.source, leak.destination) == ("mesh0", source, destination)


@pytest.mark.parametrize("payload", [packet6(OTHER, OWN, UDP), packet6(OWN, OTHER, UDP), packet6(PEER, OTHER, UDP)])
def test_data_of_others_in_the_clear_is_no_leak_of_ours(payload: bytes) -> None:
    assert not seen(payload).counts


def test_the_mark_is_a_leak_whoever_sends_it() -> None:
    assert seen(packet6(OTHER, OTHER, UDP, MARK)).counts == {Kind.CLEAR: 1}
    assert seen(b"?" + MARK, ethertype=ARP).leaks[0].source == "?"


@pytest.mark.parametrize(("interface", "leaks"), [("lan0", 0), ("mesh0", 1)])
def test_the_mark_in_the_networks_behind_this_node_is_no_leak_and_on_the_mesh_it_is(interface: str, leaks: int) -> None:
    behind = ip_network("2001:db8:1::/64"), ip_network("10.1.0.0/16")
    watch = Watch(MARK, links=frozenset({"mesh0"}), behind=behind)
    watch.take(Sight(interface, True, IPV6, packet6(OTHER, "2001:db8:1::5", UDP, MARK)))
    watch.take(Sight(interface, False, IPV4, packet4("10.1.0.5", "192.0.2.1", MARK)))
    assert len(watch.leaks) == 2 * leaks
    watch.take(Sight("lan0", True, IPV6, packet6(OTHER, "2001:db8:2::5", UDP, MARK)))
    assert len(watch.leaks) == 2 * leaks + 1, "that is nobody's network here"


def test_what_this_node_sends_from_its_address_in_a_network_behind_it_is_a_leak_on_every_interface() -> None:
    own, there, host = "10.1.0.1", "10.2.0.1", "10.1.0.5"
    watch = Watch(MARK, octets_of([own]), links=frozenset({"mesh0"}), behind=(ip_network("10.1.0.0/16"),))
    watch.take(Sight("wan0", True, IPV4, packet4(own, there, MARK)))
    assert [(one.source, one.destination) for one in watch.leaks] == [(own, there)]
    watch.take(Sight("lan0", True, IPV4, packet4(own, host, MARK)))
    assert len(watch.leaks) == 1, "that is for a host behind this node"


@pytest.mark.parametrize(
    ("address", "source"), [("10.77.0.1", "10.77.0.1"), (None, "10.1.0.1")], ids=["in the mesh", "behind the node"]
)
def test_ipv4_is_sent_from_the_mesh_address_or_else_from_one_in_a_network_behind_the_node(
    address: str | None, source: str
) -> None:
    behind = ip_network("2001:db8:1::/64"), ip_network("10.1.0.0/16"), ip_network("0.0.0.0/0")
    assigned = {*map(IPv4Address, ("127.0.0.1", "192.0.2.7", "10.1.0.1", "10.1.0.2"))}
    assert str(source_of_ipv4(address, assigned, behind)) == source


def test_without_an_address_that_peers_take_no_ipv4_is_sent() -> None:
    assert (
        source_of_ipv4(None, [IPv4Address("192.0.2.7")], [ip_network("0.0.0.0/0"), ip_network("10.1.0.0/16")]) is None
    )


def test_esp_is_no_leak() -> None:
    watch = seen(packet6(OWN, PEER, ESP))
    assert (watch.counts, watch.leaks) == ({Kind.ESP: 1}, [])


@pytest.mark.parametrize(
    ("source", "target", "first", "kind"),
    [
        (17183, 17183, b"\1", Kind.CONTROL),
        (17183, 17183, b"\2", Kind.CLEAR),
        (17183, 17183, b"", Kind.CLEAR),
        (17183, 40000, b"\1", Kind.CLEAR),
    ],
)
def test_only_requests_to_join_between_their_ports_are_no_user_data(
    source: int, target: int, first: bytes, kind: Kind
) -> None:
    datagram = struct.pack("!HHHH", source, target, 8 + len(first), 0) + first
    assert seen(packet6(OWN, PEER, UDP, datagram)).counts == {kind: 1}


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        (bytes(4) + b"IKE", Kind.IKE),
        (b"\xff", Kind.IKE),
        (bytes.fromhex("0000010000000001"), Kind.ESP),
        (bytes.fromhex("00000100000000"), Kind.CLEAR),
        (b"\xff\xff", Kind.CLEAR),
        (b"", Kind.CLEAR),
    ],
    ids=["marker", "keep-alive", "SPI and number", "one byte less", "two bytes", "empty"],
)
def test_a_payload_at_the_port_of_esp_in_udp_is_esp_only_with_spi_and_sequence_number(
    payload: bytes, kind: Kind
) -> None:
    """Anything shorter than SPI and sequence number is user data in the clear (RFC 3948, section 2)."""
    datagram = struct.pack("!HHHH", 4500, 4500, 8 + len(payload), 0) + payload
    assert seen(packet6(OWN, PEER, UDP, datagram)).counts == {kind: 1}


def test_incoming_ipv4_is_not_counted_where_captures_show_decrypted_packets() -> None:
    marked = packet4("10.0.0.2", "10.0.0.1", MARK)
    for outgoing, judges, count in ((False, False, 0), (False, True, 1), (True, False, 1)):
        watch = seen(marked, outgoing=outgoing, ethertype=IPV4, judges_incoming_ipv4=judges)
        assert watch.counts[Kind.CLEAR] == count


def test_the_memory_of_packets_is_bounded() -> None:
    watch = seen(packet6(OWN, PEER, UDP))
    for _ in range(3 * KEPT):
        watch.take(Sight("mesh0", True, IPV6, packet6(OWN, PEER, UDP)))
    assert (watch.counts[Kind.CLEAR], len(watch.leaks)) == (3 * KEPT + 1, KEPT)


@pytest.mark.parametrize(
    ("clear", "lost", "sent", "proofs", "found"),
    [
        (0, 0, 5, 5, Verdict.TIGHT),
        (1, 9, 0, 0, Verdict.LEAK),
        (0, 0, 0, 5, Verdict.INCONCLUSIVE),
        (0, 1, 5, 5, Verdict.INCONCLUSIVE),
        (0, 0, 5, 0, Verdict.INCONCLUSIVE),
    ],
)
def test_a_test_without_packets_proves_nothing(clear: int, lost: int, sent: int, proofs: int, found: Verdict) -> None:
    assert verdict(clear, lost, sent, proofs)[0] is found
