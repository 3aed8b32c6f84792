"""One fleet that the playbooks have provisioned, for all tests that go on from there: it takes a minute or two."""

from collections.abc import Iterator

import pytest

from tests.fleet import quick_start
from tests.lab.machines.fleet import Fleet
from tests.lab.machines.fleet_controller import Controller


@pytest.fixture(scope="session")
def controller() -> Iterator[Controller]:
    """Of a - b - c, provisioned by one playbook."""
    quick_start.skip_without_ground()
    with Fleet(3) as booted:
        made = Controller(booted)
        made.play("site")
        booted.learn_cards()
        yield made


@pytest.fixture
def line(controller: Controller) -> Fleet:
    """The fleet, healthy."""
    controller.fleet.lab.wait_full_mesh()
    return controller.fleet
