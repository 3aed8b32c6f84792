"""A relay or a stranger gains nothing by repeating recorded handshakes (CryptoAuth) and data of the overlay."""

import itertools
from collections.abc import Callable, Iterator

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from tests.lab.foreign import cjdns
from tests.lab.foreign.cjdns import Overlayd, Secret
from tests.lab.forge.raw import Forger, Way
from tests.lab.forge.replay import Recorder
from tests.lab.net.links import End
from tests.lab.net.traffic import PORT, udp_socket
from tests.lab.node import capabilities
from tests.lab.observe.overlay_control import OverlayControl

pytestmark = [
    pytest.mark.skipif(not capabilities.probe().root, reason="network namespaces need root"),
    pytest.mark.skipif(not capabilities.probe().tun, reason="there is no /dev/net/tun"),
]

FENCE, DATA = b"fence", b"recorded"
REPEATS = 20
MEGABYTES_MORE = 8
Line = list[Overlayd]


@pytest.fixture
def three() -> Iterator[Line]:
    """Start the line a - b - c; each node connects to the one before it."""
    with cjdns.line([Overlayd] * 3) as found:
        routers = [router for router in found if isinstance(router, Overlayd)]
        for number, (called, caller) in enumerate(itertools.pairwise(routers), start=1):
            cjdns.connect(number, caller, called, Secret("open sesame", "ali baba"), 1)
        cjdns.start(routers)
        routers[0].wait_ping(routers[2])
        yield routers


def recorded(way: Way, three: Line) -> list[bytes]:
    """Record what b sends to a: handshakes of a new session of each, then data of c."""
    a, b, c = three
    with Recorder(way.sender, cjdns.PORT) as recorder:
        for router in (a, b):
            router.daemon.kill()
            router.start()
            a.wait_neighbour(b)
            c.wait_ping(a)
        assert _arrivals(a, c, lambda: None) == [], "data of c arrives"
        frames = recorder.take()
    assert len(frames) > 10
    return frames


def _arrivals(a: Overlayd, c: Overlayd, attack: Callable[[], None]) -> list[bytes]:
    """Return what a's socket receives during an attack, before c's data that was sent after it."""
    with udp_socket(a.namespace, a.address, PORT) as inside, udp_socket(c.namespace, c.address) as out:
        inside.settimeout(1)
        attack()
        found: list[bytes] = []
        for _ in range(60):  # A datagram may be lost while a session is made again.
            out.sendto(DATA + FENCE, (a.address, PORT))
            try:
                while (datagram := inside.recv(2048)) != DATA + FENCE:
                    found.append(datagram)
            except TimeoutError:
                continue
            return found
    pytest.fail("nothing of c arrives any more")


def _dropped(router: Overlayd) -> int:
    with OverlayControl(router.socket) as control:
        return sum(control.status["dropped"].values())


@pytest.mark.parametrize("moved", [False, True], ids=["from where it came", "from another address"])
def test_repeated_handshakes_and_data_are_dropped_and_move_no_neighbour(three: Line, moved: bool) -> None:
    a, b, c = three
    way = Way.between(End(b.namespace, "mesh-a"), End(a.namespace, "mesh-b"))
    frames = recorded(way, three)
    if moved:
        frames = [_from_elsewhere(frame, host) for host, frame in zip(itertools.cycle(range(10, 74)), frames)]
    before, resident, used = _dropped(a), a.daemon.resident_bytes(), a.daemon.cpu_seconds()
    with Forger(way) as forger:

        def attack() -> None:
            for _ in range(REPEATS):
                forger.send_frames(frames)

        assert _arrivals(a, c, attack) == []
    assert _dropped(a) >= before + len(frames) * REPEATS // 2, "a has seen what was repeated"
    a.wait_neighbour(b)
    c.wait_ping(a, 10)
    grown, spent = (a.daemon.resident_bytes() - resident) >> 20, a.daemon.cpu_seconds() - used
    print(f"{len(frames) * REPEATS} frames: overlayd {spent:.2f} s of a processor, {grown:+d} MB")
    assert grown <= MEGABYTES_MORE


def _from_elsewhere(frame: bytes, host: int) -> bytes:
    packet = Ether(frame)
    header = IP(src=f"10.78.1.{host}", dst=packet[IP].dst) / UDP(sport=cjdns.PORT, dport=cjdns.PORT)
    return bytes(Ether(src=packet.src, dst=packet.dst) / header / Raw(bytes(packet[UDP].payload)))


@pytest.mark.flood
def test_recorded_handshakes_without_end_from_many_addresses_cost_bounded_memory(three: Line) -> None:
    a, b, c = three
    way = Way.between(End(b.namespace, "mesh-a"), End(a.namespace, "mesh-b"))
    frames = recorded(way, three)
    elsewhere = [_from_elsewhere(frame, host) for host in range(10, 250) for frame in frames[:40]]
    resident, used = a.daemon.resident_bytes(), a.daemon.cpu_seconds()
    sent = 0
    with Forger(way) as forger:
        for _ in range(40):
            sent += forger.send_frames(elsewhere)
            c.wait_ping(a, 30)
    grown, spent = (a.daemon.resident_bytes() - resident) >> 20, a.daemon.cpu_seconds() - used
    print(f"{sent} frames: overlayd {spent:.2f} s of a processor, {grown:+d} MB")
    assert grown <= MEGABYTES_MORE
    a.wait_neighbour(b)  # A neighbour that only repeats does not stay beside it.
