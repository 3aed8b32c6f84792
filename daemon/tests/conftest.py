"""Fixtures of all tests of the package."""

import os
from collections.abc import Iterator
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings

from meshsec.adapters.files import secrecy

# A property tells what is right, not how fast: a busy machine must not fail it. CI tries the same examples each time,
# so that it judges the change and not the dice; everybody else's runs look for new ones.
settings.register_profile(
    "behaviour", deadline=None, derandomize=bool(os.environ.get("CI")), suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("behaviour")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave what enters a network namespace out of `make check`: it takes as long as all the rest."""
    for item in items:
        if isinstance(item, pytest.Function) and {"inside", "new_namespace"} & set(item.fixturenames):
            item.add_marker(pytest.mark.thorough)


@pytest.fixture(autouse=True)
def this_process_stays_as_it_is() -> Iterator[None]:
    """Keep a daemon's main that a test calls from switching off core dumps of this process."""
    with patch.object(secrecy, "keep_private"):
        yield
