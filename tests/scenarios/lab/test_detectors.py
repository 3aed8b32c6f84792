"""The lab's own detectors see what they are for; without this, "no packet in the clear" would prove nothing."""

import json
import shutil
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.basics.places import BUILD
from tests.lab.basics.waiting import NotInTimeError, wait_until
from tests.lab.lab import Lab
from tests.lab.net import namespaces, traffic
from tests.lab.net.instance import Instance
from tests.lab.net.packets import MARK, Classifier, Kind
from tests.lab.net.topology import full, grid, line, names, ring, star
from tests.lab.node.node import Node
from tests.lab.observe.capture import Capture

_ETHERNET = bytes(12)


def ipv6(next_header: int, payload: bytes) -> bytes:
    header = struct.pack("!IHBB", 6 << 28, len(payload), next_header, 64)
    return _ETHERNET + b"\x86\xdd" + header + bytes(15) + b"\1" + bytes(15) + b"\2" + payload


def ipv4(protocol: int, payload: bytes) -> bytes:
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 1, 0, 64, protocol, 0)
    return _ETHERNET + b"\x08\x00" + header + b"\x0a\0\0\1\x0a\0\0\2" + payload


def udp(port: int, payload: bytes, source: int | None = None) -> bytes:
    return struct.pack("!HHHH", source or port, port, 8 + len(payload), 0) + payload


SPI = b"\xc1\x23\x45\x67" + bytes(40)


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        pytest.param(ipv6(17, udp(500, bytes(28))), Kind.IKE, id="ike"),
        pytest.param(ipv6(17, udp(4500, bytes(4) + bytes(28))), Kind.IKE, id="ike behind the non-ESP marker"),
        pytest.param(ipv6(17, udp(4500, b"\xff")), Kind.IKE, id="NAT keep-alive"),
        pytest.param(ipv6(17, udp(4500, SPI)), Kind.ESP, id="esp in udp"),
        pytest.param(ipv6(50, SPI), Kind.ESP, id="esp"),
        pytest.param(ipv4(50, SPI), Kind.ESP, id="esp over IPv4"),
        pytest.param(ipv6(0, bytes([50, 0, 0, 0, 0, 0, 0, 0]) + SPI), Kind.ESP, id="esp behind hop-by-hop options"),
        pytest.param(ipv4(17, udp(269, bytes(20))), Kind.OLSR, id="olsr"),
        pytest.param(_ETHERNET + b"\x08\x06" + bytes(28), Kind.CONTROL, id="arp"),
        pytest.param(ipv6(58, bytes([135]) + bytes(23)), Kind.CONTROL, id="neighbour solicitation"),
        pytest.param(ipv6(58, bytes([3]) + bytes(7) + ipv6(50, SPI)[14:]), Kind.CONTROL, id="error about esp"),
        pytest.param(ipv6(58, bytes([3]) + bytes(7) + ipv6(6, bytes(20))[14:]), Kind.CLEAR, id="error about data"),
        pytest.param(ipv6(58, bytes([128]) + bytes(63)), Kind.CLEAR, id="ping"),
        pytest.param(ipv4(1, bytes([8]) + bytes(63)), Kind.CLEAR, id="ping over IPv4"),
        pytest.param(ipv6(6, bytes(20)), Kind.CLEAR, id="tcp"),
        pytest.param(ipv6(17, udp(7000, b"x")), Kind.CLEAR, id="udp"),
        pytest.param(ipv6(17, udp(500, b"x", source=7000)), Kind.CLEAR, id="user data to the IKE port"),
        pytest.param(ipv6(17, udp(4500, SPI + MARK)), Kind.CLEAR, id="marked data dressed as esp"),
        pytest.param(ipv6(17, b""), Kind.CLEAR, id="cut short"),
        pytest.param(b"", Kind.CLEAR, id="empty"),
        pytest.param(_ETHERNET + b"\x88\xb5" + bytes(20), Kind.CONTROL, id="probe of a radio link"),
        pytest.param(_ETHERNET + b"\x88\xb5" + bytes(20) + b"x", Kind.CLEAR, id="a probe that says something"),
        pytest.param(_ETHERNET + b"\x88\xb6" + bytes(20), Kind.CLEAR, id="unknown protocol"),
        pytest.param(_ETHERNET + b"\xfc\x00" + bytes(60), Kind.OVERLAY, id="cjdns"),
        pytest.param(_ETHERNET + b"\xfc\x00" + bytes(60) + MARK, Kind.CLEAR, id="marked data dressed as cjdns"),
    ],
)
def test_a_packet_is_recognised(frame: bytes, kind: Kind) -> None:
    assert Classifier().frame(frame) is kind


RADIOTAP = bytes([0, 0, 12, 0]) + bytes(8)
MESH_DATA = struct.pack("<H", 0x0388) + bytes(28) + struct.pack("<H", 0x0100) + bytes([0, 31]) + bytes(4)
"""To a mesh peer: four addresses, QoS, mesh control."""
GROUP_DATA = struct.pack("<H", 0x0288) + bytes(22) + struct.pack("<H", 0x0100) + bytes([1, 31]) + bytes(10)
"""To all: three addresses, and the sender's own in the mesh control."""
SNAP = bytes.fromhex("aaaa03000000")


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        pytest.param(MESH_DATA + SNAP + ipv6(50, SPI)[12:], Kind.ESP, id="esp"),
        pytest.param(GROUP_DATA + SNAP + ipv6(17, udp(269, bytes(20)))[12:], Kind.OLSR, id="olsr"),
        pytest.param(MESH_DATA + SNAP + b"\x08\x06" + bytes(28), Kind.CONTROL, id="arp"),
        pytest.param(MESH_DATA + SNAP + ipv6(17, udp(7000, b"x"))[12:], Kind.CLEAR, id="udp"),
        pytest.param(MESH_DATA + bytes(6) + ipv6(50, SPI)[12:], Kind.CLEAR, id="no SNAP header"),
        pytest.param(MESH_DATA + SNAP + ipv6(50, SPI + MARK)[12:], Kind.CLEAR, id="marked data dressed as esp"),
        pytest.param(struct.pack("<H", 0x0080) + bytes(30), Kind.CONTROL, id="beacon"),
        pytest.param(struct.pack("<H", 0x00D4) + bytes(8), Kind.CONTROL, id="acknowledgement"),
        pytest.param(struct.pack("<H", 0x00C8) + bytes(24), Kind.CONTROL, id="no data"),
        pytest.param(MESH_DATA[:20], Kind.CLEAR, id="cut short"),
    ],
)
def test_a_frame_on_the_air_is_recognised(frame: bytes, kind: Kind) -> None:
    assert Classifier().air(RADIOTAP + frame) is kind


def test_a_later_fragment_is_recognised_by_its_first() -> None:
    classifier = Classifier()

    def fragment(offset: int, identification: int, payload: bytes) -> bytes:
        return ipv6(44, struct.pack("!BBHI", 50, 0, offset << 3 | (0 if offset else 1), identification) + payload)

    assert classifier.frame(fragment(0, 1, SPI)) is Kind.ESP
    assert classifier.frame(fragment(6, 1, b"rest")) is Kind.ESP
    assert classifier.frame(fragment(6, 2, b"rest of something that nobody saw begin")) is Kind.CLEAR


def test_shapes_have_the_right_links() -> None:
    assert line(names(3)) == [("a", "b"), ("b", "c")]
    assert ring(names(3)) == [("a", "b"), ("b", "c"), ("c", "a")]
    assert star(names(3)) == [("a", "b"), ("a", "c")]
    assert len(full(names(30))) == 435
    assert sorted(grid(names(4))) == [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]


@pytest.fixture(scope="module")
def bare_lab() -> Iterator[Lab]:
    """Start two nodes without the product: nothing protects them."""
    with Lab("bare", line(names(2))) as lab:
        for node, address in zip(lab.nodes.values(), ("fd00:1::1", "fd00:1::2"), strict=True):
            node.address = address
        yield lab


@pytest.fixture
def bare(bare_lab: Lab) -> Lab:
    """Return the two nodes with their link up, whatever the test before left."""
    for link in bare_lab.links.values():
        link.fix()
        link.up()
    for node in bare_lab.nodes.values():
        give_address(node)
        # A busy kernel notices a carrier late; until then packets are lost.
        wait_until("carrier", lambda name=node.name: carries(bare_lab[name]), [], 60)  # type: ignore[misc]
    return bare_lab


def carries(node: Node) -> bool:
    (shown,) = json.loads(node.run("ip", "-j", "link", "show", node.interfaces[0]).stdout)
    return bool(shown["operstate"] == "UP")


def give_address(node: Node) -> None:
    node.run("ip", "address", "replace", f"{node.address}/64", "dev", node.interfaces[0], "nodad")


def test_a_capture_sees_user_data_in_the_clear(bare: Lab) -> None:
    a, b = bare["a"], bare["b"]
    with a.capture("sent") as sending, b.capture("clear") as seen:
        traffic.send((a.namespace, a.address), b.address, count=5)
        wait_until("a clear packet", lambda: seen.counts[Kind.CLEAR] >= 1, [seen], 60)
    assert seen.counts[Kind.CLEAR] >= 5  # The errors that b sends back quote the data in the clear.
    assert sending.sent[Kind.CLEAR] >= 5, "what a node puts on a link counts as sent"
    assert seen.lost == 0
    pcap = (seen.directory / "mesh-a.pcap").read_bytes()
    assert pcap.count(MARK) >= 5


def test_a_capture_keeps_up_with_a_stream(bare: Lab) -> None:
    a, b = bare["a"], bare["b"]
    with b.capture("stream") as seen:
        result = traffic.tcp_stream((a.namespace, a.address), (b.namespace, b.address), 50_000_000)
    assert result.octets == 50_000_000
    assert seen.lost == 0
    assert seen.counts[Kind.CLEAR] > 100


def test_a_flow_counts_what_a_silent_cut_loses(bare: Lab) -> None:
    a, b, link = bare["a"], bare["b"], bare.link("a", "b")
    begun = time.monotonic()
    with traffic.Flow((a.namespace, a.address), (b.namespace, b.address)) as flow:
        wait_until("ten arrivals", lambda: len(flow.result.arrivals) >= 10, [flow], 60)
        link.cut()
        sent = flow.result.sent + flow.result.refused
        with pytest.raises(NotInTimeError):
            wait_until("an arrival over a cut link", lambda: _arrived_after(flow, sent), [flow], 0.5)
        wait_until("15 more are sent", lambda: flow.result.sent + flow.result.refused >= sent + 15, [], 60)
        link.fix()
        wait_until("an arrival over a fixed link", lambda: _arrived_after(flow, sent), [flow], 60)
    assert flow.result.lost >= 15
    assert 0.4 < flow.result.longest_gap < time.monotonic() - begun


def _arrived_after(flow: traffic.Flow, sequence: int) -> bool:
    return any(number > sequence for number, _ in flow.result.arrivals)


def test_a_lossy_link_loses_about_its_share(bare: Lab) -> None:
    a, b, link = bare["a"], bare["b"], bare.link("a", "b")
    link.lose(30)
    with traffic.Flow((a.namespace, a.address), (b.namespace, b.address), interval=0.001) as flow:
        wait_until("500 arrivals", lambda: len(flow.result.arrivals) >= 500, [flow], 60)
    link.fix()
    assert 0.15 < flow.result.lost / (flow.result.sent + flow.result.refused) < 0.7


def test_what_a_neighbour_sends_is_lost_by_its_share_and_what_others_send_is_not(bare: Lab) -> None:
    """A radio link is lossy in this way when its interface has other neighbours too."""
    a, b, link = bare["a"], bare["b"], bare.link("a", "b")
    (shown,) = json.loads(a.run("ip", "-j", "link", "show", link.ends[0].interface).stdout)
    receiver, sender, other = link.ends[1], shown["address"], "02:00:00:00:00:77"
    receiver.lose_from(sender, 30)
    assert 0.1 < _share_lost(a, b) < 0.7
    receiver.lose_from(sender, 0)
    receiver.lose_from(other, 30)
    assert _share_lost(a, b) < 0.1
    receiver.lose_from(other, 0)
    assert "lab_" not in b.run("nft", "list", "tables").stdout


def _share_lost(a: Node, b: Node) -> float:
    with traffic.Flow((a.namespace, a.address), (b.namespace, b.address), interval=0.001) as flow:
        wait_until("300 arrivals", lambda: len(flow.result.arrivals) >= 300, [flow], 60)
    return flow.result.lost / (flow.result.sent + flow.result.refused)


def test_an_interface_down_takes_the_carrier_from_the_other_end(bare: Lab) -> None:
    bare.link("a", "b").down()
    b = bare["b"]
    wait_until("no carrier", lambda: "NO-CARRIER" in b.run("ip", "link", "show", "mesh-a").stdout, [], 60)


def test_a_dead_lab_is_swept_away_and_a_living_one_is_not(tmp_path: Path) -> None:
    living, dead = Instance(), Instance()
    files = [instance.own_directory(tmp_path, "lab") for instance in (living, dead)]
    for instance in (living, dead):
        namespaces.create(instance.namespace("a"))
    dead.abandon()
    third = Instance()
    try:
        assert namespaces.existing(living.namespace("a"))
        assert not namespaces.existing(dead.namespace("a"))
        assert not dead.run.exists()
        assert [directory.exists() for directory in files] == [True, False]
    finally:
        for instance in (third, living):
            instance.end()
    assert not namespaces.existing(living.namespace(""))


def test_an_error_inside_a_lab_leaves_its_traces_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "tests/scenarios/test_x.py::test_that_fails[1] (call)")
    inside: list[str] = []

    def fail_inside() -> None:
        with Lab("broken", line(names(2))) as lab:
            inside.extend(name for node in lab.nodes.values() for name in namespaces.existing(node.namespace))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_inside()
    kept = BUILD / "artifacts" / "test_x.py_test_that_fails_1_"
    assert "chain" not in (kept / "broken" / "a" / "rules.txt").read_text(encoding="utf-8")
    assert "mesh-b" in (kept / "broken" / "a" / "addresses.txt").read_text(encoding="utf-8")
    shutil.rmtree(kept)
    assert len(inside) == 2
    assert not any(namespaces.existing(name) for name in inside)


def test_a_closed_capture_counts_nothing_more(bare: Lab, tmp_path: Path) -> None:
    a, b = bare["a"], bare["b"]
    seen = Capture(b.namespace, b.interfaces, tmp_path).start()
    seen.stop()
    before = seen.counts.total()
    traffic.send((a.namespace, a.address), b.address)
    assert seen.counts.total() == before
    seen.close()
