"""Attacks of a stranger on the link that failed before still fail, in a short form and in a long one (``flood``)."""

import contextlib
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence

import pytest
from scapy.layers.inet import ICMP, IP, UDP, IPOption
from scapy.layers.inet6 import (
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
    fragment6,
)
from scapy.layers.l2 import GRE, Ether
from scapy.packet import Packet, Raw

from tests.attacks.figures import Cost
from tests.lab.basics.waiting import wait_until
from tests.lab.forge import insider
from tests.lab.forge.raw import Forger, Way
from tests.lab.forge.replay import Recorder
from tests.lab.lab import Lab
from tests.lab.net import traffic
from tests.lab.net.packets import MARK
from tests.lab.net.traffic import wait_arrivals
from tests.lab.node import capabilities
from tests.lab.node.node import Node
from tests.lab.node.options import Options
from tests.lab.observe.change_stream import ChangeStream
from tests.scenarios.expectations import flow, ipsec_errors, spis

OLSR, IKE, ESP = 269, 500, 4500
ETH_P_IPV6 = 0x86DD
FENCE = b"fence"
REPEATS = 20

short_and_long = pytest.mark.parametrize(
    "long", [False, pytest.param(True, marks=pytest.mark.flood)], ids=["short", "long"]
)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Start a - b - c and a - m: a, b and c trust each other; m is a stranger with a cable to a and no daemon."""
    with Lab("held", [("a", "b"), ("b", "c"), ("a", "m")], Options(ipv4=True)) as made:
        made.set_up().trust("a", "b", "c").start(nodes=[made[name] for name in "abc"])
        yield made


@pytest.fixture
def mesh(lab: Lab) -> tuple[Node, Node, Node]:
    """Return a, b and c, protected."""
    a, b, c = (lab[name] for name in "abc")
    for node in (a, c):
        node.wait_protected(c if node is a else a, 120)
    return a, b, c


def stranger(lab: Lab) -> Forger:
    """Return a forger that sends from m to a."""
    return Forger(Way.between(lab.end_of("m", "a"), lab.end_of("a", "m")))


def assert_untouched(a: Node, c: Node) -> None:
    """Assert that user data passes between a and c."""
    a.wait_protected(c, 120)
    with flow(a, c) as running:
        wait_arrivals(running)


@short_and_long
def test_mutated_olsrv2_packets_cost_no_route_and_no_router(
    lab: Lab, mesh: tuple[Node, Node, Node], long: bool
) -> None:
    a, _, c = mesh
    with Recorder(lab.end_of("b", "a"), OLSR) as recorder:
        recorded = wait_until("packets of a router", lambda: _over_ipv6(recorder.take()), [], 60)
    dice = random.Random(1)
    frames = [_mutated(dice, dice.choice(recorded)) for _ in range(3000)]
    before = _received(a)
    with stranger(lab) as forger:
        with Cost("mutated RFC 5444", a):
            begun, sent = time.monotonic(), 0
            for _ in range(300 if long else 10):
                sent += forger.send_frames(frames)
            print(f"{sent / (time.monotonic() - begun):.0f} packets a second")
        wait_until("the router counts them", lambda: _received(a) > before + 20, [], 60)
    a.wait_route(c)
    assert_untouched(a, c)


def _over_ipv6(frames: list[bytes]) -> list[bytes]:
    """Return the frames over IPv6 once there are enough of them."""
    found = [frame for frame in frames if IPv6 in Ether(frame)]
    return found if len(found) >= 8 else []


def _received(node: Node) -> int:
    """Return how many packets the router has refused."""
    with ChangeStream(node.run_directory / "changes.sock") as stream:
        counters = stream.snapshot["counters"]
    return sum(int(counters[name]) for name in ("malformed", "invalid", "rate_limited", "over_limit"))


def _mutated(dice: random.Random, frame: bytes) -> bytes:
    packet = Ether(frame)
    octets = bytearray(bytes(packet[UDP].payload))
    for _ in range(dice.randint(1, 4)):
        octets[dice.randrange(len(octets))] = dice.randrange(256)
    cut = bytes(octets[: dice.randint(1, len(octets))] if dice.random() < 0.3 else octets)
    inner = IPv6(src=packet[IPv6].src, dst=packet[IPv6].dst, hlim=packet[IPv6].hlim)
    return bytes(Ether(src=packet.src, dst=packet.dst) / inner / UDP(sport=OLSR, dport=OLSR) / cut)


@short_and_long
def test_first_messages_of_strangers_keep_no_peer_away(lab: Lab, mesh: tuple[Node, Node, Node], long: bool) -> None:
    a, _, c = mesh
    count, rate = (48_000, 2000) if long else (4000, 2000)
    ends = Way.between(lab.end_of("m", "a"), lab.end_of("a", "m"))
    frames = [_first_message(ends, a) for _ in range(count)]
    c.daemons.charon.kill()
    lab.start("charon", nodes=[c])
    with Cost("IKE_SA_INIT", a), stranger(lab) as forger:
        begun = time.monotonic()
        for start in range(0, count, rate // 10):
            forger.send_frames(frames[start : start + rate // 10])
            time.sleep(max(0.0, begun + start / rate - time.monotonic()))
        print(f"{count / (time.monotonic() - begun):.0f} first messages a second")
        assert len(a.charon.sas()) <= 512 + 8
    assert_untouched(a, c)


def _first_message(way: Way, target: Node) -> bytes:
    source = "fd" + os.urandom(15).hex()
    address = ":".join(source[at : at + 4] for at in range(0, 32, 4))
    packet = IPv6(src=address, dst=target.announced) / UDP(sport=IKE, dport=IKE) / insider.first_message()
    return bytes(Ether(src=way.source_mac, dst=way.target_mac) / packet)


def test_repeated_ike_and_esp_is_delivered_once_and_moves_nothing(lab: Lab, mesh: tuple[Node, Node, Node]) -> None:
    a, _, c = mesh
    way = Way.between(lab.end_of("b", "a"), lab.end_of("a", "b"))
    with Recorder(way.sender, IKE, ESP, esp=True) as recorder:
        c.charon.rekey("a", "mesh")
        with flow(c, a) as running:
            wait_arrivals(running, 30)
        frames = recorder.take()
    before, heard = spis(a, c), _arrived(a)
    assert len(frames) >= 30
    with Forger(way) as forger:
        for _ in range(REPEATS):
            assert _delivered(a, c, lambda: forger.send_frames(frames)) == []
    assert _arrived(a) >= heard + len(frames) * REPEATS * 9 // 10, "what was repeated has come as far as IKE and ESP"
    assert spis(a, c) == before
    assert_untouched(a, c)


def _arrived(node: Node) -> int:
    """Return how many IPv6 UDP datagrams the node's programs have received, and how many ESP packets came too late."""
    counters = dict(one.split() for one in node.run("cat", "/proc/net/snmp6").stdout.splitlines())
    late = sum(ipsec_errors(node)[name] for name in ("XfrmInStateSeqError", "XfrmInNoStates"))
    return int(counters["Udp6InDatagrams"]) + late


@pytest.mark.skipif(capabilities.probe().esp != "kernel", reason="only the kernel's replay windows can be taken away")
def test_without_the_replay_window_repeated_esp_is_delivered_again(lab: Lab, mesh: tuple[Node, Node, Node]) -> None:
    """The control of the test before."""
    a, _, c = mesh
    way = Way.between(lab.end_of("b", "a"), lab.end_of("a", "b"))
    with Recorder(way.sender, esp=True) as recorder:
        with flow(c, a) as running:
            wait_arrivals(running, 30)
        frames = recorder.take()
    try:
        _take_replay_window(a, c)
        with Forger(way) as forger:
            assert MARK in b"".join(_delivered(a, c, lambda: forger.send_frames(frames)))
    finally:
        c.charon.rekey("a", "mesh")
    assert_untouched(a, c)


def _take_replay_window(node: Node, peer: Node) -> None:
    """Install the inbound SAs of a pair in transport mode again, without their replay windows."""
    ends = ["src", peer.address, "dst", node.address]
    listing = node.run("ip", "xfrm", "state", "list", *ends).stdout
    for shown in listing.replace("\nsrc ", "\n\nsrc ").split("\n\n"):
        said = {line.split()[0]: line.split() for line in shown.splitlines()}
        if "transport" in said["proto"]:
            node.run("ip", "xfrm", "state", "delete", *ends, *said["proto"][:4])
            node.run("ip", "xfrm", "state", "add", *ends, *said["proto"], *said["aead"], *said["sel"])


def test_user_data_of_a_peer_in_any_disguise_is_not_delivered(lab: Lab, mesh: tuple[Node, Node, Node]) -> None:
    a, _, c = mesh
    forged = _disguises(a, c)
    with stranger(lab) as forger:
        try:
            assert _delivered(a, c, lambda: forger.send(*(forged * REPEATS))) == []
            a.daemons.agent.kill()
            a.run("nft", "flush", "ruleset")
            with traffic.udp_socket(a.namespace, "::", traffic.PORT) as inside:
                inside.settimeout(60)
                forger.send(*forged)
                assert inside.recv(2048) == MARK, "without the rules some of it is delivered"
        finally:
            lab.heal()


def _delivered(target: Node, peer: Node, attack: Callable[[], object]) -> list[bytes]:
    """Return what a node's socket receives of an attack, before a peer's own data that was sent after it."""
    with (
        traffic.udp_socket(target.namespace, "::", traffic.PORT) as inside,
        traffic.udp_socket(peer.namespace, peer.address) as out,
    ):
        inside.settimeout(0.5)
        attack()
        found: list[bytes] = []
        for _ in range(120):  # An attack may fill the queue of charon's socket.
            out.sendto(FENCE, (target.address, traffic.PORT))
            with contextlib.suppress(TimeoutError):
                while (datagram := inside.recv(2048)) != FENCE:
                    found.append(datagram)
                return found
    pytest.fail("the peer's own data does not arrive any more")


def _disguises(a: Node, c: Node) -> list[Packet]:
    """Return the same datagram from c to a behind headers, in fragments and in tunnels."""
    six, four = IPv6(src=c.address, dst=a.address), IP(src=c.ipv4, dst=a.ipv4)
    data = UDP(sport=7001, dport=traffic.PORT) / Raw(MARK)
    outer6 = IPv6(src="2001:db8::1", dst=a.locator)
    plain: Sequence[Packet] = [six / data, four / data]
    headers: Sequence[Packet] = [
        six / IPv6ExtHdrHopByHop() / data,
        six / IPv6ExtHdrDestOpt() / data,
        six / IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt() / IPv6ExtHdrDestOpt() / data,
        six / IPv6ExtHdrFragment(offset=0, m=0, id=7) / data,
        six / IPv6ExtHdrRouting(addresses=[a.address]) / data,
        IP(src=c.ipv4, dst=a.ipv4, options=[IPOption(b"\x01" * 4)]) / data,
    ]
    pieces6 = fragment6(  # type: ignore[no-untyped-call]
        six / IPv6ExtHdrFragment(id=8) / UDP(sport=7001, dport=traffic.PORT) / Raw(MARK * 120), 1280
    )
    whole4 = four / UDP(sport=7001, dport=traffic.PORT) / Raw(MARK * 120)
    pieces4 = list(whole4.fragment(800))  # type: ignore[no-untyped-call]
    tunnels: Sequence[Packet] = [
        outer6 / (six / data),
        outer6 / (four / data),
        outer6 / GRE(proto=ETH_P_IPV6) / (six / data),
        IPv6(src=c.locator, dst=a.locator) / (six / data),
        IP(src="192.0.2.1", dst=a.ipv4) / (four / data),
        IP(src="192.0.2.1", dst=a.ipv4, proto=41) / (six / data),
    ]
    others: Sequence[Packet] = [
        IPv6(src=c.locator, dst=a.address) / data,
        IPv6(src=c.address, dst=a.locator) / data,
        IPv6(src=a.address, dst=a.address) / data,
        IP(src=a.ipv4, dst=a.ipv4) / data,
        IPv6(src=c.locator, dst=a.locator) / UDP(sport=ESP, dport=traffic.PORT) / Raw(MARK),
        four / ICMP() / Raw(MARK),
    ]
    return [*plain, *headers, *pieces6, *pieces4, *tunnels, *others]
