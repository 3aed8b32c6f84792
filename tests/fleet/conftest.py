"""One fleet, provisioned by the playbooks, for all tests that need one: making it takes a minute or two."""

from collections.abc import Iterator

import pytest

from tests.fleet import quick_start
from tests.lab.machines.fleet import Fleet
from tests.lab.machines.fleet_controller import Controller


@pytest.fixture(scope="session")
def controller() -> Iterator[Controller]:
    """Provision a - b - c with one playbook and return the controller."""
    quick_start.skip_without_fleet()
    with Fleet(3) as booted:
        made = Controller(booted)
        made.play("site")
        booted.learn_cards()
        yield made


@pytest.fixture
def line(controller: Controller) -> Fleet:
    """Return the fleet with all channels protected."""
    controller.fleet.lab.wait_full_mesh()
    return controller.fleet
