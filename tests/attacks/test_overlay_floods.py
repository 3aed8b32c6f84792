"""A neighbour gets in during floods on its segment: beacons of invented nodes, and user data that is not permitted."""

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from meshsec.core.trust import identity
from tests.attacks.flooding import FrameFlood, Paced
from tests.lab.basics.waiting import wait_until
from tests.lab.foreign import cjdns
from tests.lab.foreign.cjdns import Overlayd, Secret
from tests.lab.forge.raw import Way, mac_of
from tests.lab.net.links import End
from tests.lab.net.traffic import PORT, udp_socket
from tests.lab.node import capabilities
from tests.lab.observe.overlay_control import OverlayControl

pytestmark = [
    pytest.mark.flood,
    pytest.mark.skipif(not capabilities.probe().root, reason="network namespaces need root"),
    pytest.mark.skipif(not capabilities.probe().tun, reason="there is no /dev/net/tun"),
]

SECRET = Secret("open sesame", "ali baba")
RATE = 5000
SECONDS = 10.0
"""Least seconds of each flood."""
MEGABYTES_MORE = 8
INVENTED = 64
"""Keys of nodes that do not exist. Each beacon has another password and another hardware address."""
SOURCES = 20_000
_ETHERTYPE = b"\xfc\x00"
_VERSION = 22


def beacons() -> list[bytes]:
    """Return beacons by Ethernet (daemon/crates/overlay_node/src/beacon.rs) of invented nodes."""
    seeds = [identity.generate(lambda: os.urandom(identity.KEY_LENGTH)) for _ in range(INVENTED)]
    keys = [identity.x25519_public(identity.public_key_of(seed)) for seed in seeds]
    return [_beacon(number, keys[number % INVENTED]) for number in range(SOURCES)]


def _beacon(number: int, key: bytes) -> bytes:
    beacon = _VERSION.to_bytes(4) + number.to_bytes(20) + key
    header = bytes(2) + (len(beacon) + 6).to_bytes(2) + _ETHERTYPE
    return b"\xff" * 6 + b"\x02\x66" + number.to_bytes(4) + _ETHERTYPE + header + beacon


class Choosing(Overlayd):
    """A node that exchanges user data with one other node only."""

    permitted = ""

    def _text(self) -> str:
        return super()._text().replace('permit = "anybody"', f'permit = ["{self.permitted}"]')


def test_a_neighbour_gets_in_during_a_flood_of_beacons() -> None:
    """The control: the node refuses most of the flood by its rate, so it has seen it."""
    with cjdns.line([Overlayd, Overlayd]) as found:
        a, b = (router for router in found if isinstance(router, Overlayd))
        a.plan.ethernet["mesh-b"] = b.plan.ethernet["mesh-a"] = 2
        cjdns.start([a])
        end = End(b.namespace, "mesh-a")
        frames = itertools.cycle(beacons())
        way = Way(end, mac_of(end), "ff:ff:ff:ff:ff:ff")
        with FrameFlood(way, RATE, frames) as flood, withstood(a, flood, "link-flood"):
            join(b, a)
        a.wait_ping(b)


def test_a_neighbour_gets_in_during_a_flood_of_user_data_that_is_not_permitted() -> None:
    """a floods b, which permits c only. The control: b counts what it drops, and delivers nothing of it."""
    with cjdns.line([Overlayd, Choosing, Overlayd]) as found:
        a, b, c = (router for router in found if isinstance(router, Overlayd))
        assert isinstance(b, Choosing)
        b.permitted = c.address
        cjdns.connect(1, a, b, SECRET, 2)
        cjdns.connect(2, c, b, SECRET, 1)
        cjdns.start([a, b])
        a.wait_neighbour(b)
        with Datagrams(a, b) as flood, withstood(b, flood, "not-permitted"):
            join(c, b)


class Datagrams(Paced):
    """User data from one node to another, at the rate, until the block ends."""

    def __init__(self, source: Overlayd, target: Overlayd) -> None:
        super().__init__(RATE)
        self._socket = udp_socket(source.namespace, source.address)
        self._target = target.address, PORT

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._socket.close()

    def _send(self, count: int) -> int:
        for _ in range(count):
            self._socket.sendto(b"user data", self._target)
        return count


@contextmanager
def withstood(router: Overlayd, flood: Paced, cause: str) -> Iterator[None]:
    """Enter the block when a router drops the flood for this cause. At its end check how much the router has grown."""
    daemon = router.daemon
    resident, spent, begun = daemon.resident_bytes(), daemon.cpu_seconds(), time.monotonic()
    wait_until("the flood is seen", lambda: _dropped(router, cause) > RATE, [], 60)
    yield
    wait_until("it lasts", lambda: time.monotonic() > begun + SECONDS, [], 60)
    seconds = time.monotonic() - begun
    share, grown = (daemon.cpu_seconds() - spent) / seconds, (daemon.resident_bytes() - resident) >> 20
    print(f"{flood.sent / seconds:.0f} a second: overlayd {share:.0%} of a processor, {grown:+d} MB")
    assert grown <= MEGABYTES_MORE


def join(newcomer: Overlayd, other: Overlayd) -> None:
    """Start a router and wait until it is a neighbour."""
    newcomer.configure()
    started = time.monotonic()
    newcomer.start()
    newcomer.wait_ping(other, 120)
    print(f"a neighbour within {time.monotonic() - started:.1f} s")


def _dropped(router: Overlayd, cause: str) -> int:
    with OverlayControl(router.socket) as control:
        return control.dropped(cause)
