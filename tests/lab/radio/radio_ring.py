"""Four routers in a ring on radio, a - b - c - d - a: two ways from a to c, and a third one that is direct and slow."""

import json
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tests.lab.basics.patience import patient
from tests.lab.net.topology import Pair, names, ring
from tests.lab.net.traffic import Flow
from tests.lab.node.routers import Mesh, Router
from tests.lab.radio import medium

CIRCLE: tuple[Pair, ...] = tuple(ring(names(4)))
CONVERGED = 20.0
HOLD_TIME = 60.0
"""Seconds after which a silent neighbour is lost when HELLOs alone decide."""


@dataclass(frozen=True)
class RadioRing:
    """a - b - c - d - a on fast radios: two relays between ``a`` and ``c``, which have a slow link of their own too."""

    mesh: Mesh
    air: medium.Air
    slow: medium.RadioLink

    @property
    def a(self) -> Router:
        """Return the router that sends the user data."""
        return self.mesh["a"]

    @property
    def c(self) -> Router:
        """Return the router that receives the user data."""
        return self.mesh["c"]

    def heal(self) -> None:
        """Let all routers hear their neighbours in the ring again and none the slow link. Wait for the routes."""
        self.slow.cut()
        self.air.hear(*CIRCLE)
        self.mesh.wait_converged(CONVERGED)
        self.wait_next_hop({"b", "d"}, CONVERGED)

    def next_hop(self) -> str:
        """Return ``a``'s next hop to ``c`` in the kernel's routes: a relay, ``c`` itself, or "" without a route."""
        gateway = self.a.kernel.next_hops().get(f"{self.c.ipv6}/128", "")
        return next((router.name for router in self.mesh.routers.values() if gateway in _link_local(router)), "")

    def wait_next_hop(self, routers: set[str], seconds: float) -> str:
        """Wait until the next hop is one of these, and return it."""
        return self.a.wait_for(
            f"c over {sorted(routers)}", lambda: found if (found := self.next_hop()) in routers else None, seconds
        )

    def set_metric(self, metric: str) -> None:
        """Set the link metric of all routers: ``auto`` measures it, ``hop`` makes all links alike."""
        for router in self.mesh.routers.values():
            router.configure(each=f'hello_validity = {patient(HOLD_TIME)}\nmetric = "{metric}"')
            router.daemon.send_signal(signal.SIGHUP)

    def flow(self) -> Flow:
        """Return a flow of user data from a to c."""
        return Flow((self.a.namespace, self.a.ipv6), (self.c.namespace, self.c.ipv6), interval=0.05)

    def falls_silent(self, relay: str) -> None:
        """Move a relay out of the others' hearing; it sends no close frame."""
        self.air.hear(*(pair for pair in CIRCLE if relay not in pair))

    def leaves(self, relay: str) -> None:
        """Let a relay leave the mesh in order."""
        self.air.radios[relay].leave()

    def returns(self, relay: str) -> None:
        """Let a relay that left the mesh join it again."""
        self.air.radios[relay].join()


VANISHES: Mapping[str, Callable[[RadioRing, str], None]] = {
    "silent": RadioRing.falls_silent,
    "leaves": RadioRing.leaves,
}
"""The ways in which a relay may vanish."""


@contextmanager
def radio_ring() -> Iterator[RadioRing]:
    """Start the routers; none hears the slow link."""
    air = medium.Air()
    with Mesh(CIRCLE, medium=air) as mesh:
        slow = air.second_link(mesh["a"], mesh["c"], medium.SLOW)
        slow.cut()
        for router in mesh.routers.values():
            router.configure(each=f"hello_validity = {patient(HOLD_TIME)}")
        mesh.start()
        yield RadioRing(mesh, air, slow)


def _link_local(router: Router) -> set[str]:
    shown = json.loads(router.ip("-j", "-6", "address", "show", "scope", "link").stdout)
    return {address["local"] for link in shown for address in link.get("addr_info", [])}
