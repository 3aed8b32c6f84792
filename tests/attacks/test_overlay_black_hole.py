"""User data of the overlay takes the best way: around a relay that drops it, and by a shorter one that comes later."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.lab.basics.waiting import wait_until
from tests.lab.foreign import cjdns
from tests.lab.foreign.cjdns import Overlayd, Secret
from tests.lab.net.topology import ring
from tests.lab.net.traffic import Flow
from tests.lab.node import capabilities
from tests.lab.node.routers import Mesh
from tests.lab.observe.overlay_control import OverlayControl

pytestmark = [
    pytest.mark.skipif(not capabilities.probe().root, reason="network namespaces need root"),
    pytest.mark.skipif(not capabilities.probe().tun, reason="there is no /dev/net/tun"),
]

SECRET = Secret("open sesame", "ali baba")
PINGS = 80
"""Most bytes of UDP in a ping of a switch or of a neighbour. Everything in an inner session is longer."""
AROUND = 10.0
"""Seconds within which the source uses the other way, on a busy machine."""


@dataclass(frozen=True)
class Relays:
    """a reaches c over b, and over d, which is so much longer that a busy machine's delays do not decide."""

    mesh: Mesh

    def __getitem__(self, name: str) -> Overlayd:
        router = self.mesh[name]
        assert isinstance(router, Overlayd)
        return router

    def start(self) -> None:
        """Start all nodes, and wait until a reaches c."""
        cjdns.start([self[name] for name in self.mesh.routers])
        self["a"].wait_ping(self["c"])

    def wait_first(self, name: str) -> None:
        """Wait until the way from a to c begins there."""
        wait_until(f"{name} is on the way", lambda: self.first == name, [], 60, last=lambda: self.first)

    def swallow(self) -> None:
        """Let b drop everything of inner sessions that it forwards to or from c."""
        self.mesh.end("b", "c").filter(f"udp length > {PINGS} drop")

    @property
    def first(self) -> str:
        """Return the neighbour by which a sends to c."""
        with OverlayControl(self["a"].socket) as control:
            status = control.status
        way = next((one["way"] for one in status["sessions"] if one["address"] == self["c"].address), None)
        hops = {one["label"]: one["key"] for one in status["peers"] if one["label"]}
        taken = {key for label, key in hops.items() if way and leads_through(way, label)}
        return "".join(name for name in "bd" if self[name].key in taken)


def leads_through(way: str, label: str) -> bool:
    """Return whether a way begins with a label: below its highest bit they are the same."""
    whole, first = (int(shown.replace(".", ""), 16) for shown in (way, label))
    return (whole ^ first) & ((1 << first.bit_length() - 1) - 1) == 0


@contextmanager
def wired(*names: str) -> Iterator[Relays]:
    """Make a ring."""
    with cjdns.addressed(ring(list(names)), dict.fromkeys(names, Overlayd)) as mesh:
        found = Relays(mesh)
        for number, (left, right) in enumerate(ring(list(names)), start=1):
            cjdns.connect(number, found[right], found[left], SECRET, 1)
        yield found


@pytest.fixture
def relays() -> Iterator[Relays]:
    """Start the ring a - b - c - g - f - e - d, in which user data from a to c goes over b."""
    with wired(*"abcgfed") as found:
        found.start()
        found.wait_first("b")
        yield found


def test_user_data_goes_around_a_relay_that_drops_it(relays: Relays) -> None:
    """The control: the relay answers as before, and reports the node to which it passes nothing."""
    a, b, c = (relays[name] for name in "abc")
    with Flow((a.namespace, a.address), (c.namespace, c.address)) as flow:
        wait_until("it flows", lambda: len(flow.result.arrivals) > 50, [flow], 60)
        relays.swallow()
        before = len(flow.result.arrivals)
        wait_until("it flows again", lambda: len(flow.result.arrivals) > before + 100, [flow], 60, last=flow.summary)
        assert c.key in neighbours_of(a, b)
    print(f"no user data for {flow.result.longest_gap:.1f} s")
    assert flow.result.longest_gap < AROUND
    assert relays.first == "d"


def test_a_shorter_way_that_comes_is_taken_without_a_loss() -> None:
    """The link that shortens it is neither a's nor c's: a hears of it by asking, while the longer way is sound."""
    with wired(*"abxcihgfed") as relays:
        a, c = relays["a"], relays["c"]
        link = relays.mesh.links[frozenset("bx")]
        link.cut()
        relays.start()
        relays.wait_first("d")
        with Flow((a.namespace, a.address), (c.namespace, c.address)) as flow:
            wait_until("it flows", lambda: len(flow.result.arrivals) > 50, [flow], 60)
            link.fix()
            relays.wait_first("b")
            before = len(flow.result.arrivals)
            wait_until("it flows by the shorter way", lambda: len(flow.result.arrivals) > before + 50, [flow], 60)
        assert flow.result.lost == 0


def neighbours_of(asker: Overlayd, asked: Overlayd) -> str:
    """Return what a neighbour reports of its own neighbours."""
    peers = asker.admin.call("InterfaceController_peerStats", page=0)["peers"]
    near = next(str(peer["addr"]) for peer in peers if str(peer["addr"]).endswith(asked.key))
    return str(asker.admin.call("RouterModule_getPeers", path=near))
