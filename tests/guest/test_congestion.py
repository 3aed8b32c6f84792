"""Congestion of the wire behind an access point makes its clients slow, the less the more time their air takes.

The cell (tests/lab/radio/cell.py) runs in the guest whose time follows the executed instructions, because an emulated
processor forwards 100 Mbit/s in no other.
"""

import os
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import pytest

from rt.bench_congestion import measure
from rt.congestion.rig import AIR, NO_AIR
from tests.lab.basics.places import BUILD
from tests.lab.machines import guest
from tests.lab.radio.cell import NARROW, WIDE

SLOWER = 3.0
"""How many times the delay on an air that takes no time the modelled air makes it, at least."""
WORSE, ALIKE = 2.0, {"single": 1.5, "paired": 2.0}
"""Times the delay without congestion on the same wire where the air takes no time: at least, where it is full, and at
most, where it has room. The guest's one processor forwards that traffic beside a pair's pages, which costs them up to
two thirds."""


@pytest.fixture(scope="module")
def pages() -> Sequence[Mapping[str, Any]]:
    """Return how the clients got the page, once in each circumstance."""
    if not os.environ.get("MESHSEC_GUEST_ALL"):
        pytest.skip("an emulated guest takes long for it: make guest does")
    if obstacle := guest.obstacle():
        pytest.skip(obstacle)
    found: list[Mapping[str, Any]] = []
    measure(range(1), found.extend, BUILD / "artifacts" / "congestion")
    return found


def middle(pages: Sequence[Mapping[str, Any]], what: str, how: str, level: int, wire: int) -> float:
    """Return the median of the clients, whose frames take no time on the air."""
    return _middle(pages, what, {"how": how, "congestion": level, "wire": wire, "air": NO_AIR})


def _middle(pages: Sequence[Mapping[str, Any]], what: str, wanted: Mapping[str, Any]) -> float:
    return median(float(row[what]) for row in pages if wanted.items() <= row.items())


@pytest.mark.slow
@pytest.mark.timeout(3700)
@pytest.mark.parametrize("how", ["single", "paired"])
@pytest.mark.parametrize("level", [100, 125, 150])
def test_a_full_wire_makes_clients_slow(pages: Sequence[Mapping[str, Any]], how: str, level: int) -> None:
    calm, full = (middle(pages, "delay", how, each, NARROW) for each in (0, level))
    assert full > WORSE * calm
    calm, full = (middle(pages, "throughput", how, each, NARROW) for each in (0, level))
    assert full < calm / WORSE


@pytest.mark.slow
@pytest.mark.timeout(3700)
@pytest.mark.parametrize("how", ["single", "paired"])
def test_the_same_traffic_on_a_wire_with_room_makes_nobody_slow(pages: Sequence[Mapping[str, Any]], how: str) -> None:
    calm, beside = middle(pages, "delay", how, 0, WIDE), middle(pages, "delay", how, 150, WIDE)
    assert beside < ALIKE[how] * calm


@pytest.mark.slow
@pytest.mark.timeout(3700)
@pytest.mark.parametrize("how", ["single", "paired"])
def test_what_the_air_takes_hides_most_of_what_a_full_wire_takes(pages: Sequence[Mapping[str, Any]], how: str) -> None:
    circumstances = ({"how": how, "congestion": level, "wire": NARROW, "air": AIR} for level in (0, 150))
    calm, full = (_middle(pages, "delay", one) for one in circumstances)
    assert calm > SLOWER * middle(pages, "delay", how, 0, NARROW)
    assert full < WORSE * calm
