"""Clients of access nodes: they get addresses, reach the outside and each other, and keep both when they move."""

from collections.abc import Iterator

import pytest

from tests.lab.gateways import OUTSIDE4, OUTSIDE6
from tests.lab.roaming import Roaming, roaming


@pytest.fixture(scope="module")
def mesh() -> Iterator[Roaming]:
    with roaming("clients") as made:
        made.join("a")
        yield made


def test_a_client_reaches_the_outside_and_keeps_its_addresses_when_it_moves(mesh: Roaming) -> None:
    station = mesh.station
    before = mesh.own(station)
    for version, outside in ((4, OUTSIDE4), (6, OUTSIDE6)):
        assert "1 received" in station.run("ping", f"-{version}", "-c", "1", "-W", "5", outside)
    station.move("b")
    mesh.lab["b"].wait_for("the client at b", lambda: set(mesh.known("b", station)) >= before, 10)
    for version, outside in ((4, OUTSIDE4), (6, OUTSIDE6)):
        assert "1 received" in station.run("ping", f"-{version}", "-c", "1", "-W", "5", outside)
    assert mesh.own(station) == before
