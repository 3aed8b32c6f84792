"""A mesh with a password survives floods of SAE commits and of invented neighbours that want the exchange.

wpa_supplicant hears a commit only from a station whose beacon it heard. So commits alone cost little, and the flood
that matters is one of beacons: the victim itself begins an exchange with each invented neighbour.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest

from tests.attacks.neighbours import Scene, established, neighbours, started
from tests.lab.basics.waiting import wait_until
from tests.lab.forge import wireless
from tests.lab.forge.wireless import Name
from tests.lab.radio import hwsim, meshsec_radio
from tests.lab.radio.meshsec_radio import SAE, children, stations

pytestmark = pytest.mark.flood

FLOOD = 30.0
AT_ONCE = 10
"""Frames between two checks of the attacker; a tick comes twice a second."""
MEGABYTES_MORE = 16
IN = 120.0
"""Seconds until a real neighbour gets in after the flood."""


@dataclass
class Cost:
    """The cost of the flood for wpa_supplicant."""

    pid: int

    def __enter__(self) -> Self:
        self._began, self._cpu, self._resident = time.monotonic(), self._cpu_seconds(), self._megabytes()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.monotonic() - self._began
        self.share = (self._cpu_seconds() - self._cpu) / self.seconds
        self.megabytes = self._megabytes() - self._resident

    def _cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _megabytes(self) -> float:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


@pytest.fixture(autouse=True)
def guest() -> None:
    if obstacle := meshsec_radio.obstacle():
        pytest.skip(obstacle)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with neighbours(SAE, tmp_path) as found:
        yield found


@pytest.mark.parametrize("kind", ["commits", "neighbours"])
def test_a_flood_costs_no_neighbour_and_a_new_one_gets_in_after_it(scene: Scene, kind: str, tmp_path: Path) -> None:
    beacon = scene.m.wait_heard("a beacon", lambda one: wireless.is_of(one, wireless.BEACON, scene.name.source))
    (supplicant,) = children(scene.one)
    sent = most = 0

    def flooded() -> bool:
        nonlocal sent, most
        for _ in range(AT_ONCE):
            source = wireless.invented()
            if kind == "neighbours":
                scene.m.send(wireless.under(beacon, source))
            scene.m.send(wireless.commit(Name(source, scene.name.target)))
            sent += 1
        most = max(most, stations(scene.a).count("Station "))
        assert scene.peered, "a neighbour was lost"
        return time.monotonic() > until

    with Cost(supplicant) as cost:
        until = time.monotonic() + FLOOD
        wait_until("the end of the flood", flooded, [scene.ticks], FLOOD + 30)
    with hwsim.radio("msr6", "mesh6") as c, started(tmp_path, c, SAE) as third:
        third.wait_ready()
        began = time.monotonic()
        wait_until("a new neighbour", lambda: established(scene.a, c) and scene.peered, [scene.ticks], IN)
        took = time.monotonic() - began
    print(
        f"{sent} {kind} in {cost.seconds:.0f} s: {cost.share:.0%} of a processor, {cost.megabytes:+.1f} MB, "
        f"{most} stations; a new neighbour after {took:.0f} s"
    )
    assert cost.megabytes <= MEGABYTES_MORE
    assert (most > 20) == (kind == "neighbours"), "the flood was not taken for what it is"
