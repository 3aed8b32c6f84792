"""Four routers in a circle on radio, a - b - c - d - a: two ways from a to c, and a third that is slow and straight."""

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
"""Seconds that a silent neighbour is kept, by its HELLOs alone."""


@dataclass(frozen=True)
class RadioRing:
    """a - b - c - d - a on fast radios: two relays between ``a`` and ``c``, which have a slow link of their own too."""

    mesh: Mesh
    air: medium.Air
    slow: medium.RadioLink

    @property
    def a(self) -> Router:
        """Where the way begins."""
        return self.mesh["a"]

    @property
    def c(self) -> Router:
        """Where it ends."""
        return self.mesh["c"]

    def heal(self) -> None:
        """Have all hear their neighbours in the circle again, and nobody the slow link; await the routes."""
        self.slow.cut()
        self.air.hear(*CIRCLE)
        self.mesh.wait_converged(CONVERGED)
        self.wait_way({"b", "d"}, CONVERGED)

    def way(self) -> str:
        """Whom ``a`` gives what is for ``c``, by the kernel's route: a relay, ``c`` itself, or nobody ("")."""
        gateway = self.a.kernel.next_hops().get(f"{self.c.ipv6}/128", "")
        return next((router.name for router in self.mesh.routers.values() if gateway in _link_local(router)), "")

    def wait_way(self, ways: set[str], seconds: float) -> str:
        """Await that the way is one of these."""
        return self.a.wait_for(
            f"c by way of {sorted(ways)}", lambda: way if (way := self.way()) in ways else None, seconds
        )

    def weigh(self, metric: str) -> None:
        """Have all routers weigh their links so (``auto``: as measured; ``hop``: all alike) from now on."""
        for router in self.mesh.routers.values():
            router.configure(each=f'hello_validity = {patient(HOLD_TIME)}\nmetric = "{metric}"')
            router.daemon.send_signal(signal.SIGHUP)

    def flow(self) -> Flow:
        """User data from a to c, all the time."""
        return Flow((self.a.namespace, self.a.ipv6), (self.c.namespace, self.c.ipv6), interval=0.05)

    def falls_silent(self, relay: str) -> None:
        """It drives out of hearing: no goodbye, nothing."""
        self.air.hear(*(pair for pair in CIRCLE if relay not in pair))

    def leaves(self, relay: str) -> None:
        """It leaves the mesh in good order."""
        self.air.radios[relay].leave()

    def returns(self, relay: str) -> None:
        """It is in the mesh again after it left."""
        self.air.radios[relay].join()


VANISHES: Mapping[str, Callable[[RadioRing, str], None]] = {
    "silent": RadioRing.falls_silent,
    "leaves": RadioRing.leaves,
}
"""How a relay may go."""


@contextmanager
def radio_ring() -> Iterator[RadioRing]:
    """The routers, started; nobody hears the slow link."""
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
