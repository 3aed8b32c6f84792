"""A mesh with a password accepts those who know it, and no others."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.lab.net.topology import full
from tests.lab.node.routers import Mesh
from tests.lab.radio import medium
from tests.lab.radio.sae import PEERED, REFUSED, Supplicant

PASSWORD = "only the crew knows"  # noqa: S105  # a test's own
PEERING = 40.0
"""Seconds: wpa_supplicant repeats a failing exchange a few times before it reports that."""


@pytest.fixture
def crew() -> Iterator[tuple[Mesh, medium.Air]]:
    """Start three routers that hear each other and are in no mesh yet."""
    if obstacle := medium.obstacle():
        pytest.skip(obstacle)
    air = medium.Air()
    with Mesh(full(["a", "b", "c"]), medium=air) as mesh:
        for each in air.radios.values():
            each.leave()
        mesh.start()
        yield mesh, air


def test_who_knows_the_password_is_a_neighbour_and_who_does_not_is_none(
    crew: tuple[Mesh, medium.Air], tmp_path: Path
) -> None:
    mesh, air = crew
    a, b, c = (air.radios[name] for name in "abc")
    with ExitStack() as stack:
        first, _ = (stack.enter_context(Supplicant(each, PASSWORD, tmp_path)) for each in (a, b))
        with Supplicant(c, "only the crew knew", tmp_path):
            first.wait_reported(PEERED, b, PEERING)
            first.wait_reported(REFUSED, c, PEERING)
            mesh["a"].wait_reachable(mesh["b"].destinations, PEERING)
            assert mesh["a"].reaches(mesh["b"])
            assert a.peers() == {b.address}
            assert a.stations()[b.address]["MFP"] == "yes", "management frames are not protected"
            assert c.peers() == set()
            assert mesh["c"].kernel.destinations() == set()
        stack.enter_context(Supplicant(c, PASSWORD, tmp_path))
        first.wait_reported(PEERED, c, PEERING)
        mesh["c"].wait_reachable(mesh.others("c"), PEERING)
