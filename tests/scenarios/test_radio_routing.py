"""What the radio knows reaches the routes: a lost station is a lost link, and a slow link is a long one."""

import json
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pytest

from tests.lab import radio
from tests.lab.lab import BUILD
from tests.lab.patience import patient
from tests.lab.routers import ChangeStream, Mesh, Router
from tests.lab.topology import Pair, names, ring
from tests.lab.traffic import Flow
from tests.lab.waiting import wait_until
from tests.scenarios.expectations import wait_arrivals

CIRCLE: tuple[Pair, ...] = tuple(ring(names(4)))
CONVERGED = 20.0
HOLD_TIME = 60.0
"""Seconds that a silent neighbour is kept, by its HELLOs alone."""
FIGURES = BUILD / "artifacts" / "radio-routing.jsonl"
AT_ONCE = 10.0
"""Seconds, far less than the hold time: only the radio can be that fast."""


@dataclass(frozen=True)
class Roads:
    """a - b - c - d - a on fast radios: two relays between ``a`` and ``c``, which have a slow link of their own too."""

    mesh: Mesh
    air: radio.Air
    slow: radio.RadioLink

    @property
    def a(self) -> Router:
        """Where the way begins."""
        return self.mesh["a"]

    @property
    def c(self) -> Router:
        """Where it ends."""
        return self.mesh["c"]

    def way(self) -> str:
        """Whom ``a`` gives what is for ``c``, by the kernel's route: a relay, ``c`` itself, or nobody ("")."""
        gateway = self.a.next_hops().get(f"{self.c.ipv6}/128", "")
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


def _link_local(router: Router) -> set[str]:
    shown = json.loads(router.ip("-j", "-6", "address", "show", "scope", "link").stdout)
    return {address["local"] for link in shown for address in link.get("addr_info", [])}


@pytest.fixture(scope="module")
def roads() -> Iterator[Roads]:
    if obstacle := radio.obstacle():
        pytest.skip(obstacle)
    air = radio.Air()
    with Mesh(CIRCLE, medium=air) as mesh:
        slow = air.second_link(mesh["a"], mesh["c"], radio.SLOW)
        slow.cut()
        for router in mesh.routers.values():
            router.configure(each=f"hello_validity = {patient(HOLD_TIME)}")
        mesh.start()
        yield Roads(mesh, air, slow)


@pytest.fixture
def circle(roads: Roads) -> Roads:
    """The circle, converged; the slow link is out of hearing."""
    roads.slow.cut()
    roads.air.hear(*CIRCLE)
    roads.mesh.wait_converged(CONVERGED)
    roads.wait_way({"b", "d"}, CONVERGED)
    return roads


def _falls_silent(roads: Roads, relay: str) -> None:
    """It drives out of hearing: no goodbye, nothing."""
    roads.air.hear(*(pair for pair in CIRCLE if relay not in pair))


def _leaves(roads: Roads, relay: str) -> None:
    """It leaves the mesh in good order."""
    roads.air.radios[relay].leave()


@pytest.mark.parametrize("vanish", [_falls_silent, _leaves])
def test_a_station_that_vanishes_takes_its_routes_with_it_at_once(
    circle: Roads, vanish: Callable[[Roads, str], None]
) -> None:
    """Where no link layer tells, this takes the hold time: test_relay_change.py, the silent cut."""
    relay = circle.way()
    (other,) = {"b", "d"} - {relay}
    with circle.flow() as running, circle.a.stream() as told:
        wait_arrivals(running)
        begun = time.monotonic()
        vanish(circle, relay)
        circle.wait_way({other}, AT_ONCE)
        decided = wait_until("word of the route", partial(_decided, told, circle.c, begun), [told], AT_ONCE)
        wait_arrivals(running)
    _note(vanish.__name__.strip("_"), decided_after_s=decided - begun, without_user_data_s=running.result.longest_gap)
    if vanish is _leaves:
        circle.air.radios[relay].join()


def _decided(told: ChangeStream, target: Router, begun: float) -> float | None:
    """When, on the monotonic clock, the router changed its route to a node."""
    times = (line["time_us"] / 1e6 for line in told.lines if line.get("destination") == f"{target.ipv6}/128")
    return next((at for at in times if at > begun), None)


def _note(event: str, **seconds: float) -> None:
    """Keep the figures: they are told, and no deadline is made of them."""
    FIGURES.parent.mkdir(parents=True, exist_ok=True)
    with FIGURES.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"event": event, **seconds}) + "\n")


def test_a_good_way_over_a_relay_is_taken_before_a_bad_one_without(circle: Roads) -> None:
    """The negative case comes first: where hops alone count, the slow link is taken."""
    circle.weigh("hop")
    circle.slow.mend()
    with circle.flow() as running:
        circle.wait_way({"c"}, CONVERGED)
        wait_arrivals(running)
        circle.weigh("auto")
        circle.wait_way({"b", "d"}, CONVERGED)
        wait_arrivals(running)
